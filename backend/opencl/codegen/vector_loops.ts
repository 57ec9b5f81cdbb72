/**
 * Kernels of CPU devices in explicit vectors: maps, rows that are reduced along their last loop, and
 * columns that are reduced side by side. A work-item does thousands of elements in loops of its own,
 * in a group of its own.
 */
import { affineKey } from "../../kernel/affine.ts";
import { dtypes } from "../../graph/dtype.ts";
import { primitives } from "../../graph/primitives.ts";
import { identityOf } from "../../graph/reductions.ts";
import type { Dialect, Emitter } from "../../codegen/emit.ts";
import { accumulatorType, extent, type LoopKernel } from "../../kernel/kernel.ts";
import { boundsOf, openBlocks, walk } from "../../codegen/rows.ts";
import { blocksOf, isBlocked } from "../../kernel/accumulation.ts";
import { usesInner } from "../../kernel/analysis.ts";
import type { LaunchVariant } from "../../kernel/template.ts";
import type { WorkSize } from "./generated.ts";
import { decompose, openRows } from "./indices.ts";
import { LaneSums } from "./lane_sums.ts";
import { computeType } from "./types.ts";
import { canVectorize, isCostly, LANES, type Lanes, laneType, VectorBody } from "./vector.ts";

/** Elements of a work-item: enough to be worth a group, few enough to share them out. */
const CHUNK = 8192;
const COSTLY_CHUNK = 4096;
/** So many elements in chunks of the larger size are enough groups for any processor. */
const MUCH = 64 * CHUNK;
/** Independent accumulators hide the latency of additions in short bodies. */
const UNROLL = 4;
const SHORT_BODY = 8;
/** Elements that a sum asks for in advance, a bare load a vector being all that it does. */
const AHEAD = 512;
/** Indices among the arguments of a work-item that takes many rows: how many, and how many there are. */
const OPEN_ROWS_NUMBERS = 2;
/** Fewer elements than a vector has are worth one only in costly functions. */
const FEWEST_LANES = 4;
/** Bytes of a result that no cache keeps for its reader (measured from 4 MiB to 128 MiB). */
const STREAMED = 32 << 20;

/** Which loop of a kernel vectors walk, and what its elements are: of a map, of rows or of columns. */
export interface VectorForm {
  readonly kind: "map" | "rows" | "columns";
  readonly symbol: number;
}

/** How a kernel is computed in vectors; null where its loops do not allow it. */
export function vectorFormOf(kernel: LoopKernel): VectorForm | null {
  const lastOuter = kernel.outer[kernel.outer.length - 1];
  const lastInner = kernel.inner[kernel.inner.length - 1];
  if (lastInner !== undefined && isWide(kernel, lastInner)) {
    return { kind: "rows", symbol: lastInner };
  }
  if (lastOuter === undefined) return null;
  if (lastInner !== undefined) {
    // Few columns are computed as many are, so that sums over batches of any width share a launch.
    return kernel.sizes[lastOuter]! >= FEWEST_LANES && canVectorize(kernel, lastOuter)
      ? { kind: "columns", symbol: lastOuter }
      : null;
  }
  // A single loop of any length has one text, so that many of them share a launch.
  const isSingle = kernel.outer.length === 1 && canVectorize(kernel, lastOuter);
  return kernel.reductions.length === 0 && (isSingle || isWide(kernel, lastOuter))
    ? { kind: "map", symbol: lastOuter }
    : null;
}

/** Writes a kernel in vectors. */
export function emitVectorKernel(
  emitter: Emitter,
  dialect: Dialect,
  { kind, symbol }: VectorForm,
): WorkSize {
  switch (kind) {
    case "map":
      return emitMap(emitter, symbol);
    case "rows":
      return new VectorRows(emitter, dialect, symbol).emit();
    case "columns":
      return new VectorColumns(emitter, dialect, symbol).emit();
    default:
      return kind satisfies never;
  }
}

