/** After which launches of a replay the gradients are final that somebody waits for. */
import { type Block, dtypes } from "../../backend/internal.ts";
import type { GradientReceiver } from "../core/gradient_receiver.ts";
import { stateOf } from "../core/internals.ts";
import type { Tensor } from "../core/mod.ts";
import type { BlockSlot, RecordedProgram } from "./program.ts";

/** A group of gradients that are final after one launch. */
interface Mark {
  /** The launch; -1 where they are there before the first. */
  readonly launch: number;
  /** Null for a leaf without a gradient. */
  readonly slots: readonly (number | null)[];
}

/** Tells a receiver of its groups while a program is replayed. */
export class GradientMarks {
  readonly #receiver: GradientReceiver;
  readonly #program: RecordedProgram;
  readonly #blocks: readonly Block[];
  readonly #marks: readonly Mark[];
  #next = 0;

  /**
   * @param left The leaves to which the call leaves gradients, in the order of the program's.
   * @param blocks Of the program's slots, which are there when the first mark is passed.
   */
  constructor(
    receiver: GradientReceiver,
    program: RecordedProgram,
    left: readonly (readonly [leaf: Tensor, gradient: Tensor])[],
    blocks: readonly Block[],
  ) {
    this.#receiver = receiver;
    this.#program = program;
    this.#blocks = blocks;
    this.#marks = marksOf(receiver, program, left.map(([leaf]) => leaf));
  }

  /**
   * Allocates blocks for new gradients where their receiver would like them to be.
   *
   * @param places Is given them, by their slots; the caller's to release.
   */
  allocate(places: Map<number, Block>): void {
    this.#marks.forEach(({ slots }, k) => {
      const { leaves, allocate } = this.#receiver.groups[k]!;
      const areNew = slots.every((slot, k) =>
        slot !== null && !places.has(slot) && isNew(this.#program.slots[slot]!, leaves[k]!)
      );
      if (!areNew || new Set(slots).size < slots.length) return;
      allocate()?.forEach((block, k) => places.set(slots[k]!, block));
    });
  }

  /** To be called with -1, and after each launch. */
  passed(launch: number): void {
    for (; this.#marks[this.#next] && this.#marks[this.#next]!.launch <= launch; this.#next++) {
      const { slots } = this.#marks[this.#next]!;
      const gradients = slots.map((slot) => slot === null ? null : this.#blocks[slot]!);
      this.#receiver.enqueued(this.#next, gradients);
    }
  }
}

/** Of the first groups, as far as the program has all of their gradients. */
function marksOf(
  { groups }: GradientReceiver,
  program: RecordedProgram,
  leaves: readonly Tensor[],
): Mark[] {
  const slots = new Map(leaves.map((leaf, k) => [leaf, program.gradients[k]!.slot]));
  const marks: Mark[] = [];
  let last = -1;
  for (const { leaves } of groups) {
    // A gradient that was there before and that the program leaves alone has no slot.
    if (leaves.some((leaf) => !slots.has(leaf) && stateOf(leaf).grad !== null)) break;
    const own = leaves.map((leaf) => slots.get(leaf) ?? null);
    for (const slot of own) if (slot !== null) last = Math.max(last, program.lastWrites[slot]!);
    marks.push({ launch: last, slots: own });
  }
  return marks;
}

/** True when each call makes the block of a slot, for the gradient of a leaf. */
function isNew(slot: BlockSlot, { size, dtype }: Tensor): boolean {
  return slot.kind === "fresh" && slot.nbytes === size * dtypes[dtype].bytes;
}
