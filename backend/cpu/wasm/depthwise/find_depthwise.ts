/**
 * Convolutions of each channel by itself, forward and by the image, and the gradients of their kernels: lane
 * programs in vectors of four positions.
 *
 * This folder (`depthwise/`) imports `products/` for calls, `tile/` of this backend, the programs of `backend/tile`
 * and `kernel/`. `kernel_runners.ts` hands {@linkcode findDepthwise} to `products/`.
 */
import { coefficient } from "../../../kernel/affine.ts";
import {
  type ChannelConvolution,
  channelConvolution,
} from "../../../kernel/forms/channel_convolution.ts";
import { type ImageAxis, weightGradientLoops } from "../../../kernel/forms/convolution_loops.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import { windowBox } from "../../../tile/programs/lanes/box.ts";
import { type LaneMapping, over } from "../../../tile/programs/lanes/lane_mapping.ts";
import { VECTOR } from "../../../tile/programs/panels/numbered.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { FloatContraction, Product } from "../products/contraction.ts";
import type { WasmRuntime } from "../runtime.ts";
import { LaneProductRunner } from "./lane_product.ts";

/** Bytes of packed rows that a core's near caches hold beside what is computed. */
const MAX_PACKED_BYTES = 2 ** 17;
/** Sums in registers, and rows of them at most. */
const MAX_SUMS = 12, MAX_ROWS = 6;
/** Vectors of an image whose products are added up one after the other. */
const MAX_SUMMED = 256;
/** Kernels of more taps along an axis are left to products. */
const MAX_TAPS = 7;

/** The product, or null where a contraction is none. */
export function findDepthwise(
  given: FloatContraction,
  runtime: WasmRuntime,
  host: GemmHost,
): Product | null {
  const kernel = { ...given.kernel, contraction: given.contraction };
  const form = channelConvolution(kernel);
  if (form !== null && coefficient(given.target, form.column.position) === 1) {
    return convolution(given, form, runtime, host);
  }
  const mapping = gradientMapping(kernel);
  if (mapping === null) return null;
  const taps = mapping.rows.map(([s]) => kernel.sizes[s]!);
  const name = `gradients of channels by themselves, ${taps.join(" x ")}`;
  return new LaneProductRunner(name, given, mapping, runtime, host, null);
}

function convolution(
  given: FloatContraction,
  form: ChannelConvolution,
  runtime: WasmRuntime,
  host: GemmHost,
): Product {
  const { kernel } = given,
    { planes, line, column, isSecond, image } = form,
    { sizes } = kernel;
  const height = sizes[line.position]!, width = sizes[column.position]!;
  const { rows, vectors } = together(height, width), along = vectors * VECTOR;
  const windowOf = (lines: number) =>
    windowBox(
      kernel,
      image,
      new Map([
        [line.position, lines],
        [column.position, Math.ceil(width / along) * along],
        [line.tap, sizes[line.tap]!],
        [column.tap, sizes[column.tap]!],
      ]),
      column.position,
      true,
      // A row's last vector may reach beyond it.
      (count) => Math.ceil(count / VECTOR) * VECTOR + VECTOR,
    )!;
  let bands = 1, lines = height;
  while (windowOf(lines).size * 4 > MAX_PACKED_BYTES && lines > rows) {
    lines = Math.ceil(height / ++bands / rows) * rows;
  }
  bands = Math.ceil(height / lines);
  const a = isSecond ? "b" : "a";
  const mapping: LaneMapping = {
    lane: column.position,
    width: VECTOR,
    starts: Array.from({ length: vectors }, (_, v) => v * VECTOR),
    rows: [[line.position, rows]],
    share: new Map([[line.position, lines], [column.position, width]]),
    order: [line.position, ...planes.toReversed()],
    steps: [
      { do: "pack", operand: a },
      over(line.position, rows),
      over(column.position, along),
    ],
    boxes: { [a]: windowOf(lines) },
    clipped: [line.position, column.position],
    unrolled: [line.tap, column.tap],
    stores: "lanes",
    asksOnce: true,
    reloads: "each",
    isFixed: true,
  };
  const symbols = { batch: planes, across: [line.position], along: [column.position] };
  const epilogue = given.epilogueOf(symbols);
  const chained = epilogue && {
    epilogue,
    blocks: {
      across: { count: height, block: lines, blocks: bands },
      along: { count: width, block: width, blocks: 1 },
      acrossIsInner: false,
    },
  };
  const name = `channels by themselves, ${sizes[line.tap]} x ${sizes[column.tap]}`;
  return new LaneProductRunner(name, given, mapping, runtime, host, chained);
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

/** The gradient of the kernels of channels by themselves: taps are rows, sums are in the lanes of positions. */
function gradientMapping(kernel: LoopKernel): LaneMapping | null {
  const c = kernel.contraction!, { sizes } = kernel;
  const swapped = { ...kernel, contraction: { ...c, a: c.b, b: c.a, m: c.n, n: c.m } };
  const both = [weightGradientLoops(kernel), weightGradientLoops(swapped)] as const;
  const loops = both[0] ?? both[1], { m, a, b } = both[0] ? c : swapped.contraction;
  if (loops === null || m.length > 0 || b.bounds.length > 0) return null;
  const { line, column } = loops,
    isPlain = ({ stride, dilation }: ImageAxis): boolean => stride === 1 && dilation === 1;
  const isFit = column.step === 1 && isPlain(line) && isPlain(column) &&
    coefficient(a.index, column.position) === 1 && sizes[column.position]! >= VECTOR &&
    [line, column].every(({ tap }) => sizes[tap]! <= MAX_TAPS);
  if (!isFit) return null;
  const across = sizes[column.tap]!, vectors = Math.ceil(sizes[column.position]! / VECTOR);
  const divisor = (n: number, most: number): number => {
    let found = Math.max(1, Math.min(n, most));
    while (n % found > 0) found--;
    return found;
  };
  const lines = divisor(sizes[line.position]!, Math.floor(MAX_SUMMED / vectors));
  const taps = divisor(sizes[line.tap]!, Math.floor(MAX_SUMS / across));
  const summed = kernel.contraction!.k.filter((s) => s !== line.position && s !== column.position);
  return {
    lane: column.position,
    width: VECTOR,
    starts: [0],
    rows: [[line.tap, taps], [column.tap, across]],
    share: new Map([line.tap, column.tap].map((s) => [s, sizes[s]!])),
    order: loops.others.toReversed(),
    steps: [...summed.map((s) => over(s)), over(line.position, lines), over(line.tap, taps)],
    boxes: {},
    stores: "single",
    isFixed: true,
  };
}
