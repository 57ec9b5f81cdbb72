/** Complex numbers as two tensors. */
import { formatShape, sameShape, type Shape } from "../../backend/internal.ts";
import { requireTensor, sameDevice } from "../core/apply.ts";
import { compute } from "../core/operations.ts";
import { dtypeError, shapeError } from "../core/rules/errors.ts";
import { phraseOf, requireValue, shown, takes } from "../core/rules/options.ts";
import { isTensor } from "../core/internals.ts";
import { composed, type Parts } from "../core/nested.ts";
import { stack } from "./shaping/joining.ts";
import type { DeviceHandle, DType } from "../../backend/internal.ts";
import type { Tensor } from "../core/mod.ts";

/** Operands of complex tensors. */
export type ComplexLike = ComplexTensor | Tensor | number;

/**
 * A tensor of complex numbers: its real and its imaginary part are tensors, so that every kernel that
 * computes with reals computes with it, and gradients are those of the parts: dL/dre + i dL/dim, which
 * is PyTorch's convention.
 *
 * @example A product
 * ```ts
 * import { fft, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const i = new fft.ComplexTensor(Tensor.fromHost([0]), Tensor.fromHost([1]));
 * assertEquals(await i.mul(i).toArray(), [[-1, 0]]);
 * ```
 */
export class ComplexTensor {
  /** The real part. */
  readonly real: Tensor;
  /** The imaginary part. */
  readonly imag: Tensor;

  /**
   * Joins two parts.
   *
   * @throws {ShapeError} When their shapes differ.
   * @throws {DTypeError} When their types differ, or are neither float32 nor float64.
   */
  constructor(real: Tensor, imag: Tensor) {
    sameDevice("make a ComplexTensor of", [real, imag]);
    if (!sameShape(real.shape, imag.shape)) {
      throw shapeError("ComplexTensor")`
        Cannot make a ComplexTensor of shapes ${real.shape} and ${imag.shape}: both parts have one
        shape`;
    }
    if (real.dtype !== imag.dtype || real.dtype !== "float32" && real.dtype !== "float64") {
      throw dtypeError("ComplexTensor")`
        Cannot make a ComplexTensor of ${real.dtype} and ${imag.dtype}: cast() both to float32 or
        float64`;
    }
    this.real = real;
    this.imag = imag;
  }

  /** The parts: functions take and return complex tensors as trees of tensors. */
  [composed](): Parts {
    return { tensors: [this.real, this.imag], make: ofParts };
  }

  /** Numbers of pairs along a last axis of two, as {@linkcode ComplexTensor.pairs} gives them. */
  static fromPairs(pairs: Tensor): ComplexTensor {
    requireTensor("make a ComplexTensor", pairs);
    const last = pairs.ndim - 1;
    if (pairs.shape[last] !== 2) {
      throw shapeError("ComplexTensor")`
        Cannot make a ComplexTensor of shape ${pairs.shape}: the last axis has 2`;
    }
    const part = (k: number) =>
      pairs.slice(...pairs.shape.map((_, axis) => axis === last ? [k, k + 1] as const : null))
        .squeeze(-1);
    return new ComplexTensor(part(0), part(1));
  }

  /** Numbers of these magnitudes and angles in radians. */
  static polar(abs: Tensor, angle: Tensor): ComplexTensor {
    sameDevice("make a ComplexTensor of", [abs, angle]);
    return new ComplexTensor(abs.mul(angle.cos()), abs.mul(angle.sin()));
  }

  /** The shape: there is no axis for the parts. */
  get shape(): Shape {
    return this.real.shape;
  }

  /** The number of axes. */
  get ndim(): number {
    return this.real.ndim;
  }

  /** The number of complex numbers. */
  get size(): number {
    return this.real.size;
  }

  /** The element type of the parts. */
  get dtype(): DType {
    return this.real.dtype;
  }

  /** The device that has them. */
  get device(): DeviceHandle {
    return this.real.device;
  }

  /** The magnitudes; their gradient at 0 is 0. */
  abs(): Tensor {
    return compute(absOf, this.real, this.imag);
  }

