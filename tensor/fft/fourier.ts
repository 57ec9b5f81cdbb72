/** Fourier transforms as PyTorch's `torch.fft`. */
import { formatShape } from "../../backend/internal.ts";
import { shapeError } from "../core/rules/errors.ts";
import { requireTensor } from "../core/apply.ts";
import { withoutGrad } from "../core/modes/grad_mode.ts";
import {
  checkOptions,
  checkValue,
  requireValue,
  type Rules,
  takes,
} from "../core/rules/options.ts";
import { requireReal } from "../linalg/common/matrices.ts";
import { isTensor } from "../core/internals.ts";
import type { TensorOptions } from "../core/arguments.ts";
import { normalizeAxis } from "../ops/shaping/axes.ts";
import { tensorRules } from "../ops/creation/tensor_options.ts";
import { complexFrom, ComplexTensor } from "../ops/complex_tensor.ts";
import { transform, transformHalf, transformPlanes, transformReals } from "./transform.ts";
import { Tensor } from "../class/tensor.ts";

/** The factor: 1/n of the inverse, none, or the root of it both ways. */
export type FourierNorm = "backward" | "ortho" | "forward";

/** Options of transforms along one axis. */
export interface FourierOptions {
  /** The length of the signal: it is cut, or filled up with zeros; default: as it is. */
  n?: number;
  /** Default: the last. */
  axis?: number;
  /** "backward" (default): the inverse divides by n; "forward": the other; "ortho": both by its root. */
  norm?: FourierNorm;
}

/** Options of transforms along several axes. */
export interface FourierAxesOptions {
  /** The lengths along the axes; default: as they are. */
  lengths?: number[];
  /** Default: all, or the last two. */
  axes?: number[];
  /** See {@linkcode FourierOptions}. */
  norm?: FourierNorm;
}

const norm = takes.oneOf("backward", "ortho", "forward");
const rules: Rules<FourierOptions> = { n: takes.count, axis: takes.integer, norm };
const axesRules: Rules<FourierAxesOptions> = {
  lengths: takes.wholeNumbers,
  axes: takes.list,
  norm,
};

/** An axis cut, or filled up with zeros. */
function resized(x: ComplexTensor, axis: number, n: number): ComplexTensor {
  return n === x.shape[axis] ? x : x.map((part) => resizedPart(part, axis, n));
}

function resizedPart(x: Tensor, axis: number, n: number): Tensor {
  const length = x.shape[axis]!;
  if (n === length) return x;
  const changed = <T>(there: T, others: T) => x.shape.map((_, k) => k === axis ? there : others);
  if (n < length) return x.slice(...changed<readonly [number, number] | null>([0, n], null));
  return x.pad(changed<[number, number]>([0, n - length], [0, 0]));
}

function factor(n: number, norm: FourierNorm, isInverse: boolean): number {
  if (norm === "ortho") return 1 / Math.sqrt(n);
  return (norm === "forward") === isInverse ? 1 : 1 / n;
}

function requireAxis(op: string, x: Tensor | ComplexTensor, axis: number): number {
  const at = normalizeAxis(op, axis, x.shape);
  if (x.shape[at] !== 0) return at;
  throw shapeError(op, axis)`Cannot ${op} of shape ${x.shape}: the axis ${axis} is empty`;
}

function along(
  op: string,
  x: ComplexTensor,
  options: FourierOptions,
  isInverse: boolean,
): ComplexTensor {
  checkOptions(op, options, rules);
  requireReal(op, x.real);
  const at = requireAxis(op, x, options.axis ?? -1), n = options.n ?? x.shape[at]!;
  const scale = factor(n, options.norm ?? "backward", isInverse);
  return transform(resized(x, at, n), at, isInverse ? 1 : -1, scale);
}

/** Frequencies of real numbers, all or the first half of them. */
function ofReals(op: string, x: Tensor, options: FourierOptions, isHalf: boolean): ComplexTensor {
  checkOptions(op, options, rules);
  requireReal(op, x);
  const at = requireAxis(op, x, options.axis ?? -1), n = options.n ?? x.shape[at]!;
  const scale = factor(n, options.norm ?? "backward", false);
  return transformReals(resizedPart(x, at, n), at, scale, isHalf);
}

