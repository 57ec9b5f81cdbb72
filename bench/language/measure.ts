/** The speed of a decoder: prompts, tokens one at a time, and what the device could do at most. */
import { dtypes } from "../../backend/internal.ts";
import { type DeviceHandle, memory, noGrad, Tensor } from "../../mod.ts";
import type { Decoder } from "../../tensor/models/language/decoder/decoder.ts";
import { Generator } from "../../tensor/models/language/generation.ts";
import { PackedMatrix } from "../../tensor/models/weights/packed_matrix.ts";
import { Projection, TokenEmbedding } from "../../tensor/models/weights/projection.ts";

/** Times of a text, in seconds. */
export interface TextTimes {
  /** From the prompt to the first token. */
  readonly prompt: number;
  /** A further token. */
  readonly token: number;
}

/** A text's times, and its memory. */
export interface TextRun extends TextTimes {
  /** Bytes in use on the device at the end. */
  readonly memoryBytes: number;
  /** Bytes of the cache, and of one of its positions. */
  readonly cacheBytes: number;
  readonly positionBytes: number;
}

const bytesOf = (tensors: readonly Tensor[]): number =>
  tensors.reduce((sum, { size, dtype }) => sum + size * dtypes[dtype].bytes, 0);

/** Ids that look like no text, the same for everybody. */
export function promptOf(length: number, vocabulary: number): number[] {
  return Array.from({ length }, (_, k) => (k * 7919 + 13) % Math.min(vocabulary, 30_000));
}

/** Writes texts with a decoder, and takes the time. */
export class TextTimer implements Disposable {
  readonly #decoder: Decoder;
  readonly #generator: Generator;

  constructor(decoder: Decoder) {
    this.#decoder = decoder;
    this.#generator = new Generator(decoder, new Set());
  }

  /** Reads a prompt of so many tokens, and writes behind it. */
  async text(prompt: number, tokens: number): Promise<TextRun> {
    const ids = promptOf(prompt, this.#decoder.config.vocabulary);
    using session = this.#generator.session(prompt, tokens);
    const start = performance.now(), times: number[] = [];
    let memoryBytes = 0;
    for await (const _ of this.#generator.write(session, [ids], [ids], { maxTokens: tokens })) {
      times.push(performance.now());
      memoryBytes = memory.stats(this.#decoder.device).requestedBytes;
    }
    // The second step is recorded: those behind it are as all others.
    const first = Math.min(2, times.length - 1), steps = times.length - 1 - first;
    const token = steps > 0 ? (times.at(-1)! - times[first]!) / steps / 1000 : NaN;
    const { cache } = session, cacheBytes = bytesOf(cache.tensors);
    const positionBytes = cacheBytes / cache.capacity;
    return { prompt: (times[0]! - start) / 1000, token, memoryBytes, cacheBytes, positionBytes };
  }

  [Symbol.dispose](): void {
    this.#generator[Symbol.dispose]();
  }
}

/** Bytes that a token reads: all weights but the vectors of tokens, where these are not the last layer's, too. */
export function bytesPerToken(decoder: Decoder): number {
  const parts = [...decoder.parts.values()], all = weightBytes(decoder);
  const vectors = parts.find((part) => part instanceof TokenEmbedding)!.weight;
  if (!parts.some((part) => part instanceof Projection)) return all;
  return all - bytesOf([vectors instanceof PackedMatrix ? vectors.blocks : vectors]);
}

/** Bytes of all weights. */
export function weightBytes(decoder: Decoder): number {
  return bytesOf(Object.values(decoder.stateDict()));
}

/** The least seconds of several runs of work whose results are waited for. */
async function bestOf(runs: number, calls: number, work: () => Tensor): Promise<number> {
  let best = Infinity;
  for (let run = 0; run < runs; run++) {
    const start = performance.now();
    let last: Tensor | null = null;
    for (let call = 0; call < calls; call++) {
      last?.dispose();
      last = noGrad(() => work().realize());
    }
    // One element: to read them all, and make floats of bfloat16 here, takes longer than the work.
    await last!.flatten().slice([0, 1]).toHost();
    last!.dispose();
    best = Math.min(best, (performance.now() - start) / 1000 / calls);
  }
  return best;
}

/** Bytes a second that a device reads: the sum of a tensor of so many MiB. */
export async function readBandwidth(device: DeviceHandle, mebibytes: number): Promise<number> {
  using x = Tensor.ones([mebibytes * 2 ** 18], { device }).realize();
  return bytesOf([x]) / await bestOf(6, 8, () => x.sum());
}

/** Operations a second of products (rows, columns) by (columns, columns), of a type. */
export async function productSpeed(
  device: DeviceHandle,
  rows: number,
  columns: number,
  dtype: "float32" | "float16" | "bfloat16",
): Promise<number> {
  using x = Tensor.randn([rows, columns], { device }).cast(dtype).realize();
  using w = Tensor.randn([columns, columns], { device }).cast(dtype).realize();
  const seconds = await bestOf(4, 4, () => x.matmul(w.transpose()));
  return 2 * rows * columns * columns / seconds;
}
