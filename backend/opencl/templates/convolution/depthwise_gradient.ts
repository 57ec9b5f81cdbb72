/**
 * The gradient of the weight of a depthwise convolution on CPU devices: for each tap, the sum over positions
 * of what came back times what the tap sees there. Positions along a line are lanes, taps are registers.
 */
import { coefficient } from "../../../kernel/affine.ts";
import {
  type WeightGradientLoops,
  weightGradientLoops,
} from "../../../kernel/forms/convolution_loops.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import { wholeVectors } from "../../../tile/programs/lanes/box.ts";
import { type LaneMapping, over } from "../../../tile/programs/lanes/lane_mapping.ts";
import { LANES } from "../../codegen/vectors/vector_types.ts";
import type { ContractionTemplate } from "../parts/contraction_shape.ts";
import { type LanePlan, laneTemplate } from "../parts/lane_program.ts";
import { divisors, FLOAT } from "../parts/tiling.ts";
import { hasMoreTaps, packsPlanes, planeBox } from "./depthwise.ts";

/** Taps whose sums are registers. */
const MAX_SUMS = 24;
/** A plane takes at most this share of local memory, which is the second level of caches. */
const PLANE_SHARE = 1 / 8;
/** With more rows, a product shares what it reads of an image among them. */
const MAX_ROWS = 3;

/** A work-item sums all taps of a channel. */
export const depthwiseGradient: ContractionTemplate<LanePlan> = laneTemplate(
  "depthwise weight gradient",
  (kernel, target) => {
    const loops = weightGradientLoops(kernel);
    return loops && mappingOf(kernel, target, loops);
  },
  ({ kernel }) => extent(kernel, weightGradientLoops(kernel)!.others),
);

/** Lines of positions are packed, and lines of taps summed, some at a time. */
function mappingOf(
  kernel: LoopKernel,
  target: Target,
  loops: WeightGradientLoops,
): LaneMapping | null {
  const { sizes, contraction } = kernel, { line, column, image, others } = loops;
  const { m, a } = contraction!;
  if (!packsPlanes(kernel, loops) || extent(kernel, m) > MAX_ROWS) return null;
  if (coefficient(a.index, column.position) !== 1 || hasMoreTaps(kernel, loops)) return null;
  const across = sizes[column.tap]!;
  const taps = divisors(sizes[line.tap]!).find((count) => count * across <= MAX_SUMS)!;
  for (const lines of divisors(sizes[line.position]!)) {
    const positions = wholeVectors(sizes[column.position]!);
    const window = planeBox(kernel, loops, positions, lines, [line.tap, column.tap]);
    if (window === null || window.size * FLOAT > target.localMemory * PLANE_SHARE) continue;
    return {
      lane: column.position,
      width: LANES,
      starts: [0],
      rows: [[line.tap, taps], [column.tap, across]],
      share: new Map([line.tap, column.tap].map((s) => [s, sizes[s]!])),
      order: others.toReversed(),
      steps: [
        ...image === null ? [] : [over(image)],
        over(line.position, lines),
        { do: "pack", operand: "b" },
        over(line.tap, taps),
      ],
      boxes: { b: window },
      stores: "single",
      isFixed: true,
    };
  }
  return null;
}
