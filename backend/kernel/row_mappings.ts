/**
 * Mappings of rows to what computes them: each is a transformation of the row program, which says where
 * long sums are cut and how many accumulators run side by side.
 */
import type { DType } from "../graph/dtype.ts";
import { type Blocks, blocksOf, flatBlocks, isBlocked } from "./accumulation.ts";
import type { LoopKernel } from "./kernel.ts";
import {
  type BlockedSums,
  mapReductions,
  type ReduceStep,
  type RowProgram,
} from "./row_program.ts";

/** The sums of a step that are added up in blocks, where `blocks` are some. */
function blockedSums(
  { reductions }: LoopKernel,
  step: ReduceStep,
  blocks: Blocks | null,
  keepsPrecision: (dtype: DType) => boolean = () => false,
): BlockedSums | null {
  const sums = step.reductions.filter((r) =>
    isBlocked(reductions[r]!) && !keepsPrecision(reductions[r]!.dtype)
  );
  return blocks === null || sums.length === 0 ? null : { blocks, sums };
}

/**
 * The mapping to items, each of which walks the loops of a row one after the other.
 *
 * @param keepsPrecision The types whose sums a language computes in more precision than they have.
 */
export function inItems(
  kernel: LoopKernel,
  program: RowProgram,
  keepsPrecision: (dtype: DType) => boolean,
): RowProgram {
  return mapReductions(program, (step) => ({
    blocked: blockedSums(kernel, step, blocksOf(kernel), keepsPrecision),
  }));
}

/** The mapping to groups: `items` work-items walk the elements of a row together, as one loop. */
export function inGroups(
  kernel: LoopKernel,
  program: RowProgram,
  length: number,
  items: number,
): RowProgram {
  const blocks = flatBlocks(Math.ceil(length / items));
  return mapReductions(program, (step) => ({ blocked: blockedSums(kernel, step, blocks) }));
}

/**
 * The mapping to vectors of `lanes` along one inner loop: lanes are parts of one result.
 *
 * @param copiesOf How many vectors of each accumulator there are.
 */
export function inVectorRows(
  kernel: LoopKernel,
  program: RowProgram,
  along: number,
  lanes: number,
  copiesOf: (step: ReduceStep) => number,
): RowProgram {
  return mapReductions(program, (step) => {
    const copies = copiesOf(step), width = lanes * copies;
    const found = blocksOf(kernel, (s, size) => s === along ? Math.ceil(size / width) : size);
    const blocks = found?.symbol === along ? { ...found, length: found.length * width } : found;
    return { copies, blocked: blockedSums(kernel, step, blocks) };
  });
}

/** The mapping to columns: each lane of `copies` vectors is a row of its own. */
export function inVectorColumns(
  kernel: LoopKernel,
  program: RowProgram,
  copies: number,
): RowProgram {
  const blocks = blocksOf(kernel);
  return mapReductions(program, (step) => ({ copies, blocked: blockedSums(kernel, step, blocks) }));
}
