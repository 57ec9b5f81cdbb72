/**
 * Temporaries: tensors that an operation, `backward` or an optimizer makes on its way and that nobody
 * else has. They need not be computed again once they have been.
 */
import { NEED, type Need, type Node } from "../../../backend/internal.ts";
import { withoutGrad } from "./grad_mode.ts";
import { RecordLife } from "./records.ts";

/** Need of a tensor made now for its value after it was computed on the way. */
export let need: Need = NEED.lasting;

/**
 * Runs `fn`, whose tensors are temporaries; what leaves it for the user must be exposed.
 *
 * @param fn What to run; it must not be asynchronous.
 * @param kept For how long they may be read nevertheless: by default until the next assignment.
 */
export function withTemporaries<T>(fn: () => T, kept: Need = NEED.transient): T {
  const former = need;
  need = Math.min(kept, former) as Need;
  try {
    return fn();
  } finally {
    need = former;
  }
}

/** A temporary as this module sees it. */
export interface Temporary {
  /** Its value. */
  readonly node: Node;
  /** The record of the operation that made it. */
  readonly gradFn: object | null;
  /** True until it was exposed, or has ended. */
  readonly isTemporary: boolean;
  /** Ends it, unless it was exposed. */
  endTemporary(): void;
}

/** The temporaries of the library that end with what makes them; null where they do not. */
let ending: Temporary[] | null = null;

/** Notes a temporary that was made; false where it does not end with what makes it. */
export function noteTemporary(temporary: Temporary): boolean {
  return ending !== null && ending.push(temporary) > 0;
}

/** Notes temporaries that are made from now on in a list; null for none. The caller takes it back. */
export function noteTemporaries(own: Temporary[] | null): void {
  ending = own;
}

/** True within a part of the library that ends its temporaries. */
export function areTemporariesNoted(): boolean {
  return ending !== null;
}

/**
 * Runs `fn` and ends the temporaries that it made and did not expose: what is computed from them holds
 * their values. A handle that nobody disposes of would hold them until the collector comes.
 */
export function endingTemporaries<T>(fn: () => T): T {
  const own: Temporary[] = [];
  try {
    return notingTemporaries(own, fn);
  } finally {
    endTemporaries(own);
  }
}

/** Runs a part of what ends its temporaries when all of it is done: they are added to `own`. */
export function notingTemporaries<T>(own: Temporary[], fn: () => T): T {
  const former = ending;
  ending = own;
  try {
    return fn();
  } finally {
    ending = former;
  }
}

/**
 * Ends those that were not exposed; they are no longer in `own`. Records that were made with them keep their
 * values: a gradient function may have captured any.
 */
export function endTemporaries(own: Temporary[]): void {
  const records = new Set<RecordLife>();
  for (const { gradFn } of own) {
    if (gradFn instanceof RecordLife && !gradFn.isOfCall) records.add(gradFn);
  }
  if (records.size > 0) RecordLife.join([...records], own.map(({ node }) => node));
  for (let last = own.pop(); last !== undefined; last = own.pop()) last.endTemporary();
}

/** Runs a function of the user on the way: what it makes is the user's to keep. */
export function calledByUser<T>(fn: () => T): T {
  const former = ending;
  ending = null;
  try {
    return fn();
  } finally {
    ending = former;
  }
}

/** Says what tensors that are made from now on are needed for; the caller takes it back. */
export function setNeed(next: Need): void {
  need = next;
}

/** Runs a part of an operation: its tensors are temporaries, and it is not recorded. */
export function internally<T>(fn: () => T, kept: Need = NEED.transient): T {
  return withoutGrad(() => withTemporaries(fn, kept));
}

/** Runs a part of the library {@linkcode internally}; the temporaries that it did not expose end with it. */
export function tidily<T>(fn: () => T): T {
  return endingTemporaries(() => internally(fn));
}