/** What the text depends on beside the kernel's structure; null for a grid of two dimensions. */
export function vectorVariant(
  kernel: LoopKernel,
  { kind, symbol }: VectorForm,
): LaunchVariant | null {
  const stages = kernel.reductions.length + 1;
  const lead = kernel.outer.slice(0, -1);
  switch (kind) {
    case "map": {
      const isFlat = lead.length === 0;
      if (!isFlat && kernel.sizes[symbol]! >= chunkOf(kernel)) return null;
      const key = `map${isStreamed(kernel) ? " streamed" : ""}`;
      return { key, numbers: isFlat ? 0 : OPEN_ROWS_NUMBERS, copies: 2 };
    }
    case "rows": {
      // A sum of one vector an iteration, and one of several, are cut where they are long.
      const cuts = [1, UNROLL].map((copies) => cutLoop(kernel, symbol, LANES * copies));
      return {
        key: `rows ${cuts}`,
        numbers: OPEN_ROWS_NUMBERS + stages,
        copies: (UNROLL + 2) * stages,
      };
    }
    case "columns":
      if (lead.length > 0) return null;
      return {
        key: `columns ${columnCopies(kernel, symbol)} ${cutLoop(kernel)}`,
        numbers: 2 * stages,
        copies: (UNROLL + 1) * stages,
      };
    default:
      return kind satisfies never;
  }
}

/** The loop whose sums are added up in blocks, if there are any. */
function cutLoop(kernel: LoopKernel, along = -1, width = 1): number | "" {
  if (!kernel.reductions.some(isBlocked)) return "";
  const found = blocksOf(kernel, (s, size) => s === along ? Math.ceil(size / width) : size);
  return found?.symbol ?? "";
}

function isWide(kernel: LoopKernel, symbol: number): boolean {
  const fewest = isCostly(kernel.exprs) ? FEWEST_LANES : LANES;
  return kernel.sizes[symbol]! >= fewest && canVectorize(kernel, symbol);
}

function chunkOf(kernel: LoopKernel): number {
  return isCostly(kernel.exprs) ? COSTLY_CHUNK : CHUNK;
}

/** Rows that an item computes; among many of them a group's own cost counts more than its share. */
function rowsOfItem(kernel: LoopKernel, length: number): number {
  const isMuch = extent(kernel, kernel.outer) * length >= MUCH;
  return Math.max(1, Math.floor((isMuch ? CHUNK : chunkOf(kernel)) / length));
}

// ---- maps

/** A map along its last loop: long loops are cut in pieces, short ones are taken together. */
function emitMap(emitter: Emitter, symbol: number): WorkSize {
  const { kernel } = emitter;
  const lead = kernel.outer.slice(0, -1);
  const length = kernel.sizes[symbol]!, chunk = chunkOf(kernel);
  const size = emitter.size(symbol);
  if (lead.length > 0 && length < chunk) {
    const items = openRows(emitter, lead, Math.max(1, Math.floor(chunk / length)));
    emitMapLoop(emitter, symbol, "0", size);
    emitter.close();
    return { global: [items], local: [1] };
  }
  emitter.line(`const Index first = get_global_id(0) * ${chunk};`);
  emitter.line(`const Index end = min(first + ${chunk}, ${size});`);
  const pieces = Math.ceil(length / chunk);
  if (lead.length > 0) decompose(emitter, lead, "get_global_id(1)");
  emitMapLoop(emitter, symbol, "first", "end");
  return lead.length === 0
    ? { global: [pieces], local: [1] }
    : { global: [pieces, extent(kernel, lead)], local: [1, 1] };
}

function emitMapLoop(emitter: Emitter, symbol: number, start: string, end: string): void {
  const { kernel } = emitter;
  const body = new VectorBody(emitter, symbol);
  const outputs = kernel.outputs.map((_, o) => o);
  const { row } = emitter.needs(kernel.outputs.map((o) => o.expr));
  const streamed = isStreamed(kernel);
  body.declareScalars(row);
  const i = `i${symbol}`;
  emitter.line(`Index ${i} = ${start};`);
  emitter.open(`for (; ${i} + ${LANES} <= ${end}; ${i} += ${LANES}) {`);
  body.declareVectors(row);
  for (const o of outputs) streamed ? body.stream(o) : body.store(o);
  emitter.close();
  emitRest(emitter, i, end, (left) => {
    body.declareVectors(row, { left });
    for (const o of outputs) body.store(o, "", 0, left);
  });
  if (streamed) emitter.line("mem_fence(CLK_GLOBAL_MEM_FENCE);");
}

