/**
 * Blocks of float sums, for every writer of kernels. A running sum loses up to half a
 * unit in the last place with each addition, so its error grows with its length. Here a block of few
 * terms is added up by itself, and blocks are added to the total together with what each addition
 * rounds off (Knuth's TwoSum): the error of any sum is that of one block.
 */
import { isFloat } from "../graph/dtype.ts";
import type { LoopKernel, Reduction } from "./kernel.ts";

/** Terms that one accumulator adds up in a row. */
const BLOCK_TERMS = 64;
/** The same for sums of products, whose accumulators are many: as many as a BLAS adds up in a row. */
export const BLOCK_PRODUCTS = 512;

/** The loop that is cut into blocks, and how many of its iterations are one. */
export interface Blocks {
  readonly symbol: number;
  readonly length: number;
}

/** True for reductions whose rounding errors grow with their length. */
export const isBlocked = ({ fn, dtype }: Reduction): boolean => fn === "sum" && isFloat(dtype);

/**
 * Cuts of a kernel's inner loops into blocks; null where all of them are one block.
 *
 * @param terms How often an accumulator is added to in one run of a loop.
 * @param most Terms of a block.
 */
export function blocksOf(
  { inner, sizes, chunk }: LoopKernel,
  terms: (symbol: number, size: number) => number = (_, size) => size,
  most = BLOCK_TERMS,
): Blocks | null {
  let within = 1;
  for (const symbol of inner.toReversed()) {
    const size = chunk?.symbol === symbol ? chunk.length : sizes[symbol]!;
    const count = terms(symbol, size);
    if (within * count > most) return { symbol, length: evenly(count, within * count, most) };
    within *= count;
  }
  return null;
}

/** Blocks of one loop of `count` iterations over all symbols. */
export function flatBlocks(count: number): Blocks | null {
  return count > BLOCK_TERMS ? { symbol: -1, length: evenly(count, count, BLOCK_TERMS) } : null;
}

function evenly(count: number, terms: number, most: number): number {
  return Math.ceil(count / Math.ceil(terms / most));
}
