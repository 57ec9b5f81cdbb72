/**
 * The scalar functions that elementwise nodes and kernels are made of: what each takes and costs. How a
 * target language writes them stands in that writer's own table, which has a row for every one of these
 * ({@linkcode PrimitiveForms}): a missing row is a type error. To add one: its row here, then a row where
 * the compiler says that one is missing ("scalar" where vectors are not worth it).
 */
import { type DType, dtypes } from "./dtype.ts";

/** What is known of a scalar function, whatever language it is written in. */
export interface Primitive {
  /** How many operands it takes. They have one type, but for the condition of `where`. */
  readonly arity: 1 | 2 | 3;
  /** The types of operands: all, floating types only, or integers and truth values only. */
  readonly takes: "all" | "floats" | "integers";
  /** Rough cost in additions: decides between computing again and storing. */
  readonly cost: number;
  /** The result is a truth value; otherwise it has the type of the operands. */
  readonly isTest?: true;
  /** The result needs no rounding where the operands are numbers of its type. */
  readonly isExact?: true;
}

/** What is known of every scalar function, by its name: the only list of their names. */
export const primitiveTable = {
  neg: { arity: 1, takes: "all", cost: 1, isExact: true },
  abs: { arity: 1, takes: "all", cost: 1, isExact: true },
  // 0 for NaN, as in PyTorch.
  sign: { arity: 1, takes: "all", cost: 1, isExact: true },
  exp: { arity: 1, takes: "floats", cost: 8 },
  exp2: { arity: 1, takes: "floats", cost: 8 },
  expm1: { arity: 1, takes: "floats", cost: 8 },
  log: { arity: 1, takes: "floats", cost: 8 },
  log2: { arity: 1, takes: "floats", cost: 8 },
  log10: { arity: 1, takes: "floats", cost: 8 },
  log1p: { arity: 1, takes: "floats", cost: 8 },
  sqrt: { arity: 1, takes: "floats", cost: 4 },
  rsqrt: { arity: 1, takes: "floats", cost: 5 },
  reciprocal: { arity: 1, takes: "floats", cost: 2 },
  sin: { arity: 1, takes: "floats", cost: 8 },
  cos: { arity: 1, takes: "floats", cost: 8 },
  tan: { arity: 1, takes: "floats", cost: 8 },
  asin: { arity: 1, takes: "floats", cost: 8 },
  acos: { arity: 1, takes: "floats", cost: 8 },
  atan: { arity: 1, takes: "floats", cost: 8 },
  sinh: { arity: 1, takes: "floats", cost: 8 },
  cosh: { arity: 1, takes: "floats", cost: 8 },
  tanh: { arity: 1, takes: "floats", cost: 8 },
  asinh: { arity: 1, takes: "floats", cost: 8 },
  acosh: { arity: 1, takes: "floats", cost: 8 },
  atanh: { arity: 1, takes: "floats", cost: 8 },
  erf: { arity: 1, takes: "floats", cost: 12 },
  erfc: { arity: 1, takes: "floats", cost: 12 },
  sigmoid: { arity: 1, takes: "floats", cost: 9 },
  floor: { arity: 1, takes: "all", cost: 1, isExact: true },
  ceil: { arity: 1, takes: "all", cost: 1, isExact: true },
  trunc: { arity: 1, takes: "all", cost: 1, isExact: true },
  // To nearest, ties to even.
  round: { arity: 1, takes: "all", cost: 1, isExact: true },
  isnan: { arity: 1, takes: "all", cost: 1, isTest: true },
  isinf: { arity: 1, takes: "all", cost: 1, isTest: true },
  // What a number becomes in memory of half precision, where it is computed on and not stored.
  roundFloat16: { arity: 1, takes: "floats", cost: 2, isExact: true },
  roundBfloat16: { arity: 1, takes: "floats", cost: 2, isExact: true },
  not: { arity: 1, takes: "all", cost: 1, isTest: true },
  add: { arity: 2, takes: "all", cost: 1 },
  sub: { arity: 2, takes: "all", cost: 1 },
  mul: { arity: 2, takes: "all", cost: 1 },
  // Of integers: towards zero, and 0 where the divisor is 0.
  div: { arity: 2, takes: "all", cost: 4 },
  // Python's remainder: the result has the sign of the divisor.
  mod: { arity: 2, takes: "all", cost: 6 },
  floordiv: { arity: 2, takes: "all", cost: 8 },
  pow: { arity: 2, takes: "all", cost: 16 },
  atan2: { arity: 2, takes: "floats", cost: 12 },
  // NaN where one of the operands is.
  maximum: { arity: 2, takes: "all", cost: 1, isExact: true },
  minimum: { arity: 2, takes: "all", cost: 1, isExact: true },
  eq: { arity: 2, takes: "all", cost: 1, isTest: true },
  ne: { arity: 2, takes: "all", cost: 1, isTest: true },
  lt: { arity: 2, takes: "all", cost: 1, isTest: true },
  le: { arity: 2, takes: "all", cost: 1, isTest: true },
  gt: { arity: 2, takes: "all", cost: 1, isTest: true },
  ge: { arity: 2, takes: "all", cost: 1, isTest: true },
  // NaN is true.
  and: { arity: 2, takes: "all", cost: 1, isTest: true },
  or: { arity: 2, takes: "all", cost: 1, isTest: true },
  xor: { arity: 2, takes: "all", cost: 1, isTest: true },
  bitAnd: { arity: 2, takes: "integers", cost: 1 },
  bitOr: { arity: 2, takes: "integers", cost: 1 },
  bitXor: { arity: 2, takes: "integers", cost: 1 },
  // A shift is by less than the width.
  shiftLeft: { arity: 2, takes: "integers", cost: 1 },
  shiftRight: { arity: 2, takes: "integers", cost: 1 },
  // The first operand is a truth value, the others have the type of the result.
  where: { arity: 3, takes: "all", cost: 1, isExact: true },
} as const satisfies Readonly<Record<string, Primitive>>;

