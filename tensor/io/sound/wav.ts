/**
 * WAV files: RIFF with PCM of 8, 16, 24 or 32 bits, or floats of 32 or 64 (Microsoft, Multimedia
 * Programming Interface 1.0; WAVEFORMATEXTENSIBLE).
 *
 * This folder (`sound/`) imports `core/` beside it, and `ops/`.
 */
import { saveFile } from "../../../backend/internal.ts";
import { requireTensor } from "../../core/apply.ts";
import type { Rule } from "../../../ffi/host/option_rules.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../core/rules/options.ts";
import { Tensor } from "../../class/tensor.ts";
import { readWhole } from "../core/file.ts";
import { FileFormatError, readingFile, shown } from "../core/file_format_error.ts";
import { type LoadOptions, loadRules } from "../core/load_options.ts";

/** A sound in memory of the host. */
export interface HostSound {
  /** Samples from -1 to 1, one channel after the other. */
  readonly data: Float32Array<ArrayBuffer>;
  /** Channels and samples each. */
  readonly shape: readonly [channels: number, frames: number];
  /** Samples a second. */
  readonly sampleRate: number;
}

/** A sound. */
export interface Sound {
  /** Float32 (channels, frames), from -1 to 1. */
  readonly samples: Tensor;
  /** Samples a second. */
  readonly sampleRate: number;
}

/** Format of a sound's samples. */
export interface EncodeWavOptions {
  /** Bits a sample: 16 (default) and 24 are whole numbers, 32 floats. */
  bits?: 16 | 24 | 32;
}

/** Options of {@linkcode saveWav}. */
export interface SaveWavOptions extends EncodeWavOptions {
  /** Samples a second. */
  sampleRate: number;
}

const encodeRules: Rules<EncodeWavOptions> = {
  bits: { takes: "16, 24 or 32", accepts: (n) => n === 16 || n === 24 || n === 32 },
};
const aSound: Rule = {
  takes: "{ data, shape, sampleRate } as decodeWav gives it: data of the shape's size",
  accepts: (value) => {
    const { data, shape, sampleRate } = Object(value) as Partial<HostSound>;
    return data instanceof Float32Array && takes.wholeNumbers.accepts(shape) &&
      shape!.length === 2 && shape![0] * shape![1] === data.length &&
      takes.count.accepts(sampleRate);
  },
};
const saveRules: Rules<SaveWavOptions> = { ...encodeRules, sampleRate: takes.count };

/**
 * Reads a WAV file.
 *
 * @param path The file.
 * @param options Where the samples are put.
 * @throws {FileFormatError} For a file that is damaged, or whose samples are compressed.
 *
 * @example A tone, there and back
 * ```ts
 * import { loadWav, saveWav, Tensor } from "@netcl/netcl";
 *
 * const path = await Deno.makeTempFile({ suffix: ".wav" });
 * const tone = Tensor.arange(800).mul(2 * Math.PI * 440 / 8000).sin().mul(0.5).reshape([1, 800]);
 * await saveWav(path, tone, { sampleRate: 8000 });
 * const { samples, sampleRate } = await loadWav(path);
 * console.assert(sampleRate === 8000 && await samples.allClose(tone, { atol: 1e-4 }));
 * await Deno.remove(path);
 * ```
 */
export function loadWav(path: string | URL, options: LoadOptions = {}): Promise<Sound> {
  checkOptions("load a WAV file", options, loadRules);
  return readingFile(path, async () => {
    const { data, shape, sampleRate } = decodeWav(await readWhole(path));
    return { samples: Tensor.fromHost(data, { shape, ...options }), sampleRate };
  });
}

type ReadSample = (view: DataView, at: number) => number;

/** The samples of each format's code and bits. */
const formats: Readonly<Record<string, ReadSample>> = {
  "1 8": (view, at) => (view.getUint8(at) - 128) / 2 ** 7,
  "1 16": (view, at) => view.getInt16(at, true) / 2 ** 15,
  "1 24": (view, at) => (view.getUint16(at, true) | view.getInt8(at + 2) << 16) / 2 ** 23,
  "1 32": (view, at) => view.getInt32(at, true) / 2 ** 31,
  "3 32": (view, at) => view.getFloat32(at, true),
  "3 64": (view, at) => view.getFloat64(at, true),
};
/** WAVEFORMATEXTENSIBLE: the code stands further behind. */
const EXTENSIBLE = 0xfffe;

interface Format {
  readonly channels: number;
  readonly sampleRate: number;
  readonly sampleBytes: number;
  readonly read: ReadSample;
}

/**
 * Reads the bytes of a WAV file.
 *
 * @throws {FileFormatError} For bytes that are none, or whose samples are compressed.
 */
export function decodeWav(bytes: Uint8Array): HostSound {
  requireValue("read a WAV file", "bytes", bytes, takes.arrayView);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 12 || textAt(bytes, 0) !== "RIFF" || textAt(bytes, 8) !== "WAVE") {
    throw new FileFormatError("This is no WAV file: it does not begin with RIFF and WAVE");
  }
  let format: Format | null = null;
  for (let at = 12; at + 8 <= bytes.length;) {
    const name = textAt(bytes, at), size = view.getUint32(at + 4, true), start = at + 8;
    if (name === "fmt ") format = parseFormat(view, start, Math.min(size, bytes.length - start));
    if (name === "data") {
      if (!format) throw new FileFormatError("The file has samples before their format");
      // A recorder that was cut off leaves a size of 0 or 2^32 - 1: what is there is read.
      const rest = bytes.length - start, length = size === 0 ? rest : Math.min(size, rest);
      return samplesOf(view, start, length, format);
    }
    at = start + size + size % 2;
  }
  throw new FileFormatError("The file has no samples");
}

