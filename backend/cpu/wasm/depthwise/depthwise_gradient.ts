/** Runs gradients of the kernels of channels by themselves. */
import { coefficient } from "../../../kernel/affine.ts";
import type { HostBlock } from "../../script/runner.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { FloatContraction, Product } from "../products/contraction.ts";
import { offsetsOf } from "../products/contraction_plan.ts";
import { KernelCall } from "../products/kernel_call.ts";
import { Tables } from "../products/tables.ts";
import type { WasmRuntime } from "../runtime.ts";
import { type ChannelWindows, VECTOR } from "./channel_windows.ts";
import { gradientArguments, type GradientForm, makeFilterGradient } from "./filter_gradient.ts";

/** Products of a core in a nanosecond. */
const SPEED = 10;
/** Vectors of an image whose products are added up one after the other. */
const MAX_SUMMED = 512;

/** A gradient, with what its runs have in common. */
export class DepthwiseGradient implements Product {
  readonly source: string;
  readonly hasEpilogue = false;
  readonly #runtime: WasmRuntime;
  readonly #host: GemmHost;
  readonly #given: FloatContraction;
  readonly #windows: ChannelWindows;
  readonly #tables: Tables;
  readonly #form: GradientForm;
  readonly #firstTap: number;
  readonly #numbers: Readonly<Record<string, number>>;
  #call: KernelCall | null = null;

  constructor(
    given: FloatContraction,
    windows: ChannelWindows,
    runtime: WasmRuntime,
    host: GemmHost,
  ) {
    const { kernel, target } = given, { image, other, y, x, planes, summed } = windows;
    this.#given = given;
    this.#windows = windows;
    this.#runtime = runtime;
    this.#host = host;
    const taps = offsetsOf(kernel, target, [windows.tapY, windows.tapX]);
    this.#firstTap = Math.min(...taps);
    this.#form = {
      tapsY: kernel.sizes[windows.tapY]!,
      tapsX: kernel.sizes[windows.tapX]!,
      tapOffsets: [...taps].map((tap) => tap - this.#firstTap),
      isRelaxed: runtime.relaxed,
    };
    const [height, width] = [kernel.sizes[y]!, kernel.sizes[x]!];
    const isByRow = height * Math.ceil(width / VECTOR) > MAX_SUMMED;
    const rows = isByRow ? [0] : Array.from({ length: height }, (_, k) => k);
    const terms = isByRow ? [...summed, y] : summed, vectors = starts(width, VECTOR);
    const rowsOf = (index: typeof target): Int32Array =>
      Int32Array.from(rows, (row) => 4 * row * coefficient(index, y));
    this.#tables = new Tables({
      imagePlanes: offsetsOf(kernel, image.index, planes),
      otherPlanes: offsetsOf(kernel, other.index, planes),
      resultPlanes: offsetsOf(kernel, target, planes),
      imageRows: rowsOf(image.index),
      otherRows: rowsOf(other.index),
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
    this.source = `// WebAssembly SIMD: gradients of channels by themselves, ` +
      `${this.#form.tapsY} x ${this.#form.tapsX}, float32`;
  }

  run(a: HostBlock, b: HostBlock, c: HostBlock): boolean {
    const { memory } = this.#runtime, { isSecond, image, other } = this.#windows;
    const places = (isSecond ? [b, a, c] : [a, b, c]).map((block) => memory.addressOf(block));
    const [pixels, others, result] = places;
    if (pixels == null || others == null || result == null) return false;
    const { bytes } = this.#tables;
    return this.#host.withScratch("float32", bytes.length / 4, (block) => {
      const tables = memory.addressOf(block);
      if (tables === null) return false;
      memory.bytes(tables, bytes.length).set(bytes);
      (this.#call ??= this.#makeCall()).run({
        image: pixels + 4 * image.index.offset,
        other: others + 4 * other.index.offset,
        result: result + 4 * this.#given.target.offset + this.#firstTap,
      }, tables);
      return true;
    });
  }

  #makeCall(): KernelCall {
    const { kernel } = this.#given, { planes } = this.#windows, form = this.#form;
    const range = planes.reduce((product, s) => product * kernel.sizes[s]!, 1);
    return new KernelCall(this.#runtime, {
      kernel: this.#runtime.named(
        `depthwise gradient ${JSON.stringify(form)}`,
        () => makeFilterGradient(form),
      ),
      names: gradientArguments,
      ...{ tables: this.#tables, numbers: this.#numbers, range, grain: 1 },
      cost: kernel.sizes.reduce((product, size) => product * size, 1) / SPEED,
    });
  }
}

/** Starts of pieces of `length`: the last one overlaps the one before where they do not fit. */
export function starts(size: number, length: number): number[] {
  return Array.from(
    { length: Math.ceil(size / length) },
    (_, k) => Math.min(k * length, size - length),
  );
}
