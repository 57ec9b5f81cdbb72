/** Common element type of two operands: PyTorch's rules. */
import { type DType, dtypes } from "../../../backend/internal.ts";
import { phraseOf } from "./options.ts";
import { dtypeError } from "./errors.ts";

const categories = { bool: 0, int: 1, float: 2 } as const;

function category(dtype: DType): number {
  return categories[dtypes[dtype].kind];
}

/** The type that holds the values of both. */
export function promote(a: DType, b: DType): DType {
  if (a === b) return a;
  if (category(a) !== category(b)) return category(a) > category(b) ? a : b;
  if (category(a) === categories.int) return promoteIntegers(a, b);
  // The half types hold numbers that the other does not.
  if (dtypes[a].bytes === dtypes[b].bytes) return "float32";
  return dtypes[a].bytes > dtypes[b].bytes ? a : b;
}

function promoteIntegers(a: DType, b: DType): DType {
  if (a === "uint32" || b === "uint32") {
    throw dtypeError("promote")`
      Cannot compute with ${a} and ${b}: no type is that of both, as in PyTorch; cast one of them,
      such as with .cast("int64")`;
  }
  const isSame = dtypes[a].bytes === dtypes[b].bytes;
  // int8 and uint8.
  return isSame ? "int16" : dtypes[a].bytes > dtypes[b].bytes ? a : b;
}

/** Operand of promotion: a type, and how strongly it counts. */
export interface Operand {
  readonly dtype: DType;
  /** Tensors with axes count before scalars, scalars before plain numbers. */
  readonly rank: "tensor" | "scalar" | "number";
}

const strength = { tensor: 2, scalar: 1, number: 0 } as const;

/** The result type of a binary operation: a weaker operand counts only by its category. */
export function promoteOperands(a: Operand, b: Operand): DType {
  if (strength[a.rank] < strength[b.rank]) return promoteOperands(b, a);
  if (strength[a.rank] === strength[b.rank]) return promote(a.dtype, b.dtype);
  return category(b.dtype) > category(a.dtype) ? b.dtype : a.dtype;
}

/** The operand that a JavaScript number is: whole numbers fit any type, others need a float. */
export function numberOperand(value: number): Operand {
  return { dtype: Number.isInteger(value) ? "int64" : "float32", rank: "number" };
}

/** The type of positions in `count` elements: int32, and int64 where that is too small. */
export function positionType(count: number): "int32" | "int64" {
  return count > 2 ** 31 ? "int64" : "int32";
}

/** Throws unless the type is an integer type. */
export function requireInteger(op: string, what: string, dtype: DType): void {
  if (dtypes[dtype].kind === "int") return;
  throw dtypeError(op)`
    Cannot ${phraseOf(op)}: ${what} must be integers, got ${dtype}; cast them with .cast("int32")`;
}
