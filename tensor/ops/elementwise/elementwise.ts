/**
 * Elementwise operations, each with its gradient beside it. To add one: a row in `unaryTable` (or
 * `binaryTable`), a method in `tensor/class/tensor.ts`, a row in the tests.
 *
 * This folder (`elementwise/`) imports, of `tensor/`, `core/` alone. The file is long because it is
 * two tables, a row an operation with its gradient, and what applies them.
 */
import {
  broadcastShapes,
  type DType,
  dtypes,
  isFloat,
  Node,
  type PrimitiveName,
  sameShape,
  type Shape,
} from "../../../backend/internal.ts";
import { derived, requireTensor, result, sameDevice } from "../../core/apply.ts";
import { widened, widenedType } from "../../core/autocast.ts";
import type { GradientFn } from "../../core/grad_fn.ts";
import { isGradEnabled } from "../../core/modes/grad_mode.ts";
import { dtypeError, shapeError } from "../../core/rules/errors.ts";
import { shown } from "../../core/rules/options.ts";
import { typeList } from "../../core/rules/supported_types.ts";
import { numberOperand, type Operand, promoteOperands } from "../../core/rules/promotion.ts";
import { nodeOf } from "../../core/internals.ts";
import { elementOf, holds, nearestIn } from "./elements.ts";
import { variant } from "../../core/operations.ts";
import type { Tensor } from "../../core/mod.ts";
import type { TensorLike } from "../../core/arguments.ts";

/** A function of one element. */
interface Unary {
  /** The scalar function; default: the entry's name. */
  readonly primitive?: PrimitiveName;
  /** Integers are taken as they are; otherwise they become float32 first. */
  readonly integers?: boolean;
  /** The result is a truth value. */
  readonly bool?: boolean;
  /** Leaves the range of half precision easily: autocast computes it in float32. */
  readonly wide?: boolean;
  /** The gradient of `x`, given that of `y = f(x)`; absent where it is zero everywhere. */
  readonly gradient?: (g: Tensor, x: Tensor, y: Tensor) => Tensor;
}

/** A table of entries, each of which has the name of its scalar function, or says which that is. */
function named<Row extends { readonly primitive?: PrimitiveName }>() {
  return <Name extends string>(
    rows: {
      readonly [N in Name]: N extends PrimitiveName ? Row
        : Row & { readonly primitive: PrimitiveName };
    },
  ): Readonly<Record<Name, Row>> => rows;
}

/** The scalar function of an entry of {@linkcode unaries} or {@linkcode binaries}. */
function primitiveOf(name: string, { primitive }: Unary | Binary): PrimitiveName {
  return primitive ?? name as PrimitiveName;
}

/** A value for the name of each row of a table. */
function mapped<Name extends string, T>(
  rows: Readonly<Record<Name, unknown>>,
  of: (name: Name) => T,
): Readonly<Record<Name, T>> {
  const names = Object.keys(rows) as Name[];
  return Object.fromEntries(names.map((name) => [name, of(name)])) as Record<Name, T>;
}

const TWO_OVER_SQRT_PI = 2 / Math.sqrt(Math.PI);

