/** A line search by the strong Wolfe conditions, as PyTorch's (after M. Schmidt's minFunc). */
import type { Tensor } from "../../core/mod.ts";

/** A point on the line: its place, the loss, the gradient and its part along the line. */
export interface Point {
  readonly t: number;
  readonly f: number;
  readonly g: Tensor;
  readonly slope: number;
}

/** The constants c1 and c2 of the Wolfe conditions: how much the loss must fall, the slope become flatter. */
const SUFFICIENT_DECREASE = 1e-4, CURVATURE = 0.9;
const MAX_TRIES = 25;

/**
 * A point on a line where the loss has fallen enough and is nearly flat.
 *
 * @param evaluate The point at a place.
 * @param start The point at 0, whose slope is negative.
 * @param first The place to try first.
 * @param tolerance The least change of a parameter.
 * @param largest The largest element of the direction.
 * @returns The best point that was found.
 */
export async function strongWolfe(
  evaluate: (t: number) => Promise<Point>,
  start: Point,
  first: number,
  tolerance: number,
  largest: number,
): Promise<Point> {
  const isFlat = ({ slope }: Point): boolean => Math.abs(slope) <= -CURVATURE * start.slope;
  const isHigh = ({ t, f }: Point): boolean => f > start.f + SUFFICIENT_DECREASE * t * start.slope;
  let former = start, point = await evaluate(first), tries = 0;
  let bracket: [Point, Point] | null = null;
  for (; tries < MAX_TRIES; tries++) {
    if (isHigh(point) || tries > 1 && point.f >= former.f) bracket = [former, point];
    else if (isFlat(point)) return point;
    else if (point.slope >= 0) bracket = [former, point];
    if (bracket) break;
    const bounds = [point.t + 0.01 * (point.t - former.t), point.t * 10] as const;
    const next = cubicMinimum(former, point, bounds);
    former = point;
    point = await evaluate(next);
  }
  let [low, high] = ordered(bracket ?? [start, point]);
  let hasStalled = false;
  for (; tries < MAX_TRIES; tries++) {
    if (Math.abs(high.t - low.t) * largest < tolerance) break;
    const [from, to] = low.t < high.t ? [low.t, high.t] : [high.t, low.t];
    const margin = 0.1 * (to - from);
    let t = cubicMinimum(low, high, [from, to]);
    if (Math.min(to - t, t - from) < margin) {
      if (hasStalled || t >= to || t <= from) {
        t = Math.abs(t - to) < Math.abs(t - from) ? to - margin : from + margin;
        hasStalled = false;
      } else hasStalled = true;
    } else hasStalled = false;
    point = await evaluate(t);
    if (isHigh(point) || point.f >= low.f) {
      [low, high] = ordered([low, point]);
      continue;
    }
    if (isFlat(point)) return point;
    if (point.slope * (high.t - low.t) >= 0) high = low;
    low = point;
  }
  return low;
}

function ordered([a, b]: readonly [Point, Point]): [low: Point, high: Point] {
  return a.f <= b.f ? [a, b] : [b, a];
}

/** Minimum of the cubic through two points with their slopes, within bounds. */
function cubicMinimum(a: Point, b: Point, [least, most]: readonly [number, number]): number {
  const [left, right] = a.t <= b.t ? [a, b] : [b, a];
  const d1 = left.slope + right.slope - 3 * (left.f - right.f) / (left.t - right.t);
  const square = d1 * d1 - left.slope * right.slope;
  if (!(square >= 0)) return (least + most) / 2;
  const d2 = Math.sqrt(square);
  const share = (right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2);
  return Math.min(Math.max(right.t - (right.t - left.t) * share, least), most);
}
