/**
 * Convolutions of one or a few channels each on CPU devices: sums over windows. Positions along a line are
 * lanes; a weight that all of them share is multiplied by as many lines as registers hold, each read
 * once for all taps above each other.
 */
import {
  type ConvolutionLoops,
  convolutionLoops,
  type ImageAxis,
} from "../../../kernel/forms/convolution_loops.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import { type Box, wholeVectors, windowBox } from "../../../tile/programs/lanes/box.ts";
import { type LaneMapping, over } from "../../../tile/programs/lanes/lane_mapping.ts";
import { canVectorize, LANES } from "../../codegen/vectors/vector_types.ts";
import type { ContractionTemplate } from "../parts/contraction_shape.ts";
import { type LanePlan, laneTemplate } from "../parts/lane_program.ts";
import { hasWideVectors } from "../parts/register_tile.ts";
import { FLOAT } from "../parts/tiling.ts";

/** Steps between positions that vectors are made for. */
const MAX_STRIDE = 2;
/** Taps of a line are written one by one. */
const MAX_TAPS = 16;
/** With more channels, products of many channels share what they read of an image. */
const MAX_CHANNELS = 3;
/** Lines whose sums are registers, of wide vectors and of others. */
const WIDE_LINES = 8, NARROW_LINES = 4;
/** A plane takes at most this share of local memory, which is the second level of caches. */
const PLANE_SHARE = 1 / 8;
/** Products of a work-item, in vectors, that are worth its start; work-items that keep a device busy. */
const MIN_PRODUCTS = 2000, MIN_ITEMS = 8;

/** The two axes of an image. */
interface PlaneAxes {
  readonly line: ImageAxis;
  readonly column: ImageAxis;
}

/** Share of a work-item: some lines of some planes. */
interface DepthwiseShare {
  readonly lines: number;
  readonly planes: number;
  /** Lines of a tile. */
  readonly height: number;
  readonly window: Box;
}

/** A work-item computes some lines of some planes. */
export const depthwiseConvolution: ContractionTemplate<LanePlan> = laneTemplate(
  "depthwise convolution",
  (kernel, target) => {
    const loops = convolutionLoops(kernel);
    if (loops === null || !packsPlanes(kernel, loops) || !hasFewChannels(kernel, loops)) {
      return null;
    }
    if (hasMoreTaps(kernel, loops)) return null;
    const share = shareOf(kernel, target, loops);
    return share && mappingOf(kernel, loops, share);
  },
  ({ kernel }) => extent(kernel, kernel.outer),
);

function hasFewChannels(kernel: LoopKernel, { input }: ConvolutionLoops): boolean {
  const { sizes } = kernel, outputs = extent(kernel, kernel.contraction!.m);
  return outputs <= MAX_CHANNELS && (input === null || sizes[input]! <= MAX_CHANNELS);
}

/** The loops over planes of the result. */
function planesOf({ output, image, others }: ConvolutionLoops): number[] {
  return [image, ...others, output].filter((s) => s !== null);
}

function shareOf(
  kernel: LoopKernel,
  target: Target,
  loops: ConvolutionLoops,
): DepthwiseShare | null {
  const { sizes } = kernel, { line, column, input } = loops;
  const all = sizes[line.position]!, count = extent(kernel, planesOf(loops));
  const most = hasWideVectors(target) ? WIDE_LINES : NARROW_LINES;
  const height = Math.ceil(all / Math.max(1, Math.ceil(all / most)));
  const taps = [input, line.tap, column.tap].filter((s) => s !== null);
  const enough = MIN_ITEMS * target.computeUnits;
  const room = target.localMemory * PLANE_SHARE / FLOAT;
  const tiles = Math.ceil(all / height);
  for (let parts = 1; parts <= tiles; parts++) {
    const lines = Math.ceil(tiles / parts) * height;
    const window = planeBox(kernel, loops, sizes[column.position]!, lines, taps);
    if (window === null || window.size > room) continue;
    if (count * parts < enough && parts < tiles) continue;
    const products = Math.ceil(sizes[column.position]! / LANES) * lines *
      extent(kernel, kernel.inner);
    const planes = Math.min(
      Math.max(1, Math.floor(count * parts / enough)),
      Math.ceil(MIN_PRODUCTS / Math.max(1, products)),
    );
    return { lines, planes, height, window };
  }
  return null;
}

function mappingOf(
  kernel: LoopKernel,
  loops: ConvolutionLoops,
  { lines, planes, height, window }: DepthwiseShare,
): LaneMapping {
  const { line, column } = loops, around = planesOf(loops), { sizes } = kernel;
  const share = new Map([[line.position, lines], [column.position, sizes[column.position]!]]);
  let left = planes;
  for (const s of around.toReversed()) {
    share.set(s, Math.min(sizes[s]!, left));
    left = Math.max(1, Math.floor(left / sizes[s]!));
  }
  return {
    lane: column.position,
    width: LANES,
    starts: [0],
    rows: [[line.position, height]],
    share,
    order: [line.position, ...around.toReversed()],
    steps: [
      ...around.map((s) => over(s)),
      { do: "pack", operand: "b" },
      over(line.position, height),
      over(column.position, LANES),
    ],
    // Vectors reach beyond the last positions of a line.
    boxes: { b: { ...window, slack: LANES } },
    clipped: [line.position, column.position, ...around],
    unrolled: [line.tap],
    stores: canVectorize(kernel, column.position) ? "lanes" : "single",
    isFixed: true,
  };
}

/** True for contractions of single precision whose vectors of an image can be packed. */
export function packsPlanes(kernel: LoopKernel, { line, column }: PlaneAxes): boolean {
  const { dtype, a, b } = kernel.contraction!, { sizes } = kernel;
  const isFloat = dtype === "float32" && a.dtype === dtype && b.dtype === dtype;
  return isFloat && column.step === 1 && column.stride <= MAX_STRIDE &&
    sizes[line.tap]! <= MAX_TAPS && sizes[column.tap]! <= MAX_TAPS;
}

/** True where a convolution and the gradient of a weight change places: both are sums over windows. */
export function hasMoreTaps({ sizes }: LoopKernel, { line, column }: PlaneAxes): boolean {
  const count = (a: number, b: number): number => sizes[a]! * sizes[b]!;
  return count(line.tap, column.tap) > count(line.position, column.position);
}

/** The window that some positions of some lines see, for all iterations of some loops: whole vectors. */
export function planeBox(
  { sizes, contraction }: LoopKernel,
  { line, column }: PlaneAxes,
  positions: number,
  lines: number,
  around: readonly number[],
): Box | null {
  const whole = around.map((s) => [s, sizes[s]!] as const);
  const counts = new Map([...whole, [line.position, lines], [column.position, positions]]);
  return windowBox({ sizes }, contraction!.b, counts, column.position, true, wholeVectors);
}
