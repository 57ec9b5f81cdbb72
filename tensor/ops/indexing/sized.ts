/** Results whose size is a value: the number is read on the way, at once or without blocking. */
import { phraseOf } from "../../core/rules/options.ts";
import { isRecording, NEED } from "../../../backend/internal.ts";
import { compute, given } from "../../core/operations.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import {
  areTemporariesNoted,
  endTemporaries,
  need,
  notingTemporaries,
  type Temporary,
  withTemporaries,
} from "../../core/modes/temporaries.ts";
import type { Tensor } from "../../core/mod.ts";

/** An operation up to the point where the size of its result must be read. */
export interface Sized<R> {
  /** The operation. */
  readonly op: string;
  /** An operation whose result has a fixed size, for the error of a compiled function. */
  readonly remedy: string;
  /** The size, a tensor of one element; null where there is nothing to count. */
  readonly size: Tensor | null;
  /** The rest of the operation. */
  readonly finish: (size: number) => R;
}

/** The operation, which waits for the size and blocks the event loop meanwhile. */
export function sizedNow<A extends unknown[], R>(fn: (...args: A) => Sized<R>): (...args: A) => R {
  return (...args) => {
    const own = ownTemporaries();
    try {
      const { op, remedy, size, finish } = own.run(() => fn(...args));
      const count = size === null ? 0 : readSize(op, size, remedy);
      return own.run(() => finish(count));
    } finally {
      own.end();
    }
  };
}

/** The operation, which waits for the size and lets the event loop run meanwhile. */
export function sizedLater<A extends unknown[], R>(
  fn: (...args: A) => Sized<R>,
): (...args: A) => Promise<R> {
  return async (...args) => {
    const own = ownTemporaries();
    try {
      const { op, remedy, size, finish } = own.run(() => fn(...args));
      if (size !== null) requireReadable(op, remedy);
      const count = size === null ? 0 : await itemOf(size);
      return own.run(() => finish(count));
    } finally {
      own.end();
    }
  };
}

async function itemOf(size: Tensor): Promise<number> {
  using given = size;
  return await given.item();
}

/**
 * The temporaries of an operation in two parts. They end with it: views of what was counted would hold
 * it until they are collected. On the way of another operation they are that one's.
 */
function ownTemporaries(): { run<R>(part: () => R): R; end(): void } {
  if (areTemporariesNoted()) return { run: (part) => part(), end: () => {} };
  const own: Temporary[] = [], isLasting = need === NEED.lasting;
  return {
    run: (part) =>
      notingTemporaries(own, () => compute(() => given(withTemporaries(part), isLasting))),
    end: () => endTemporaries(own),
  };
}

/**
 * The number, read now: the size of a result that depends on values. Its tensor is given up: a view
 * that nothing computes would hold what it is a view of until it is collected.
 *
 * @throws {Error} In a compiled function, with the remedy.
 */
export function readSize(op: string, size: Tensor, remedy: string): number {
  using given = size;
  requireReadable(op, remedy);
  using value = withoutGrad(() => given.detach());
  return value.itemSync();
}

function requireReadable(op: string, remedy: string): void {
  if (!isRecording()) return;
  throw new Error(
    `Cannot ${
      phraseOf(op)
    } inside a compiled function: the size of its result depends on values, which are ` +
      `read only outside; ${remedy}`,
  );
}
