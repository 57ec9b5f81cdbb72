/** The state behind random tensors: a seed, and how many were drawn since. */
import {
  beginResumable,
  isDeterministic as isBackendDeterministic,
  type RandomStream,
  waitForCompiledKernels,
} from "../../backend/internal.ts";

import { giveUpReplay } from "./calls.ts";
import { checkOptions, requireValue, type Rules, shown, takes } from "./rules/options.ts";
import type { Rule } from "../../ffi/host/option_rules.ts";

/** The key of one random tensor. */
export interface RandomKey {
  readonly seed: number;
  readonly stream: RandomStream;
}

/** A whole number of 32 bits. */
const word: Rule = {
  takes: "a whole number of 32 bits, such as randomState() returns",
  accepts: (value) => typeof value === "number" && (value | 0) === value,
};

const stateRules: Rules<RandomState> = { seed: word, offset: word };

/** True for a state of the random generator, such as a file holds. */
export function isRandomState(value: unknown): value is RandomState {
  const names = Object.keys(stateRules), of = (value ?? {}) as Readonly<Record<string, unknown>>;
  return Object.keys(of).length === names.length && names.every((name) => word.accepts(of[name]));
}

let seed = (Math.random() * 2 ** 32) | 0;
let next = 0;
let offsetObserver: ((offset: { value: number }) => void) | null = null;

/**
 * Sets the seed of every random tensor made from now on. The same seed gives the same bits on every
 * device and backend (Philox4x32-10, counter-based).
 *
 * @param value A whole number.
 * @throws {RangeError} When it is not a safe whole number.
 */
export function manualSeed(value: number): void {
  if (!Number.isSafeInteger(value)) {
    throw new RangeError(`Cannot seed with ${shown(value)}: pass a whole number`);
  }
  giveUpReplay("it sets the seed");
  // The two halves are folded: seeds that differ in either give different keys.
  seed = (value ^ Math.imul(Math.floor(value / 2 ** 32), 0x9e3779b1)) | 0;
  next = 0;
}

/** Place in the sequence of random tensors; plain numbers, for JSON. */
export interface RandomState {
  /** The key of the generator: 32 bits. */
  readonly seed: number;
  /** Number of random tensors made with it, in 32 bits. */
  readonly offset: number;
}

/**
 * The state of the random generator: with {@linkcode setRandomState}, what is random from here on is
 * the same once more.
 *
 * @example
 * ```ts
 * import { randomState, setRandomState, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const state = randomState();
 * const first = await Tensor.rand([3]).toArray();
 * setRandomState(state);
 * assertEquals(await Tensor.rand([3]).toArray(), first);
 * ```
 *
 * From here on values wait for compiled kernels: see {@linkcode setDeterministic}.
 */
export function randomState(): RandomState {
  giveUpReplay("it asks for the random state");
  beginResumable();
  return { seed, offset: next };
}

/**
 * Goes on with random tensors where {@linkcode randomState} was called.
 *
 * @throws {TypeError} When it is no such state.
 * @throws {RangeError} When its numbers are no whole numbers of 32 bits.
 */
export function setRandomState(state: RandomState): void {
  requireValue("set the random state", "state", state, takes.object("what randomState() returned"));
  checkOptions("set the random state", state, stateRules, ["seed", "offset"]);
  giveUpReplay("it sets the random state");
  beginResumable();
  ({ seed, offset: next } = state);
}

/** The number of random tensors drawn so far, for {@linkcode rewindRandom}. */
export function randomPosition(): number {
  return next;
}

/** Draws the random numbers from a position on once more: they are alike for parts of one value. */
export function rewindRandom(position: number): void {
  next = position;
}

/**
 * Sets whether a program computes the same bits in every run.
 *
 * The same seed draws the same random bits in any case, and a device's kernels give the same values
 * each time. But where a compiler is slow (PoCL takes a CPU 0.05 to 1 s for a kernel that it has not
 * compiled in an earlier run), kernels that nobody has compiled yet are computed by the built-in
 * backend meanwhile, which may round the last digits in another way. When the compiled kernel takes
 * over depends on how busy the machine is. With `true` values wait for the compiled kernels.
 *
 * After {@linkcode randomState} or {@linkcode setRandomState}, and so after a checkpoint was saved or
 * loaded, values wait in any case: a run that goes on from there equals the one that saved, bit for bit.
 * Use it, or `NETCL_DETERMINISTIC=1`, where all starts must have the same bits from the first value on,
 * with kernels on disk or without.
 *
 * @param enabled `false` by default.
 * @throws {TypeError} When it is no boolean.
 *
 * @example
 * ```ts
 * import { isDeterministic, setDeterministic } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const before = isDeterministic();
 * setDeterministic(true);
 * assertEquals(isDeterministic(), true);
 * setDeterministic(before);
 * ```
 */
export function setDeterministic(enabled: boolean): void {
  requireValue("choose deterministic values", "enabled", enabled, takes.bool);
  waitForCompiledKernels(enabled);
}

/** True when {@linkcode setDeterministic} is on. */
export function isDeterministic(): boolean {
  return isBackendDeterministic();
}

/** The seed of random tensors that are made now. */
export function presentSeed(): number {
  return seed;
}

/** The seed and the place of the next random tensor. */
export function nextRandom(): RandomKey {
  const key = repeated ? repeatedKey(repeated) : newKey();
  for (const keys of noted) keys.push(key);
  return key;
}

function newKey(): RandomKey {
  const stream = { value: takeOffset() };
  offsetObserver?.(stream);
  return { seed, stream };
}

/** Takes the next place in the sequence of random tensors. */
export function takeOffset(): number {
  const value = next;
  next = (next + 1) | 0;
  return value;
}

/** Tells `observer` of the offset of every random tensor that is made while `fn` runs. */
export function observeOffsets<T>(observer: (offset: { value: number }) => void, fn: () => T): T {
  const former = offsetObserver;
  offsetObserver = observer;
  try {
    return fn();
  } finally {
    offsetObserver = former;
  }
}

/** The keys of functions that are running, to be repeated later. */
const noted: RandomKey[][] = [];

/** Runs `fn` and notes the keys of the random tensors that it makes. */
export function noteRandomKeys<T>(fn: () => T): { value: T; keys: readonly RandomKey[] } {
  const keys: RandomKey[] = [];
  noted.push(keys);
  try {
    return { value: fn(), keys };
  } finally {
    noted.splice(noted.indexOf(keys), 1);
  }
}

let repeated: { readonly keys: readonly RandomKey[]; next: number } | null = null;

function repeatedKey(repetition: { readonly keys: readonly RandomKey[]; next: number }): RandomKey {
  const key = repetition.keys[repetition.next++];
  if (key) return key;
  throw new Error(
    `Cannot repeat the function: it made ${repetition.keys.length} random tensors the first time, ` +
      `and makes more now; it must do the same again`,
  );
}

/** Runs `fn` with the random numbers that were noted; the sequence outside does not move. */
export function repeatRandomKeys<T>(keys: readonly RandomKey[], fn: () => T): T {
  const former = { repeated, seed, next };
  repeated = { keys, next: 0 };
  try {
    return fn();
  } finally {
    ({ repeated, seed, next } = former);
  }
}
