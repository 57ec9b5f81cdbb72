/**
 * Scalar functions that generated JavaScript and the plain evaluator call where the language has none of
 * its own.
 */
import { fromBfloat16Bits, toBfloat16Bits } from "./dtype.ts";

/** Rounds to nearest, ties to even, as OpenCL's `rint`. */
export function roundEven(x: number): number {
  const r = Math.round(x);
  return r - x === 0.5 && r % 2 !== 0 ? r - 1 : r;
}

/** The nearest number of bfloat16. */
export const roundBfloat16 = (x: number): number => fromBfloat16Bits(toBfloat16Bits(x));

/** Python's remainder: the sign of the divisor. */
export function floatMod(a: number, b: number): number {
  const r = a % b;
  return r !== 0 && (r < 0) !== (b < 0) ? r + b : r;
}

/**
 * Python's quotient, rounded down, as PyTorch computes it: from the remainder, since `a / b` may round
 * up to the next whole number; by zero as `a / b`; NaN of an infinity.
 */
export function floatFloorDiv(a: number, b: number): number {
  if (b === 0) return a / b;
  const rest = a % b, below = rest !== 0 && (rest < 0) !== (b < 0);
  const quotient = (a - rest) / b - (below ? 1 : 0);
  if (quotient === 0) return 0 * (a / b); // a zero has a sign
  return roundEven(quotient);
}

/** C's pow: 1 to any power and anything to 0 are 1, also for NaN. */
export function power(a: number, b: number): number {
  return a === 1 || b === 0 ? 1 : a === -1 && !Number.isFinite(b) && b === b ? 1 : a ** b;
}

/** Integer division towards zero; 0 for a zero divisor. */
export const intDiv = (a: number, b: number): number => b === 0 ? 0 : Math.trunc(a / b);

/** Integer division towards minus infinity; 0 for a zero divisor. */
export const intFloorDiv = (a: number, b: number): number => b === 0 ? 0 : Math.floor(a / b);

/** The remainder of {@linkcode intFloorDiv}; 0 for a zero divisor. */
export const intMod = (a: number, b: number): number => b === 0 ? 0 : floatMod(a, b);

/** Integer power by squaring, wrapping; negative powers are 0 but for 1 and -1. */
export function intPow(a: number, b: number): number {
  if (b < 0) return a === 1 ? 1 : a === -1 ? (b & 1 ? -1 : 1) : 0;
  let r = 1;
  for (; b > 0; b >>= 1) {
    if (b & 1) r = Math.imul(r, a);
    a = Math.imul(a, a);
  }
  return r;
}

/** The same for int64. */
export const bigDiv = (a: bigint, b: bigint): bigint => b === 0n ? 0n : a / b;

/** The same for int64. */
export function bigFloorDiv(a: bigint, b: bigint): bigint {
  if (b === 0n) return 0n;
  const q = a / b;
  return a % b !== 0n && (a < 0n) !== (b < 0n) ? q - 1n : q;
}

/** The same for int64. */
export function bigMod(a: bigint, b: bigint): bigint {
  if (b === 0n) return 0n;
  const r = a % b;
  return r !== 0n && (r < 0n) !== (b < 0n) ? r + b : r;
}

/** The same for int64. */
export function bigPow(a: bigint, b: bigint): bigint {
  if (b < 0n) return a === 1n ? 1n : a === -1n ? (b & 1n ? -1n : 1n) : 0n;
  let r = 1n;
  for (; b > 0n; b >>= 1n) {
    if (b & 1n) r = BigInt.asIntN(64, r * a);
    a = BigInt.asIntN(64, a * a);
  }
  return r;
}

/** The absolute value of an int64. */
export const bigAbs = (a: bigint): bigint => a < 0n ? -a : a;

/** -1, 0 or 1. */
export const bigSign = (a: bigint): bigint => a > 0n ? 1n : a < 0n ? -1n : 0n;

/** A float as int32: truncated, held at the bounds; NaN is 0. */
export function toInt32(x: number): number {
  return x !== x ? 0 : Math.min(2147483647, Math.max(-2147483648, Math.trunc(x)));
}

/** A float as int64: truncated, held at the bounds; NaN is 0. */
export function toBigInt(x: number): bigint {
  if (x !== x) return 0n;
  if (x >= 2 ** 63) return 2n ** 63n - 1n;
  return x <= -(2 ** 63) ? -(2n ** 63n) : BigInt(Math.trunc(x));
}

/**
 * The error function, to double precision: for small arguments the series
 * 2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!! (Abramowitz and Stegun 7.1.6), whose terms are
 * all positive; for large ones the continued fraction of erfc (7.1.14).
 */
export function erf(x: number): number {
  const a = Math.abs(x);
  if (a !== a) return x;
  const result = a < 2.5 ? erfSeries(a) : 1 - erfcFraction(a);
  return x < 0 ? -result : result;
}

/** `1 - erf(x)`, also where that is almost nothing. */
export function erfc(x: number): number {
  if (x !== x) return x;
  if (x < 0) return 1 + erf(-x);
  return x < 1 ? 1 - erfSeries(x) : erfcFraction(x);
}

function erfSeries(a: number): number {
  let term = a, sum = a;
  for (let n = 1; term > sum * 1e-17; n++) {
    term *= 2 * a * a / (2 * n + 1);
    sum += term;
  }
  return 2 / Math.sqrt(Math.PI) * Math.exp(-a * a) * sum;
}

function erfcFraction(a: number): number {
  let fraction = 0;
  for (let k = a < 2 ? 200 : 60; k > 0; k--) fraction = k / 2 / (a + fraction);
  return Math.exp(-a * a) / Math.sqrt(Math.PI) / (a + fraction);
}

/** The high 32 bits of the product of two unsigned 32-bit numbers. */
function mulHigh(a: number, b: number): number {
  const al = a & 0xffff, ah = a >>> 16, bl = b & 0xffff, bh = b >>> 16;
  // In 32 bits throughout, as V8 computes without doubles: 16 bits by 16, and 16 more, fit.
  const middle = Math.imul(ah, bl) + (Math.imul(al, bl) >>> 16) >>> 0;
  const upper = Math.imul(al, bh) + (middle & 0xffff) >>> 0;
  return Math.imul(ah, bh) + (middle >>> 16) + (upper >>> 16) >>> 0;
}

/** A number that a replayed schedule draws anew: the position in the sequence of random tensors. */
export interface RandomStream {
  /** Number of random tensors made before. */
  readonly value: number;
}

/** The first word of Philox4x32-10 as a number in [0, 1); the same bits as the OpenCL kernels. */
export function philox(index: number, seed: number, stream: number): number {
  let c0 = index >>> 0, c1 = stream >>> 0, c2 = Math.floor(index / 2 ** 32), c3 = 0;
  let k0 = seed >>> 0, k1 = 0x9e3779b9;
  for (let round = 0; round < 10; round++) {
    const h0 = mulHigh(0xd2511f53, c0), l0 = Math.imul(0xd2511f53, c0) >>> 0;
    const h1 = mulHigh(0xcd9e8d57, c2), l1 = Math.imul(0xcd9e8d57, c2) >>> 0;
    c0 = (h1 ^ c1 ^ k0) >>> 0;
    c1 = l1;
    c2 = (h0 ^ c3 ^ k1) >>> 0;
    c3 = l0;
    k0 = (k0 + 0x9e3779b9) >>> 0;
    k1 = (k1 + 0xbb67ae85) >>> 0;
  }
  return (c0 >>> 8) * 5.9604644775390625e-8;
}
