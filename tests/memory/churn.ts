/** Allocations and releases in a random order, the same in every run. */
import { randomNumbers } from "./transformer_trace.ts";

interface Block {
  release(): void;
}

/** Allocations of a run, and the number that live. */
interface Churn {
  readonly seed: number;
  readonly steps: number;
  /** The number of blocks that live before any is released. */
  readonly live: number;
  /** The share of releases among the steps from then on. */
  readonly share: number;
  /** The bytes of an allocation, from a number from 0 to 1. */
  readonly size: (random: number) => number;
  /** Is called after each step. */
  readonly after?: (step: number) => void;
}

/** Allocates from a pool and releases in turn; gives back the blocks that live in the end. */
export function churn<B extends Block>(
  allocate: (nbytes: number) => B,
  { seed, steps, live: most, share, size, after = () => {} }: Churn,
): B[] {
  const random = randomNumbers(seed), live: B[] = [];
  for (let step = 0; step < steps; step++) {
    if (live.length > most && random() < share) {
      const at = Math.floor(random() * live.length), block = live[at]!;
      live[at] = live.at(-1)!;
      live.pop();
      block.release();
    } else live.push(allocate(size(random())));
    after(step);
  }
  return live;
}