/**
 * The Fourier transform along an axis, of any length.
 *
 * @param x A real or complex tensor.
 * @param options See {@linkcode FourierOptions}.
 * @throws {ShapeError} When the axis is empty.
 *
 * @example The frequencies of a cosine
 * ```ts
 * import { fft, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.fromHost([1, 0, -1, 0]);
 * assertEquals(await fft.fft(x).abs().toArray(), [0, 2, 0, 2]);
 * ```
 */
export function fft(x: Tensor | ComplexTensor, options: FourierOptions = {}): ComplexTensor {
  if (isTensor(x)) return ofReals("fft", x, options, false);
  return along("fft", complexFrom("fft", x), options, false);
}

/** The inverse of {@linkcode fft}. */
export function ifft(x: Tensor | ComplexTensor, options: FourierOptions = {}): ComplexTensor {
  return along("ifft", complexFrom("ifft", x), options, true);
}

/** The first half of the frequencies of a real signal, n/2 + 1: the others are their conjugates. */
export function rfft(x: Tensor, options: FourierOptions = {}): ComplexTensor {
  return ofReals("rfft", x, options, true);
}

/**
 * The real signal of the first half of its frequencies, the inverse of {@linkcode rfft}. The imaginary
 * parts of the mean and, for even lengths, of the last frequency are not read.
 *
 * @param x Frequencies, n/2 + 1 of them along the axis.
 * @param options `n` is the length of the signal; default 2 (frequencies - 1).
 */
export function irfft(x: Tensor | ComplexTensor, options: FourierOptions = {}): Tensor {
  const z = complexFrom("irfft", x);
  checkOptions("irfft", options, rules);
  const at = requireAxis("irfft", z, options.axis ?? -1);
  const n = options.n ?? 2 * (z.shape[at]! - 1);
  if (n < 1) throw shapeError("irfft")`Cannot irfft of shape ${z.shape}: pass { n }`;
  const scale = factor(n, options.norm ?? "backward", true), half = resized(z, at, (n >> 1) + 1);
  return transformHalf(half, at, n, scale);
}

/** The real spectrum of a signal that is its own mirror image's conjugate, of which half is given. */
export function hfft(x: Tensor | ComplexTensor, options: FourierOptions = {}): Tensor {
  checkOptions("hfft", options, rules);
  const opposite = { ...options, norm: swapped(options.norm) };
  return irfft(complexFrom("hfft", x).conj(), opposite);
}

/** The inverse of {@linkcode hfft}. */
export function ihfft(x: Tensor, options: FourierOptions = {}): ComplexTensor {
  checkOptions("ihfft", options, rules);
  return rfft(x, { ...options, norm: swapped(options.norm) }).conj();
}

function swapped(norm: FourierNorm = "backward"): FourierNorm {
  return norm === "ortho" ? norm : norm === "backward" ? "forward" : "backward";
}

function axesOf(
  op: string,
  x: Tensor | ComplexTensor,
  options: FourierAxesOptions,
  last?: number,
): number[] {
  checkOptions(op, options, axesRules);
  const count = options.lengths?.length ?? last ?? x.ndim;
  const axes = (options.axes ?? x.shape.map((_, k) => k).slice(x.ndim - count))
    .map((axis) => normalizeAxis(op, axis, x.shape));
  const fits = axes.length > 0 && new Set(axes).size === axes.length &&
    (options.lengths === undefined || options.lengths.length === axes.length);
  if (fits) return axes;
  throw shapeError(op)`
    Cannot ${op} of shape ${x.shape} along axes ${formatShape(axes)}${
    options.lengths ? ` with lengths ${formatShape(options.lengths)}` : ""
  }:
    name each axis once, with a length for each or none`;
}

function lineOptions(options: FourierAxesOptions, axis: number, k: number): FourierOptions {
  const n = options.lengths?.[k];
  return { axis, norm: options.norm ?? "backward", ...n !== undefined && { n } };
}

