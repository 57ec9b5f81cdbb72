/** Transforms along an axis, of any length. */
import { Tensor } from "../class/tensor.ts";
import { compute } from "../core/operations.ts";
import { runsInGroups } from "../ops/custom/device_kernel.ts";
import { callMatrixKernel } from "../ops/custom/matrix_kernel.ts";
import { differentiable } from "../linalg/common/matrices.ts";
import { ComplexTensor } from "../ops/complex_tensor.ts";
import { fftKernel } from "./kernel.ts";
import { chirped, chirpOf } from "./lines/chirps.ts";
import { hasLines, isLaunch, type Lines, transformLines } from "./lines/lines.ts";
import { largestPrime, radicesOf } from "./lines/line_kernel.ts";

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
  const [real, imag] = compute(transformOf, x.real, x.imag, [axis, sign, scale]);
  return new ComplexTensor(real!, imag!);
}

/** The same of real and imaginary parts. */
function transformOf(
  re: Tensor,
  im: Tensor,
  [axis, sign, scale]: [axis: number, sign: 1 | -1, scale: number],
): Tensor[] {
  return differentiable("fft", [re, im], () => {
    const { real, imag } = along(new ComplexTensor(re, im), axis, sign, scale);
    return [real, imag];
  }, ([re, im]) => {
    if (re === null && im === null) return [null, null];
    const some = (re ?? im)!, zeros = some.detach().zerosLike();
    // The adjoint of the transform is the other one.
    const given = new ComplexTensor(re ?? zeros, im ?? zeros);
    const back = transform(given, axis, sign === 1 ? -1 : 1, scale);
    return [back.real, back.imag];
  });
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
  const n = x.shape[axis]!, inner = x.shape.slice(axis + 1).reduce((all, side) => all * side, 1);
  if (n === 1 || !hasLines(x.device) || radicesOf(n) === null) return null;
  // The backward transform is the forward one of exchanged parts, and exchanges them again.
  const run = (given: ComplexTensor, line: Lines) => {
    const table = () => parts(given, [line.n], turns("circle", line.n, line.n, (k) => k));
    return sign === -1
      ? transformLines(given, line, table)
      : exchanged(transformLines(exchanged(given), line, table));
  };
  const layout = inner > 1 ? [1, inner] as const : [n, 1] as const;
  const count = inner > 1 ? inner : x.size / n;
  const whole: Lines = { n, count, scale, turn: 0, reads: layout, writes: layout };
  if (isLaunch(x, whole)) return run(x, whole);
  const first = inner > 1 ? 1 : balancedFactor(n), second = n / first;
  // D. Bailey's four steps (1990) in two: columns with their factors, then rows, written transposed.
  const across = [1, second] as const;
  const columns = { n: first, count: second, scale: 1, turn: n, reads: across, writes: across };
  const rows: Lines = {
    n: second,
    count: first,
    scale,
    turn: 0,
    reads: [second, 1],
    writes: [1, first],
  };
  if (first === 1 || !isLaunch(x, columns) || !isLaunch(x, rows)) return null;
  return run(run(x, columns), rows);
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
  const [c, s] = parts(x, [n], turns("circle", n, n, (k) => k));
  const inputs = [x.real, x.imag, c, s];
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
  const [c, s] = parts(
    x,
    [second, first],
    turns(`of ${first}`, n, n, (k) => (k % first) * Math.floor(k / first)),
  );
  const turned = columns.mul(new ComplexTensor(c, s.mul(sign)));
  const rows = plain(turned.map((part) => part.transpose(-1, -2)), sign);
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
  const [c, s] = parts(x, [n], turns("chirp", 2 * n, n, square));
  const chirp = new ComplexTensor(c, s.mul(sign));
  const [wideC, wideS] = parts(
    x,
    [long],
    turns("filter", 2 * n, long, (k) => k < n ? square(k) : long - k < n ? square(long - k) : -1),
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

/** Cosines and sines. */
type Turns = [Float64Array<ArrayBuffer>, Float64Array<ArrayBuffer>];

/** Tables of the last transforms, the latest at the end: they take longer to compute than a transform. */
const tables = new Map<string, Turns>();
/** Tables that are kept, and the longest of them: 64 MiB in all at most. */
const MAX_TABLES = 4, MAX_KEPT = 2 ** 20;

/**
 * Cosines and sines of `count` multiples of 2 π / n; 0 for those that are negative.
 *
 * @param name Tells multiples from others.
 */
function turns(
  name: string,
  n: number,
  count: number,
  multiple: (k: number) => number,
): Turns {
  const key = `${name} ${n} ${count}`, table = tables.get(key) ?? computed(n, count, multiple);
  tables.delete(key);
  if (count <= MAX_KEPT) tables.set(key, table);
  if (tables.size > MAX_TABLES) tables.delete(tables.keys().next().value!);
  return table;
}

function computed(n: number, count: number, multiple: (k: number) => number): Turns {
  const c = new Float64Array(count), s = new Float64Array(count);
  for (let k = 0; k < count; k++) {
    const at = multiple(k);
    if (at < 0) continue;
    const angle = 2 * Math.PI * (at % n) / n;
    c[k] = Math.cos(angle);
    s[k] = Math.sin(angle);
  }
  return [c, s];
}

function parts(
  { dtype, device }: ComplexTensor,
  shape: number[],
  values: Turns,
): [Tensor, Tensor] {
  const made = (data: Float64Array<ArrayBuffer>) => Tensor.fromHost(data, { shape, dtype, device });
  return [made(values[0]), made(values[1])];
}

/** The largest factor up to the root; 1 for a prime. */
function balancedFactor(n: number): number {
  let factor = Math.floor(Math.sqrt(n));
  while (n % factor !== 0) factor--;
  return factor;
}
