/** Runs convolutions of channels by themselves. */
import { coefficient } from "../../../kernel/affine.ts";
import type { HostBlock } from "../../script/runner.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { FloatContraction, Product } from "../products/contraction.ts";
import { offsetsOf } from "../products/contraction_plan.ts";
import { Tables } from "../products/tables.ts";
import type { WasmRuntime } from "../runtime.ts";
import { KernelCall } from "../products/kernel_call.ts";
import { type ChannelWindows, channelWindows, ROWS, VECTOR } from "./channel_windows.ts";
import {
  depthwiseArguments,
  type DepthwiseForm,
  makeDepthwise,
  makeDepthwiseGradient,
  VECTORS,
} from "./depthwise.ts";

/** Products of a core in a nanosecond. */
const SPEED = 10;
/** Vectors of an image whose products are added up one after the other. */
const MAX_SUMMED = 512;
const makers = { convolution: makeDepthwise, filterGradient: makeDepthwiseGradient } as const;

/** A convolution of channels by themselves, or null where a contraction is none. */
export function findDepthwise(
  given: FloatContraction,
  runtime: WasmRuntime,
  host: GemmHost,
): Product | null {
  const windows = channelWindows(given);
  return windows && new DepthwiseConvolution(given, windows, runtime, host);
}

class DepthwiseConvolution implements Product {
  readonly source: string;
  readonly #runtime: WasmRuntime;
  readonly #host: GemmHost;
  readonly #given: FloatContraction;
  readonly #windows: ChannelWindows;
  readonly #tables: Tables;
  readonly #form: DepthwiseForm;
  readonly #firstTap: number;
  readonly #numbers: Readonly<Record<string, number>>;
  #call: KernelCall | null = null;

  constructor(
    given: FloatContraction,
    windows: ChannelWindows,
    runtime: WasmRuntime,
    host: GemmHost,
  ) {
    const { kernel, target } = given, { image, other, kind, y, x, planes, summed } = windows;
    this.#given = given;
    this.#windows = windows;
    this.#runtime = runtime;
    this.#host = host;
    const isGradient = kind === "filterGradient";
    const taps = offsetsOf(kernel, (isGradient ? { index: target } : other).index, [
      windows.tapY,
      windows.tapX,
    ]);
    this.#firstTap = Math.min(...taps);
    this.#form = {
      tapsY: kernel.sizes[windows.tapY]!,
      tapsX: kernel.sizes[windows.tapX]!,
      tapOffsets: [...taps].map((tap) => tap - this.#firstTap),
      isRelaxed: runtime.relaxed,
    };
    const [height, width] = [kernel.sizes[y]!, kernel.sizes[x]!];
    const isByRow = isGradient && height * Math.ceil(width / VECTOR) > MAX_SUMMED;
    const rows = isByRow ? [0] : isGradient ? allOf(height) : starts(height, ROWS)
      .flatMap((start) => allOf(ROWS).map((k) => start + k));
    const terms = isByRow ? [...summed, y] : summed;
    const vectors = starts(width, VECTOR), last = vectors.at(-1)!;
    while (!isGradient && vectors.length % VECTORS > 0) vectors.push(last);
    const rowsOf = (index: typeof target): Int32Array =>
      Int32Array.from(rows, (row) => 4 * row * coefficient(index, y));
    this.#tables = new Tables({
      imagePlanes: offsetsOf(kernel, image.index, planes),
      otherPlanes: offsetsOf(kernel, other.index, planes),
      resultPlanes: offsetsOf(kernel, target, planes),
      imageRows: rowsOf(image.index),
      otherRows: rowsOf(other.index),
      resultRows: rowsOf(target),
      vectors: Int32Array.from(vectors, (vector) => 4 * vector),
      summedImages: offsetsOf(kernel, image.index, terms),
      summedOthers: offsetsOf(kernel, other.index, terms),
    });
    this.#numbers = {
      rows: rows.length,
      count: vectors.length,
      summed: terms.reduce((product, s) => product * kernel.sizes[s]!, 1),
      overlap: Math.ceil(width / VECTOR) * VECTOR - width,
      imageRow: 4 * coefficient(image.index, y),
    };
    this.source =
      `// WebAssembly SIMD: ${isGradient ? "gradients of " : ""}channels by themselves, ` +
      `${this.#form.tapsY} x ${this.#form.tapsX}, float32`;
  }

  run(a: HostBlock, b: HostBlock, c: HostBlock): boolean {
    const { memory } = this.#runtime, { isSecond, image, other, kind } = this.#windows;
    const places = (isSecond ? [b, a, c] : [a, b, c]).map((block) => memory.addressOf(block));
    const [pixels, others, result] = places;
    if (pixels == null || others == null || result == null) return false;
    const { bytes } = this.#tables;
    const isGradient = kind === "filterGradient", tap = this.#firstTap;
    return this.#host.withScratch("float32", bytes.length / 4, (block) => {
      const tables = memory.addressOf(block);
      if (tables === null) return false;
      memory.bytes(tables, bytes.length).set(bytes);
      (this.#call ??= this.#makeCall()).run({
        image: pixels + 4 * image.index.offset,
        other: others + 4 * other.index.offset + (isGradient ? 0 : tap),
        result: result + 4 * this.#given.target.offset + (isGradient ? tap : 0),
      }, tables);
      return true;
    });
  }

  #makeCall(): KernelCall {
    const { kernel } = this.#given, { kind, planes } = this.#windows, form = this.#form;
    const range = planes.reduce((product, s) => product * kernel.sizes[s]!, 1);
    return new KernelCall(this.#runtime, {
      kernel: this.#runtime.named(
        `depthwise ${kind} ${JSON.stringify(form)}`,
        () => makers[kind](form),
      ),
      names: depthwiseArguments,
      ...{ tables: this.#tables, numbers: this.#numbers, range, grain: 1 },
      cost: kernel.sizes.reduce((product, size) => product * size, 1) / SPEED,
    });
  }
}

function allOf(count: number): number[] {
  return Array.from({ length: count }, (_, k) => k);
}

/** Starts of pieces of `length`: the last one overlaps the one before where they do not fit. */
function starts(size: number, length: number): number[] {
  return allOf(Math.ceil(size / length)).map((k) => Math.min(k * length, size - length));
}
