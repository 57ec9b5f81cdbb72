/** Launches of a transform: one where a line fits a group, else columns and rows of a longer line. */
import { hasLines, isLaunch, type Lines, transformLines } from "./lines.ts";
import { runsInGroups } from "../../ops/custom/device_kernel.ts";
import type { Shape } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";
import { balancedFactor } from "./line_plan.ts";
import { circleOf } from "./tables.ts";

/** The launches of a transform, in order; each reads what the one before has written. */
export type Launches = readonly Lines[];

/** Elements of a tensor before an axis, along it and behind it. */
function around(shape: Shape, axis: number): [before: number, n: number, behind: number] {
  const product = (part: Shape) => part.reduce((all, side) => all * side, 1);
  return [product(shape.slice(0, axis)), shape[axis]!, product(shape.slice(axis + 1))];
}

/** The launches if the device has a text for each. */
function possible(x: Tensor, launches: Launches): Launches | null {
  return launches.every((lines) => isLaunch(x, lines)) ? launches : null;
}

/** Results of the launches. */
export function launched(inputs: readonly Tensor[], launches: Launches): Tensor[] {
  return launches.reduce(
    (given, lines) => transformLines(given, lines, () => circleOf(inputs[0]!, lines.n)),
    [...inputs],
  );
}

/** Columns and rows of a line of `n` numbers: D. Bailey's four steps (1990) in two. */
function columnsAndRows(
  x: Tensor,
  n: number,
  first: number,
  samples: number,
  ends: { reads: Partial<Lines>; writes: Partial<Lines> & { scale: number; shape: Shape } },
): Launches | null {
  const second = n / first, across = [1, second, n] as const;
  // Pairs of parts are fetched at once; vectors have parts.
  const middle = runsInGroups(x.device)
    ? { form: "pairs", shape: [...ends.writes.shape.slice(0, -1), n, 2] } as const
    : { form: "parts", shape: [...ends.writes.shape.slice(0, -1), n] } as const;
  const columns: Lines = {
    ...{ n: first, count: second, samples, scale: 1, turn: n },
    ...{ reads: across, writes: across, to: middle.form, shape: middle.shape, ...ends.reads },
  };
  const rows: Lines = {
    ...{ n: second, count: first, samples, turn: 0, from: middle.form },
    ...{ reads: [second, 1, n], writes: [1, first, n], ...ends.writes },
  };
  return first === 1 ? null : possible(x, [columns, rows]);
}

/** Launches of transforms of complex numbers along an axis, or of reals; null where there are none. */
export function complexLaunches(
  x: Tensor,
  axis: number,
  scale: number,
  from: "parts" | "reals",
): Launches | null {
  if (!hasLines(x.device)) return null;
  const { shape } = x, [before, n, behind] = around(shape, axis);
  const place = behind > 1 ? [1, behind, n * behind] as const : [n, 1, x.size] as const;
  const one: Lines = {
    ...{ n, count: behind > 1 ? behind : before, samples: behind > 1 ? before : 1 },
    ...{ scale, turn: 0, reads: place, writes: place, from, shape },
  };
  if (behind > 1 || isLaunch(x, one)) return possible(x, [one]);
  const ends = { reads: { from }, writes: { scale, shape } };
  return columnsAndRows(x, n, balancedFactor(n), before, ends);
}

/** True for lengths of real signals that are transformed as half as many pairs. */
function isEven(n: number): boolean {
  return n % 2 === 0 && n > 2;
}

/** Launches that give the frequencies of real signals along the last axis, half of them or the whole. */
export function signalLaunches(
  x: Tensor,
  scale: number,
  extent: "half" | "whole",
): Launches | null {
  const n = x.shape.at(-1)!, pairs = n / 2, length = extent === "half" ? pairs + 1 : n;
  if (!hasHalves(x) || !isEven(n)) return null;
  const rows = x.size / n, shape = [...x.shape.slice(0, -1), length];
  const one: Lines = {
    ...{ n: pairs, count: rows, samples: 1, scale, turn: 0, from: "pairs", extent, shape },
    ...{ reads: [pairs, 1, x.size / 2], writes: [length, 1, rows * length] },
  };
  if (isLaunch(x, one)) return [one];
  const second = balancedFactor(pairs), first = pairs / second;
  const writes = [1, first, length] as const;
  return columnsAndRows(x, pairs, first, rows, {
    reads: { from: "pairs" },
    writes: { writes, extent, scale, shape },
  });
}

/** Launches that give real signals of `n` elements of the first half of their frequencies, n/2 + 1. */
export function inverseLaunches(x: Tensor, n: number, scale: number): Launches | null {
  if (!hasHalves(x) || !isEven(n)) return null;
  const pairs = n / 2, length = pairs + 1, rows = x.size / length;
  const shape = [...x.shape.slice(0, -1), n];
  const one: Lines = {
    ...{ n: pairs, count: rows, samples: 1, scale, turn: 0, to: "pairs", readsHalf: true, shape },
    ...{ reads: [length, 1, x.size], writes: [pairs, 1, rows * pairs] },
  };
  if (isLaunch(x, one)) return [one];
  const first = balancedFactor(pairs);
  return columnsAndRows(x, pairs, first, rows, {
    reads: { readsHalf: true, reads: [1, pairs / first, length] },
    writes: { to: "pairs", scale, shape },
  });
}

/** Launches that give the frequencies of real matrices along both axes: rows by halves, then half of the columns. */
export function planeLaunches(x: Tensor, scale: number): Launches | null {
  const [height, width] = x.shape.slice(-2) as [number, number], half = (width >> 1) + 1;
  if (!hasHalves(x) || !isEven(width) || height < 2) return null;
  const matrices = x.size / width / height, lead = x.shape.slice(0, -1), pairs = width / 2;
  const rows: Lines = {
    ...{ n: pairs, count: matrices * height, samples: 1, scale: 1, turn: 0 },
    ...{ from: "pairs", to: "pairs", extent: "half", shape: [...lead, half, 2] },
    ...{ reads: [pairs, 1, x.size / 2], writes: [half, 1, matrices * height * half] },
  };
  const columns: Lines = {
    ...{ n: height, count: half, samples: matrices, scale, turn: 0, from: "pairs", shape: x.shape },
    ...{ reads: [1, half, height * half], writes: [1, width, height * width] },
    ...{ extent: "both", columns: width },
  };
  return possible(x, [rows, columns]);
}

/** True where texts transform real signals by halves. */
function hasHalves({ device }: Tensor): boolean {
  return hasLines(device) && runsInGroups(device);
}