function textAt(bytes: Uint8Array, at: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + 4));
}

function parseFormat(view: DataView, at: number, size: number): Format {
  if (size < 16) throw new FileFormatError(`The format takes 16 bytes: ${size} are there`);
  const bits = view.getUint16(at + 14, true), channels = view.getUint16(at + 2, true);
  let code = view.getUint16(at, true);
  if (code === EXTENSIBLE && size >= 26) code = view.getUint16(at + 24, true);
  const read = formats[`${code} ${bits}`];
  if (!read || channels === 0) {
    throw new FileFormatError(
      `${channels} channels of format ${code} with ${bits} bits are not read: save the sound as PCM ` +
        `of 8, 16, 24 or 32 bits, or as floats`,
    );
  }
  return { channels, sampleRate: view.getUint32(at + 4, true), sampleBytes: bits / 8, read };
}

function samplesOf(view: DataView, start: number, length: number, format: Format): HostSound {
  const { channels, sampleBytes, sampleRate, read } = format;
  const frames = Math.floor(length / (channels * sampleBytes));
  const data = new Float32Array(channels * frames);
  for (let frame = 0, at = start; frame < frames; frame++) {
    for (let channel = 0; channel < channels; channel++, at += sampleBytes) {
      data[channel * frames + frame] = read(view, at);
    }
  }
  return { data, shape: [channels, frames], sampleRate };
}

/**
 * Writes a WAV file.
 *
 * @param path The file.
 * @param samples (channels, frames), or (frames); what lies beyond -1 and 1 is cut off, unless the file
 * holds floats.
 * @param options The sample rate, and the bits of a sample.
 * @throws {RangeError} When the tensor has another shape.
 */
export async function saveWav(
  path: string | URL,
  samples: Tensor,
  options: SaveWavOptions,
): Promise<void> {
  requireTensor("save a WAV file", samples);
  checkOptions("save a WAV file", options, saveRules, ["sampleRate"]);
  const { sampleRate, ...others } = options;
  const [channels, frames] = samples.ndim === 1 ? [1, samples.size] : samples.shape;
  if (samples.ndim > 2 || frames === undefined || channels! < 1 || channels! > 0xffff) {
    throw new RangeError(
      `Cannot save a WAV file of samples ${
        shown(samples.shape)
      }: pass (channels, frames), or (frames)`,
    );
  }
  const data = Float32Array.from(await samples.toHost() as ArrayLike<number>);
  await saveFile(path, [encodeWav({ data, shape: [channels!, frames], sampleRate }, others)]);
}

/** Writers of a sample, by its bits. */
const writers: Readonly<Record<number, (view: DataView, at: number, value: number) => void>> = {
  16: (view, at, value) => view.setInt16(at, scaled(value, 15), true),
  24: (view, at, value) => {
    const whole = scaled(value, 23);
    view.setUint16(at, whole & 0xffff, true);
    view.setInt8(at + 2, whole >> 16);
  },
  32: (view, at, value) => view.setFloat32(at, value, true),
};

function scaled(value: number, bits: number): number {
  const scale = 2 ** bits;
  return Math.max(-scale, Math.min(scale - 1, Math.round(value * scale))) || 0;
}

/** The bytes of a WAV file. */
export function encodeWav(
  sound: HostSound,
  options: EncodeWavOptions = {},
): Uint8Array<ArrayBuffer> {
  checkOptions("write a WAV file", options, encodeRules);
  requireValue("write a WAV file", "sound", sound, aSound);
  const { data, shape: [channels, frames], sampleRate } = sound, { bits = 16 } = options;
  const frameBytes = channels * bits / 8, length = frames * frameBytes;
  if (length + 36 > 0xffff_ffff) {
    throw new RangeError(`Cannot write a WAV file of ${length} bytes: it holds less than 4 GiB`);
  }
  const bytes = new Uint8Array(44 + length), view = new DataView(bytes.buffer);
  const text = (at: number, word: string) => bytes.set(new TextEncoder().encode(word), at);
  text(0, "RIFF");
  view.setUint32(4, 36 + length, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, bits === 32 ? 3 : 1, true);
  view.setUint16(22, channels, true);
  view.setUint32(24, sampleRate, true);
  view.setUint32(28, sampleRate * frameBytes, true);
  view.setUint16(32, frameBytes, true);
  view.setUint16(34, bits, true);
  text(36, "data");
  view.setUint32(40, length, true);
  const write = writers[bits]!;
  for (let channel = 0; channel < channels; channel++) {
    for (let frame = 0; frame < frames; frame++) {
      const at = 44 + frame * frameBytes + channel * bits / 8;
      write(view, at, data[channel * frames + frame]!);
    }
  }
  return bytes;
}