  /** The squares of the magnitudes. */
  absSquare(): Tensor {
    return this.real.square().add(this.imag.square());
  }

  /** The angles in radians, from -π to π. */
  angle(): Tensor {
    return compute(angleOf, this.real, this.imag);
  }

  /** The conjugates. */
  conj(): ComplexTensor {
    return new ComplexTensor(this.real, this.imag.neg());
  }

  /** The negatives. */
  neg(): ComplexTensor {
    return new ComplexTensor(this.real.neg(), this.imag.neg());
  }

  /** The sum. */
  add(other: ComplexLike): ComplexTensor {
    const { real, imag } = this;
    if (!(other instanceof ComplexTensor)) return joined(real.add(other), imag);
    return new ComplexTensor(real.add(other.real), imag.add(other.imag));
  }

  /** The difference. */
  sub(other: ComplexLike): ComplexTensor {
    const { real, imag } = this;
    if (!(other instanceof ComplexTensor)) return joined(real.sub(other), imag);
    return new ComplexTensor(real.sub(other.real), imag.sub(other.imag));
  }

  /** The product, element by element. */
  mul(other: ComplexLike): ComplexTensor {
    const { real: a, imag: b } = this;
    if (!(other instanceof ComplexTensor)) return new ComplexTensor(a.mul(other), b.mul(other));
    const { real: c, imag: d } = other;
    return new ComplexTensor(a.mul(c).sub(b.mul(d)), a.mul(d).add(b.mul(c)));
  }

  /** The quotient, element by element. */
  div(other: ComplexLike): ComplexTensor {
    if (!(other instanceof ComplexTensor)) {
      return new ComplexTensor(this.real.div(other), this.imag.div(other));
    }
    // By the larger part of the divisor, whose square may overflow.
    const { real, imag } = other, scale = real.abs().maximum(imag.abs()).detach();
    const unit = other.div(scale);
    return this.mul(unit.conj()).div(unit.absSquare()).div(scale);
  }

  /** The product of matrices, as {@linkcode Tensor.matmul}. */
  matmul(other: ComplexTensor | Tensor): ComplexTensor {
    const { real: a, imag: b } = this;
    if (!(other instanceof ComplexTensor)) {
      return new ComplexTensor(a.matmul(other), b.matmul(other));
    }
    const { real: c, imag: d } = other;
    return new ComplexTensor(a.matmul(c).sub(b.matmul(d)), a.matmul(d).add(b.matmul(c)));
  }

  /** 1 over each number. */
  reciprocal(): ComplexTensor {
    const { real } = this;
    return new ComplexTensor(real.detach().onesLike(), real.detach().zerosLike()).div(this);
  }

  /** e to the power of each number. */
  exp(): ComplexTensor {
    return ComplexTensor.polar(this.real.exp(), this.imag);
  }

  /** The logarithms with angles from -π to π. */
  log(): ComplexTensor {
    return new ComplexTensor(this.abs().log(), this.angle());
  }

  /** The roots with a real part of at least 0. */
  sqrt(): ComplexTensor {
    const [real, imag] = compute(rootOf, this.real, this.imag);
    return new ComplexTensor(real!, imag!);
  }

  /**
   * Each number to a power: by products for small whole ones, else by the logarithm.
   *
   * @param exponent A real or complex number or tensor.
   */
  pow(exponent: ComplexLike): ComplexTensor {
    if (exponent === 2) return this.mul(this);
    if (exponent === 3) return this.mul(this).mul(this);
    if (exponent === -1) return this.reciprocal();
    return this.log().mul(exponent).exp();
  }

  /** Applies a function that moves elements to both parts: `z.map((part) => part.transpose(0, 1))`. */
  map(move: (part: Tensor) => Tensor): ComplexTensor {
    requireValue("map a complex tensor", "move", move, takes.callback);
    return new ComplexTensor(move(this.real), move(this.imag));
  }

  /** The same numbers in another shape. */
  reshape(shape: Shape): ComplexTensor {
    return this.map((part) => part.reshape(shape));
  }