const unaryTable = named<Unary>()({
  neg: { integers: true, gradient: (g) => g.neg() },
  abs: { integers: true, gradient: (g, x) => g.mul(x.sign()) },
  sign: { integers: true, gradient: (g) => g.zerosLike() },
  exp: { wide: true, gradient: (g, _, y) => g.mul(y) },
  exp2: { wide: true, gradient: (g, _, y) => g.mul(y).mul(Math.LN2) },
  expm1: { wide: true, gradient: (g, _, y) => g.mul(y.add(1)) },
  log: { wide: true, gradient: (g, x) => g.div(x) },
  log2: { wide: true, gradient: (g, x) => g.div(x.mul(Math.LN2)) },
  log10: { wide: true, gradient: (g, x) => g.div(x.mul(Math.LN10)) },
  log1p: { wide: true, gradient: (g, x) => g.div(x.add(1)) },
  sqrt: { gradient: (g, _, y) => g.mul(0.5).div(y) },
  rsqrt: { wide: true, gradient: (g, _, y) => g.mul(-0.5).mul(y).mul(y).mul(y) },
  reciprocal: { wide: true, gradient: (g, _, y) => g.neg().mul(y).mul(y) },
  sin: { gradient: (g, x) => g.mul(x.cos()) },
  cos: { gradient: (g, x) => g.mul(x.sin()).neg() },
  tan: { wide: true, gradient: (g, _, y) => g.mul(y.mul(y).add(1)) },
  asin: { gradient: (g, x) => g.mul(x.mul(x).neg().add(1).rsqrt()) },
  acos: { gradient: (g, x) => g.mul(x.mul(x).neg().add(1).rsqrt()).neg() },
  atan: { gradient: (g, x) => g.div(x.mul(x).add(1)) },
  sinh: { wide: true, gradient: (g, x) => g.mul(x.cosh()) },
  cosh: { wide: true, gradient: (g, x) => g.mul(x.sinh()) },
  tanh: { gradient: (g, _, y) => g.mul(y.mul(y).neg().add(1)) },
  asinh: { gradient: (g, x) => g.mul(x.mul(x).add(1).rsqrt()) },
  acosh: { gradient: (g, x) => g.mul(x.mul(x).sub(1).rsqrt()) },
  atanh: { gradient: (g, x) => g.div(x.mul(x).neg().add(1)) },
  erf: { gradient: (g, x) => g.mul(x.mul(x).neg().exp()).mul(TWO_OVER_SQRT_PI) },
  erfc: { gradient: (g, x) => g.mul(x.mul(x).neg().exp()).mul(-TWO_OVER_SQRT_PI) },
  sigmoid: { gradient: (g, _, y) => g.mul(y).mul(y.neg().add(1)) },
  floor: { integers: true, gradient: (g) => g.zerosLike() },
  ceil: { integers: true, gradient: (g) => g.zerosLike() },
  round: { integers: true, gradient: (g) => g.zerosLike() },
  trunc: { integers: true, gradient: (g) => g.zerosLike() },
  isNaN: { primitive: "isnan", integers: true, bool: true },
  isInf: { primitive: "isinf", integers: true, bool: true },
});

/** The name of a function of one element. */
export type UnaryName = keyof typeof unaryTable;

const unaryRows: Readonly<Record<UnaryName, Unary>> = unaryTable;

/** Applies a function of the table. */
export function unary(name: UnaryName, x: Tensor): Tensor {
  const entry = unaryRows[name];
  if (x.dtype === "bool" && entry.integers && !entry.bool) {
    throw dtypeError(name)`
      Cannot take ${name} of ${x.dtype}: cast it with .cast("int32"), or use logicalNot`;
  }
  const number = entry.integers || isFloat(x.dtype) ? x : x.cast("float32");
  const input = entry.wide ? widened(number) : number;
  const fn = primitiveOf(name, entry);
  const dtype = entry.bool ? "bool" : input.dtype;
  const { gradient } = entry;
  return derived(
    name,
    input,
    { kind: "elementwise", fn },
    input.shape,
    dtype,
    gradient ? (g, y) => [gradient(g, input, y)] : null,
  );
}

/** Operations, by name: a method calls the one of its name. */
export const unaries: Readonly<Record<UnaryName, (x: Tensor) => Tensor>> = mapped(
  unaryRows,
  (name) => variant(name, unary, name),
);

/** A function of two elements; operands are broadcast and promoted to one type. */
interface Binary {
  readonly primitive?: PrimitiveName;
  /** The result is a truth value. */
  readonly bool?: boolean;
  /** Integers become float32 first: PyTorch's true division. */
  readonly floats?: boolean;
  /** Integers and truth values alone are taken: their bits. */
  readonly bits?: boolean;
  /** Truth values are taken. */
  readonly bools?: boolean;
  /** Leaves the range of half precision easily: autocast computes it in float32. */
  readonly wide?: boolean;
  /** The gradients of both operands; absent where they are zero. */
  readonly gradient?: (g: Tensor, a: TensorLike, b: TensorLike, y: Tensor) => [
    () => Tensor,
    () => Tensor,
  ];
}

/** The share of `a` in the gradient of what is picked: all but where it loses; where both are NaN, too. */
function shareOf(
  g: Tensor,
  a: TensorLike,
  b: TensorLike,
  loses: (a: Tensor, b: TensorLike) => Tensor,
): Tensor {
  const x = isTensor(a) ? a : g.fullLike(a);
  return select(loses(x, b), 0, select(x.eq(b), g.mul(0.5), g));
}

