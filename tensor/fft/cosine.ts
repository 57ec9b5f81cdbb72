/** Cosine transforms, and convolutions by Fourier transforms. */
import { sameDevice } from "../core/apply.ts";
import { shapeError } from "../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import { requireReal } from "../linalg/common/matrices.ts";
import { concat } from "../ops/shaping/joining.ts";
import { ComplexTensor } from "../ops/complex_tensor.ts";
import { fft, ifft, irfft, rfft } from "./fourier.ts";
import { Tensor } from "../class/tensor.ts";

/** e^(sign i π k / 2n) for k below n. */
function quarterTurns(x: Tensor, sign: 1 | -1): ComplexTensor {
  const n = x.shape.at(-1)!, { dtype, device } = x;
  const angle = Tensor.arange(0, n, 1, { dtype: "float64" === dtype ? dtype : "float32", device })
    .mul(sign * Math.PI / (2 * n));
  return new ComplexTensor(angle.cos(), angle.sin());
}

function requireLine(op: string, x: Tensor): void {
  requireReal(op, x);
  if (x.ndim > 0 && x.shape.at(-1) !== 0) return;
  throw shapeError(op)`Cannot ${op} of shape ${x.shape}: the last axis has no elements`;
}

/** Every second element from the first on, then the others backward: Makhoul's order. */
function folded(x: Tensor): Tensor {
  const n = x.shape.at(-1)!, half = (n + 1) >> 1;
  const k = Tensor.arange(0, n, 1, { dtype: "int32", device: x.device });
  return x.indexSelect(x.ndim - 1, k.lt(half).where(k.mul(2), k.mul(-2).add(2 * n - 1)));
}

/** Options of cosine and sine transforms. */
export interface DctOptions {
  /** SciPy's kind: 1 to 4, default 2. */
  type?: 1 | 2 | 3 | 4;
  /** "ortho" makes it orthogonal; "backward" (default): the inverse has the factor. */
  norm?: "backward" | "ortho";
}

const type = { takes: "1, 2, 3 or 4", accepts: (v: unknown) => [1, 2, 3, 4].includes(v as number) };
const dctRules: Rules<DctOptions> = { type, norm: takes.oneOf("backward", "ortho") };
type Kind = Required<DctOptions>;

function kindOf(op: string, x: Tensor, options: DctOptions): Kind {
  requireLine(op, x);
  checkOptions(op, options, dctRules);
  const { type = 2, norm = "backward" } = options;
  if (type !== 1 || x.shape.at(-1)! > 1) return { type, norm };
  throw shapeError(op)`
    Cannot ${op} of the kind 1 of shape ${x.shape}: the last axis must have two elements at least`;
}

/**
 * The cosine transform along the last axis, as SciPy's `dct`; the kind 2, which is usual, is
 * 2 sum of x_k cos(π j (2 k + 1) / 2 n). J. Makhoul, "A fast cosine transform in one and two dimensions" (1980).
 *
 * @param x float32 or float64, [..., n].
 * @param options See {@linkcode DctOptions}.
 * @throws {ShapeError} When the axis is empty, or has one element and the kind is 1.
 */
export function dct(x: Tensor, options: DctOptions = {}): Tensor {
  const { type, norm } = kindOf("dct", x, options);
  if (type === 2) return second(x, norm);
  if (type === 3) return norm === "ortho" ? inverseOfSecond(x, norm) : thirdOf(x);
  return type === 1 ? firstKind(x, norm) : fourthKind(x, norm);
}

/**
 * The inverse of {@linkcode dct}.
 *
 * @param x float32 or float64, [..., n].
 * @param options Those of the transform that it undoes.
 * @throws {ShapeError} As {@linkcode dct}.
 */
export function idct(x: Tensor, options: DctOptions = {}): Tensor {
  const { type, norm } = kindOf("idct", x, options), n = x.shape.at(-1)!;
  if (type === 2) return inverseOfSecond(x, norm);
  if (type === 3) return norm === "ortho" ? second(x, norm) : second(x, norm).div(2 * n);
  if (norm === "ortho") return dct(x, { type, norm });
  return dct(x, { type, norm }).div(type === 1 ? 2 * (n - 1) : 2 * n);
}

/**
 * The sine transform along the last axis, as SciPy's `dst`; the kind 2, which is usual, is
 * 2 sum of x_k sin(π (j + 1) (2 k + 1) / 2 n).
 *
 * @param x float32 or float64, [..., n].
 * @param options See {@linkcode DctOptions}.
 * @throws {ShapeError} When the axis is empty.
 */
export function dst(x: Tensor, options: DctOptions = {}): Tensor {
  requireLine("dst", x);
  checkOptions("dst", options, dctRules);
  const { type = 2, norm = "backward" } = options;
  if (type === 1) return firstSine(x, norm);
  // Sines are cosines of the mirrored line: with signs by turns before the transform or behind it.
  if (type === 3) return alternating(dct(x.flip(-1), { type, norm }));
  const found = dct(alternating(x), { type, norm });
  return found.flip(-1);
}

/**
 * The inverse of {@linkcode dst}.
 *
 * @param x float32 or float64, [..., n].
 * @param options Those of the transform that it undoes.
 * @throws {ShapeError} When the axis is empty.
 */
export function idst(x: Tensor, options: DctOptions = {}): Tensor {
  requireLine("idst", x);
  checkOptions("idst", options, dctRules);
  const { type = 2, norm = "backward" } = options, n = x.shape.at(-1)!;
  if (type === 1) return norm === "ortho" ? firstSine(x, norm) : firstSine(x, norm).div(2 * n + 2);
  if (type === 3) return idct(alternating(x), { type, norm }).flip(-1);
  return alternating(idct(x.flip(-1), { type, norm }));
}

