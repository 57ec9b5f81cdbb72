/**
 * Calls of operations on tensors, as `compile` sees them. Every public operation is an observed one:
 * while a compiled function runs, its observer gets the call in place of the operation.
 */

import { unrecorded } from "../../backend/engine.ts";
import { composed } from "../execution/temporaries.ts";

// deno-lint-ignore no-explicit-any -- operations take what they take
export type Operation = (this: any, ...args: any[]) => unknown;

/**
 * What an operation is to who follows calls: `compute` gives tensors and has no other effect than those
 * on gradients; `leaf` brings new values from the host; `set` changes a property; the others are what
 * their names say.
 */
export type OperationKind =
  | "compute"
  | "leaf"
  | "set"
  | "assign"
  | "step"
  | "realize"
  | "dispose"
  | "read";

/** Who gets the calls of a compiled function. */
export interface CallObserver {
  /** True while operations give stand-ins: nothing is computed. */
  readonly isFollowing: boolean;
  /** An operation is called. */
  call(kind: OperationKind, fn: Operation, self: unknown, args: readonly unknown[]): unknown;
  /** The node of a tensor is asked for outside of an operation. */
  look(tensor: object): void;
  /** `fn` changes a number of `holder` that kernels read from `tensors`, outside of what is computed. */
  write(holder: object, tensors: readonly object[], fn: () => void): void;
  /** What the function does from here on cannot be replayed. */
  giveUp(reason: string): void;
  /** The value with real tensors for stand-ins, once there are any. */
  settled<T>(value: T): T;
}

let observer: CallObserver | null = null;

/** Runs `fn` while `next` gets the calls; null for nobody. */
export function observeCalls<T>(next: CallObserver | null, fn: () => T): T {
  const former = observer;
  observer = next;
  try {
    return fn();
  } finally {
    observer = former;
  }
}

/** Runs `fn` as no part of a compiled function. */
export function unobserved<T>(fn: () => T): T {
  return observer === null ? fn() : observeCalls(null, () => unrecorded(fn));
}

/** Calls an operation, or tells the observer of the call. */
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
  return kind === "compute" ? composed(fn, self, args) : fn.apply(self, args);
}

/** The operation with its calls observed. */
export function observed<F extends Operation>(fn: F, kind: OperationKind): F {
  const call = function (this: unknown, ...args: unknown[]): unknown {
    return observedCall(kind, fn, this, args);
  };
  Object.defineProperties(call, { name: { value: fn.name }, length: { value: fn.length } });
  return call as F;
}

/** Has the calls of a class's methods observed; `kinds` names those that are not `others`, null for none. */
export function observeMethods(
  holder: object,
  kinds: Readonly<Record<string, OperationKind | null>>,
  others: OperationKind | null,
): void {
  for (const name of Object.getOwnPropertyNames(holder)) {
    const property = Object.getOwnPropertyDescriptor(holder, name)!;
    const kind = Object.hasOwn(kinds, name) ? kinds[name] ?? null : others;
    if (kind === null || name === "constructor") continue;
    if (kind === "set" && property.set) property.set = observed(property.set, kind);
    else if (typeof property.value === "function") property.value = observed(property.value, kind);
    else continue;
    Object.defineProperty(holder, name, property);
  }
}

/** True while a compiled function runs that is recorded or followed. */
export function isObserved(): boolean {
  return observer !== null;
}

/** True while a compiled function is followed: nothing is to be computed. */
export function isFollowing(): boolean {
  return observer !== null && observer.isFollowing;
}

/** See {@linkcode CallObserver.look}. */
export function look(tensor: object): void {
  if (observer !== null) observer.look(tensor);
}

/** See {@linkcode CallObserver.write}. */
export function writeAside(holder: object, tensors: readonly object[], fn: () => void): void {
  if (observer === null) fn();
  else observer.write(holder, tensors, fn);
}

/** See {@linkcode CallObserver.giveUp}. */
export function giveUpReplay(reason: string): void {
  observer?.giveUp(reason);
}

/** See {@linkcode CallObserver.settled}. */
export function settled<T>(value: T): T {
  return observer === null ? value : observer.settled(value);
}
