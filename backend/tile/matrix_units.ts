/**
 * Matrix units: what a warp multiplies with one instruction, and which work-item holds which element. To add
 * one: its row here, and its text in the table of a dialect. Layouts are those of `mma.sync` in the PTX ISA.
 */
import type { DType } from "../graph/dtype.ts";
import type { Contraction } from "../kernel/kernel.ts";
import { add, div, type E, mod, mul } from "./language/expression.ts";
import type { MatrixUnitName } from "./language/statements.ts";

/** A place in a matrix. */
type At = readonly [row: E, column: E];

/** A unit: 16 rows by 8 columns of sums, which are floats, four to a work-item. */
export interface MatrixUnit {
  /** Terms of a sum. */
  readonly terms: number;
  /** Bytes of an element: a word has one, or two neighbours along the terms. */
  readonly bytes: 2 | 4;
  /** Row and term of the first element of a word of the left operand, of four. */
  left(lane: E, word: number): At;
  /** Column and term of one of the right operand, of two. */
  right(lane: E, word: number): At;
  /** Row and column of a sum. */
  sum(lane: E, register: number): At;
}

/** Rows and columns of sums of all units. */
export const ROWS = 16, COLUMNS = 8;
/** Work-items that hold a matrix together. */
export const WARP = 32;

const quad = (lane: E): E => div(lane, 4), own = (lane: E): E => mod(lane, 4);

const sum = (lane: E, register: number): At => [
  add(quad(lane), (register >> 1) * 8),
  add(mul(own(lane), 2), register & 1),
];

/** Words of `size` elements: four work-items have neighbouring ones of a row. */
const words = (size: number): Pick<MatrixUnit, "terms" | "left" | "right" | "sum"> => ({
  terms: 8 * size,
  left: (lane, word) => [
    add(quad(lane), (word & 1) * 8),
    add(mul(own(lane), size), (word >> 1) * 4 * size),
  ],
  right: (lane, word) => [quad(lane), add(mul(own(lane), size), word * 4 * size)],
  sum,
});

/** All units, by name. */
export const matrixUnits = {
  f16: { bytes: 2, ...words(2) },
  bf16: { bytes: 2, ...words(2) },
  tf32: { bytes: 4, ...words(1) },
} satisfies Readonly<Record<MatrixUnitName, MatrixUnit>>;

/** Unit that multiplies elements, and how many products of parts make one of floats. */
export interface UnitOfProduct {
  readonly name: MatrixUnitName;
  readonly products: 1 | 3;
}

/** The unit of a contraction; null where there is none. */
export function unitOf({ dtype, a, b, precision }: Contraction): UnitOfProduct | null {
  if (a.dtype !== b.dtype || a.dtype !== dtype) return null;
  const names: Partial<Record<DType, MatrixUnitName>> = {
    float16: "f16",
    bfloat16: "bf16",
    float32: "tf32",
  };
  const name = names[dtype];
  if (name === undefined) return null;
  const isExact = name === "tf32" && (precision ?? "highest") === "highest";
  return { name, products: isExact ? 3 : 1 };
}
