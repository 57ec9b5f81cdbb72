/** The statements of rows: loops over them, accumulators of reductions, and what is stored. */
import type { Dialect, Emitter } from "./emit.ts";
import { identityOf, isArgReduction } from "../graph/reductions.ts";
import { type Blocks, blocksOf, isBlocked, scalarTotal, Total } from "../kernel/accumulation.ts";
import { usesInner } from "../kernel/analysis.ts";
import { accumulatorType, extent } from "../kernel/kernel.ts";

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
    walk(emitter, dialect, kernel.inner, null, body);
  };
  for (const stage of emitter.stages()) {
    const { row, inner } = emitter.needs(stage.map((r) => kernel.reductions[r]!.expr));
    declareRow(row);
    const sums = new StageSums(emitter, dialect, stage, unrolls ? null : blocksOf(kernel));
    sums.declare();
    const body = (): void => {
      emitter.declare(inner);
      sums.accumulate();
    };
    if (unrolls) loops(body);
    else walk(emitter, dialect, kernel.inner, sums, body);
    sums.finish();
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
  emitter.open(dialect.loopHead(`i${symbol}`, ...boundsOf(emitter, dialect, symbol)));
}

/** Where the loop over a symbol begins and ends: all of it, or the part that this row was given. */
export function boundsOf(
  emitter: Emitter,
  dialect: Dialect,
  symbol: number,
): [start: string, end: string] {
  const { chunk } = emitter.kernel;
  const size = emitter.size(symbol);
  if (chunk?.symbol !== symbol) return ["0", size];
  const length = emitter.index(chunk.length);
  const start = `i${chunk.part} * ${length}`;
  return [start, dialect.smaller(`${start} + ${length}`, size)];
}

/** Opens a loop over the blocks of a symbol's loop, and gives the bounds of the loop within. */
export function openBlocks(
  emitter: Emitter,
  dialect: Dialect,
  { symbol, length }: Blocks,
  [start, end]: readonly [string, string] = boundsOf(emitter, dialect, symbol),
): [start: string, end: string] {
  const step = emitter.index(length), block = `b${symbol}`;
  emitter.open(dialect.loopHead(block, start, end, step));
  return [block, dialect.smaller(`${block} + ${step}`, `e${block}`)];
}

/** What is done before and after the iterations of each block of a loop. */
interface InBlocks {
  readonly blocks: Blocks | null;
  begin(): void;
  end(): void;
}

/** Runs a body in the loops over symbols, one of which may be cut into blocks. */
export function walk(
  emitter: Emitter,
  dialect: Dialect,
  symbols: readonly number[],
  sums: InBlocks | null,
  body: () => void,
): void {
  for (const s of symbols) {
    if (sums?.blocks?.symbol !== s) openLoop(emitter, dialect, s);
    else {
      const bounds = openBlocks(emitter, dialect, sums.blocks);
      sums.begin();
      emitter.open(dialect.loopHead(`i${s}`, ...bounds));
    }
  }
  body();
  for (const s of symbols.toReversed()) {
    emitter.close();
    if (sums?.blocks?.symbol !== s) continue;
    sums.end();
    emitter.close();
  }
}

/**
 * The accumulators of a stage. `r0` is the value, `r0i` the position of an arg-reduction; where a sum is
 * added up in blocks `r0` is the total and `q0` the sum of a block.
 */
export class StageSums {
  /** Null where no sum of the stage needs them. */
  readonly blocks: Blocks | null;
  readonly #emitter: Emitter;
  readonly #dialect: Dialect;
  readonly #stage: readonly number[];
  readonly #totals: ReadonlyMap<number, Total>;

  constructor(
    emitter: Emitter,
    dialect: Dialect,
    stage: readonly number[],
    blocks: Blocks | null,
  ) {
    this.#emitter = emitter;
    this.#dialect = dialect;
    this.#stage = stage;
    const { reductions } = emitter.kernel;
    const blocked = blocks === null ? [] : stage.filter((r) => {
      const reduction = reductions[r]!;
      return isBlocked(reduction) && !dialect.sumsWide(reduction.dtype);
    });
    this.blocks = blocked.length > 0 ? blocks : null;
    this.#totals = new Map(blocked.map((r) => [
      r,
      new Total(emitter, scalarTotal(dialect, reductions[r]!.dtype), `r${r}`),
    ]));
  }

  declare(): void {
    for (const r of this.#stage) {
      const total = this.#totals.get(r);
      if (total) total.declare();
      else this.#declare(r, `r${r}`);
    }
  }

  #declare(r: number, name: string): void {
    const dialect = this.#dialect, reduction = this.#emitter.kernel.reductions[r]!;
    const dtype = accumulatorType(this.#emitter.kernel, reduction);
    const isArg = isArgReduction(reduction.fn);
    const text = dialect.constant(identityOf(reduction.fn, dtype), dtype);
    this.#emitter.line(dialect.declareMutable(dtype, isArg ? `${name}v` : name, text));
    if (isArg) this.#emitter.line(dialect.declareMutableIndex(`${name}i`, "-1"));
  }

  /** Before the iterations of a block. */
  begin(): void {
    for (const r of this.#totals.keys()) this.#declare(r, `q${r}`);
  }

  /** Joins the present element into the accumulators. */
  accumulate(): void {
    const emitter = this.#emitter;
    for (const r of this.#stage) {
      const reduction = emitter.kernel.reductions[r]!;
      const value = emitter.name(reduction.expr);
      const index = isArgReduction(reduction.fn) ? emitter.form(reduction.index) : "";
      const acc = this.#totals.has(r) ? `q${r}` : `r${r}`;
      const dtype = accumulatorType(emitter.kernel, reduction);
      const lines = this.#dialect.accumulate(reduction.fn, dtype, acc, value, index);
      for (const text of lines) emitter.line(text);
    }
  }

  /** After the iterations of a block. */
  end(): void {
    for (const [r, total] of this.#totals) total.add(`q${r}`);
  }

  /** After the last block; `join` may first join accumulators of several work-items. */
  finish(join?: (r: number) => void): void {
    for (const total of this.#totals.values()) total.finish();
    if (join) { for (const r of this.#stage) join(r); }
    finishArgs(this.#emitter, this.#dialect, this.#stage);
  }
}

/** Declares the results of arg-reductions, once their loops are done. */
function finishArgs(emitter: Emitter, dialect: Dialect, stage: readonly number[]): void {
  for (const r of stage) {
    const reduction = emitter.kernel.reductions[r]!;
    if (!isArgReduction(reduction.fn)) continue;
    const text = dialect.argResult(`r${r}`, reduction.dtype);
    emitter.line(dialect.declare(reduction.dtype, `r${r}`, text));
  }
}
