/**
 * OpenCL C for contractions. Shapes of kernel, picked by how the operands lie in memory:
 *
 * - `rows` (CPU devices): a work-item computes a tile of rows by vectors, along an axis that the
 *   right operand walks contiguously. PoCL's own work-item loops stay out of the way: on two cores
 *   it reaches OpenBLAS's speed (measured on PoCL 3.1).
 * - the same from a `window` of an operand whose padding is not in memory: convolutions.
 * - `lanes` (CPU devices): the gradient of a convolution's kernel; channels are lanes, taps are rows.
 * - `dots` (CPU devices): both operands are contiguous along the summed axis; a work-item computes a
 *   small tile of dot products with vectors along that axis.
 * - `tiles` (GPUs): a work-group computes a tile through local memory, a work-item a piece of it in
 *   registers.
 *
 * What fits none of them is computed by one work-item per element.
 */
import { coefficient, type Form } from "../graph/affine.ts";
import { dtypes } from "../graph/dtype.ts";
import { type Dialect, type Emitter, openLoop } from "../graph/emit.ts";
import { type Contraction, extent, type Load, type LoopKernel } from "../graph/kernel.ts";
import type { Range, Target } from "./codegen.ts";
import { dots } from "./contraction_dots.ts";
import { laneItems, lanes, type LaneTiling, laneTiling } from "./contraction_lanes.ts";
import { rows, windowRows, type WindowTiling, windowTiling } from "./contraction_rows.ts";
import { emitEpilogue, LANES, last } from "./contraction_text.ts";
import { tileFor, tiles } from "./contraction_tiles.ts";
import { loadText } from "./dialect.ts";

/** The fewest elements along which vectors are worth their trouble. */
const MIN_ROW = 4, MIN_DOT = 4;

/** Which kernel computes a contraction. */
type Choice =
  | { readonly kind: "tiles" | "dots" }
  | {
    readonly kind: "rows";
    readonly row: number;
    readonly column: number;
    readonly scalar: Load;
    readonly vector: Load;
  }
  | { readonly kind: "window"; readonly tiling: WindowTiling }
  | { readonly kind: "lanes"; readonly tiling: LaneTiling };

/** The choice for a device; null where the general kernel must do. */
function choose(kernel: LoopKernel, target: Target): Choice | null {
  const c = kernel.contraction!;
  if (!isTiled(c)) return null;
  const isGuarded = c.a.guards.length + c.b.guards.length > 0;
  if (target.isGpu) return isGuarded ? null : { kind: "tiles" };
  const lanes = laneTiling(kernel, target);
  if (lanes) return { kind: "lanes", tiling: lanes };
  const k = last(c.k), m = last(c.m), n = last(c.n);
  const { sizes } = kernel;
  const spans = (form: Form, symbol: number, least: number): boolean =>
    coefficient(form, symbol) === 1 && sizes[symbol]! >= least;
  const isDot = spans(c.a.form, k, MIN_DOT) && spans(c.b.form, k, MIN_DOT);
  const least = isDot ? LANES : MIN_ROW;
  const alongN = spans(c.b.form, n, least), alongM = spans(c.a.form, m, least);
  // Where both will do, the axis along which results lie, so that they are written as vectors.
  const isTransposed = kernel.outputs.every((o) => coefficient(o.form, m) === 1);
  const rowsAlong = (row: number, column: number, scalar: Load, vector: Load): Choice | null => {
    if (!isGuarded) return { kind: "rows", row, column, scalar, vector };
    const tiling = windowTiling(kernel, target, row, column, scalar, vector);
    return tiling && { kind: "window", tiling };
  };
  if (alongN && !(alongM && isTransposed)) return rowsAlong(m, n, c.a, c.b);
  if (alongM) return rowsAlong(n, m, c.b, c.a);
  return isDot && !isGuarded ? { kind: "dots" } : null;
}

/** Emits the contraction with its epilogue; null where the general kernel must do. */
export function emitContraction(
  emitter: Emitter,
  dialect: Dialect,
  target: Target,
): Range | null {
  const { kernel } = emitter;
  const choice = choose(kernel, target);
  switch (choice?.kind) {
    case "tiles":
      return tiles(emitter, kernel.contraction!);
    case "dots":
      return dots(emitter, dialect, kernel.contraction!, last(kernel.contraction!.k));
    case "rows": {
      const { row, column, scalar, vector } = choice;
      return rows(emitter, dialect, target, row, column, scalar, vector);
    }
    case "window":
      return windowRows(emitter, dialect, choice.tiling);
    case "lanes":
      return lanes(emitter, dialect, choice.tiling);
    default:
      return null;
  }
}

/** True for contractions that may have kernels of their own; the general one takes any types and views. */
export function isTiled(c: Contraction): boolean {
  const plain = c.dtype === "float32" && c.a.dtype === "float32" && c.b.dtype === "float32";
  return plain && c.m.length > 0 && c.n.length > 0 && c.k.length > 0;
}

/** True where a contraction of guarded operands has a kernel of its own, which reads them as they are. */
export function takesPadding(kernel: LoopKernel, target: Target): boolean {
  return choose(kernel, target) !== null;
}

/** How many tiles a contraction is computed in, one after the other or side by side. */
export function tileCount(kernel: LoopKernel, target: Target): number {
  const c = kernel.contraction!;
  const [m, n, others] = [c.m, c.n, c.batch].map((s) => extent(kernel, s)) as [
    number,
    number,
    number,
  ];
  const choice = choose(kernel, target);
  if (choice?.kind === "lanes") return laneItems(kernel, choice.tiling);
  const { bm, bn } = target.isGpu ? tileFor(m, n, others) : { bm: 8, bn: LANES };
  return Math.ceil(m / bm) * Math.ceil(n / bn) * others;
}

/** One work-item per element of the result: any types, any views. */
export function emitGeneralContraction(emitter: Emitter, dialect: Dialect): void {
  const c = emitter.kernel.contraction!;
  const T = dtypes[c.dtype].clCompute;
  emitter.line(`${T} acc = 0;`);
  for (const s of c.k) openLoop(emitter, dialect, s);
  const operand = ({ input, dtype, form, guards }: Load): string => {
    const text = `(${T})${loadText(`a${input}`, dtype, emitter.form(form))}`;
    return guards.length === 0 ? text : `(${emitter.guardText(guards)} ? ${text} : (${T})0)`;
  };
  emitter.line(`acc += ${operand(c.a)} * ${operand(c.b)};`);
  for (const _ of c.k) emitter.close();
  emitEpilogue(emitter);
}
