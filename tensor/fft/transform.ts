/** Transforms along an axis, of any length. */
import { Tensor } from "../class/tensor.ts";
import { compute } from "../core/operations.ts";
import { runsInGroups } from "../ops/custom/device_kernel.ts";
import { callMatrixKernel } from "../ops/custom/matrix_kernel.ts";
import { routine } from "../ops/routine.ts";
import { differentiable } from "../linalg/common/matrices.ts";
import { ComplexTensor } from "../ops/complex_tensor.ts";
import { fftKernel } from "./kernel.ts";
import { chirped, chirpOf } from "./lines/chirps.ts";
import {
  complexLaunches,
  inverseLaunches,
  launched,
  planeLaunches,
  signalLaunches,
} from "./lines/launches.ts";
import { balancedFactor, largestPrime } from "./lines/line_plan.ts";
import { circleOf, tablesOf } from "./lines/tables.ts";

/** Larger primes are transformed as convolutions (Bluestein). */
const MAX_PRIME = 61;
/** Longer rows are transformed as matrices: a work-group a row would leave others idle. */
const MAX_ROW = 8192;

/**
 * `scale` times the sum of x_k e^(sign 2 π i j k / n) for each j.
 *
 * @param axis Along which axis.
 * @param sign -1 forward, 1 backward.
 */
export function transform(
  x: ComplexTensor,
  axis: number,
  sign: 1 | -1,
  scale: number,
): ComplexTensor {
  if (x.size === 0) return x;
  return joined(compute(transformOf, x.real, x.imag, [axis, sign, scale]));
}

/** The same of real and imaginary parts. */
function transformOf(
  re: Tensor,
  im: Tensor,
  [axis, sign, scale]: [axis: number, sign: 1 | -1, scale: number],
): Tensor[] {
  const parts = () => routine(alongOf, [re, im], axis, sign, scale);
  return differentiable("fft", [re, im], parts, (gradients) => {
    const given = gradientOf(gradients);
    if (given === null) return [null, null];
    // The adjoint of the transform is the other one.
    return parted(transform(given, axis, sign === 1 ? -1 : 1, scale));
  });
}

function alongOf([re, im]: Tensor[], axis: number, sign: 1 | -1, scale: number): Tensor[] {
  return parted(along(new ComplexTensor(re!, im!), axis, sign, scale));
}

/**
 * The same of real numbers, forward.
 *
 * @param isHalf True for the first n/2 + 1 results: the others are their conjugates.
 */
export function transformReals(
  x: Tensor,
  axis: number,
  scale: number,
  isHalf: boolean,
): ComplexTensor {
  if (x.size === 0) return halfOf(withZeros(x), axis, isHalf);
  return joined(compute(transformOfReals, x, [axis, scale], isHalf));
}

function transformOfReals(
  x: Tensor,
  [axis, scale]: [axis: number, scale: number],
  isHalf: boolean,
): Tensor[] {
  const n = x.shape[axis]!;
  const parts = () => routine(frequencies, [x], axis, scale, isHalf);
  return differentiable("fft", [x], parts, (gradients) => {
    const given = gradientOf(gradients);
    if (given === null) return [null];
    if (!isHalf) return [transform(given, axis, 1, scale).real];
    return [transformHalf(given.map((part) => weighted(part, axis, n, 0.5)), axis, n, scale)];
  });
}

function frequencies([x]: Tensor[], axis: number, scale: number, isHalf: boolean): Tensor[] {
  const isLast = axis === x!.ndim - 1;
  const byHalves = isLast ? signalLaunches(x!, scale, isHalf ? "half" : "whole") : null;
  if (byHalves !== null) return launched([x!], byHalves);
  const launches = complexLaunches(x!, axis, scale, "reals");
  const whole = launches === null
    ? along(withZeros(x!), axis, -1, scale)
    : joined(launched([x!], launches));
  return parted(halfOf(whole, axis, isHalf));
}

/** The backward transform of `n` numbers, of which the first n/2 + 1 are given, and others are their conjugates. */
export function transformHalf(x: ComplexTensor, axis: number, n: number, scale: number): Tensor {
  if (x.size === 0) return mirrored(x, axis, n).real;
  return compute(transformOfHalf, x.real, x.imag, [axis, n, scale])[0]!;
}

