/** Runs convolutions of channels by themselves. */
import { coefficient } from "../../../kernel/affine.ts";
import type { ChannelConvolution } from "../../../kernel/forms/channel_convolution.ts";
import { existingElements, type ImageAxis } from "../../../kernel/forms/convolution_loops.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import type { HostBlock } from "../../script/runner.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { FloatContraction, Product } from "../products/contraction.ts";
import { offsetsOf } from "../products/contraction_plan.ts";
import type { FusedEpilogue } from "../products/fused_epilogue.ts";
import { KernelCall } from "../products/kernel_call.ts";
import { Tables } from "../products/tables.ts";
import type { WasmRuntime } from "../runtime.ts";
import { VECTOR } from "./channel_windows.ts";
import {
  type AxisForm,
  depthwiseArguments,
  type DepthwiseForm,
  makeDepthwise,
} from "./depthwise.ts";
import { starts } from "./depthwise_gradient.ts";
import { partLength, type StagedRow, stagingNumbers } from "./staged_image.ts";

/** Products of a core in a nanosecond. */
const SPEED = 10;
/** Bytes of staged rows that a core's near caches hold beside what is computed. */
const MAX_STAGED_BYTES = 2 ** 17;
/** Sums in registers, and rows of them at most. */
const MAX_SUMS = 12, MAX_ROWS = 6;

/** A convolution, with what its runs have in common. */
export class DepthwiseConvolution implements Product {
  readonly source: string;
  readonly hasEpilogue: boolean;
  readonly #runtime: WasmRuntime;
  readonly #host: GemmHost;
  readonly #given: FloatContraction;
  readonly #form: ChannelConvolution;
  readonly #tables: Tables;
  readonly #firstTap: number;
  readonly #scratchBytes: number;
  readonly #call: KernelCall;
  readonly #chain: ReturnType<FusedEpilogue["chain"]> | null;

  constructor(
    given: FloatContraction,
    form: ChannelConvolution,
    runtime: WasmRuntime,
    host: GemmHost,
  ) {
    const { kernel, target } = given, { image, taps, line, column, planes } = form;
    this.#given = given;
    this.#form = form;
    this.#runtime = runtime;
    this.#host = host;
    const [height, width] = [line, column].map(({ position }) => kernel.sizes[position]!) as [
      number,
      number,
    ];
    const offsets = offsetsOf(kernel, taps.index, [line.tap, column.tap]);
    this.#firstTap = Math.min(...offsets);
    const [y, x] = [axisForm(kernel, line), axisForm(kernel, column)];
    const code: DepthwiseForm = {
      ...{ y, x, ...together(height, width) },
      tapOffsets: [...offsets].map((tap) => tap - this.#firstTap),
      isOdd: x.stride > 1 && -column.first % x.stride === 1,
      isRelaxed: runtime.relaxed,
    };
    const row = stagedRow(kernel, column), rowBytes = 4 * row.parts * partLength(row);
    const bandRows = bandOf(height, code, rowBytes), bands = Math.ceil(height / bandRows);
    this.#scratchBytes = rowBytes * linesOf(bandRows, y);
    const vectors = starts(width, VECTOR), last = vectors.at(-1)!;
    while (vectors.length % code.vectors > 0) vectors.push(last);
    const epilogue = given.epilogueOf({
      batch: planes,
      across: [line.position],
      along: [column.position],
    });
    this.hasEpilogue = epilogue !== null;
    const tables = this.#tables = new Tables({
      imagePlanes: offsetsOf(kernel, image.index, planes),
      otherPlanes: offsetsOf(kernel, taps.index, planes),
      resultPlanes: offsetsOf(kernel, target, planes),
      vectors: Int32Array.from(vectors, (vector) => 4 * vector),
      ...epilogue?.tables,
    });
    const [above, end] = existingElements(kernel, line);
    const range = planes.reduce((product, s) => product * kernel.sizes[s]!, bands);
    this.#chain = epilogue && epilogue.chain(runtime, tables, {
      across: { count: height, block: bandRows, blocks: bands },
      along: { count: width, block: width, blocks: 1 },
      acrossIsInner: false,
    });
    this.#call = new KernelCall(runtime, {
      kernel: runtime.named(`depthwise ${JSON.stringify(code)}`, () => makeDepthwise(code)),
      names: depthwiseArguments,
      tables,
      numbers: {
        ...{ count: vectors.length, bands, rows: height, bandRows, above },
        height: Math.max(0, end - above),
        imageRow: 4 * line.step,
        resultRow: 4 * coefficient(target, line.position),
        ...{ stagedRow: rowBytes, scratchBytes: this.#scratchBytes },
        ...stagingNumbers(row),
      },
      ...{ range, grain: 1 },
      cost: kernel.sizes.reduce((product, size) => product * size, 1) / SPEED,
    });
    this.source = [
      `// WebAssembly SIMD: channels by themselves, ${y.taps} x ${x.taps}, float32`,
      ...epilogue ? [epilogue.source] : [],
    ].join("\n");
  }

  run(a: HostBlock, b: HostBlock, c: HostBlock, inputs: readonly HostBlock[]): boolean {
    const { memory, threads } = this.#runtime, { isSecond, image, taps, line, column } = this.#form;
    const places = (isSecond ? [b, a, c] : [a, b, c]).map((block) => memory.addressOf(block));
    const [pixels, others, result] = places;
    if (pixels == null || others == null || result == null) return false;
    const { bytes } = this.#tables, words = bytes.length + threads.size * this.#scratchBytes;
    // The first element that exists.
    const [[top], [left]] = [line, column].map((axis) =>
      existingElements(this.#given.kernel, axis)
    ) as [[number, number], [number, number]];
    const first = image.index.offset + line.step * top + left;
    return this.#host.withScratch("float32", words / 4, (block) => {
      const tables = memory.addressOf(block);
      if (tables === null) return false;
      memory.bytes(tables, bytes.length).set(bytes);
      const next = this.#chain && this.#chain(inputs, result, tables);
      if (this.#chain && next === null) return false;
      this.#call.run(
        {
          image: pixels + 4 * first,
          other: others + 4 * taps.index.offset + this.#firstTap,
          result: result + 4 * this.#given.target.offset,
          scratch: tables + bytes.length,
        },
        tables,
        undefined,
        next,
      );
      return true;
    });
  }
}

