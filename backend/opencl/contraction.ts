/**
 * OpenCL C for contractions. Three shapes of kernel, picked by how the operands lie in memory:
 *
 * - `rows` (CPU devices): a work-item computes a tile of rows by vectors, along an axis that the
 *   right operand walks contiguously. PoCL's own work-item loops stay out of the way: on two cores
 *   it reaches OpenBLAS's speed (measured on PoCL 3.1).
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
import { type Contraction, extent, type LoopKernel } from "../graph/kernel.ts";
import type { Range, Target } from "./codegen.ts";
import { dots } from "./contraction_dots.ts";
import { rows } from "./contraction_rows.ts";
import { emitEpilogue, LANES, last } from "./contraction_text.ts";
import { tileFor, tiles } from "./contraction_tiles.ts";
import { loadText } from "./dialect.ts";

/** The fewest elements along which vectors are worth their trouble. */
const MIN_ROW = 4, MIN_DOT = 4;

/** Emits the contraction with its epilogue; null where the general kernel must do. */
export function emitContraction(
  emitter: Emitter,
  dialect: Dialect,
  target: Target,
): Range | null {
  const c = emitter.kernel.contraction!;
  if (!isTiled(c)) return null;
  if (target.isGpu) return tiles(emitter, c);
  const k = last(c.k), m = last(c.m), n = last(c.n);
  const { sizes } = emitter.kernel;
  const spans = (form: Form, symbol: number, least: number): boolean =>
    coefficient(form, symbol) === 1 && sizes[symbol]! >= least;
  const isDot = spans(c.a.form, k, MIN_DOT) && spans(c.b.form, k, MIN_DOT);
  const least = isDot ? LANES : MIN_ROW;
  const alongN = spans(c.b.form, n, least), alongM = spans(c.a.form, m, least);
  // Where both will do, the axis along which results lie, so that they are written as vectors.
  const isTransposed = emitter.kernel.outputs.every((o) => coefficient(o.form, m) === 1);
  if (alongN && !(alongM && isTransposed)) {
    return rows(emitter, dialect, target, m, n, c.a, c.b);
  }
  if (alongM) return rows(emitter, dialect, target, n, m, c.b, c.a);
  return isDot ? dots(emitter, dialect, c, k) : null;
}

/** True for contractions that have kernels of their own; the general one takes any types and views. */
export function isTiled(c: Contraction): boolean {
  const plain = c.dtype === "float32" && c.a.dtype === "float32" && c.b.dtype === "float32";
  return plain && c.m.length > 0 && c.n.length > 0 && c.k.length > 0 &&
    c.a.guards.length + c.b.guards.length === 0;
}

/** How many tiles a contraction is computed in, one after the other or side by side. */
export function tileCount(kernel: LoopKernel, { isGpu }: Target): number {
  const c = kernel.contraction!;
  const [m, n, others] = [c.m, c.n, c.batch].map((s) => extent(kernel, s)) as [
    number,
    number,
    number,
  ];
  const { bm, bn } = isGpu ? tileFor(m, n, others) : { bm: 8, bn: LANES };
  return Math.ceil(m / bm) * Math.ceil(n / bn) * others;
}

/** One work-item per element of the result: any types, any views. */
export function emitGeneralContraction(emitter: Emitter, dialect: Dialect): void {
  const c = emitter.kernel.contraction!;
  const T = dtypes[c.dtype].clCompute;
  emitter.line(`${T} acc = 0;`);
  for (const s of c.k) openLoop(emitter, dialect, s);
  const a = loadText(`a${c.a.input}`, c.a.dtype, emitter.form(c.a.form));
  const b = loadText(`a${c.b.input}`, c.b.dtype, emitter.form(c.b.form));
  emitter.line(`acc += (${T})${a} * (${T})${b};`);
  for (const _ of c.k) emitter.close();
  emitEpilogue(emitter);
}
