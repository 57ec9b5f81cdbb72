import type { LiveAllocation } from "./errors.ts";

interface Allocation {
  readonly nbytes: number;
  readonly label?: string | undefined;
}

/**
 * Adds allocations up by where they were made.
 *
 * @param blocks The allocations.
 * @param originOf Where one was made. Default: its label.
 * @param most How many sums to give.
 * @returns The largest sums, largest first.
 */
export function largestByOrigin<T extends Allocation>(
  blocks: Iterable<T>,
  originOf: (block: T) => string = ({ label }) => label ?? "unlabelled",
  most = 5,
): LiveAllocation[] {
  const sums = new Map<string, { origin: string; count: number; nbytes: number }>();
  for (const block of blocks) {
    const origin = originOf(block);
    const sum = sums.get(origin) ?? { origin, count: 0, nbytes: 0 };
    sum.count++;
    sum.nbytes += block.nbytes;
    sums.set(origin, sum);
  }
  return [...sums.values()].sort((a, b) => b.nbytes - a.nbytes).slice(0, most);
}
