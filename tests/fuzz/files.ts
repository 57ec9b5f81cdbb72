/**
 * `deno task fuzz --files N --seed S`: N damaged files of every format that is read. Each must give values
 * or a `FileFormatError`, within a second and without much memory. The same seed tries the same files.
 */
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import {
  decodeIdx,
  decodeImage,
  decodeNpy,
  decodeNpz,
  decodeSafetensors,
  decodeTorch,
  decodeWav,
  FileFormatError,
} from "../../mod.ts";
import { decodeGguf } from "../../tensor/io/gguf/gguf.ts";
import { parseOnnx } from "../../tensor/models/onnx/onnx_model.ts";
import { decodeTensor } from "../../tensor/models/onnx/format/tensor_proto.ts";
import { damaged } from "../tensor/io/arbitraries.ts";

/** A format: what reads it, and files to damage. */
interface Format {
  readonly read: (bytes: Uint8Array<ArrayBuffer>) => unknown;
  readonly folder: string;
  readonly ending: RegExp;
}

const tests = new URL("../tensor/", import.meta.url);

/** Every format whose whole file is read at once. */
export const formats: Readonly<Record<string, Format>> = {
  npy: { read: decodeNpy, folder: "io/fixtures", ending: /\.npy$/ },
  npz: { read: decodeNpz, folder: "io/fixtures", ending: /\.npz$/ },
  safetensors: { read: decodeSafetensors, folder: "io/fixtures", ending: /\.safetensors$/ },
  idx: { read: decodeIdx, folder: "io/fixtures", ending: /\.idx\.gz$/ },
  torch: { read: decodeTorch, folder: "io/torch/fixtures", ending: /\.pt$/ },
  pictures: { read: decodeImage, folder: "io/pictures/fixtures", ending: /\.(png|jpg|webp)$/ },
  wav: { read: decodeWav, folder: "io/sound/fixtures", ending: /\.wav$/ },
  gguf: { read: decodeGguf, folder: "io/gguf/fixtures", ending: /\.gguf$/ },
  onnx: { read: readOnnx, folder: "models/onnx/fixtures", ending: /\.onnx$/ },
};

/** A graph and its weights. */
function readOnnx(bytes: Uint8Array<ArrayBuffer>): void {
  for (const tensor of parseOnnx(bytes).graph!.initializer) {
    // A type that is not read is said to be so: the graph may not use the tensor.
    if (tensor.data_type === 1 || tensor.data_type === 7) decodeTensor(tensor);
  }
}

function filesOf({ folder, ending }: Format): Uint8Array[] {
  const at = new URL(`${folder}/`, tests);
  return [...Deno.readDirSync(at)].filter(({ name }) => ending.test(name))
    .map(({ name }) => Deno.readFileSync(new URL(name, at)))
    .map((bytes) =>
      bytes[0] === 0x1f && bytes[1] === 0x8b ? new Uint8Array(gunzipSync(bytes)) : bytes
    );
}

/** The longest that a small file may take, in milliseconds, on a busy machine. */
const MAX_MS = 5000;

/** Tries damaged files of a format; gives back what was wrong, or null. */
export async function fuzzFormat(
  name: string,
  count: number,
  seed: number,
): Promise<string | null> {
  const format = formats[name]!,
    property = fc.asyncProperty(
      fc.oneof(fc.uint8Array({ maxLength: 200 }), {
        arbitrary: damaged(filesOf(format)),
        weight: 9,
      }),
      async (bytes) => {
        const start = performance.now();
        try {
          await format.read(bytes);
        } catch (error) {
          if (!(error instanceof FileFormatError)) throw error;
        }
        if (performance.now() - start > MAX_MS) throw new Error(`more than ${MAX_MS} ms`);
      },
    );
  const outcome = await fc.check(property, { numRuns: count, seed });
  if (!outcome.failed) return null;
  const error = outcome.errorInstance as Error | undefined;
  return `${name}: ${error?.stack ?? error}\n[${outcome.counterexample?.[0]}]`;
}

/** Tries so many files of every format; gives back whether all is well. */
export async function fuzzFiles(count: number, seed: number): Promise<boolean> {
  let isWell = true;
  for (const name of Object.keys(formats)) {
    const fault = await fuzzFormat(name, count, seed);
    console.log(fault ?? `${name}: ${count} damaged files gave values or a FileFormatError`);
    isWell &&= fault === null;
  }
  return isWell;
}
