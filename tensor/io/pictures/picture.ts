/**
 * Pictures as tensors and back. PNG is read and written here; JPEG, WebP, GIF and BMP are read by the runtime,
 * which writes JPEG, too.
 *
 * This folder (`pictures/`) imports `archives/` and `core/` beside it, and `ops/`.
 */
import { saveFile } from "../../../backend/internal.ts";
import { requireTensor } from "../../core/apply.ts";
import {
  checkOptions,
  deviceChoice,
  requireValue,
  type Rules,
  takes,
} from "../../core/rules/options.ts";
import { Tensor } from "../../class/tensor.ts";
import { readWhole } from "../core/file.ts";
import { FileFormatError, readingFile } from "../core/file_format_error.ts";
import { checkFilled, type HostArray } from "../core/host_array.ts";
import type { LoadOptions } from "../core/load_options.ts";
import { decodeBmp, type Pixels } from "./bmp.ts";
import { requireReadable } from "./claims.ts";
import { decodePng } from "./png_reader.ts";
import { encodePng } from "./png_writer.ts";

/** Channels of a picture. */
export interface DecodeImageOptions {
  /** 3 for red, green, blue (default); 4 for these and alpha; 1 for gray. */
  channels?: 1 | 3 | 4;
}

/** Channels of a picture, and its device. */
export interface LoadImageOptions extends DecodeImageOptions, LoadOptions {}

/** Quality of a picture. */
export interface EncodeImageOptions {
  /** The quality of a JPEG, 0 to 1; default: 0.92. */
  quality?: number;
}

const decodeRules: Rules<DecodeImageOptions> = {
  channels: { takes: "1, 3 or 4", accepts: (value) => value === 1 || value === 3 || value === 4 },
};
const loadRules: Rules<LoadImageOptions> = { ...decodeRules, device: deviceChoice };
const encodeRules: Rules<EncodeImageOptions> = { quality: takes.share };

/**
 * Reads a picture: PNG, JPEG, WebP, GIF (its first frame) or BMP. A PNG of 16 bits a channel is
 * rounded to 8.
 *
 * @param path The file.
 * @param options Its channels, and the device.
 * @returns uint8 (channels, height, width), 0 to 255.
 * @throws {FileFormatError} For a file that is damaged, no picture, or of a kind that the runtime lacks.
 *
 * @example Two pixels, there and back
 * ```ts
 * import { loadImage, saveImage, Tensor } from "@netcl/netcl";
 *
 * const path = await Deno.makeTempFile({ suffix: ".png" });
 * const x = Tensor.fromHost(Uint8Array.of(255, 0, 0, 255, 0, 0), { shape: [3, 1, 2] });
 * await saveImage(path, x);
 * console.assert(await (await loadImage(path)).equal(x));
 * await Deno.remove(path);
 * ```
 */
export function loadImage(path: string | URL, options: LoadImageOptions = {}): Promise<Tensor> {
  checkOptions("load a picture", options, loadRules);
  const { channels, ...place } = options;
  return readingFile(path, async () => {
    const { data, ...type } = await decodeImage(await readWhole(path), { channels: channels ?? 3 });
    return Tensor.fromHost(data, { ...type, ...place });
  });
}

/**
 * Reads the bytes of a picture, as {@linkcode loadImage} reads its file.
 *
 * @returns uint8 (channels, height, width).
 * @throws {FileFormatError} Where that does.
 */
export async function decodeImage(
  bytes: Uint8Array<ArrayBuffer>,
  options: DecodeImageOptions = {},
): Promise<HostArray> {
  requireValue("read a picture", "bytes", bytes, takes.arrayView);
  checkOptions("read a picture", options, decodeRules);
  const { channels = 3 } = options;
  const pixels = await decodePng(bytes) ?? decodeBmp(await bitmapOf(bytes));
  return {
    data: planes(pixels, channels),
    shape: [channels, pixels.height, pixels.width],
    dtype: "uint8",
  };
}

/** A canvas of a runtime with the parts that pictures need. */
interface Canvas {
  getContext(type: "bitmaprenderer"): { transferFromImageBitmap(bitmap: ImageBitmap): void } | null;
  convertToBlob(options: { type: string; quality?: number }): Promise<Blob>;
}

/** A picture drawn on a canvas, from where it can be had in another format. */
async function canvasOf(action: string, picture: Blob | ImageData): Promise<Canvas> {
  const { OffscreenCanvas } = globalThis as {
    OffscreenCanvas?: new (width: number, height: number) => Canvas;
  };
  if (typeof createImageBitmap !== "function" || OffscreenCanvas === undefined) {
    throw new TypeError(`Cannot ${action}: this runtime has no createImageBitmap; Deno 2.9 has it`);
  }
  const bitmap = await createImageBitmap(picture);
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext("bitmaprenderer");
  if (!context) throw new TypeError(`Cannot ${action}: this runtime's canvas shows no bitmaps`);
  context.transferFromImageBitmap(bitmap);
  return canvas;
}

