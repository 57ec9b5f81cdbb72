/**
 * Sums of products: the general contraction, and matrix multiplication.
 *
 * This folder (`ops/`) has what tensors can be asked to compute, each operation with its gradient;
 * folders below are kinds of operations. It imports `core/` and nodes of `backend/`. Operations know
 * the class `Tensor` as a type, and make tensors by `result` and `makeTensor`; methods of the class
 * (`tensor/class/tensor.ts`) call them.
 */
import {
  backendOf,
  broadcastShapes,
  dtypes,
  type Float32Precision,
  isView,
  Node,
  type Op,
  type Shape,
} from "../../backend/internal.ts";
import { narrowed } from "../core/autocast.ts";
import { result, sameDevice } from "../core/apply.ts";
import { dtypeError, type ShapeError, shapeError } from "../core/rules/errors.ts";
import { getFloat32Precision } from "./float32_precision.ts";
import { promote } from "../core/rules/promotion.ts";
import type { Tensor } from "../core/mod.ts";
import { axesFrom } from "./shaping/axes.ts";
import { writtenAttention } from "./attention/written_attention.ts";
import { expand } from "./shaping/views.ts";
import { nodeOf } from "../core/internals.ts";

/**
 * The general contraction: inputs (batch..., m..., k...) and (batch..., k..., n...), result
 * (batch..., m..., n...). Its gradients are contractions again.
 *
 * @param a The left operand.
 * @param b The right operand.
 * @param batch How many leading axes both share.
 * @param m How many axes of `a` follow that stay.
 * @param k How many axes are summed over.
 */
export function contract(a: Tensor, b: Tensor, batch: number, m: number, k: number): Tensor {
  const n = b.ndim - batch - k;
  const shape = [...a.shape.slice(0, batch + m), ...b.shape.slice(batch + k)];
  // The sum of no products is 0.
  const node = a.size === 0 || b.size === 0
    ? new Node({ kind: "constant", value: 0 }, [], shape, a.dtype)
    : productOf(a, b, { kind: "contract", batch, m, n, ...precisionFor(a) }, shape);
  const lead = axesFrom(0, batch);
  return result("matmul", [a, b], node, (g) => [
    a.requiresGrad
      ? contract(
        g,
        b.permute([...lead, ...axesFrom(batch + k, n), ...axesFrom(batch, k)]),
        batch,
        m,
        n,
      )
      : null,
    b.requiresGrad
      ? contract(
        a.permute([...lead, ...axesFrom(batch + m, k), ...axesFrom(batch, m)]),
        g,
        batch,
        k,
        m,
      )
      : null,
  ]);
}

/** The product; on a device that widens halves that of float32 copies, rounded once. */
function productOf(a: Tensor, b: Tensor, op: Op, shape: Shape): Node {
  const { dtype } = a, isHalf = dtype === "float16" || dtype === "bfloat16";
  if (!isHalf || !backendOf(a.device).capabilities.widensProducts) {
    return new Node(op, [nodeOf(a), nodeOf(b)], shape, dtype);
  }
  const wide = new Node(op, [widened(nodeOf(a)), widened(nodeOf(b))], shape, "float32");
  return new Node({ kind: "cast" }, [wide], shape, dtype);
}

/** A value in float32: of a chain of views the smallest value is cast, and the views follow. */
function widened(node: Node): Node {
  const views: Node[] = [];
  let smallest = 0;
  let at = node;
  for (let depth = 1; !at.isLeaf && isView(at.op); depth++) {
    views.push(at);
    at = at.inputs[0]!;
    if (at.size <= views[smallest]!.size) smallest = depth;
  }
  const source = views[smallest] ?? at;
  // Nothing else may ask for the views that the cast goes around.
  for (const view of views.slice(0, smallest)) view.subside();
  const cast = new Node({ kind: "cast" }, [source], source.shape, "float32");
  return views.slice(0, smallest).reduceRight(
    (input, view) => new Node(view.op, [input], view.shape, "float32"),
    cast,
  );
}

/** Precision of a product of such elements, where that is a question. */
function precisionFor({ dtype }: Tensor): { precision?: Float32Precision } {
  const precision = getFloat32Precision();
  return dtype !== "float32" || precision === "highest" ? {} : { precision };
}

/** The matrix product by NumPy's rules: leading axes broadcast, vectors are rows or columns. */
export function matmul(a: Tensor, b: Tensor): Tensor {
  sameDevice("matmul", [a, b]);
  const fail = (why: string): ShapeError =>
    shapeError("matmul")`Cannot matmul tensors of shapes ${a.shape} and ${b.shape}: ${why}`;
  if (a.ndim === 0 || b.ndim === 0) throw fail("scalars are multiplied with mul");
  if (a.dtype === "bool" || b.dtype === "bool" || dtypes[a.dtype].kind !== dtypes[b.dtype].kind) {
    throw dtypeError("matmul")`Cannot matmul ${a.dtype} and ${b.dtype}: cast both to one type`;
  }
  const [left, right] = narrowed(a, b);
  const dtype = promote(left.dtype, right.dtype);
  const [x, y] = [left.cast(dtype), right.cast(dtype)];
  if (a.ndim === 1) return matmul(x.unsqueeze(0), y).squeeze(-1 - Number(b.ndim > 1));
  if (b.ndim === 1) return matmul(x, y.unsqueeze(1)).squeeze(-1);
  if (x.shape[x.ndim - 1] !== y.shape[y.ndim - 2]) {
    throw fail(`${x.shape[x.ndim - 1]} columns do not meet ${y.shape[y.ndim - 2]} rows`);
  }
  const attention = writtenAttention(a, b);
  if (attention !== null) return attention.cast(dtype);
  // One matrix for a whole batch: the batch is just more rows.
  if (y.ndim === 2) return contract(x, y, 0, x.ndim - 1, 1);
  const batch = broadcastShapes(x.shape.slice(0, -2), y.shape.slice(0, -2));
  if (!batch) throw fail("the leading axes do not broadcast");
  const [p, q] = [x, y].map((t) => expand(t, [...batch, ...t.shape.slice(-2)]));
  return contract(p!, q!, batch.length, 1, 1);
}

/** The sum of the products of two vectors. */
export function dot(a: Tensor, b: Tensor): Tensor {
  sameDevice("dot", [a, b]);
  if (a.ndim === 1 && b.ndim === 1 && a.size === b.size) return matmul(a, b);
  throw shapeError("dot")`
    Cannot dot tensors of shapes ${a.shape} and ${b.shape}: pass two vectors of one length; matmul
    takes matrices, too`;
}

/** The products of the matrices of two batches, one by one. */
export function bmm(a: Tensor, b: Tensor): Tensor {
  sameDevice("bmm", [a, b]);
  if (a.ndim === 3 && b.ndim === 3 && a.shape[0] === b.shape[0] && a.shape[2] === b.shape[1]) {
    return matmul(a, b);
  }
  throw shapeError("bmm")`
    Cannot bmm tensors of shapes ${a.shape} and ${b.shape}: pass [b, m, k] and [b, k, n]; matmul
    broadcasts`;
}

/** Every element of one vector by every element of another. */
export function outer(a: Tensor, b: Tensor): Tensor {
  sameDevice("outer", [a, b]);
  if (a.ndim === 1 && b.ndim === 1) return a.unsqueeze(1).mul(b);
  throw shapeError("outer")`
    Cannot take the outer product of shapes ${a.shape} and ${b.shape}: pass vectors`;
}
