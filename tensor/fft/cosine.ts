/** Cosine transforms, and convolutions by Fourier transforms. */
import { sameDevice } from "../core/apply.ts";
import { shapeError } from "../core/rules/errors.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import { requireReal } from "../linalg/matrices.ts";
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

/**
 * The cosine transform DCT-II along the last axis: 2 sum of x_k cos(π j (2 k + 1) / 2 n), as SciPy's
 * `dct`. J. Makhoul, "A fast cosine transform in one and two dimensions" (1980).
 *
 * @param x float32 or float64, [..., n].
 * @param norm "ortho" makes it orthogonal; default: no factor.
 */
export function dct(x: Tensor, norm: "backward" | "ortho" = "backward"): Tensor {
  requireLine("dct", x);
  requireValue("dct", "norm", norm, takes.oneOf("backward", "ortho"));
  const found = fft(folded(x)).mul(quarterTurns(x, -1)).real.mul(2);
  return norm === "ortho" ? found.mul(orthogonal(x)) : found;
}

/** Factors of an orthogonal transform: the mean has another one. */
function orthogonal(x: Tensor): Tensor {
  const n = x.shape.at(-1)!, { dtype, device } = x;
  const k = Tensor.arange(0, n, 1, { dtype: dtype === "float64" ? dtype : "float32", device });
  return k.eq(0).where(Math.sqrt(1 / (4 * n)), k.zerosLike().add(Math.sqrt(1 / (2 * n))));
}

/** The inverse of {@linkcode dct}. */
export function idct(x: Tensor, norm: "backward" | "ortho" = "backward"): Tensor {
  requireLine("idct", x);
  requireValue("idct", "norm", norm, takes.oneOf("backward", "ortho"));
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