const binaryTable = named<Binary>()({
  add: { bools: true, gradient: (g) => [() => g, () => g] },
  sub: { gradient: (g) => [() => g, () => g.neg()] },
  mul: { bools: true, gradient: (g, a, b) => [() => g.mul(b), () => g.mul(a)] },
  div: {
    floats: true,
    gradient: (g, _, b, y) => [() => g.div(b), () => g.neg().mul(y).div(b)],
  },
  pow: {
    wide: true,
    gradient: (g, a, b, y) => [
      // 0 to the power 0 is 1 whatever the base does: no gradient, where 0 * 0 ** -1 would be NaN.
      () =>
        isTensor(b)
          ? g.mul(select(b.eq(0), 0, b.mul(power(a, b.sub(1), g))))
          : b === 0
          ? g.zerosLike()
          : g.mul(b).mul(power(a, b - 1, g)),
      () => {
        // 0 to any positive power is 0: no gradient, where 0 * log(0) would be NaN.
        const base = isTensor(a) ? a : g.fullLike(a), exponent = b as Tensor;
        const stays = base.eq(0).logicalAnd(exponent.ge(0));
        return g.mul(select(stays, 0, y.mul(select(stays, 1, base).log())));
      },
    ],
  },
  maximum: {
    bools: true,
    gradient: (g, a, b) => [
      () => shareOf(g, a, b, (x, other) => x.lt(other)),
      () => shareOf(g, b, a, (x, other) => x.lt(other)),
    ],
  },
  minimum: {
    bools: true,
    gradient: (g, a, b) => [
      () => shareOf(g, a, b, (x, other) => x.gt(other)),
      () => shareOf(g, b, a, (x, other) => x.gt(other)),
    ],
  },
  // At the bound itself there is no gradient. NaN has all of relu's and none of clamp's, as in PyTorch.
  relu: {
    primitive: "maximum",
    gradient: (g, _, b, y) => [() => select(y.le(b), 0, g), () => g],
  },
  clampMin: {
    primitive: "maximum",
    gradient: (g, a, b) => [() => select((a as Tensor).gt(b), g, 0), () => g],
  },
  clampMax: {
    primitive: "minimum",
    gradient: (g, a, b) => [() => select((a as Tensor).lt(b), g, 0), () => g],
  },
  remainder: {
    primitive: "mod",
    gradient: (g, a, b) => [
      () => g,
      () => g.mul((isTensor(a) ? a : g.fullLike(a)).floorDivide(b)).neg(),
    ],
  },
  floorDivide: { primitive: "floordiv" },
  atan2: {
    floats: true,
    gradient: (g, a, b) => {
      const x = isTensor(a) ? a : g.fullLike(a), y = isTensor(b) ? b : g.fullLike(b);
      const squares = x.mul(x).add(y.mul(y));
      const norm = select(squares.eq(0), 1, squares);
      return [() => g.mul(y).div(norm), () => g.neg().mul(x).div(norm)];
    },
  },
  eq: { bool: true, bools: true },
  ne: { bool: true, bools: true },
  lt: { bool: true, bools: true },
  le: { bool: true, bools: true },
  gt: { bool: true, bools: true },
  ge: { bool: true, bools: true },
  logicalAnd: { primitive: "and", bool: true, bools: true },
  logicalOr: { primitive: "or", bool: true, bools: true },
  logicalXor: { primitive: "xor", bool: true, bools: true },
  bitwiseAnd: { primitive: "bitAnd", bits: true, bools: true },
  bitwiseOr: { primitive: "bitOr", bits: true, bools: true },
  bitwiseXor: { primitive: "bitXor", bits: true, bools: true },
  shiftLeft: { bits: true },
  shiftRight: { bits: true },
});

/** The name of a function of two elements. */
export type BinaryName = keyof typeof binaryTable;

const binaryRows: Readonly<Record<BinaryName, Binary>> = binaryTable;

function power(a: TensorLike, b: TensorLike, like: Tensor): Tensor {
  return (isTensor(a) ? a : like.fullLike(a)).pow(b);
}

/** True for tensors, false for numbers. */
export function isTensor(x: TensorLike): x is Tensor {
  return typeof x === "object";
}

/** Those of two operands that are tensors. */
function operandsOf(a: TensorLike, b: TensorLike): Tensor[] {
  if (!isTensor(b)) return isTensor(a) ? [a] : [];
  return isTensor(a) ? [a, b] : [b];
}

