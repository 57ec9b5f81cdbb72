/**
 * Calls of the public face's operations: `compile` is told of the call where it listens, and the tensors that
 * the operation makes on the way to its results are temporaries, which end with the call. What gradient
 * functions have captured of them lives as long as the call's records: `modes/records.ts`.
 */
import { NEED, type Need } from "../../backend/internal.ts";
import type { Tensor } from "./mod.ts";
import { distinct } from "./apply.ts";
import { observer, type Operation, type OperationKind } from "./calls.ts";
import { isTensor, stateOf } from "./internals.ts";
import {
  areTemporariesNoted,
  endTemporaries,
  need,
  noteTemporaries,
  setNeed,
  type Temporary,
} from "./modes/temporaries.ts";

/** One of several operations that a function computes; `name` is that of its method. */
export function variant<First, A extends unknown[], R>(
  name: string,
  fn: (first: First, ...args: A) => R,
  first: First,
): (...args: A) => R {
  const one = (a: unknown, b: unknown, c: unknown, d: unknown): R =>
    (fn as (...args: unknown[]) => R)(first, a, b, c, d);
  return Object.defineProperty(one, "name", { value: name }) as (...args: unknown[]) => R;
}

/**
 * Calls an operation that gives tensors and has no other effect.
 *
 * @param fn The operation: a function that is the same one in every call, since `compile` knows the
 * call again by it.
 * @param args Its arguments, four at most; those that are left out are undefined.
 */
export function compute<A extends unknown[], R>(fn: (...args: A) => R, ...args: A): R;
export function compute(
  fn: Operation,
  a?: unknown,
  b?: unknown,
  c?: unknown,
  d?: unknown,
): unknown {
  if (observer !== null) return observer.call("compute", fn, undefined, listed(a, b, c, d));
  if (areTemporariesNoted()) return another(fn(a, b, c, d), a, fn);
  const former = need, made = beginCall();
  try {
    return given(another(fn(a, b, c, d), a, fn), former === NEED.lasting);
  } finally {
    endCall(made, former);
  }
}

/**
 * Has the caller keep a tensor, or those in an array or a plain object; gives the value.
 *
 * @param isLasting True where they may be read at any time.
 */
export function given<T>(value: T, isLasting = true): T {
  if (isTensor(value)) {
    const state = stateOf(value);
    if (isLasting) state.expose();
    else state.leave();
  } else if (typeof value === "object" && value !== null) {
    for (const item of Object.values(value)) given(item, isLasting);
  }
  return value;
}

/** Lists of former calls, which are empty. */
const lists: Temporary[][] = [];

/** Begins a call that is no part of another: what it makes is noted in the list that it gives. */
function beginCall(): Temporary[] {
  const made = lists.pop() ?? [];
  noteTemporaries(made);
  if (need === NEED.lasting) setNeed(NEED.transient);
  return made;
}

/** Ends a call: what it has made and not given ends with it. */
function endCall(made: Temporary[], former: Need): void {
  noteTemporaries(null);
  setNeed(former);
  // Most operations make their result alone.
  if (made.length === 1 && !made[0]!.isTemporary) made.pop();
  else if (made.length > 0) endTemporaries(made);
  lists.push(made);
}

/**
 * Calls a function that does something with a tensor, such as to read it or to assign to it.
 *
 * @param kind What it does.
 * @param fn The function, the same one in every call.
 * @param x The tensor.
 * @param args What else the function takes, three values at most.
 */
export function act<A extends unknown[], R>(
  kind: OperationKind,
  fn: (x: Tensor, ...args: A) => R,
  x: Tensor,
  ...args: A
): R;
export function act(
  kind: OperationKind,
  fn: Operation,
  x: Tensor,
  a?: unknown,
  b?: unknown,
  c?: unknown,
): unknown {
  return observer === null ? fn(x, a, b, c) : observer.call(kind, fn, x, listed(x, a, b, c));
}

/**
 * The result of an operation; where it had nothing to do, and gave what it got, another tensor of the same
 * value, so that disposing of one leaves the other.
 */
function another(result: unknown, first: unknown, fn: Operation): unknown {
  return result === first && isTensor(result) ? distinct(fn.name, result) : result;
}

/** The arguments up to the last one that is there. */
function listed(...args: unknown[]): unknown[] {
  while (args.length > 0 && args.at(-1) === undefined) args.pop();
  return args;
}

/** Calls an operation with any arguments, or tells the observer of the call. */
export function observedCall(
  kind: OperationKind,
  fn: Operation,
  self: unknown,
  args: unknown[],
): unknown {
  return observer === null
    ? callOperation(kind, fn, self, args)
    : observer.call(kind, fn, self, args);
}

/** Calls an operation: the tensors that it makes on its way to its results are temporaries. */
export function callOperation(
  kind: OperationKind,
  fn: Operation,
  self: unknown,
  args: unknown[],
): unknown {
  if (kind !== "compute") return fn.apply(self, args);
  if (areTemporariesNoted()) return another(fn.apply(self, args), args[0], fn);
  const former = need, made = beginCall();
  try {
    return given(another(fn.apply(self, args), args[0], fn), former === NEED.lasting);
  } finally {
    endCall(made, former);
  }
}

/** The operation with its calls observed. */
export function observed<F extends Operation>(fn: F, kind: OperationKind): F {
  const call = function (this: unknown, ...args: unknown[]): unknown {
    return observedCall(kind, fn, this, args);
  };
  Object.defineProperties(call, { name: { value: fn.name }, length: { value: fn.length } });
  return call as F;
}
