/** The statements of rows: loops over them, accumulators of reductions, and what is stored. */
import type { DType } from "./dtype.ts";
import { type Dialect, Emitter } from "./emit.ts";
import { extent, type LoopKernel, type Reduction } from "./kernel.ts";

/**
 * The statements of one row of a kernel: stages, then stores.
 *
 * @param unrolls Whether the iterations of the inner loops are written one after the other.
 */
export function emitRow(emitter: Emitter, dialect: Dialect, unrolls = false): void {
  const { kernel } = emitter;
  const done = new Set<number>();
  const declareRow = (ids: readonly number[]): void => {
    emitter.declare(ids.filter((id) => !done.has(id)));
    for (const id of ids) done.add(id);
  };
  const loops = (body: () => void): void => {
    if (unrolls) return eachIteration(emitter, dialect, body);
    for (const s of kernel.inner) openLoop(emitter, dialect, s);
    body();
    kernel.inner.forEach(() => emitter.close());
  };
  for (const stage of emitter.stages()) {
    const { row, inner } = emitter.needs(stage.map((r) => kernel.reductions[r]!.expr));
    declareRow(row);
    declareAccumulators(emitter, dialect, stage);
    loops(() => {
      emitter.declare(inner);
      emitAccumulation(emitter, dialect, stage);
    });
    finishArgs(emitter, dialect, stage);
  }
  const rowOutputs = kernel.outputs.map((_, o) => o).filter((o) =>
    !emitter.isInner(kernel.outputs[o]!.expr) && !usesInner(kernel, o)
  );
  const innerOutputs = kernel.outputs.map((_, o) => o).filter((o) => !rowOutputs.includes(o));
  declareRow(emitter.needs(rowOutputs.map((o) => kernel.outputs[o]!.expr)).row);
  for (const o of rowOutputs) emitter.store(o);
  if (innerOutputs.length === 0) return;
  const { row, inner } = emitter.needs(innerOutputs.map((o) => kernel.outputs[o]!.expr));
  declareRow(row);
  loops(() => {
    emitter.declare(inner);
    for (const o of innerOutputs) emitter.store(o);
  });
}

/** Writes a body once for each iteration of the inner loops. */
function eachIteration(emitter: Emitter, dialect: Dialect, body: () => void): void {
  const { inner, sizes } = emitter.kernel;
  const count = extent(emitter.kernel, inner);
  for (let at = 0; at < count; at++) {
    emitter.open("{");
    let rest = at;
    for (const s of inner.toReversed()) {
      emitter.line(dialect.declareIndex(`i${s}`, `${rest % sizes[s]!}`));
      rest = Math.floor(rest / sizes[s]!);
    }
    body();
    emitter.close();
  }
}

/** Opens the loop over a symbol: all of it, or the part that this row was given. */
export function openLoop(emitter: Emitter, dialect: Dialect, symbol: number): void {
  const { chunk } = emitter.kernel;
  const size = emitter.size(symbol);
  if (chunk?.symbol !== symbol) {
    emitter.open(dialect.loopHead(`i${symbol}`, "0", size));
    return;
  }
  const length = emitter.index(chunk.length);
  const start = `i${chunk.part} * ${length}`;
  emitter.open(
    dialect.loopHead(`i${symbol}`, start, dialect.smaller(`${start} + ${length}`, size)),
  );
}

/** True when an output is stored per element of the inner loops, whatever its value depends on. */
export function usesInner(kernel: LoopKernel, output: number): boolean {
  return kernel.outputs[output]!.form.terms.some(([s]) => kernel.inner.includes(s));
}

/** Accumulators of a stage; `r0` is the value, `r0i` the position of an arg-reduction. */
export function declareAccumulators(
  emitter: Emitter,
  dialect: Dialect,
  stage: readonly number[],
): void {
  for (const r of stage) {
    const reduction = emitter.kernel.reductions[r]!;
    const dtype = accumulatorType(emitter.kernel, reduction);
    const isArg = Emitter.isArg(reduction);
    const name = isArg ? `r${r}v` : `r${r}`;
    emitter.line(dialect.declareMutable(dtype, name, dialect.identity(reduction)));
    if (isArg) emitter.line(dialect.declareMutableIndex(`r${r}i`, "-1"));
  }
}

/**
 * The element that a reduction starts from, as text.
 *
 * @param extremes The least and the greatest number of types that have no infinities.
 */
export function identityText(
  { fn }: Reduction,
  dtype: DType,
  literal: (value: number, dtype: DType) => string,
  extremes: Readonly<Partial<Record<DType, readonly [low: string, high: string]>>>,
): string {
  switch (fn) {
    case "sum":
      return literal(0, dtype);
    case "prod":
      return literal(1, dtype);
    case "max":
    case "argmax":
      return extremes[dtype]?.[0] ?? literal(-Infinity, dtype);
    case "min":
    case "argmin":
      return extremes[dtype]?.[1] ?? literal(Infinity, dtype);
  }
}

/** The type that a reduction accumulates in: that of its input for arg-reductions. */
export function accumulatorType(kernel: LoopKernel, reduction: Reduction): DType {
  return Emitter.isArg(reduction) ? kernel.exprs[reduction.expr]!.dtype : reduction.dtype;
}

/** Joins the present element into the accumulators of a stage. */
export function emitAccumulation(
  emitter: Emitter,
  dialect: Dialect,
  stage: readonly number[],
): void {
  for (const r of stage) {
    const reduction = emitter.kernel.reductions[r]!;
    const value = emitter.name(reduction.expr);
    const index = Emitter.isArg(reduction) ? emitter.form(reduction.index) : "";
    for (const text of dialect.accumulate(reduction, `r${r}`, value, index)) emitter.line(text);
  }
}

/** Declares the results of arg-reductions, once their loops are done. */
export function finishArgs(emitter: Emitter, dialect: Dialect, stage: readonly number[]): void {
  for (const r of stage) {
    const reduction = emitter.kernel.reductions[r]!;
    if (!Emitter.isArg(reduction)) continue;
    const text = dialect.argResult(`r${r}`, reduction.dtype);
    emitter.line(dialect.declare(reduction.dtype, `r${r}`, text));
  }
}