function isStreamed({ outputs }: LoopKernel): boolean {
  const [output] = outputs;
  return outputs.length === 1 && output!.dtype === "float32" &&
    output!.size * dtypes.float32.bytes >= STREAMED;
}

/** The vector that is not full, if there is one. */
function emitRest(emitter: Emitter, i: string, end: string, body: (left: string) => void): void {
  emitter.open(`if (${i} < ${end}) {`);
  emitter.line(`const int left = (int)(${end} - ${i});`);
  body("left");
  emitter.close();
}

// ---- what rows and columns share

/** Declares each value once; those of loops that were closed are not declared. */
class Declared {
  readonly #ids = new Set<number>();

  fresh(ids: readonly number[]): number[] {
    const fresh = ids.filter((id) => !this.#ids.has(id));
    for (const id of fresh) this.#ids.add(id);
    return fresh;
  }
}

// ---- rows

/** A value that is kept in an output's place from the loop that reduces it to the one that stores. */
interface Kept {
  readonly id: number;
  readonly output: number;
}

class VectorRows {
  readonly #emitter: Emitter;
  readonly #dialect: Dialect;
  readonly #symbol: number;
  readonly #body: VectorBody;

  constructor(emitter: Emitter, dialect: Dialect, symbol: number) {
    this.#emitter = emitter;
    this.#dialect = dialect;
    this.#symbol = symbol;
    this.#body = new VectorBody(emitter, symbol);
  }

