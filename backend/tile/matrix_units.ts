/**
 * Matrix units: what a warp (a wavefront, a sub-group) multiplies with one instruction or two, and which
 * work-item holds which element. To add one: its row here, its text in `opencl/codegen/units/matrix_helpers.ts`, its
 * tiles in `opencl/templates/mma/mma_tile.ts`, and where a driver says that a device has it
 * (`opencl/runtime/matrix_units.ts`).
 *
 * Layouts are those of the PTX ISA for `mma.sync`, of AMD's matrix instruction calculator for WMMA and MFMA, of
 * the extension's specification for Intel's sub-group products. Where they leave the order of a sum's terms to
 * the program, as long as both operands have the same, a work-item has neighbours.
 */
import type { DType } from "../graph/dtype.ts";
import type { Contraction } from "../kernel/kernel.ts";
import type { MatrixUnits } from "../kernel/target.ts";
import { add, div, type E, int, mod, mul } from "./language/expression.ts";
import type { MatrixUnitName } from "./language/statements.ts";

/** A place in a matrix. */
type At = readonly [row: E, column: E];

/** An operand's part that a work-item has. */
export interface OperandLayout {
  /** Words of 32 bits. */
  readonly words: number;
  /** Elements of a word: one in its low half, or two neighbours along the terms. */
  readonly elements: 1 | 2;
  /** Words of neighbouring terms, of which the first begins at a multiple of so many: 1, 2 or 4. */
  readonly together: 1 | 2 | 4;
  /** Row (of the right operand: column) and term of the first element of a word. */
  at(lane: E, word: number): At;
}

/** A unit; sums are floats. */
export interface MatrixUnit {
  /** Rows and columns of sums. */
  readonly rows: number;
  readonly columns: number;
  /** Terms of a sum. */
  readonly terms: number;
  /** Work-items that hold a matrix together. */
  readonly lanes: number;
  /** Bytes of an element. */
  readonly bytes: 2 | 4;
  /**
   * Instructions by which a warp's work-items read matrices for each other, and copy to local memory while they
   * go on: without them each reads its own words, and waits for what it copies.
   */
  readonly readsTogether: boolean;
  readonly left: OperandLayout;
  readonly right: OperandLayout;
  /** Sums of a work-item. */
  readonly sums: number;
  /** Row and column of a sum. */
  sum(lane: E, register: number): At;
}

/** Rows and columns of `mma.sync`, and its warp: attention is written for it. */
export const ROWS = 16, COLUMNS = 8, WARP = 32;

type Layouts = Omit<MatrixUnit, "bytes">;

const quad = (lane: E): E => div(lane, 4), own = (lane: E): E => mod(lane, 4);

/** NVIDIA's `mma.sync`, of words of `size` elements: four work-items have neighbouring ones of a row. */
const mma = (size: 1 | 2): Layouts => ({
  rows: ROWS,
  columns: COLUMNS,
  terms: 8 * size,
  lanes: WARP,
  readsTogether: true,
  left: {
    words: 4,
    elements: size,
    together: 1,
    at: (lane, word) => [
      add(quad(lane), (word & 1) * 8),
      add(mul(own(lane), size), (word >> 1) * 4 * size),
    ],
  },
  right: {
    words: 2,
    elements: size,
    together: 1,
    at: (lane, word) => [quad(lane), add(mul(own(lane), size), word * 4 * size)],
  },
  sums: 4,
  sum: (lane, register) => [
    add(quad(lane), (register >> 1) * 8),
    add(mul(own(lane), 2), register & 1),
  ],
});

/** AMD's: 16 rows and columns, of which lanes that are 16 apart have `apart` terms each, from a first one on. */
function amd(
  terms: number,
  lanes: 32 | 64,
  apart: number,
  { sums, sum }: Pick<MatrixUnit, "sums" | "sum">,
): Layouts {
  const words = (apart || terms) / 2;
  const operand: OperandLayout = {
    words,
    elements: 2,
    together: 4,
    at: (lane, word) => [mod(lane, 16), add(mul(div(lane, 16), apart), 2 * word)],
  };
  return {
    ...{ rows: 16, columns: 16, terms, lanes, readsTogether: false, sums, sum },
    ...{ left: operand, right: operand },
  };
}