/** Every second element negative. */
function alternating(x: Tensor): Tensor {
  const k = Tensor.arange(0, x.shape.at(-1)!, 1, { dtype: "int32", device: x.device });
  return k.remainder(2).eq(0).where(x, x.neg());
}

/** The kind 1 of cosines: the spectrum of the line and its mirror image. */
function firstKind(x: Tensor, norm: Kind["norm"]): Tensor {
  const n = x.shape.at(-1)!, k = Tensor.arange(0, n, 1, { dtype: "int32", device: x.device });
  const isEnd = k.remainder(n - 1).eq(0),
    line = norm === "ortho" ? isEnd.where(x.mul(Math.SQRT2), x) : x;
  const inner = line.slice(...x.shape.slice(0, -1).map(() => null), [1, n - 1]).flip(-1);
  const found = rfft(concat([line, inner], -1)).real;
  if (norm === "backward") return found;
  const scaled = found.div(Math.sqrt(2 * (n - 1)));
  return isEnd.where(scaled.div(Math.SQRT2), scaled);
}

/** The kind 1 of sines: the spectrum of the line and its negative mirror image. */
function firstSine(x: Tensor, norm: Kind["norm"]): Tensor {
  const n = x.shape.at(-1)!, lead = x.shape.slice(0, -1).map(() => null);
  const zero = x.slice(...lead, [0, 1]).mul(0);
  const found = rfft(concat([zero, x, zero, x.flip(-1).neg()], -1)).imag.neg();
  const part = found.slice(...lead, [1, n + 1]);
  return norm === "ortho" ? part.div(Math.sqrt(2 * n + 2)) : part;
}

/** The kind 4: every second of the kind 2 of a line twice as long, with its turned end. */
function fourthKind(x: Tensor, norm: Kind["norm"]): Tensor {
  const n = x.shape.at(-1)!, lead = x.shape.slice(0, -1).map(() => null);
  const found = second(concat([x, x.flip(-1).neg()], -1), "backward").div(2);
  const odd = found.reshape([...x.shape, 2]).slice(...lead, null, 1);
  return norm === "ortho" ? odd.div(Math.sqrt(2 * n)) : odd;
}

/** The kind 3 without a factor. */
function thirdOf(x: Tensor): Tensor {
  return inverseOfSecond(x, "backward").mul(2 * x.shape.at(-1)!);
}

function second(x: Tensor, norm: Kind["norm"]): Tensor {
  const found = fft(folded(x)).mul(quarterTurns(x, -1)).real.mul(2);
  return norm === "ortho" ? found.mul(orthogonal(x)) : found;
}

/** Factors of an orthogonal transform: the mean has another one. */
function orthogonal(x: Tensor): Tensor {
  const n = x.shape.at(-1)!, { dtype, device } = x;
  const k = Tensor.arange(0, n, 1, { dtype: dtype === "float64" ? dtype : "float32", device });
  return k.eq(0).where(Math.sqrt(1 / (4 * n)), k.zerosLike().add(Math.sqrt(1 / (2 * n))));
}

function inverseOfSecond(x: Tensor, norm: Kind["norm"]): Tensor {
  const n = x.shape.at(-1)!, plain = norm === "ortho" ? x.div(orthogonal(x)) : x;
  const lead = x.shape.slice(0, -1);
  const before = lead.map(() => null), first = plain.slice(...before, [0, 1]);
  // x_j - i x_(n - j), where x_n is 0.
  const mirrored = n === 1
    ? first.zerosLike()
    : concat([first.zerosLike(), plain.slice(...before, [1, n]).flip([-1])], -1);
  const z = new ComplexTensor(plain, mirrored.neg()).mul(quarterTurns(x, 1)).div(2);
  const line = ifft(z).real, k = Tensor.arange(0, n, 1, { dtype: "int32", device: x.device });
  const half = k.floorDivide(2);
  return line.indexSelect(x.ndim - 1, k.remainder(2).eq(0).where(half, half.mul(-1).add(n - 1)));
}

/**
 * The convolution of two signals along the last axis by their spectra: for long filters, where sums of
 * products would take longer.
 *
 * @param x Signals [..., n].
 * @param filter Filters [..., m]; leading axes broadcast.
 * @param mode "full" (default): n + m - 1 elements; "same": the middle n; "valid": the n - m + 1 that no
 * end of `x` touches.
 */
export function fftConvolve(
  x: Tensor,
  filter: Tensor,
  mode: "full" | "same" | "valid" = "full",
): Tensor {
  requireLine("fftConvolve", x);
  requireLine("fftConvolve", filter);
  sameDevice("fftConvolve", [x, filter]);
  requireValue("fftConvolve", "mode", mode, takes.oneOf("full", "same", "valid"));
  const [n, m] = [x.shape.at(-1)!, filter.shape.at(-1)!], count = n + m - 1;
  if (mode === "valid" && m > n) {
    throw shapeError("fftConvolve")`
      Cannot fftConvolve of ${n} samples with ${m} weights in the mode "valid": no element is left`;
  }
  const long = 2 ** Math.ceil(Math.log2(count));
  const full = irfft(rfft(x, { n: long }).mul(rfft(filter, { n: long })), { n: long });
  const [start, length] = mode === "full"
    ? [0, count]
    : mode === "same"
    ? [(m - 1) >> 1, n]
    : [m - 1, n - m + 1];
  return full.slice(...full.shape.slice(0, -1).map(() => null), [start, start + length]);
}
