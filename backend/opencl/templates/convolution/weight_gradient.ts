/**
 * The gradient of a convolution's weight on CPU devices: sums over positions of one operand's channels times
 * what each tap of the other sees there. Channels are lanes of vectors, for which their operand is
 * transposed piece by piece; taps are the rows of a tile, scalars from a packed window.
 */
import { coefficient } from "../../../kernel/affine.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import { transposedBox, windowBox } from "../../../tile/programs/lanes/box.ts";
import { type LaneMapping, over } from "../../../tile/programs/lanes/lane_mapping.ts";
import { LANES } from "../../codegen/vectors/vector_types.ts";
import { type ContractionTemplate, isTileable, last } from "../parts/contraction_shape.ts";
import { type LanePlan, laneTemplate } from "../parts/lane_program.ts";
import { divisors } from "../parts/tiling.ts";

/** A tile has at most so many vectors as accumulators, and at least so many taps. */
const MAX_VECTORS = 26, MIN_TAPS = 3;
/** Fewer channels than this waste too many lanes. */
const MIN_LANES = 8;
/** Largest size of packed operands and sums: they stay in the second level of caches. */
const MAX_BYTES = 1 << 16;

/** A tile a work-item: taps are rows, channels are lanes. */
export const weightGradient: ContractionTemplate<LanePlan> = laneTemplate(
  "weight-gradient convolution",
  (kernel, target) => isTileable(kernel, target) ? mappingOf(kernel, target) : null,
  ({ kernel: { outer, sizes }, mapping: { share } }) =>
    outer.reduce((n, s) => n * Math.ceil(sizes[s]! / (share.get(s) ?? 1)), 1),
);

/** The mapping of a contraction; null where it has another form. */
function mappingOf(kernel: LoopKernel, target: Target): LaneMapping | null {
  const { sizes } = kernel;
  const c = kernel.contraction!;
  const channel = last(c.m), position = last(c.k);
  if (c.k.length < 2 || c.n.length < 2 || sizes[channel]! < MIN_LANES) return null;
  if (c.a.bounds.length > 0 || coefficient(c.a.index, position) !== 1) return null;
  const vectors = sizes[channel]! > LANES ? 2 : 1;
  const count = tapCount(kernel, Math.floor(MAX_VECTORS / vectors));
  const taps = c.n.slice(c.n.length - count), around = c.n.slice(0, c.n.length - count);
  if (extent(kernel, taps) < MIN_TAPS) return null;
  // With fewer positions than taps this is a forward convolution, which sums over its taps.
  if (sizes[position]! <= sizes[last(c.n)]!) return null;
  // Taps must see neighbouring positions; other products are faster in vectors along their columns.
  if (!taps.some((s) => overlaps(kernel, s, position))) return null;
  const line = lineOf(kernel, taps, position);
  const room = Math.min(MAX_BYTES, target.localMemory / 4) / 4;
  const counts = new Map([...c.n, position].map((s) => [s, sizes[s]!]));
  const width = vectors * LANES;
  for (const block of divisors(around.length > 0 ? sizes[around[0]!]! : 1)) {
    if (around.length > 0) counts.set(around[0]!, block);
    if (extent(kernel, c.n.slice(1)) * block * width > room && block > 1) continue;
    for (const lines of divisors(line === null ? 1 : sizes[line]!)) {
      if (lines * sizes[position]! * width > room) continue;
      if (line !== null) counts.set(line, lines);
      const window = windowBox(kernel, c.b, counts, position);
      if (!window || window.size > room) continue;
      const positions = [...c.k].filter((s) => s === line || s === position);
      const summed = positions.map((s) => [s, counts.get(s)!] as const);
      const channels = transposedBox(kernel, c.a, new Map([...summed, [channel, width]]), channel)!;
      return {
        lane: channel,
        width: LANES,
        starts: Array.from({ length: vectors }, (_, v) => v * LANES),
        rows: taps.map((s) => [s, sizes[s]!]),
        share: new Map([
          [channel, width],
          ...[...around.slice(1), ...taps].map((s) => [s, sizes[s]!] as const),
          ...around.slice(0, 1).map((s) => [s, block] as const),
        ]),
        order: [...around.slice(0, 1), channel, ...[...c.batch, ...c.m.slice(0, -1)].toReversed()],
        steps: [
          ...c.k.filter((s) => !positions.includes(s)).map((s) => over(s)),
          ...line === null ? [over(position, sizes[position])] : [over(line, lines)],
          { do: "pack", operand: "a" },
          { do: "pack", operand: "b" },
          ...around.map((s) => over(s)),
        ],
        boxes: { a: channels, b: window },
        clipped: [channel],
        stores: "single",
        reloads: "terms",
        isFixed: true,
      };
    }
  }
  return null;
}

/** Number of the columns' innermost loops that fit a tile together. */
function tapCount(kernel: LoopKernel, most: number): number {
  const { n } = kernel.contraction!;
  let count = 0;
  while (count < n.length - 1 && extent(kernel, n.slice(n.length - 1 - count)) <= most) count++;
  return count;
}

/** True where two loops read the same elements of the second operand. */
function overlaps(kernel: LoopKernel, a: number, b: number): boolean {
  const { index } = kernel.contraction!.b;
  const [x, y] = [coefficient(index, a), coefficient(index, b)];
  return x > 0 && y > 0 && x <= y * 4 && y <= x * 4;
}

/** The loop over lines of positions: the one next to the innermost that a tap overlaps. */
function lineOf(kernel: LoopKernel, taps: readonly number[], position: number): number | null {
  const { k } = kernel.contraction!;
  const found = k.findLast((s) => s !== position && taps.some((t) => overlaps(kernel, s, t)));
  return found ?? null;
}