function axisForm({ sizes }: LoopKernel, { tap, stride, dilation }: ImageAxis): AxisForm {
  return { taps: sizes[tap]!, stride, dilation };
}

/** Rows and vectors of a row that are computed together: few are computed twice, most sums in registers. */
function together(height: number, width: number): { rows: number; vectors: number } {
  const count = Math.ceil(width / VECTOR);
  let best = { rows: 1, vectors: 1 }, least = Infinity;
  for (let vectors = 4; vectors > 0; vectors--) {
    const rows = Math.min(height, MAX_ROWS, Math.floor(MAX_SUMS / vectors));
    const computed = Math.ceil(count / vectors) * vectors * Math.ceil(height / rows) * rows;
    // Each factor is read once for all vectors of a row, each vector of the image once for all rows.
    const cost = computed * (1 + 1 / vectors + 1 / rows);
    if (cost < least) [best, least] = [{ rows, vectors }, cost];
  }
  return best;
}

/** The staged row of an image's columns. */
function stagedRow(kernel: LoopKernel, column: ImageAxis): StagedRow {
  const { sizes } = kernel, { stride: parts, position, tap, dilation } = column;
  const [before, end] = existingElements(kernel, column);
  const reach = Math.floor((sizes[tap]! - 1) * dilation / parts);
  return { parts, before, width: Math.max(0, end - before), needed: sizes[position]! + reach };
}

/** Rows of the image that so many rows of the result follow from. */
function linesOf(rows: number, { taps, stride, dilation }: AxisForm): number {
  return (rows - 1) * stride + (taps - 1) * dilation + 1;
}

/** Rows of a band: all, or as many as are staged within the caches; no band has too few for a step. */
function bandOf(height: number, { rows, y }: DepthwiseForm, rowBytes: number): number {
  for (let bands = 1;; bands++) {
    const band = Math.ceil(height / bands), next = Math.ceil(height / (bands + 1));
    const isSmall = linesOf(band, y) * rowBytes <= MAX_STAGED_BYTES;
    const leftOver = height - (Math.ceil(height / next) - 1) * next;
    if (isSmall || Math.min(next, leftOver) < rows) return band;
  }
}
