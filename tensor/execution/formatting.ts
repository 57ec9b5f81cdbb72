/** Values as text, as NumPy prints them: aligned, four decimals, the middle of long axes left out. */
import {
  type DType,
  formatShape,
  isFloat,
  type Shape,
  type TypedArray,
} from "../../backend/internal.ts";

/** Tensors of more elements are shortened. */
export const MAX_PRINTED = 1000;
/** Elements at either end of an axis of a shortened tensor. */
const EDGE = 3;
/** Numbers stand in lines of this many characters at most. */
const LINE = 80;

/** Printed part of a tensor: along each axis all of it, or both ends. */
export function shortened(shape: Shape): boolean[] {
  const size = shape.reduce((a, b) => a * b, 1);
  return shape.map((n) => size > MAX_PRINTED && n > 2 * EDGE);
}

/** The positions along an axis that are printed. */
export function printedPositions(n: number, isShort: boolean): number[] {
  const all = Array.from({ length: isShort ? 2 * EDGE : n }, (_, k) => k);
  return isShort ? all.map((k) => k < EDGE ? k : n - 2 * EDGE + k) : all;
}

/** Facts about a tensor, and the elements of its printed part in row-major order. */
export interface Printed {
  readonly shape: Shape;
  readonly dtype: DType;
  readonly backend: string;
  readonly elements: TypedArray;
}

/** `Tensor([[1., 2.], ...], shape [2, 2], float32, cl)`. */
export function formatTensor({ shape, dtype, backend, elements }: Printed): string {
  const words = wordsOf(Array.from(elements as ArrayLike<number | bigint>), dtype);
  const width = words.reduce((most, word) => Math.max(most, word.length), 0);
  const padded = words.map((word) => word.padStart(width));
  const head = "Tensor(", isShort = shortened(shape);
  const sizes = shape.map((n, axis) => isShort[axis] ? 2 * EDGE : n);
  let at = 0;
  const nest = (axis: number, indent: number): string => {
    if (axis === shape.length) return padded[at++]!;
    const parts = Array.from({ length: sizes[axis]! }, () => nest(axis + 1, indent + 1));
    if (isShort[axis]) parts.splice(EDGE, 0, "...");
    return `[${joined(parts, shape.length - axis - 1, indent + 1)}]`;
  };
  return `${head}${nest(0, head.length)}, shape ${formatShape(shape)}, ${dtype}, ${backend})`;
}

/** Numbers side by side in lines; rows, matrices, ... below each other, with empty lines between. */
function joined(parts: readonly string[], depth: number, indent: number): string {
  const gap = " ".repeat(indent);
  if (depth > 0) return parts.join(`,${"\n".repeat(depth)}${gap}`);
  const lines: string[] = [];
  for (const part of parts) {
    const line = lines.at(-1);
    if (line === undefined) lines.push(part);
    else if (indent + line.length + part.length + 3 > LINE) lines.push(part);
    else lines[lines.length - 1] = `${line}, ${part}`;
  }
  return lines.join(`,\n${gap}`);
}

function wordsOf(values: readonly (number | bigint)[], dtype: DType): string[] {
  if (dtype === "bool") return values.map((value) => value ? "true" : "false");
  if (!isFloat(dtype)) return values.map((value) => `${value}`);
  return floatWords(values.map(Number));
}

/** All with the same number of decimals, or all with an exponent. */
function floatWords(values: readonly number[]): string[] {
  const sizes = values.map(Math.abs).filter((x) => Number.isFinite(x) && x > 0);
  const most = Math.max(0, ...sizes), least = Math.min(Infinity, ...sizes);
  if (sizes.every(Number.isInteger) && most < 1e8) {
    return values.map((x) => Number.isFinite(x) ? `${signed(x)}.` : special(x));
  }
  if (most >= 1e8 || least < 1e-4 || most / least > 1e5) {
    return values.map((x) => Number.isFinite(x) ? x.toExponential(4) : special(x));
  }
  const fixed = values.map((x) => Number.isFinite(x) ? x.toFixed(4) : special(x));
  const zeros = (word: string): number => word.length - word.replace(/0+$/, "").length;
  const cut = Math.min(3, ...fixed.filter((_, k) => Number.isFinite(values[k])).map(zeros));
  return fixed.map((word, k) =>
    Number.isFinite(values[k]) ? word.slice(0, word.length - cut) : word
  );
}

function signed(x: number): string {
  return Object.is(x, -0) ? "-0" : `${x}`;
}

function special(x: number): string {
  return Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf";
}