function transformOfHalf(
  re: Tensor,
  im: Tensor,
  [axis, n, scale]: [axis: number, n: number, scale: number],
): Tensor[] {
  return differentiable(
    "irfft",
    [re, im],
    () => routine(signal, [re, im], axis, n, scale),
    ([given]) => {
      const back = transformReals(given!, axis, scale, true);
      return parted(back.map((part) => weighted(part, axis, n, 2)));
    },
  );
}

function signal([re, im]: Tensor[], axis: number, n: number, scale: number): Tensor[] {
  const launches = axis === re!.ndim - 1 ? inverseLaunches(re!, n, scale) : null;
  if (launches !== null) return launched([re!, im!], launches);
  return [along(mirrored(new ComplexTensor(re!, im!), axis, n), axis, 1, scale).real];
}

/** The forward transform of real matrices along the last two axes; null where there are no texts for it. */
export function transformPlanes(x: Tensor, scale: number): ComplexTensor | null {
  if (x.size === 0 || planeLaunches(x, scale) === null) return null;
  return joined(compute(transformOfPlanes, x, scale));
}

function transformOfPlanes(x: Tensor, scale: number): Tensor[] {
  return differentiable("fft2", [x], () => routine(plane, [x], scale), (gradients) => {
    const given = gradientOf(gradients);
    if (given === null) return [null];
    return [transform(transform(given, x.ndim - 2, 1, scale), x.ndim - 1, 1, 1).real];
  });
}

function plane([x]: Tensor[], scale: number): Tensor[] {
  return launched([x!], planeLaunches(x!, scale)!);
}

function withZeros(x: Tensor): ComplexTensor {
  return new ComplexTensor(x, x.detach().zerosLike());
}

function joined([real, imag]: readonly Tensor[]): ComplexTensor {
  return new ComplexTensor(real!, imag!);
}

function parted({ real, imag }: ComplexTensor): Tensor[] {
  return [real, imag];
}

/** The gradient of both parts; null where neither was used. */
function gradientOf([re, im]: (Tensor | null)[]): ComplexTensor | null {
  const some = re ?? im;
  if (!some) return null;
  const zeros = some.detach().zerosLike();
  return new ComplexTensor(re ?? zeros, im ?? zeros);
}

/** A range of an axis. */
function rangeOf(x: Tensor, axis: number, from: number, to: number): Tensor {
  return x.slice(...x.shape.map((_, k) => k === axis ? [from, to] as const : null));
}

function halfOf(x: ComplexTensor, axis: number, isHalf: boolean): ComplexTensor {
  return isHalf ? x.map((part) => rangeOf(part, axis, 0, (x.shape[axis]! >> 1) + 1)) : x;
}

/** All of `n` frequencies of real numbers, of the first half. */
function mirrored(half: ComplexTensor, axis: number, n: number): ComplexTensor {
  const last = (n + 1) >> 1;
  if (last <= 1) return half;
  const others = half.map((part) => rangeOf(part, axis, 1, last).flip([axis])).conj();
  return new ComplexTensor(
    Tensor.concat([half.real, others.real], axis),
    Tensor.concat([half.imag, others.imag], axis),
  );
}

/** Frequencies whose conjugates are others of all `n`, by a factor: all but the mean and, for even n, the last. */
function weighted(x: Tensor, axis: number, n: number, factor: number): Tensor {
  const last = (n + 1) >> 1, k = Tensor.arange(x.shape[axis]!, { device: x.device });
  const isPaired = k.gt(0).logicalAnd(k.lt(last)).reshape([-1, ...x.shape.slice(axis + 1).fill(1)]);
  return isPaired.where(x.mul(factor), x);
}

function along(x: ComplexTensor, axis: number, sign: 1 | -1, scale: number): ComplexTensor {
  const found = byLines(x, axis, sign, scale);
  if (found !== null) return found;
  const isLast = axis === x.ndim - 1;
  const line = isLast ? x : x.map((part) => part.transpose(axis, -1));
  const plainly = plain(line, sign), scaled = scale === 1 ? plainly : plainly.mul(scale);
  return isLast ? scaled : scaled.map((part) => part.transpose(axis, -1));
}