  emit(): WorkSize {
    const emitter = this.#emitter;
    const { kernel } = emitter;
    const length = kernel.chunk?.length ?? extent(kernel, kernel.inner);
    const items = openRows(emitter, kernel.outer, rowsOfItem(kernel, length));
    const declared = new Declared();
    const stages = emitter.stages();
    const all = kernel.outputs.map((_, o) => o);
    const inner = all.filter((o) => usesInner(kernel, o));
    const kept = inner.length === 1 ? this.#worthKeeping(stages, inner[0]!) : null;
    stages.forEach((stage, k) => {
      const needs = emitter.needs(stage.map((r) => kernel.reductions[r]!.expr));
      emitter.declare(declared.fresh(needs.row));
      this.#reduce(stage, needs.inner, k === stages.length - 1 ? kept : null);
    });
    const rowOutputs = all.filter((o) => !inner.includes(o));
    emitter.declare(declared.fresh(this.#needs(rowOutputs).row));
    for (const o of rowOutputs) emitter.store(o);
    if (inner.length > 0) {
      const needs = this.#needs(inner, kept);
      emitter.declare(declared.fresh(needs.row));
      this.#store(inner, needs.inner, kept);
    }
    emitter.close();
    return { global: [items], local: [1] };
  }

  #needs(outputs: readonly number[], kept: Kept | null = null): { row: number[]; inner: number[] } {
    const { kernel } = this.#emitter;
    const known = new Set(kept ? [kept.id] : []);
    return this.#emitter.needs(outputs.map((o) => kernel.outputs[o]!.expr), known);
  }

  /**
   * A costly value that the last loop of reductions and the loop of the output both need, such as
   * the exponentials of a softmax. An output may lie where an input lay, so nothing else may be
   * read from its place afterwards.
   */
  #worthKeeping(stages: readonly number[][], output: number): Kept | null {
    const { kernel } = this.#emitter;
    const last = stages[stages.length - 1];
    const { form, dtype } = kernel.outputs[output]!;
    if (!last || dtype !== "float32") return null;
    const reduced = this.#emitter.needs(last.map((r) => kernel.reductions[r]!.expr)).inner;
    const isCostlyHere = (id: number): boolean => {
      const e = kernel.exprs[id]!;
      return e.op === "primitive" && e.dtype === "float32" && primitives[e.fn].cost >= 8;
    };
    const wanted = this.#needs([output]).inner;
    const id = reduced.findLast((id) => isCostlyHere(id) && wanted.includes(id));
    if (id === undefined) return null;
    const kept = { id, output };
    const readsPlace = this.#needs([output], kept).inner.some((other) => {
      const e = kernel.exprs[other]!;
      return e.op === "load" && affineKey(kernel.loads[e.load]!.form) === affineKey(form);
    });
    return readsPlace ? null : kept;
  }

  /** The statements of the loops within a row; `line` is the vectorized one, from `i` to `end`. */
  #loops(inner: readonly number[], sums: LaneSums | null, line: () => void): void {
    const emitter = this.#emitter, dialect = this.#dialect, symbol = this.#symbol;
    const isCut = sums?.blocks?.symbol === symbol;
    emitter.open("{");
    walk(emitter, dialect, emitter.kernel.inner.slice(0, -1), sums, () => {
      this.#body.declareScalars(inner);
      const bounds = isCut
        ? openBlocks(emitter, dialect, sums.blocks!)
        : boundsOf(emitter, dialect, symbol);
      if (isCut) sums.begin();
      emitter.line(`Index i${symbol} = ${bounds[0]};`);
      emitter.line(`const Index end = ${bounds[1]};`);
      line();
      if (!isCut) return;
      sums.end();
      emitter.close();
    });
    emitter.close();
  }

  #reduce(stage: readonly number[], inner: readonly number[], kept: Kept | null): void {
    const emitter = this.#emitter;
    const { kernel } = emitter;
    const isShort = inner.length <= SHORT_BODY && !isCostly(inner.map((id) => kernel.exprs[id]!));
    const copies = isShort ? UNROLL : 1;
    const sums = new LaneSums(emitter, this.#dialect, stage, copies, this.#symbol);
    sums.declare();
    this.#loops(inner, sums, () => this.#accumulate(sums, stage, inner, kept, copies));
    sums.finish();
    for (const r of stage) this.#fold(r);
  }

  /** Joins the lanes of a result. */
  #fold(r: number): void {
    const reduction = this.#emitter.kernel.reductions[r]!;
    const dtype = accumulatorType(this.#emitter.kernel, reduction);
    const text = `fold_${reduction.fn}_${computeType(dtype)}(z${r}_0)`;
    this.#emitter.line(this.#dialect.declare(dtype, `r${r}`, text));
  }

  /** Adds the elements of a line to `copies` accumulators a reduction. */
  #accumulate(
    sums: LaneSums,
    stage: readonly number[],
    inner: readonly number[],
    kept: Kept | null,
    copies: number,
  ): void {
    const emitter = this.#emitter, body = this.#body;
    const { reductions } = emitter.kernel;
    const i = `i${this.#symbol}`;
    const compute = (lanes: Lanes): void => {
      body.declareVectors(inner, lanes);
      if (kept) body.keep(kept.id, kept.output, lanes);
    };
    for (const count of copies > 1 ? [copies, 1] : [1]) {
      const width = LANES * count;
      emitter.open(`for (; ${i} + ${width} <= end; ${i} += ${width}) {`);
      for (let c = 0; c < count; c++) {
        if (count > 1 && inner.length === 1) body.prefetch(inner, c * LANES, AHEAD);
        compute({ tag: `_${c}`, shift: c * LANES });
        for (const r of stage) sums.accumulate(r, c, body.name(reductions[r]!.expr, `_${c}`));
      }
      emitter.close();
    }
    emitRest(emitter, i, "end", (left) => {
      compute({ tag: "_0", left });
      for (const r of stage) {
        const type = laneType(reductions[r]!);
        const { fn, dtype } = reductions[r]!;
        const none = `(${type})(${this.#dialect.constant(identityOf(fn, dtype), dtype)})`;
        const value = body.name(reductions[r]!.expr, "_0");
        emitter.line(`const ${type} x${r} = select(${none}, ${value}, lanes16() < ${left});`);
        sums.join(r, `x${r}`);
      }
    });
  }

  #store(outputs: readonly number[], inner: readonly number[], kept: Kept | null): void {
    const emitter = this.#emitter, body = this.#body;
    const i = `i${this.#symbol}`;
    const fresh = kept ? inner.filter((id) => id !== kept.id) : inner;
    const compute = (left: string): void => {
      if (kept) body.reload(kept.id, kept.output, left);
      body.declareVectors(fresh, { left });
      for (const o of outputs) body.store(o, "", 0, left);
    };
    this.#loops(fresh, null, () => {
      emitter.open(`for (; ${i} + ${LANES} <= end; ${i} += ${LANES}) {`);
      compute("");
      emitter.close();
      emitRest(emitter, i, "end", compute);
    });
  }
}

