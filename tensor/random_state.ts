/** The state behind random tensors: a seed, and how many were drawn since. */
import type { RandomStream } from "../backend/engine.ts";

let seed = (Math.random() * 2 ** 32) | 0;
let next = 0;
let hook: ((stream: { value: number }) => void) | null = null;

/**
 * Sets the seed of every random tensor made from now on. The same seed gives the same bits on every
 * device and backend (Philox4x32-10, counter-based).
 *
 * @param value A whole number.
 * @throws {RangeError} When it is not a safe whole number.
 */
export function manualSeed(value: number): void {
  if (!Number.isSafeInteger(value)) {
    throw new RangeError(`Cannot seed with ${value}: pass a whole number`);
  }
  // The two halves are folded: seeds that differ in either give different keys.
  seed = (value ^ Math.imul(Math.floor(value / 2 ** 32), 0x9e3779b1)) | 0;
  next = 0;
}

/** The seed and the place of the next random tensor. */
export function nextRandom(): { seed: number; stream: RandomStream } {
  const stream = { value: drawStream() };
  hook?.(stream);
  return { seed, stream };
}

/** Takes the next place in the sequence of random tensors. */
export function drawStream(): number {
  const value = next;
  next = (next + 1) | 0;
  return value;
}

/** Tells `observer` of every stream that is made while `fn` runs. */
export function observeStreams<T>(observer: (stream: { value: number }) => void, fn: () => T): T {
  const former = hook;
  hook = observer;
  try {
    return fn();
  } finally {
    hook = former;
  }
}