function manyAxes(
  op: string,
  x: Tensor | ComplexTensor,
  options: FourierAxesOptions,
  isInverse: boolean,
  last?: number,
): ComplexTensor {
  const z = isTensor(x) ? x : complexFrom(op, x), axes = axesOf(op, z, options, last);
  if (isTensor(x) && !isInverse) {
    return realPlane(op, x, options, axes) ?? realAxes(op, x, options, axes, false);
  }
  return alongAll(op, complexFrom(op, x), options, axes, isInverse);
}

/** Along the axes, one after the other. */
function alongAll(
  op: string,
  x: ComplexTensor,
  options: FourierAxesOptions,
  axes: number[],
  isInverse: boolean,
): ComplexTensor {
  return axes.reduce(
    (found, axis, k) => along(op, found, lineOptions(options, axis, k), isInverse),
    x,
  );
}

/** Real matrices of the last two axes, where there are texts for them. */
function realPlane(
  op: string,
  x: Tensor,
  { lengths, norm = "backward" }: FourierAxesOptions,
  axes: number[],
): ComplexTensor | null {
  requireReal(op, x);
  if (axes.length !== 2 || axes.some((axis) => axis < x.ndim - 2)) return null;
  const fitted = axes.reduce(
    (found, axis, k) =>
      resizedPart(found, requireAxis(op, x, axis), lengths?.[k] ?? x.shape[axis]!),
    x,
  );
  const scale = axes.reduce((all, axis) => all * factor(fitted.shape[axis]!, norm, false), 1);
  return transformPlanes(fitted, scale);
}

/** The transform along several axes; default: all. */
export function fftn(x: Tensor | ComplexTensor, options: FourierAxesOptions = {}): ComplexTensor {
  return manyAxes("fftn", x, options, false);
}

/** The inverse of {@linkcode fftn}. */
export function ifftn(x: Tensor | ComplexTensor, options: FourierAxesOptions = {}): ComplexTensor {
  return manyAxes("ifftn", x, options, true);
}

/** The transform along two axes; default: the last two. */
export function fft2(x: Tensor | ComplexTensor, options: FourierAxesOptions = {}): ComplexTensor {
  return manyAxes("fft2", x, options, false, 2);
}

/** The inverse of {@linkcode fft2}. */
export function ifft2(x: Tensor | ComplexTensor, options: FourierAxesOptions = {}): ComplexTensor {
  return manyAxes("ifft2", x, options, true, 2);
}

/** The transform of a real tensor along several axes; half of the frequencies along the last of them. */
export function rfftn(x: Tensor, options: FourierAxesOptions = {}): ComplexTensor {
  return halfOfAxes("rfftn", x, options);
}

/** As {@linkcode rfftn}, along two axes; default: the last two. */
export function rfft2(x: Tensor, options: FourierAxesOptions = {}): ComplexTensor {
  return halfOfAxes("rfft2", x, options, 2);
}

function halfOfAxes(
  op: string,
  x: Tensor,
  options: FourierAxesOptions,
  last?: number,
): ComplexTensor {
  requireReal(op, x);
  return realAxes(op, x, options, axesOf(op, x, options, last), true);
}

/** The last of the axes as a real one; half of the frequencies along it, or all. */
function realAxes(
  op: string,
  x: Tensor,
  options: FourierAxesOptions,
  axes: number[],
  isHalf: boolean,
): ComplexTensor {
  const end = axes.length - 1;
  const first = ofReals(op, x, lineOptions(options, axes[end]!, end), isHalf);
  return alongAll(op, first, options, axes.slice(0, end), false);
}

/** The inverse of {@linkcode rfftn}; the last of `lengths` says whether the last axis is odd. */
export function irfftn(x: Tensor | ComplexTensor, options: FourierAxesOptions = {}): Tensor {
  return halfAxes("irfftn", x, options);
}

/** As {@linkcode irfftn}, along two axes; default: the last two. */
export function irfft2(x: Tensor | ComplexTensor, options: FourierAxesOptions = {}): Tensor {
  return halfAxes("irfft2", x, options, 2);
}