// ---- columns

/** Vectors of columns that a work-item computes. */
function columnCopies(kernel: LoopKernel, symbol: number): number {
  const isShort = kernel.exprs.length <= 2 * SHORT_BODY && !isCostly(kernel.exprs);
  return isShort && kernel.sizes[symbol]! >= UNROLL * LANES ? UNROLL : 1;
}

/** Neighbouring rows that read neighbouring elements: each lane reduces one. */
class VectorColumns {
  readonly #emitter: Emitter;
  readonly #dialect: Dialect;
  readonly #symbol: number;
  readonly #body: VectorBody;

  constructor(emitter: Emitter, dialect: Dialect, symbol: number) {
    this.#emitter = emitter;
    this.#dialect = dialect;
    this.#symbol = symbol;
    this.#body = new VectorBody(emitter, symbol);
  }

  emit(): WorkSize {
    const emitter = this.#emitter;
    const { kernel } = emitter;
    const lead = kernel.outer.slice(0, -1);
    const length = kernel.sizes[this.#symbol]!, size = emitter.size(this.#symbol);
    const copies = columnCopies(kernel, this.#symbol);
    const width = copies * LANES;
    const i = `i${this.#symbol}`;
    if (lead.length > 0) decompose(emitter, lead, "get_global_id(1)");
    emitter.line(`const Index first = get_global_id(0) * ${width};`);
    emitter.open(`if (first + ${width} <= ${size}) {`);
    emitter.line(`const Index ${i} = first;`);
    this.#block(copies, "");
    emitter.line("return;");
    emitter.close();
    emitter.open(
      `for (Index ${i} = first; ${i} < min(first + ${width}, ${size}); ${i} += ${LANES}) {`,
    );
    emitter.line(`const int left = (int)min(${size} - ${i}, (Index)${LANES});`);
    this.#block(1, "left");
    emitter.close();
    const blocks = Math.ceil(length / width);
    return lead.length === 0
      ? { global: [blocks], local: [1] }
      : { global: [blocks, extent(kernel, lead)], local: [1, 1] };
  }

  /** All of `copies` vectors of columns, or of one of which `left` columns count. */
  #block(copies: number, left: string): void {
    const emitter = this.#emitter, body = this.#body;
    const { kernel } = emitter;
    const declared = new Declared();
    const each = (fn: (copy: number, lanes: Lanes) => void): void => {
      for (let c = 0; c < copies; c++) fn(c, { tag: `_${c}`, shift: c * LANES, left });
    };
    const declare = (ids: readonly number[]): void => {
      body.declareScalars(ids);
      each((_, lanes) => body.declareVectors(ids, lanes));
    };
    for (const stage of emitter.stages()) {
      const needs = emitter.needs(stage.map((r) => kernel.reductions[r]!.expr));
      declare(declared.fresh(needs.row));
      const sums = new LaneSums(emitter, this.#dialect, stage, copies);
      sums.declare();
      walk(emitter, this.#dialect, kernel.inner, sums, () => {
        declare(needs.inner);
        each((c, { tag }) =>
          stage.forEach((r) => sums.accumulate(r, c, body.name(kernel.reductions[r]!.expr, tag)))
        );
      });
      sums.finish();
    }
    const store = (outputs: readonly number[]): void =>
      each((_, { tag, shift }) => outputs.forEach((o) => body.store(o, tag, shift, left)));
    const all = kernel.outputs.map((_, o) => o);
    const inner = all.filter((o) => usesInner(kernel, o));
    const rowOutputs = all.filter((o) => !inner.includes(o));
    declare(declared.fresh(emitter.needs(rowOutputs.map((o) => kernel.outputs[o]!.expr)).row));
    store(rowOutputs);
    if (inner.length === 0) return;
    const needs = emitter.needs(inner.map((o) => kernel.outputs[o]!.expr));
    declare(declared.fresh(needs.row));
    walk(emitter, this.#dialect, kernel.inner, null, () => {
      declare(needs.inner);
      store(inner);
    });
  }
}
