/** Products of tensors, powers and exponentials of matrices. */
import { requireTensor, sameDevice } from "../core/apply.ts";
import { compute, observedCall } from "../core/operations.ts";
import { shapeError } from "../core/rules/errors.ts";
import type { Rule } from "../../ffi/host/option_rules.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import { matmul } from "../ops/contractions.ts";
import { concat } from "../ops/shaping/joining.ts";
import { normalizeAxis } from "../ops/shaping/axes.ts";
import { expmKernel } from "./kernels/exponential.ts";
import { callMatrixKernel } from "../ops/custom/matrix_kernel.ts";
import {
  block,
  differentiable,
  identityLike,
  requireSquare,
  sides,
  transposed,
} from "./common/matrices.ts";
import { inv } from "./solve.ts";
import type { Tensor } from "../core/mod.ts";

/**
 * The cross product of vectors of three elements.
 *
 * @param a Vectors along `axis`.
 * @param b Others, which broadcast to them.
 * @param axis Default: the last.
 */
export function cross(a: Tensor, b: Tensor, axis = -1): Tensor {
  sameDevice("cross", [a, b]);
  for (const x of [a, b]) {
    if (x.shape[normalizeAxis("cross", axis, x.shape)] === 3) continue;
    throw shapeError("cross", axis)`
      Cannot take the cross product of shapes ${a.shape} and ${b.shape} along axis ${axis}:
      vectors have 3 elements there`;
  }
  return compute(crossOf, a, b, axis);
}

function crossOf(a: Tensor, b: Tensor, axis: number): Tensor {
  // (a2 b3 - a3 b2, ...): each factor is a rotation of the three.
  const rotated = (x: Tensor, by: number) => x.roll(by, normalizeAxis("cross", axis, x.shape));
  return rotated(a, -1).mul(rotated(b, -2)).sub(rotated(a, -2).mul(rotated(b, -1)));
}

/**
 * The inner product of vectors along an axis.
 *
 * @param a Vectors along `axis`.
 * @param b Others, which broadcast to them.
 * @param axis Default: the last.
 */
export function vecdot(a: Tensor, b: Tensor, axis = -1): Tensor {
  sameDevice("vecdot", [a, b]);
  return compute(vecdotOf, a, b, axis);
}

function vecdotOf(a: Tensor, b: Tensor, axis: number): Tensor {
  return a.mul(b).sum(axis);
}

/**
 * Vandermonde's matrices, [..., n, columns]: powers of each element from 0 up.
 *
 * @param x Vectors [..., n].
 * @param columns How many powers; default: as many as elements.
 */
export function vander(x: Tensor, columns?: number): Tensor {
  requireTensor("vander", x);
  if (x.ndim === 0) throw shapeError("vander")`Cannot vander of a scalar: pass vectors [..., n]`;
  const count = columns ?? x.shape.at(-1)!;
  requireValue("vander", "columns", count, takes.whole);
  return compute(vanderOf, x, count);
}

function vanderOf(x: Tensor, count: number): Tensor {
  const column = x.unsqueeze(-1), first = column.onesLike();
  if (count === 0) return block(first, null, [0, 0]);
  const powers = [first];
  while (powers.length < count) powers.push(powers.at(-1)!.mul(column));
  return concat(powers, -1);
}

/**
 * The Kronecker product: `b` times each element of `a`, side by side.
 *
 * @param a Of any number of axes; the shorter shape gets leading ones.
 * @param b Likewise.
 */
export function kron(a: Tensor, b: Tensor): Tensor {
  sameDevice("kron", [a, b]);
  return compute(kronOf, a, b);
}

function kronOf(a: Tensor, b: Tensor): Tensor {
  const ndim = Math.max(a.ndim, b.ndim);
  const shapeOf = (x: Tensor) => [...Array(ndim - x.ndim).fill(1), ...x.shape] as number[];
  const [p, q] = [shapeOf(a), shapeOf(b)];
  const left = a.reshape(p.flatMap((n) => [n, 1])), right = b.reshape(q.flatMap((n) => [1, n]));
  return left.mul(right).reshape(p.map((n, k) => n * q[k]!));
}

const pairOfAxes: Rule = {
  takes: "a number of axes, or two arrays of axes",
  accepts: (value) => Array.isArray(value) && value.length === 2 && value.every(takes.list.accepts),
};

/**
 * The sum over products along pairs of axes; the others follow each other.
 *
 * @param a The left tensor.
 * @param b The right one.
 * @param axes How many last axes of `a` meet the first of `b` (default 2), or the axes of both.
 */
export function tensordot(
  a: Tensor,
  b: Tensor,
  axes: number | readonly [a: readonly number[], b: readonly number[]] = 2,
): Tensor {
  sameDevice("tensordot", [a, b]);
  const range = (from: number, n: number) => Array.from({ length: n }, (_, k) => from + k);
  requireValue("tensordot", "axes", axes, typeof axes === "number" ? takes.whole : pairOfAxes);
  const [p, q] = typeof axes === "number" ? [range(a.ndim - axes, axes), range(0, axes)] : [
    axes[0].map((axis) => normalizeAxis("tensordot", axis, a.shape)),
    axes[1].map((axis) => normalizeAxis("tensordot", axis, b.shape)),
  ];
  const fits = p.length === q.length && p.every((axis, k) => a.shape[axis] === b.shape[q[k]!]);
  if (!fits) {
    throw shapeError("tensordot")`
      Cannot tensordot of shapes ${a.shape} and ${b.shape} along axes ${p} and ${q}: the axes that
      meet have one length`;
  }
  return compute(tensordotOf, a, b, p, q);
}

