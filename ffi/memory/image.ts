/**
 * Images.
 *
 * @module
 */
import type { Buffer } from "./buffer.ts";
import type { EnqueueTarget } from "../events/enqueue_target.ts";
import {
  ChannelOrder,
  ChannelType,
  ImageInfo,
  MemFlags,
  MemObjectType,
} from "../library/constants.ts";
import type { Context } from "../objects/context.ts";
import { check } from "../library/errors.ts";
import { type Event, takeEvent } from "../events/event.ts";
import { eventList, eventOut, listEvents } from "../events/event_list.ts";
import { elementBytes, formatRules, type ImageFormat } from "./image_format.ts";
import { readers } from "../library/info.ts";
import { cl } from "../library/library.ts";
import { OpenCLObject, releasers, requireObject } from "../objects/object.ts";
import { checkRegion, corner, pitches, type Triple, triple } from "./rect.ts";
import { toSize } from "../host/size.ts";
import type { OpenCLSymbols } from "../library/symbols.ts";
import type { Handle } from "../symbols/types.ts";
import { type CopyOptions, copyRules } from "../events/copy_options.ts";
import { download, transferable, upload } from "../events/transfers.ts";
import * as takes from "../host/option_rules.ts";
import { checkOptions, requireValue, type Rules } from "../host/options.ts";

/** Dimensions of an image. */
export type ImageType = "1d" | "1d-array" | "2d" | "2d-array" | "3d";

/** Options of a new image. */
export interface ImageOptions {
  /** Its elements. */
  readonly format: ImageFormat;
  /** Elements of a row. */
  readonly width: number;
  /** Rows, of a two-dimensional image; without it the image has one dimension. */
  readonly height?: number;
  /** Slices, of a three-dimensional image; without it the image has fewer. */
  readonly depth?: number;
  /** Images of an array of images; without it the image is a single one. */
  readonly layers?: number;
  /** A combination of {@linkcode MemFlags}; by default kernels may read and write it. */
  readonly flags?: bigint;
  /** Its first content, densely packed, copied by the driver. */
  readonly data?: ArrayBufferView;
}

/** A part of an image, and its layout in the array. */
export interface ImageTransferOptions extends CopyOptions {
  /** The first element: x, y, z; the corner by default. */
  readonly origin?: Triple;
  /** Width, height, depth in elements; the whole image by default. */
  readonly region?: Triple;
}

/** A part of an image. */
export interface ImageRegionOptions {
  /** The first element: x, y, z; the corner by default. */
  readonly origin?: Triple;
  /** Width, height, depth in elements; the whole image by default. */
  readonly region?: Triple;
  /** Events to wait for. */
  readonly wait?: readonly Event[];
}

/** A copy from image to image. */
export interface ImageCopyOptions extends ImageRegionOptions {
  /** The first element in the destination; the corner by default. */
  readonly destination?: Triple;
}

/** A copy between an image and a buffer. */
export interface ImageBufferOptions extends ImageRegionOptions {
  /** The offset of the elements in the buffer, in bytes; 0 by default. */
  readonly offset?: number;
}

/** The part of the image that a command touches, as all commands name it. */
type Part = Pick<ImageRegionOptions, "origin" | "region">;

const rules: Rules<ImageOptions> = {
  format: takes.object('an object such as { order: "RGBA", type: "FLOAT" }'),
  width: takes.count,
  height: takes.count,
  depth: takes.count,
  layers: takes.count,
  flags: takes.flags,
  data: takes.arrayView,
};

const regionRules: Rules<ImageRegionOptions> = {
  origin: takes.wholeNumbers,
  region: takes.wholeNumbers,
  wait: takes.list,
};
const transferRules: Rules<ImageTransferOptions> = { ...regionRules, ...copyRules };
const imageCopyRules: Rules<ImageCopyOptions> = {
  ...regionRules,
  destination: takes.wholeNumbers,
};
const bufferRules: Rules<ImageBufferOptions> = { ...regionRules, offset: takes.whole };

const imageTypes = {
  "1d": MemObjectType.IMAGE1D,
  "1d-array": MemObjectType.IMAGE1D_ARRAY,
  "2d": MemObjectType.IMAGE2D,
  "2d-array": MemObjectType.IMAGE2D_ARRAY,
  "3d": MemObjectType.IMAGE3D,
} as const;

const errorCode = new Int32Array(1);

/**
 * An image: elements with 1 to 4 channels, which kernels read through a {@linkcode Sampler}. The
 * device must have `IMAGE_SUPPORT`.
 */
export class Image extends OpenCLObject<"Mem"> {
  /** The context that it belongs to. */
  readonly context: Context;
  /** Its dimensions. */
  readonly type: ImageType;
  /** Its elements. */
  readonly format: ImageFormat;
  /** Its extent as a region: width, height, depth, where layers count as the last dimension. */
  readonly extent: Triple;
  /** Bytes of an element. */
  readonly elementSize: number;

