/**
 * Observer of a program's work with tensors: `compile`, while it records or follows a function.
 * `operations.ts` tells it of calls; assignments, gradients and values are told of here.
 */
import { unrecorded } from "../../backend/internal.ts";
import type { Tensor } from "./mod.ts";

// deno-lint-ignore no-explicit-any -- operations take what they take
export type Operation = (this: any, ...args: any[]) => unknown;

/**
 * Kind of an operation for observers: `compute` gives tensors and has no other effect than those
 * on gradients; `walk` is a part of `backward`; `leaf` brings new values from the host; `set` changes a
 * property; `hook` changes the number of hooks by its last argument; the others are what their names say.
 */
export type OperationKind =
  | "compute"
  | "walk"
  | "leaf"
  | "set"
  | "hook"
  | "assign"
  | "step"
  | "realize"
  | "dispose"
  | "read";

/** Observer of a compiled function's calls. */
export interface CallObserver {
  /** True while operations give stand-ins: nothing is computed. */
  readonly isFollowing: boolean;
  /** An operation is called. */
  call(kind: OperationKind, fn: Operation, self: unknown, args: readonly unknown[]): unknown;
  /** The node of a tensor is asked for outside of an operation. */
  look(tensor: object): void;
  /**
   * `fn` changes numbers of `holder` that kernels read from `tensors`, outside of what is computed. Where
   * they were used before, a replay ends first.
   */
  write(holder: object, tensors: readonly object[], fn: () => void): void;
  /** Tells that the rest of the call cannot be replayed; nor can later calls, unless the reason is `passing`. */
  giveUp(reason: string, isPassing: boolean): void;
  /** The value with real tensors for stand-ins, once there are any. */
  resolved<T>(value: T): T;
}

/** Observer of the calls now; null for nobody. */
export let observer: CallObserver | null = null;

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

/** True while a compiled function runs that is recorded or followed. */
export function isObserved(): boolean {
  return observer !== null;
}

let isTransformed = false;

/** True within a function that is differentiated or called for a batch: a compiled one has no graph of its own. */
export function isTransforming(): boolean {
  return isTransformed;
}

/** Runs a function that is transformed. */
export function transforming<T>(fn: () => T): T {
  const former = isTransformed;
  isTransformed = true;
  try {
    return fn();
  } finally {
    isTransformed = former;
  }
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
export function giveUpReplay(reason: string, { isPassing = false } = {}): void {
  observer?.giveUp(reason, isPassing);
}

/** See {@linkcode CallObserver.resolved}. */
export function resolved<T>(value: T): T {
  return observer === null ? value : observer.resolved(value);
}

let assignmentObserver: ((tensor: Tensor) => void) | null = null;

/** Tells `observer` of every `assign` while `fn` runs. */
export function observeAssignments<T>(observer: (tensor: Tensor) => void, fn: () => T): T {
  const former = assignmentObserver;
  assignmentObserver = observer;
  try {
    return fn();
  } finally {
    assignmentObserver = former;
  }
}

/** A tensor has got another value. */
export function tellAssigned(tensor: Tensor): void {
  if (assignmentObserver !== null) assignmentObserver(tensor);
}

/** Gets a tensor with its gradient and, where that is replaced, the next one. */
type GradientObserver = (tensor: Tensor, now: Tensor | null, next?: Tensor | null) => void;

let gradientObserver: GradientObserver | null = null;

/** Tells `observer` of every look at a tensor's gradient, and every change, while `fn` runs. */
export function observeGradients<T>(observer: GradientObserver, fn: () => T): T {
  const former = gradientObserver;
  gradientObserver = observer;
  try {
    return fn();
  } finally {
    gradientObserver = former;
  }
}

/** True while somebody is told of gradients. */
export function areGradientsObserved(): boolean {
  return gradientObserver !== null;
}

/** A tensor's gradient is looked at, or is about to be replaced. */
export function tellGradient(tensor: Tensor, now: Tensor | null, next?: Tensor | null): void {
  if (gradientObserver !== null) gradientObserver(tensor, now, next);
}
