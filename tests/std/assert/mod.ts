/**
 * A stand-in for `@std/assert` on machines that cannot reach JSR: the functions that netcl's tests
 * use, over `node:assert`. The import map in deno.json names it; with JSR at hand,
 * "jsr:@std/assert@^1.0.19" there uses the genuine package.
 *
 * @module
 */
import { AssertionError, deepStrictEqual } from "node:assert";

export { AssertionError };

function fail(message: string): never {
  throw new AssertionError({ message });
}

/** Fails unless `condition` is truthy. */
export function assert(condition: unknown, message = "Expected a truthy value"): asserts condition {
  if (!condition) fail(message);
}

/** Fails unless both values are structurally equal. */
export function assertEquals<T>(actual: T, expected: T, message?: string): void {
  try {
    deepStrictEqual(actual, expected);
  } catch (error) {
    fail(message ? `${message}: ${(error as Error).message}` : (error as Error).message);
  }
}

/** Fails unless both are the same value or the same object. */
export function assertStrictEquals<T>(actual: unknown, expected: T, message?: string): void {
  if (!Object.is(actual, expected)) {
    fail(message ?? `Expected the same value: got ${actual}, expected ${expected}`);
  }
}

/** Fails unless the two numbers differ by at most `tolerance`. */
export function assertAlmostEquals(actual: number, expected: number, tolerance = 1e-7): void {
  if (Object.is(actual, expected)) return;
  const delta = Math.abs(expected - actual);
  if (!(delta <= tolerance)) {
    fail(`Expected ${actual} to be close to ${expected}: off by ${delta}, tolerance ${tolerance}`);
  }
}

/** Fails unless `actual` contains `expected`. */
export function assertStringIncludes(actual: string, expected: string, message?: string): void {
  if (!actual.includes(expected)) fail(message ?? `Expected "${actual}" to contain "${expected}"`);
}

/** Fails unless `actual` matches `expected`. */
export function assertMatch(actual: string, expected: RegExp, message?: string): void {
  if (!expected.test(actual)) fail(message ?? `Expected "${actual}" to match ${expected}`);
}

/** Fails unless `actual` is an instance of `type`. */
export function assertInstanceOf<T>(
  actual: unknown,
  // deno-lint-ignore no-explicit-any -- any constructor will do
  type: abstract new (...args: any[]) => T,
  message?: string,
): asserts actual is T {
  if (!(actual instanceof type)) fail(message ?? `Expected an instance of ${type.name}: ${actual}`);
}

// deno-lint-ignore no-explicit-any -- any error class will do
type ErrorClass<E extends Error> = abstract new (...args: any[]) => E;

function checkThrown<E extends Error>(thrown: unknown, type?: ErrorClass<E>, text?: string): E {
  if (!(thrown instanceof Error)) fail(`A value that is no Error was thrown: ${thrown}`);
  if (type && !(thrown instanceof type)) {
    fail(`Expected ${type.name} to be thrown: got ${thrown.name}: ${thrown.message}`);
  }
  if (text !== undefined && !thrown.message.includes(text)) {
    fail(`Expected the message to include "${text}": got "${thrown.message}"`);
  }
  return thrown as E;
}

/** Fails unless `fn` throws; returns what it threw. */
export function assertThrows<E extends Error = Error>(
  fn: () => unknown,
  type?: ErrorClass<E>,
  text?: string,
): E {
  try {
    fn();
  } catch (error) {
    return checkThrown(error, type, text);
  }
  return fail(`Expected the function to throw: ${fn}`);
}

/** Fails unless `fn` rejects; resolves to what it rejected with. */
export async function assertRejects<E extends Error = Error>(
  fn: () => PromiseLike<unknown>,
  type?: ErrorClass<E>,
  text?: string,
): Promise<E> {
  let promise: PromiseLike<unknown>;
  try {
    promise = fn();
  } catch (error) {
    return fail(`Expected a rejection: the function threw synchronously: ${error}`);
  }
  try {
    await promise;
  } catch (error) {
    return checkThrown(error, type, text);
  }
  return fail("Expected the promise to reject");
}