/** By kernels written for the length; null where there are none, or it has no two factors that they take. */
function byLines(
  x: ComplexTensor,
  axis: number,
  sign: 1 | -1,
  scale: number,
): ComplexTensor | null {
  const launches = complexLaunches(x.real, axis, scale, "parts");
  if (launches === null) return null;
  // The backward transform is the forward one of exchanged parts, and exchanges them again.
  const run = ({ real, imag }: ComplexTensor) => joined(launched([real, imag], launches));
  return sign === -1 ? run(x) : exchanged(run(exchanged(x)));
}

function exchanged({ real, imag }: ComplexTensor): ComplexTensor {
  return new ComplexTensor(imag, real);
}

/** Along the last axis, without a factor. */
function plain(x: ComplexTensor, sign: 1 | -1): ComplexTensor {
  const n = x.shape.at(-1)!;
  if (n === 1) return x;
  const found = byLines(x, x.ndim - 1, sign, 1);
  if (found !== null) return found;
  if (largestPrime(n) > MAX_PRIME) return convolved(x, sign);
  const first = n > MAX_ROW ? balancedFactor(n) : 1;
  return first > 1 ? byMatrix(x, first, sign) : byRows(x, sign);
}

function byRows(x: ComplexTensor, sign: 1 | -1): ComplexTensor {
  const n = x.shape.at(-1)!, { shape } = x;
  const inputs = [x.real, x.imag, ...circleOf(x, n)];
  const [real, imag] = callMatrixKernel(
    fftKernel,
    inputs,
    [shape, shape, shape, shape],
    [n, sign],
    n >> 2,
  );
  return new ComplexTensor(real!, imag!);
}

/** D. Bailey's four steps (1990): columns, factors, rows, transposed. */
function byMatrix(x: ComplexTensor, first: number, sign: 1 | -1): ComplexTensor {
  const n = x.shape.at(-1)!, lead = x.shape.slice(0, -1), second = n / first;
  const matrix = x.reshape([...lead, first, second]).map((part) => part.transpose(-1, -2));
  const columns = plain(matrix, sign);
  const turned = (k: number) => (k % first) * Math.floor(k / first);
  const [c, s] = tablesOf(x, `of ${first}`, n, n, turned, [second, first]);
  const moved = columns.mul(new ComplexTensor(c, s.mul(sign)));
  const rows = plain(moved.map((part) => part.transpose(-1, -2)), sign);
  return rows.map((part) => part.transpose(-1, -2)).reshape(x.shape);
}

/** L. Bluestein (1970): j k = (j² + k² - (j - k)²) / 2 makes it a convolution with a chirp. */
function convolved(x: ComplexTensor, sign: 1 | -1): ComplexTensor {
  if (runsInGroups(x.device)) {
    return sign === -1 ? convolvedOnGroups(x) : exchanged(convolvedOnGroups(exchanged(x)));
  }
  const n = x.shape.at(-1)!, lead = x.shape.slice(0, -1);
  let long = 1;
  while (long < 2 * n - 1) long *= 2;
  // k² modulo 2 n, whose square would lose digits.
  const square = (k: number) => Number(BigInt(k) * BigInt(k) % BigInt(2 * n));
  const [c, s] = tablesOf(x, "chirp", 2 * n, n, square);
  const chirp = new ComplexTensor(c, s.mul(sign));
  const [wideC, wideS] = tablesOf(
    x,
    "filter",
    2 * n,
    long,
    (k) => k < n ? square(k) : long - k < n ? square(long - k) : -1,
  );
  const kernel = plain(new ComplexTensor(wideC, wideS.mul(-sign)), -1);
  const padded = x.mul(chirp).map((part) => part.pad([...lead.map(zeroPair), [0, long - n]]));
  const product = plain(plain(padded, -1).mul(kernel), 1);
  const cut = product.map((part) => part.slice(...lead.map(() => null), [0, n]));
  return cut.mul(chirp).div(long);
}

/** The same, forward, with chirps that the device computes: tables of millions take longer than all else. */
function convolvedOnGroups(x: ComplexTensor): ComplexTensor {
  const n = x.shape.at(-1)!, long = 2 ** Math.ceil(Math.log2(2 * n - 1));
  const product = plain(chirped(x, n, long, 1), -1).mul(plain(chirpOf(x, n, long), -1));
  return chirped(plain(product, 1), n, n, 1 / long);
}

const zeroPair = (): [number, number] => [0, 0];