function operandOf(op: string, x: TensorLike): Operand {
  if (typeof x === "number") return numberOperand(x);
  requireTensor(op, x, " or a number");
  return { dtype: x.dtype, rank: x.ndim === 0 ? "scalar" : "tensor" };
}

/**
 * The node of an operand in the common type. A number is in the precision in which the type is
 * computed, as in PyTorch, unless it stands for an element.
 */
function operandIn(
  op: string,
  x: TensorLike,
  dtype: DType,
  isElement: boolean,
): { tensor: Tensor | null; node: Node } {
  if (!isTensor(x)) {
    const isHalf = dtype === "float16" || dtype === "bfloat16";
    const value = elementOf(op, x, isHalf && !isElement ? "float32" : dtype);
    return { tensor: null, node: new Node({ kind: "constant", value }, [], [], dtype) };
  }
  const tensor = x.cast(dtype);
  return { tensor, node: nodeOf(tensor) };
}

/** Sums a gradient over the axes along which an operand was broadcast. */
export function unbroadcast(g: Tensor, shape: readonly number[]): Tensor {
  if (sameShape(g.shape, shape)) return g;
  const lead = g.ndim - shape.length;
  const axes: number[] = [];
  for (let axis = 0; axis < g.ndim; axis++) {
    if (axis < lead || shape[axis - lead] === 1 && g.shape[axis] !== 1) axes.push(axis);
  }
  const sum = axes.length > 0 ? g.sum(axes) : g;
  return sameShape(sum.shape, shape) ? sum : sum.reshape(shape);
}

const scalar: Shape = [];

function broadcast(name: string, a: TensorLike, b: TensorLike): Shape {
  const p = isTensor(a) ? a.shape : scalar, q = isTensor(b) ? b.shape : scalar;
  const shape = broadcastShapes(p, q);
  if (shape) return shape;
  throw shapeError(name)`Cannot ${name} tensors of shapes ${p} and ${q}: they do not broadcast`;
}

/** Applies a function of the table; one of the operands, at least, is a tensor. */
export function binary(name: BinaryName, a: TensorLike, b: TensorLike): Tensor {
  const entry = binaryRows[name];
  let common = promoteOperands(operandOf(name, a), operandOf(name, b));
  const given = operandsOf(a, b);
  if (given.length === 0) requireTensor(name, a);
  sameDevice(name, given);
  const shape = broadcast(name, a, b);
  // A number that the type does not hold is compared as what it is.
  if (entry.bool && !isTensor(b) && !holds(common, b)) {
    common = holds("int64", b) ? "int64" : "float32";
  }
  if (entry.floats && !isFloat(common)) common = "float32";
  if (entry.wide) common = widenedType(common);
  if (entry.bits && isFloat(common)) {
    throw dtypeError(name)`Cannot ${name} ${common}: it takes integers; cast with .cast("int32")`;
  }
  if (common === "bool" && !entry.bools) {
    throw dtypeError(name)`Cannot ${name} ${common} and ${common}: cast one with .cast("int32")`;
  }
  const primitive = primitiveOf(name, entry);
  const isTest = entry.bool === true;
  const x = operandIn(name, a, common, isTest);
  const y = operandIn(name, bounded(primitive, b, common), common, isTest);
  const fn = boolean(primitive, common);
  const op = { kind: "elementwise", fn } as const;
  const node = new Node(op, [x.node, y.node], shape, entry.bool ? "bool" : common);
  const left = x.tensor ?? a as number, right = y.tensor ?? b as number;
  const { gradient } = entry;
  const backward = gradient && isGradEnabled() ? backwardOf(gradient, left, right) : null;
  return result(name, operandsOf(left, right), node, backward);
}

/** Operations of two operands, by name; one of them, at least, is a tensor. */
export const binaries: Readonly<Record<BinaryName, (a: TensorLike, b: TensorLike) => Tensor>> =
  mapped(binaryRows, (name) => variant(name, binary, name));

/** Apart from where it is made, so that an operation that is not recorded makes no closure. */
function backwardOf(
  gradient: NonNullable<Binary["gradient"]>,
  left: TensorLike,
  right: TensorLike,
): GradientFn {
  return (g, out) => {
    const [ofLeft, ofRight] = gradient(g, left, right, out);
    const gradients: (Tensor | null)[] = [];
    if (isTensor(left)) gradients.push(gradientOf(left, ofLeft));
    if (isTensor(right)) gradients.push(gradientOf(right, ofRight));
    return gradients;
  };
}