/** The name of a scalar function. */
export type PrimitiveName = keyof typeof primitiveTable;

/** The same table, for a name that is known at run time only. */
export const primitives: Readonly<Record<PrimitiveName, Primitive>> = primitiveTable;

/** True when the primitive takes operands of `dtype`. */
export function accepts(name: PrimitiveName, dtype: DType): boolean {
  const { takes } = primitives[name];
  return takes === "all" || (takes === "floats") === (dtypes[dtype].kind === "float");
}

/** The kinds of operands, among those that a writer tells apart, that a primitive takes. */
type Taken<Name extends PrimitiveName, Kind extends string> =
  typeof primitiveTable[Name]["takes"] extends "floats" ? Extract<Kind, "float">
    : typeof primitiveTable[Name]["takes"] extends "integers" ? Exclude<Kind, "float">
    : Kind;

/**
 * A writer's table: for each primitive one form, or one for each kind of operands that it takes. A
 * writer of vectors has `"scalar"` among its forms: kernels with that function are left to scalar code.
 */
export type PrimitiveForms<Form, Kind extends string> = {
  readonly [Name in PrimitiveName]: Form | { readonly [K in Taken<Name, Kind>]: Form };
};

/** The form of a primitive for one kind of operands; the caller knows that it takes them. */
export function formOf<Form, Kind extends string>(
  forms: PrimitiveForms<Form, Kind>,
  name: PrimitiveName,
  kind: Kind,
): Form {
  const row = forms[name] as Form | Readonly<Record<Kind, Form>>;
  return typeof row === "object" && row !== null && kind in row
    ? (row as Readonly<Record<Kind, Form>>)[kind]
    : row as Form;
}

/** A text with its operands put in for `$0`, `$1` and `$2`. */
export function fillTemplate(template: string, operands: readonly string[]): string {
  return template.replace(/\$(\d)/g, (_, digit: string) => operands[Number(digit)]!);
}
