/**
 * The common part of functions of matrices: their arguments, batches, errors of a device, gradients.
 *
 * This folder (`common/`) is below all others of linear algebra. It imports `tensor/core`, `tensor/ops` and
 * what realizes tensors.
 */
import { broadcastShapes, isEager, isFloat, Node, type Shape } from "../../../backend/internal.ts";
import { newGradFn, requireTensor, sameDevice } from "../../core/apply.ts";
import { isGradEnabled } from "../../core/modes/grad_mode.ts";
import { internally } from "../../core/modes/temporaries.ts";
import { makeTensor, nodeOf, stateOf } from "../../core/internals.ts";
import { dtypeError, shapeError } from "../../core/rules/errors.ts";
import { realizeAll } from "../../execution/realization.ts";
import { checkedIndices } from "../../ops/indexing/indexing.ts";
import type { Tensor } from "../../core/mod.ts";

/** The lengths of the last two axes. */
export function sides(a: Tensor): [rows: number, columns: number] {
  return [a.shape[a.ndim - 2]!, a.shape[a.ndim - 1]!];
}

/** The leading axes. */
export function batchOf(a: Tensor): Shape {
  return a.shape.slice(0, -2);
}

/** The matrices transposed. */
export function transposed(a: Tensor): Tensor {
  return a.transpose(-1, -2);
}

/** Ones on the diagonal of matrices of this shape, else zeros. */
export function identityLike(a: Tensor): Tensor {
  return a.detach().onesLike().tril().triu();
}

/** A part of the last two axes. */
export function block(
  a: Tensor,
  rows: readonly [number, number] | null,
  columns: readonly [number, number] | null,
): Tensor {
  return a.slice(...batchOf(a).map(() => null), rows, columns);
}

/** Zeros around the matrices: so many in front and behind, of both axes. */
export function padded(
  a: Tensor,
  rows: readonly [number, number],
  columns: readonly [number, number],
): Tensor {
  return a.pad([...batchOf(a).map(() => [0, 0] as const), rows, columns]);
}

/**
 * @throws {TypeError} Unless it is a tensor.
 * @throws {DTypeError} Unless its elements are float32 or float64.
 */
export function requireReal(op: string, a: unknown): asserts a is Tensor {
  requireTensor(op, a);
  if (a.dtype === "float32" || a.dtype === "float64") return;
  throw dtypeError(op)`
    Cannot ${op} of ${a.dtype}: cast() to float32 or float64, which lose fewer digits`;
}

/** @throws {ShapeError} Unless its last two axes are a matrix. */
export function requireMatrices(op: string, a: unknown): asserts a is Tensor {
  requireReal(op, a);
  if (a.ndim >= 2) return;
  throw shapeError(op)`
    Cannot ${op} of shape ${a.shape}: the last two axes are a matrix's; reshape it`;
}

/** @throws {ShapeError} Unless they are square. */
export function requireSquare(op: string, a: unknown): asserts a is Tensor {
  requireMatrices(op, a);
  const [m, n] = sides(a);
  if (m === n) return;
  throw shapeError(op)`Cannot ${op} of shape ${a.shape}: the last two axes are a square matrix's`;
}

/** Both with the same leading axes and type, as matmul broadcasts. */
export function broadcastBatches(op: string, a: Tensor, b: Tensor): [a: Tensor, b: Tensor] {
  sameDevice(op, [a, b]);
  if (a.dtype !== b.dtype) {
    throw dtypeError(op)`Cannot ${op} of ${a.dtype} and ${b.dtype}: cast() one of them`;
  }
  const batch = broadcastShapes(batchOf(a), batchOf(b));
  if (batch === null) {
    throw shapeError(op)`
      Cannot ${op} of shapes ${a.shape} and ${b.shape}: the leading axes do not broadcast`;
  }
  const wide = (x: Tensor) => x.expand([...batch, ...x.shape.slice(-2)]);
  return [wide(a), wide(b)];
}

/**
 * The factors; reading them is an error where a matrix has none.
 *
 * @param info Not 0 for a matrix that has none: one number a matrix, with a last axis of 1.
 */
export function checked(op: string, factors: Tensor, info: Tensor): Tensor {
  if (factors.size === 0) return factors;
  const count = info.size, batch = info.reshape([count]);
  const places = batch.indexLike([count]).cast("int32");
  const found = checkedIndices(op, batch.ne(0).where(places.mul(-1).sub(1), places), count);
  const isBad = found.lt(0).reshape([...batchOf(factors), 1, 1]);
  return isBad.where(0, factors);
}

/** The gradients of the inputs, of those of the values: null for a value that was not used. */
export type FactorGradient = (
  gradients: (Tensor | null)[],
  values: Tensor[],
) => (Tensor | null)[];

/**
 * Values with a gradient of their own.
 *
 * @param name The operation, for messages.
 * @param inputs What they are computed from.
 * @param forward Computes them; nothing in it is recorded.
 * @param gradient Computes with tensors, so that it can be differentiated itself.
 */
export function differentiable(
  name: string,
  inputs: Tensor[],
  forward: () => Tensor[],
  gradient: FactorGradient,
): Tensor[] {
  const values = internally(forward).map((value) => {
    const node = new Node({ kind: "reshape" }, [nodeOf(value)], value.shape, value.dtype);
    return makeTensor(node, value.device);
  });
  const floats = values.filter(({ dtype }) => isFloat(dtype));
  if (isGradEnabled() && floats.length > 0 && inputs.some((input) => input.requiresGrad)) {
    const outputs = floats.map((value) => stateOf(value).order);
    const shared = newGradFn(name, inputs, (_g, _y, gradients) => {
      const given = values.map((value) => gradients[floats.indexOf(value)] ?? null);
      return gradient(given, values);
    }, { outputs });
    for (const value of floats) stateOf(value).record(shared);
  }
  if (isEager()) realizeAll(values);
  return values;
}