  /** The same numbers with two axes exchanged. */
  transpose(first: number, second: number): ComplexTensor {
    return this.map((part) => part.transpose(first, second));
  }

  /** Matrices transposed and conjugated. */
  adjoint(): ComplexTensor {
    return this.transpose(-1, -2).conj();
  }

  /** The numbers as another type of the parts, or on another device. */
  to(target: Parameters<Tensor["to"]>[0]): ComplexTensor {
    return this.map((part) => part.to(target));
  }

  /** The mean over axes; default: over all. */
  mean(axes?: number | number[]): ComplexTensor {
    return this.map((part) => part.mean(axes));
  }

  /** The sum over axes; default: over all. */
  sum(axes?: number | number[]): ComplexTensor {
    return this.map((part) => part.sum(axes));
  }

  /** Without what it was computed from. */
  detach(): ComplexTensor {
    return this.map((part) => part.detach());
  }

  /** Real and imaginary part along a new last axis of two. */
  pairs(): Tensor {
    return compute(pairsOf, this.real, this.imag);
  }

  /** Nested arrays of pairs. */
  toArray(): Promise<unknown> {
    return this.pairs().toArray();
  }

  /** Writes the numbers on the console, as `1.5-2i`; of many the description. */
  async print(): Promise<void> {
    if (this.size > MAX_PRINTED) return console.log(this.toString());
    console.log(this.toString() + " " + textOf(await this.toArray(), this.ndim));
  }

  /** A short description. */
  toString(): string {
    return `ComplexTensor ${formatShape(this.shape)} of two ${this.dtype}`;
  }
}

function ofParts([real, imag]: readonly Tensor[]): ComplexTensor {
  return new ComplexTensor(real!, imag!);
}

/** The imaginary part broadcast to a real one that grew. */
function joined(real: Tensor, imag: Tensor): ComplexTensor {
  return new ComplexTensor(real, imag.expand([...real.shape]));
}

/** Above this many numbers only the description is written. */
const MAX_PRINTED = 1000;

function textOf(value: unknown, axes: number): string {
  if (axes > 0) return `[${(value as unknown[]).map((v) => textOf(v, axes - 1)).join(", ")}]`;
  const [real, imag] = (value as number[]).map((x) => Number(x.toPrecision(5))) as [number, number];
  return `${real}${imag < 0 || Object.is(imag, -0) ? "-" : "+"}${Math.abs(imag)}i`;
}

/** Without the difference of a magnitude and a real part of its size, which loses the digits of small ones. */
function rootOf(real: Tensor, imag: Tensor): Tensor[] {
  const half = absOf(real, imag).mul(0.5).add(real.abs().mul(0.5)), isZero = half.eq(0);
  const long = isZero.where(1, half).sqrt(), short = imag.abs().div(long.mul(2));
  const isBehind = real.lt(0), size = isBehind.where(long, short);
  return [
    isZero.where(0, isBehind.where(short, long)),
    isZero.where(imag, imag.lt(0).where(size.neg(), size)),
  ];
}

function pairsOf(real: Tensor, imag: Tensor): Tensor {
  return stack([real, imag], -1);
}

function absOf(real: Tensor, imag: Tensor): Tensor {
  // By the larger part: squares overflow.
  const large = real.abs().maximum(imag.abs()).detach();
  const isZero = large.eq(0), isPlain = isZero.logicalOr(large.eq(Infinity));
  const scale = isPlain.where(1, large);
  const squares = real.div(scale).square().add(imag.div(scale).square());
  return isZero.where(0, isZero.where(1, squares).sqrt().mul(scale));
}

function angleOf(real: Tensor, imag: Tensor): Tensor {
  return imag.atan2(real);
}

/** A complex tensor, or a real one with zeros beside it. */
export function complexFrom(op: string, x: unknown): ComplexTensor {
  if (x instanceof ComplexTensor) return x;
  if (!isTensor(x)) {
    throw new TypeError(`Cannot ${phraseOf(op)} of ${shown(x)}: pass a Tensor or a ComplexTensor`);
  }
  return new ComplexTensor(x, x.detach().zerosLike());
}