function tensordotOf(a: Tensor, b: Tensor, p: number[], q: number[]): Tensor {
  const rest = (x: Tensor, used: number[]) =>
    x.shape.map((_, k) => k).filter((k) => !used.includes(k));
  const [left, right] = [rest(a, p), rest(b, q)];
  const count = p.reduce((product, axis) => product * a.shape[axis]!, 1);
  const size = (x: Tensor, axes: number[]) => axes.reduce((n, axis) => n * x.shape[axis]!, 1);
  const rows = a.permute([...left, ...p]).reshape([size(a, left), count]);
  const columns = b.permute([...q, ...right]).reshape([count, size(b, right)]);
  return matmul(rows, columns).reshape([
    ...left.map((axis) => a.shape[axis]!),
    ...right.map((axis) => b.shape[axis]!),
  ]);
}

/**
 * The product of matrices in the order that needs the fewest multiplications.
 *
 * @param matrices Two or more; the first and the last may be vectors.
 */
export function multiDot(matrices: Tensor[]): Tensor {
  requireValue("multiDot", "matrices", matrices, takes.list);
  sameDevice("multiDot", matrices);
  const inner = matrices.slice(1, -1);
  if (matrices.length < 2 || inner.some(({ ndim }) => ndim !== 2)) {
    throw shapeError("multiDot")`
      Cannot multiDot of shapes ${matrices.map(({ shape }) => shape)}: pass two or more matrices;
      the first and the last may be vectors`;
  }
  return observedCall("compute", multiDotOf, undefined, [matrices]) as Tensor;
}

function multiDotOf(matrices: Tensor[]): Tensor {
  const last = matrices.at(-1)!;
  const sizes = matrices.map((a) => a.ndim === 1 ? (a === last ? a.shape[0]! : 1) : a.shape[0]!);
  sizes.push(last.ndim === 1 ? 1 : last.shape[1]!);
  const product = (from: number, to: number): { cost: number; tensor: () => Tensor } => {
    const known = found.get(`${from} ${to}`);
    if (known) return known;
    let best = { cost: from === to ? 0 : Infinity, tensor: () => matrices[from]! };
    for (let cut = from; cut < to; cut++) {
      const [left, right] = [product(from, cut), product(cut + 1, to)];
      const cost = left.cost + right.cost + sizes[from]! * sizes[cut + 1]! * sizes[to + 1]!;
      if (cost < best.cost) best = { cost, tensor: () => matmul(left.tensor(), right.tensor()) };
    }
    found.set(`${from} ${to}`, best);
    return best;
  };
  const found = new Map<string, ReturnType<typeof product>>();
  return product(0, matrices.length - 1).tensor();
}

/**
 * A whole power of square matrices, by squaring; negative ones are of the inverse.
 *
 * @param a Matrices [..., n, n] of float32 or float64.
 * @param exponent A whole number.
 */
export function matrixPower(a: Tensor, exponent: number): Tensor {
  requireSquare("matrixPower", a);
  requireValue("matrixPower", "exponent", exponent, takes.integer);
  return compute(powerOf, a, exponent);
}

function powerOf(a: Tensor, exponent: number): Tensor {
  if (exponent === 0) return identityLike(a);
  let base = exponent < 0 ? inv(a) : a, power: Tensor | null = null;
  for (let rest = Math.abs(exponent);;) {
    if (rest % 2 === 1) power = power === null ? base : matmul(power, base);
    rest = Math.floor(rest / 2);
    if (rest === 0) return power!;
    base = matmul(base, base);
  }
}

/**
 * The exponential of square matrices, by squaring a series.
 *
 * @param a Matrices [..., n, n] of float32 or float64.
 */
export function matrixExp(a: Tensor): Tensor {
  requireSquare("matrixExp", a);
  return compute(exponentialOf, a);
}

function exponentialOf(a: Tensor): Tensor {
  const [n] = sides(a);
  const [value] = differentiable("matrixExp", [a], () => {
    const shapes = [a.shape, a.shape];
    return [callMatrixKernel(expmKernel, [a], shapes, [n, a.dtype === "float64" ? 18 : 11], n)[0]!];
  }, ([g]) => {
    if (g === null) return [null];
    // The corner of the exponential of [[Aᵀ, G], [0, Aᵀ]]: N. Higham, "Functions of Matrices" (2008).
    const at = transposed(a),
      upper = concat([at, g!], -1),
      lower = concat([at.zerosLike(), at], -1);
    return [block(exponentialOf(concat([upper, lower], -2)), [0, n], [n, 2 * n])];
  });
  return value!;
}
