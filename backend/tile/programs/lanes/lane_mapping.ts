/** The part of a work-item in a product of CPU devices, as data: what is on lanes, in registers, packed. */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import type { E } from "../../language/expression.ts";
import type { Box } from "./box.ts";

/** A step of a work-item around its tiles. */
export type Step =
  /** Goes over a loop's iterations, so many at a time. */
  | { readonly do: "loop"; readonly symbol: number; readonly by: number }
  | { readonly do: "pack"; readonly operand: "a" | "b" };

export type LoopStep = Extract<Step, { do: "loop" }>;

/** A step over a loop, so many iterations at a time. */
export const over = (symbol: number, by = 1): Step => ({ do: "loop", symbol, by });

/** A work-item's part of a product. */
export interface LaneMapping {
  /** The loop along vectors, of the columns or of the sum, floats of a vector, and the first lane of each. */
  readonly lane: number;
  readonly width: number;
  readonly starts: readonly number[];
  /** Loops whose iterations have sums of their own in registers, so many each. */
  readonly rows: readonly (readonly [symbol: number, count: number])[];
  /** Iterations of the outer loops that a work-item takes; of others one. */
  readonly share: ReadonlyMap<number, number>;
  /** Outer loops as work-items count them, the first one fastest. */
  readonly order: readonly number[];
  readonly steps: readonly Step[];
  /** Operands that are packed. */
  readonly boxes: { readonly a?: Box; readonly b?: Box };
  /** The one of them that a kernel before it has packed for all work-items, in whole vectors behind the outputs. */
  readonly kept?: "a" | "b";
  /** Loops whose last tile reaches beyond the end; others are moved back, onto what the one before has. */
  readonly clipped?: readonly number[];
  /** Inner loops that are written out, so that equal elements are read once. */
  readonly unrolled?: readonly number[];
  /** Results lie along the lanes, or along `turned`, a loop of rows, or are stored one by one. */
  readonly stores: "lanes" | "turned" | "single";
  /**
   * A tile asks once if all its results along the lanes count, and then for none of them: fewer tests, and twice
   * the text of what follows a sum.
   */
  readonly asksOnce?: boolean;
  /** Terms before their turn at which vectors are asked for. */
  readonly prefetch?: number;
  /** Asks before the sum for what results need. */
  readonly expects?: boolean;
  /** Scalars are read from memory again: for each term, or for each row of vectors. */
  readonly reloads?: "terms" | "each";
  /** Index of a result, which is then given in place of those of all outer loops. */
  readonly target?: AffineExpr;
  /** Sizes are numbers of the text. */
  readonly isFixed: boolean;
}

/** Place of a loop: its first iteration, the first that no tile before has, and its end. */
export interface At {
  readonly first: E;
  readonly fresh: E;
  readonly end: E;
  /** The turn of the step that goes over it. */
  readonly turn?: E;
}

/** The sums of a row of a tile, and how far the row's loops are moved. */
export interface Row {
  readonly moved: ReadonlyMap<number, number>;
  readonly sums: readonly E[];
}

export type Loops = ReadonlyMap<number, At>;

/** The indices of some iterations of loops: all combinations. */
export const iterations = (
  loops: readonly (readonly [symbol: number, count: number])[],
): Map<number, number>[] =>
  loops.reduce<Map<number, number>[]>(
    (all, [s, count]) =>
      all.flatMap((moved) => Array.from({ length: count }, (_, k) => new Map([...moved, [s, k]]))),
    [new Map()],
  );

/** Iterations of an outer loop that a work-item takes. */
export const shareOf = ({ share }: LaneMapping, symbol: number): number => share.get(symbol) ?? 1;

/** Work-items along a loop. */
export const turnsOf = ({ sizes }: LoopKernel, mapping: LaneMapping, symbol: number): number =>
  Math.ceil(sizes[symbol]! / shareOf(mapping, symbol));

/** Loops of work-items that read different elements of the operand that is kept, the first one fastest. */
export function keptLoops(kernel: LoopKernel, mapping: LaneMapping): readonly number[] {
  const { index } = kernel.contraction![mapping.kept!];
  return mapping.order.filter((s) =>
    coefficient(index, s) !== 0 && turnsOf(kernel, mapping, s) > 1
  );
}

/** Boxes of the operand that is kept. */
export const keptBoxes = (kernel: LoopKernel, mapping: LaneMapping): number =>
  keptLoops(kernel, mapping).reduce((n, s) => n * turnsOf(kernel, mapping, s), 1);

export const isClipped = ({ clipped }: LaneMapping, symbol: number): boolean =>
  clipped?.includes(symbol) ?? false;

/** Iterations of all loops of a sum, and of some others. */
export const countsOf = (
  { inner, sizes }: LoopKernel,
  others: Iterable<readonly [symbol: number, count: number]>,
): Map<number, number> => new Map([...inner.map((s) => [s, sizes[s]!] as const), ...others]);