  /**
   * Makes an image.
   *
   * @throws {OpenCLError} If the device has no such format or size: see {@linkcode Image.formats}.
   */
  constructor(context: Context, options: ImageOptions) {
    checkOptions("make an Image", options, rules, ["format", "width"]);
    checkOptions("make an Image", options.format, formatRules);
    requireObject("make an Image", context, "Context");
    const type = imageType(options);
    super("Image", createImage(context, type, options), releasers.memory);
    this.context = context;
    this.type = type;
    this.format = options.format;
    const { width, height, depth, layers } = options;
    this.extent = type === "1d-array"
      ? [width, layers!, 1]
      : [width, height ?? 1, depth ?? layers ?? 1];
    try {
      this.elementSize = this.#elementSize();
    } catch (error) {
      this.release();
      throw error;
    }
  }

  /** The formats that a context offers for images of a type, READ_WRITE ones by default. */
  static formats(
    context: Context,
    type: ImageType,
    flags: bigint = MemFlags.READ_WRITE,
  ): ImageFormat[] {
    requireObject("list formats of images", context, "Context");
    requireValue("list formats of images", "type", type, takes.oneOf(...Object.keys(imageTypes)));
    const count = new Uint32Array(1), call = "clGetSupportedImageFormats";
    const ask = (length: number, formats: Uint32Array | null, out: Uint32Array | null): number =>
      cl.clGetSupportedImageFormats(
        context.unsafeHandle,
        flags,
        imageTypes[type],
        length,
        formats,
        out,
      );
    check(ask(0, null, count), call);
    const packed = new Uint32Array(2 * count[0]!);
    if (packed.length > 0) check(ask(count[0]!, packed, null), call);
    return Array.from({ length: count[0]! }, (_, i) => ({
      order: nameOf(ChannelOrder, packed[2 * i]!),
      type: nameOf(ChannelType, packed[2 * i + 1]!),
    }));
  }

  /** Copies densely packed elements into it. */
  write(queue: EnqueueTarget, data: ArrayBufferView, options: ImageTransferOptions = {}): Event {
    checkOptions("write to an image", options, transferRules);
    return upload(queue, data, options, (bytes, blocking) => {
      const args = this.#transferArgs(queue, bytes, blocking, options);
      return takeEvent(cl.clEnqueueWriteImage(...args), "clEnqueueWriteImage", queue);
    });
  }

  /** Copies its elements into an array, densely packed. */
  read(queue: EnqueueTarget, into: ArrayBufferView, options: ImageTransferOptions = {}): Event {
    checkOptions("read an image", options, transferRules);
    return download(queue, into, options, (bytes, blocking) => {
      const args = this.#transferArgs(queue, bytes, blocking, options);
      return takeEvent(cl.clEnqueueReadImage(...args), "clEnqueueReadImage", queue);
    });
  }