function halfAxes(
  op: string,
  x: Tensor | ComplexTensor,
  options: FourierAxesOptions,
  last?: number,
): Tensor {
  const z = complexFrom(op, x), axes = axesOf(op, z, options, last), end = axes.length - 1;
  const others = alongAll(op, z, options, axes.slice(0, end), true);
  return irfft(others, lineOptions(options, axes[end]!, end));
}

/** {@linkcode hfft} along the last of several axes, and {@linkcode fft} along the others; default: all. */
export function hfftn(x: Tensor | ComplexTensor, options: FourierAxesOptions = {}): Tensor {
  return halfAxes("hfftn", complexFrom("hfftn", x).conj(), opposite("hfftn", options));
}

/** As {@linkcode hfftn}, along two axes; default: the last two. */
export function hfft2(x: Tensor | ComplexTensor, options: FourierAxesOptions = {}): Tensor {
  return halfAxes("hfft2", complexFrom("hfft2", x).conj(), opposite("hfft2", options), 2);
}

/** The inverse of {@linkcode hfftn}. */
export function ihfftn(x: Tensor, options: FourierAxesOptions = {}): ComplexTensor {
  return halfOfAxes("ihfftn", x, opposite("ihfftn", options)).conj();
}

/** The inverse of {@linkcode hfft2}. */
export function ihfft2(x: Tensor, options: FourierAxesOptions = {}): ComplexTensor {
  return halfOfAxes("ihfft2", x, opposite("ihfft2", options), 2).conj();
}

function opposite(op: string, options: FourierAxesOptions): FourierAxesOptions {
  checkOptions(op, options, axesRules);
  return { ...options, norm: swapped(options.norm) };
}

/** Moves the mean from the front of the axes (default: all) to their middle. */
export function fftshift<X extends Tensor | ComplexTensor>(x: X, axes?: number[]): X {
  return shifted("fftshift", x, axes, (n) => n >> 1);
}

/** Moves the mean from the middle of the axes (default: all) to their front. */
export function ifftshift<X extends Tensor | ComplexTensor>(x: X, axes?: number[]): X {
  return shifted("ifftshift", x, axes, (n) => (n + 1) >> 1);
}

function shifted<X extends Tensor | ComplexTensor>(
  op: string,
  x: X,
  axes: number[] | undefined,
  by: (n: number) => number,
): X {
  checkValue(`compute ${op}`, "axes", axes, takes.list);
  if (!(x instanceof ComplexTensor)) requireTensor(op, x);
  const moved = (part: Tensor): Tensor =>
    (axes ?? part.shape.map((_, k) => k)).map((axis) => normalizeAxis(op, axis, part.shape))
      .reduce((found, axis) => found.roll(by(part.shape[axis]!), axis), part);
  return (x instanceof ComplexTensor ? x.map(moved) : moved(x)) as X;
}

/**
 * The frequencies of {@linkcode fft} in cycles a unit of time, [n].
 *
 * @param n The length of the signal.
 * @param step The time between samples; default 1.
 * @param options Type and device.
 */
export function fftfreq(n: number, step = 1, options: TensorOptions = {}): Tensor {
  requireValue("fftfreq", "n", n, takes.count);
  requireValue("fftfreq", "step", step, takes.positive);
  checkOptions("fftfreq", options, tensorRules);
  const first = (n + 1) >> 1;
  return withoutGrad(() => {
    const k = Tensor.arange(0, n, 1, { dtype: "float32", ...options });
    return k.ge(first).where(k.sub(n), k).div(n * step);
  });
}

/**
 * The frequencies of {@linkcode rfft} in cycles a unit of time, [n/2 + 1].
 *
 * @param n The length of the signal.
 * @param step The time between samples; default 1.
 * @param options Type and device.
 */
export function rfftfreq(n: number, step = 1, options: TensorOptions = {}): Tensor {
  requireValue("rfftfreq", "n", n, takes.count);
  requireValue("rfftfreq", "step", step, takes.positive);
  checkOptions("rfftfreq", options, tensorRules);
  return Tensor.arange(0, (n >> 1) + 1, 1, { dtype: "float32", ...options }).div(n * step);
}