/** RDNA 3: both halves of a wavefront have the same operands, and every second row of the sums. */
const wmma = amd(16, 32, 0, {
  sums: 8,
  sum: (lane, register) => [add(div(lane, 16), 2 * register), mod(lane, 16)],
});

/** RDNA 4: each half of a wavefront has half of the terms, and of the rows of the sums. */
const wmma12 = amd(16, 32, 8, {
  sums: 8,
  sum: (lane, register) => [add(mul(div(lane, 16), 8), register), mod(lane, 16)],
});

/** CDNA 2 and 3: a quarter of a wavefront has four terms of an instruction; two of these are one unit. */
const mfma = amd(32, 64, 8, {
  sums: 4,
  sum: (lane, register) => [add(mul(div(lane, 16), 4), register), mod(lane, 16)],
});

/**
 * Intel's products of a sub-group: a register of the left operand and of the sums has a row, one of the right
 * operand two terms of all columns. The narrow ones (Arc A) have two terms of a row in a word, others one.
 */
const dpas = (lanes: 8 | 16): Layouts => ({
  rows: 8,
  columns: lanes,
  terms: 16,
  lanes,
  readsTogether: false,
  left: {
    words: 8,
    elements: lanes === 8 ? 2 : 1,
    together: 1,
    at: (lane, word) => [int(word), mul(lane, 16 / lanes)],
  },
  right: { words: 8, elements: 2, together: 4, at: (lane, word) => [lane, int(2 * word)] },
  sums: 8,
  sum: (lane, register) => [int(register), lane],
});

const half = (layouts: Layouts): MatrixUnit => ({ bytes: 2, ...layouts });

/** All units, by name. */
export const matrixUnits: Readonly<Record<MatrixUnitName, MatrixUnit>> = {
  mma_f16: half(mma(2)),
  mma_bf16: half(mma(2)),
  mma_tf32: { bytes: 4, ...mma(1) },
  wmma_f16: half(wmma),
  wmma_bf16: half(wmma),
  wmma12_f16: half(wmma12),
  wmma12_bf16: half(wmma12),
  mfma_f16: half(mfma),
  mfma_bf16: half(mfma),
  dpas8_f16: half(dpas(8)),
  dpas8_bf16: half(dpas(8)),
  dpas16_f16: half(dpas(16)),
  dpas16_bf16: half(dpas(16)),
};

/** A device's units, by the type of what they multiply. */
export const unitsOfDevice: Readonly<
  Record<MatrixUnits, Readonly<Partial<Record<DType, MatrixUnitName>>>>
> = {
  mma: { float16: "mma_f16", bfloat16: "mma_bf16", float32: "mma_tf32" },
  wmma: { float16: "wmma_f16", bfloat16: "wmma_bf16" },
  wmma12: { float16: "wmma12_f16", bfloat16: "wmma12_bf16" },
  mfma: { float16: "mfma_f16", bfloat16: "mfma_bf16" },
  dpas8: { float16: "dpas8_f16", bfloat16: "dpas8_bf16" },
  dpas16: { float16: "dpas16_f16", bfloat16: "dpas16_bf16" },
};

/** The unit of a device for elements of so many bytes; null where there is none. */
export function unitOfBytes(units: MatrixUnits, bytes: number): MatrixUnit | null {
  const all = Object.values(unitsOfDevice[units]).map((name) => matrixUnits[name]);
  return all.find((unit) => unit.bytes === bytes) ?? null;
}

/** True where attention of half types has a program for a device's units. */
export const attendsOn = (units: MatrixUnits | null): boolean =>
  units !== null && matrixUnits[unitsOfDevice[units].float16!].readsTogether;

/** Unit that multiplies elements, and how many products of parts make one of floats. */
export interface UnitOfProduct {
  readonly name: MatrixUnitName;
  readonly products: 1 | 3;
}

/** A device's unit for a contraction; null where it has none. */
export function unitOf(
  { dtype, a, b, precision }: Contraction,
  units: MatrixUnits,
): UnitOfProduct | null {
  if (a.dtype !== b.dtype || a.dtype !== dtype) return null;
  const name = unitsOfDevice[units][dtype];
  if (name === undefined) return null;
  const isExact = name === "mma_tf32" && (precision ?? "highest") === "highest";
  return { name, products: isExact ? 3 : 1 };
}