  /** Arguments of reading and writing, as C takes them. */
  #transferArgs(
    queue: EnqueueTarget,
    bytes: Uint8Array,
    blocking: number,
    options: ImageTransferOptions,
  ): Parameters<OpenCLSymbols["clEnqueueReadImage"]> {
    const region = this.#check(queue, options, bytes.byteLength);
    return [
      queue.unsafeHandle,
      this.unsafeHandle,
      blocking,
      triple(options.origin ?? corner, "an origin"),
      triple(region, "a region"),
      ...pitches({}),
      bytes,
      listEvents(options.wait),
      eventList(options.wait),
      eventOut,
    ];
  }

  /**
   * Fills it with one color.
   *
   * @param color Four channels: floats, or 32-bit integers for the `SIGNED_INT` and `UNSIGNED_INT`
   *   types.
   */
  fill(
    queue: EnqueueTarget,
    color: Float32Array | Int32Array | Uint32Array,
    options: ImageRegionOptions = {},
  ): Event {
    checkOptions("fill an image", options, regionRules);
    if (color.length !== 4 || color.byteLength !== 16) {
      throw new RangeError(
        `Cannot fill an image with ${color.length} channels in ${color.byteLength} bytes: ` +
          "pass 4 channels of 32 bits",
      );
    }
    this.#checkPart(queue, options);
    const status = cl.clEnqueueFillImage(
      queue.unsafeHandle,
      this.unsafeHandle,
      transferable(color, "fill with"),
      triple(options.origin ?? corner, "an origin"),
      triple(options.region ?? this.extent, "a region"),
      listEvents(options.wait),
      eventList(options.wait),
      eventOut,
    );
    return takeEvent(status, "clEnqueueFillImage", queue);
  }

  /** Copies elements to another image of the same format. */
  copyTo(queue: EnqueueTarget, destination: Image, options: ImageCopyOptions = {}): Event {
    checkOptions("copy an image", options, imageCopyRules);
    requireObject("copy to an image", destination, "Image");
    this.#checkPart(queue, options);
    const { region = this.extent } = options;
    checkRegion(options.destination ?? corner, region, destination.extent, "the destination");
    const status = cl.clEnqueueCopyImage(
      queue.unsafeHandle,
      this.unsafeHandle,
      destination.unsafeHandle,
      triple(options.origin ?? corner, "an origin"),
      triple(options.destination ?? corner, "an origin"),
      triple(region, "a region"),
      listEvents(options.wait),
      eventList(options.wait),
      eventOut,
    );
    return takeEvent(status, "clEnqueueCopyImage", queue);
  }

  /** Copies elements to a buffer, densely packed. */
  copyToBuffer(queue: EnqueueTarget, buffer: Buffer, options: ImageBufferOptions = {}): Event {
    checkOptions("copy an image to a buffer", options, bufferRules);
    const { origin, region, offset } = this.#packed(queue, buffer, options);
    const status = cl.clEnqueueCopyImageToBuffer(
      queue.unsafeHandle,
      this.unsafeHandle,
      buffer.unsafeHandle,
      origin,
      region,
      offset,
      listEvents(options.wait),
      eventList(options.wait),
      eventOut,
    );
    return takeEvent(status, "clEnqueueCopyImageToBuffer", queue);
  }

  /** Elements and their places in a buffer, as C takes them. */
  #packed(
    queue: EnqueueTarget,
    buffer: Buffer,
    options: ImageBufferOptions,
  ): { origin: BigUint64Array; region: BigUint64Array; offset: bigint } {
    const { offset = 0, origin = corner } = options;
    requireObject("copy between image and buffer", buffer, "Buffer");
    const start = toSize(offset, "an offset");
    const region = this.#check(queue, options, buffer.nbytes - offset);
    return {
      origin: triple(origin, "an origin"),
      region: triple(region, "a region"),
      offset: start,
    };
  }

  /** Copies densely packed elements of a buffer into it. */
  copyFromBuffer(queue: EnqueueTarget, buffer: Buffer, options: ImageBufferOptions = {}): Event {
    checkOptions("copy a buffer to an image", options, bufferRules);
    const { origin, region, offset } = this.#packed(queue, buffer, options);
    const status = cl.clEnqueueCopyBufferToImage(
      queue.unsafeHandle,
      buffer.unsafeHandle,
      this.unsafeHandle,
      offset,
      origin,
      region,
      listEvents(options.wait),
      eventList(options.wait),
      eventOut,
    );
    return takeEvent(status, "clEnqueueCopyBufferToImage", queue);
  }

  #elementSize(): number {
    const handle = this.unsafeHandle;
    return readers.size(
      (parameter, size, value, out) => cl.clGetImageInfo(handle, parameter, size, value, out),
      ImageInfo.ELEMENT_SIZE,
      "clGetImageInfo",
    );
  }

  /** Refuses elements that the image does not have, and what is no queue. */
  #checkPart(queue: EnqueueTarget, { origin = corner, region = this.extent }: Part): void {
    requireObject("use an image", queue, "CommandQueue");
    checkRegion(origin, region, this.extent, "the image");
  }

  /** The region, once it is sure that the image has it and the memory is large enough for it. */
  #check(queue: EnqueueTarget, options: Part, nbytes: number): Triple {
    this.#checkPart(queue, options);
    const { region = this.extent } = options;
    const needed = region[0] * region[1] * region[2] * this.elementSize;
    if (nbytes < needed) {
      throw new RangeError(
        `Cannot move [${region}] elements of ${this.elementSize} bytes: ` +
          `they take ${needed} bytes, there are ${nbytes}`,
      );
    }
    return region;
  }
}

function imageType({ height, depth, layers }: ImageOptions): ImageType {
  if (depth !== undefined) return "3d";
  if (layers !== undefined) return height === undefined ? "1d-array" : "2d-array";
  return height === undefined ? "1d" : "2d";
}

function createImage(context: Context, type: ImageType, options: ImageOptions): Handle<"Mem"> {
  const { width, height = 1, depth = 1, layers = 1, format, data } = options;
  const { flags = MemFlags.READ_WRITE } = options;
  const sizes = [width, height, depth, layers].map((size) => toSize(size, "an image's size"));
  if (data) checkContent(data, width * height * depth * layers * elementBytes(format));
  const handle = cl.clCreateImage(
    context.unsafeHandle,
    data ? flags | MemFlags.COPY_HOST_PTR : flags,
    new Uint32Array([ChannelOrder[format.order], ChannelType[format.type]]),
    // cl_image_desc: type, width, height, depth, array size, row pitch, slice pitch, mip levels and
    // samples, buffer; all of them 8 bytes apart.
    new BigUint64Array([BigInt(imageTypes[type]), ...sizes, 0n, 0n, 0n, 0n]),
    data ? transferable(data, "create an image from") : null,
    errorCode,
  );
  check(errorCode[0]!, "clCreateImage", `a ${type} image of ${format.order} ${format.type}`);
  return handle;
}

/** The driver reads as many bytes as the image has, whatever the array has. */
function checkContent(data: ArrayBufferView, nbytes: number): void {
  if (data.byteLength >= nbytes) return;
  throw new RangeError(
    `Cannot create an image of ${nbytes} bytes from an array of ${data.byteLength} bytes`,
  );
}

function nameOf<T extends { readonly [name: string]: number }>(table: T, value: number): keyof T {
  const entry = Object.entries(table).find(([, code]) => code === value);
  return (entry?.[0] ?? `0x${value.toString(16)}`) as keyof T;
}
