/**
 * Receiver of gradients while a replay of a compiled function computes others: it sends them
 * to other devices or ranks.
 */
import type { Block } from "../../backend/internal.ts";
import type { Tensor } from "./mod.ts";

/** Leaves whose gradients are taken together. */
export interface GradientGroup {
  readonly leaves: readonly Tensor[];
  /**
   * Blocks for the gradients of all of its leaves, where the receiver would like them to be: side by side.
   *
   * @returns The caller's to release; null where they may be anywhere.
   * @throws {OutOfMemoryError} When there is no memory for them.
   */
  allocate(): Block[] | null;
}

/** Takes gradients group by group. */
export interface GradientReceiver {
  /** In the order in which they are taken. */
  readonly groups: readonly GradientGroup[];
  /**
   * Called when the last launch that writes to a gradient of the group is enqueued, within the replay.
   *
   * @param group Counts from 0; each comes after the one before it.
   * @param gradients A block for each leaf, as long as the call lasts; null for one without a gradient.
   */
  enqueued(group: number, gradients: readonly (Block | null)[]): void;
}

let present: GradientReceiver | null = null;

/** Receiver of the gradients of the replays that run now. */
export function presentGradientReceiver(): GradientReceiver | null {
  return present;
}

/** Runs `fn`; the gradients of its replays are given to `receiver`, if there is one. */
export function withGradientReceiver<T>(receiver: GradientReceiver | null, fn: () => T): T {
  const former = present;
  present = receiver;
  try {
    return fn();
  } finally {
    present = former;
  }
}