/** The picture as a bitmap without compression: the one way in which the runtime hands out pixels. */
async function bitmapOf(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  requireReadable(bytes);
  try {
    const canvas = await canvasOf("read a picture", new Blob([bytes]));
    return await (await canvas.convertToBlob({ type: "image/bmp" })).bytes();
  } catch (error) {
    if (error instanceof TypeError) throw error;
    const why = (error as Error).message.split("\n")[0];
    throw new FileFormatError(`The runtime cannot read the picture: ${why}`, { cause: error });
  }
}

/** The channels one after the other: (channels, height, width). */
function planes(
  { data, width, height, channels: has }: Pixels,
  wanted: number,
): Uint8Array<ArrayBuffer> {
  const size = width * height, out = new Uint8Array(wanted * size);
  for (let k = 0; k < size; k++) {
    const at = k * has, red = data[at]!, green = has === 1 ? red : data[at + 1]!;
    const blue = has === 1 ? red : data[at + 2]!;
    if (wanted === 1) {
      // Luma of ITU-R BT.601, as other tools have it.
      out[k] = has === 1 ? red : Math.round(0.299 * red + 0.587 * green + 0.114 * blue);
      continue;
    }
    out[k] = red;
    out[k + size] = green;
    out[k + 2 * size] = blue;
    if (wanted === 4) out[k + 3 * size] = has === 4 ? data[at + 3]! : 255;
  }
  return out;
}

/** Formats that are written, by the ends of names. */
const formats: Readonly<Record<string, ImageFormat>> = { png: "png", jpg: "jpeg", jpeg: "jpeg" };

/** A format in which pictures are written. */
export type ImageFormat = "png" | "jpeg";

/**
 * Writes a picture as PNG or JPEG, by the end of the file's name.
 *
 * @param path The file: *.png, *.jpg or *.jpeg.
 * @param image uint8, or floats of which 0 is black and 1 white; (channels, height, width) with 1, 3 or 4
 * channels, or (height, width). A JPEG has no alpha.
 * @param options The quality of a JPEG.
 * @throws {RangeError} When the tensor has another shape, or the name another end.
 */
export async function saveImage(
  path: string | URL,
  image: Tensor,
  options: EncodeImageOptions = {},
): Promise<void> {
  requireTensor("save a picture", image);
  requireValue("save a picture", "path", path, takes.path);
  checkOptions("save a picture", options, encodeRules);
  const ending = /\.(\w+)$/.exec(String(path))?.[1]?.toLowerCase() ?? "";
  const format = formats[ending];
  if (format === undefined) {
    throw new RangeError(
      `Cannot save a picture as "${path}": names end in .png, .jpg or .jpeg` +
        (ending === "webp" ? "; the runtime reads WebP, and does not write it" : ""),
    );
  }
  const { shape, dtype } = image, data = await image.toHost();
  const bytes = await encodeImage({ data, shape, dtype }, format, options);
  await saveFile(path, [bytes]);
}

/**
 * The bytes of a picture, as {@linkcode saveImage} writes them.
 *
 * @throws {RangeError} When the array has another shape.
 */
export async function encodeImage(
  image: HostArray,
  format: ImageFormat,
  options: EncodeImageOptions = {},
): Promise<Uint8Array> {
  requireValue("write a picture", "format", format, takes.oneOf("png", "jpeg"));
  checkOptions("write a picture", options, encodeRules);
  const pixels = pixelsOf(image);
  if (format === "png") return encodePng(pixels);
  const { width, height } = pixels, rgba = withAlpha(pixels);
  const canvas = await canvasOf("write a JPEG", new ImageData(rgba, width, height));
  const { quality = 0.92 } = options;
  return (await canvas.convertToBlob({ type: "image/jpeg", quality })).bytes();
}

function pixelsOf(image: HostArray): Pixels {
  checkFilled(image, "a picture");
  const { data, shape, dtype } = image;
  const [channels, height, width] = shape.length === 2 ? [1, ...shape] : shape;
  if (shape.length > 3 || ![1, 3, 4].includes(channels!) || !(width! > 0) || !(height! > 0)) {
    throw new RangeError(
      `Cannot write a picture of shape [${shape}]: pass (height, width), or (channels, height, width) ` +
        `with 1, 3 or 4 channels`,
    );
  }
  const size = width! * height!, out = new Uint8ClampedArray(size * channels!);
  const scale = dtype.includes("float") ? 255 : 1;
  for (let c = 0; c < channels!; c++) {
    for (let k = 0; k < size; k++) out[k * channels! + c] = Number(data[c * size + k]!) * scale;
  }
  return { width: width!, height: height!, channels: channels!, data: new Uint8Array(out.buffer) };
}

/** Four bytes a pixel, all opaque: a JPEG has no alpha. */
function withAlpha({ data, width, height, channels }: Pixels): Uint8ClampedArray<ArrayBuffer> {
  const out = new Uint8ClampedArray(4 * width * height).fill(255);
  for (let k = 0; k < width * height; k++) {
    for (let c = 0; c < 3; c++) out[4 * k + c] = data[k * channels + (channels === 1 ? 0 : c)]!;
  }
  return out;
}