function gradientOf(operand: Tensor, gradient: () => Tensor): Tensor | null {
  return operand.requiresGrad ? unbroadcast(gradient(), operand.shape) : null;
}

/** A bound beyond what a type holds bounds nothing. */
function bounded(fn: string, bound: TensorLike, dtype: DType): TensorLike {
  if (isTensor(bound) || holds(dtype, bound)) return bound;
  const nearest = nearestIn(dtype, bound);
  return fn === (nearest > bound ? "maximum" : "minimum") ? nearest : bound;
}

/** Arithmetic on truth values is logic: sum is or, product is and. */
function boolean(fn: PrimitiveName, dtype: DType): PrimitiveName {
  if (dtype !== "bool") return fn;
  if (fn === "add" || fn === "maximum") return "or";
  return fn === "mul" || fn === "minimum" ? "and" : fn;
}

/** `a` where the condition holds, else `b`. */
export function select(condition: Tensor, a: TensorLike, b: TensorLike): Tensor {
  requireTensor("select by a condition", condition);
  if (condition.dtype !== "bool") {
    throw dtypeError("where")`
      Cannot select by a condition of ${condition.dtype}: make it bool with .ne(0)`;
  }
  const dtype = promoteOperands(operandOf("select", a), operandOf("select", b));
  sameDevice("select from", [condition, ...operandsOf(a, b)]);
  const common = !isTensor(a) && !isTensor(b) && dtype === "int64" ? "float32" : dtype;
  const x = operandIn("select", a, common, true), y = operandIn("select", b, common, true);
  const inner = broadcast("select from", a, b);
  const shape = broadcastShapes(inner, condition.shape);
  if (!shape) {
    throw shapeError("where")`
      Cannot select from tensors of shape ${inner} by a condition of shape ${condition.shape}:
      they do not broadcast`;
  }
  const node = new Node(
    { kind: "elementwise", fn: "where" },
    [nodeOf(condition), x.node, y.node],
    shape,
    common,
  );
  const operands = [x.tensor, y.tensor].filter((t) => t !== null);
  return result("where", [condition, ...operands], node, (g) => {
    const gradients: (Tensor | null)[] = [null];
    if (x.tensor) {
      gradients.push(
        x.tensor.requiresGrad ? unbroadcast(select(condition, g, 0), x.tensor.shape) : null,
      );
    }
    if (y.tensor) {
      gradients.push(
        y.tensor.requiresGrad ? unbroadcast(select(condition, 0, g), y.tensor.shape) : null,
      );
    }
    return gradients;
  });
}

/** `value` where the mask holds, else `x`. */
export function maskedFill(x: Tensor, mask: Tensor, value: TensorLike): Tensor {
  return select(mask, value, x);
}

/** The elements in another type. */
export function cast(x: Tensor, dtype: DType): Tensor {
  if (x.dtype === dtype) return x;
  if (typeof dtype !== "string" || !Object.hasOwn(dtypes, dtype)) {
    throw dtypeError("cast")`
      Cannot cast to ${shown(dtype)}: the types are ${typeList(dtype)}`;
  }
  const from = x.dtype;
  const differentiable = isFloat(dtype) && isFloat(from);
  return result(
    "cast",
    [x],
    castNode(nodeOf(x), dtype),
    differentiable ? (g) => [g.cast(from)] : null,
  );
}

/** A value in memory that is read in another order is cast as it lies, so that whole lines are stored. */
function castNode(node: Node, dtype: DType): Node {
  const { op, shape, inputs } = node, [source] = inputs;
  if (op.kind !== "permute" || !source!.isLeaf) {
    return new Node({ kind: "cast" }, [node], shape, dtype);
  }
  // Nothing else may ask for the view.
  node.subside();
  return new Node(op, [new Node({ kind: "cast" }, [source!], source!.shape, dtype)], shape, dtype);
}

/** A tensor of truth values, inverted. */
export function logicalNot(x: Tensor): Tensor {
  return derived("logicalNot", x, { kind: "elementwise", fn: "not" }, x.shape, "bool", null);
}
