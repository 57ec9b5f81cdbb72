/**
 * Reductions of what two rows have in common on GPUs, for all pairs of rows: distances, additive attention, their
 * gradients. A work-item computes a square of results, and reads, and computes, what belongs to a row once for
 * all of its partners. What lies side by side along the reduced loop is read as one vector. Distances of 4,096
 * by 4,096 points of 64 numbers took 1.27 ms by work-items that share a row (H200).
 */
import { scalarTotal, Total } from "../../../codegen/total.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import { primitives } from "../../../graph/primitives.ts";
import { identityOf, isArgReduction } from "../../../graph/reductions.ts";
import { type Blocks, blocksOf, isBlocked } from "../../../kernel/accumulation.ts";
import { neededBy, variesWith } from "../../../kernel/analysis.ts";
import { coefficient } from "../../../kernel/affine.ts";
import { accumulatorType, extent, type LoopKernel, type Output } from "../../../kernel/kernel.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import { computeType, laneValue, vectorType } from "../../codegen/types.ts";
import { holdsTogether, LANES, walksNeighbours } from "../parts/neighbours.ts";
import { emitting, type LoopTemplate, type Planned } from "../parts/template.ts";
import { decomposeInto } from "../parts/tile_text.ts";

/** Results of a work-item, and work-items of a group, along both loops. */
const TILE = 4, SIDE = 16, GROUP = SIDE * SIDE, SPAN = TILE * SIDE;
/**
 * Places of a group's work-items: 32 in a row have eight rows and four columns, so that what they read lies in
 * as few lines of memory as may be.
 */
const DOWN = "(lid >> 2 & 7 | lid >> 7 << 3)", ACROSS = "(lid & 3 | (lid >> 5 & 3) << 2)";
/** Groups of whole tiles that a compute unit needs; fewer where they save operations of so many additions. */
const MIN_GROUPS = 1, MIN_GROUPS_COSTLY = 1 / 4, MIN_COSTLY = 4;
/** Terms that are worth a tile. */
const MIN_TERMS = 8;
/** More expressions fill the registers, some for every result. */
const MAX_EXPRS = 40;

interface PairTiles extends Planned<LoopKernel> {
  readonly row: number;
  readonly column: number;
  readonly along: number;
  /** Of the expressions that are reduced: those of a row, those of a column, those of both, those of neither. */
  readonly ofRow: readonly number[];
  readonly ofColumn: readonly number[];
  readonly ofBoth: readonly number[];
  readonly others: readonly number[];
  /** Loads of neighbours along the reduced loop. */
  readonly vectors: ReadonlySet<number>;
}

/** A square of results a work-item. */
export const pairTiles: LoopTemplate<PairTiles> = {
  name: "tiles of pairs",
  matches: (kernel, target) => {
    const { outer, inner, reductions, indirect, chunk, exprs, sizes } = kernel;
    const [row, column] = outer.slice(-2), [along] = inner, [reduction] = reductions;
    if (!target.isGpu || outer.length < 2 || inner.length !== 1 || reductions.length !== 1) {
      return null;
    }
    if (isArgReduction(reduction!.fn) || indirect.length > 0 || chunk) return null;
    if (exprs.length > MAX_EXPRS || sizes[along!]! < MIN_TERMS) return null;
    if (Math.min(sizes[row!]!, sizes[column!]!) < SPAN / 2) return null;
    return planOf({ kernel, target }, row!, column!, along!);
  },
  emit: emitting((emitter, plan) => new PairWriter(emitter, plan).write()),
  workItems: ({ kernel }) => extent(kernel, kernel.outer) / (TILE * TILE),
};

/** The expressions by what they belong to; null where nothing that is read belongs to a row, or a column, alone. */
function planOf(
  planned: Planned<LoopKernel>,
  row: number,
  column: number,
  along: number,
): PairTiles | null {
  const { kernel } = planned, { exprs, loads, sizes } = kernel;
  const needed = neededBy(kernel, [kernel.reductions[0]!.expr]);
  const [byRow, byColumn, byTerm] = [row, column, along].map((s) => variesWith(kernel, [s]));
  const isEach = ({ expr, index }: Output): boolean =>
    byTerm![expr]! || coefficient(index, along) !== 0;
  if (kernel.outputs.some(isEach)) return null;
  const of = (isOfRow: boolean, isOfColumn: boolean): number[] =>
    needed.filter((id) => byRow![id] === isOfRow && byColumn![id] === isOfColumn);
  const ofRow = of(true, false), ofColumn = of(false, true), ofBoth = of(true, true);
  const isRead = (id: number): boolean => exprs[id]!.op === "load" && byTerm![id]!;
  if (!ofRow.some(isRead) || !ofColumn.some(isRead) || ofBoth.some(isRead)) return null;
  if (needed.some((id) => exprs[id]!.op === "random")) return null;
  const isVector = (id: number): boolean => {
    const e = exprs[id]!;
    if (e.op !== "load" || !byTerm![id] || sizes[along]! % LANES !== 0) return false;
    const { index, bounds } = loads[e.load]!;
    return walksNeighbours(index, along) &&
      bounds.every((bound) => holdsTogether(bound, along, LANES));
  };
  const vectors = new Set([...ofRow, ...ofColumn].filter(isVector));
  if (needed.some((id) => isPacked(kernel, id))) return null;
  const isCostly = [...ofRow, ...ofColumn].some((id) => {
    const e = exprs[id]!;
    return e.op === "primitive" && primitives[e.fn].cost >= MIN_COSTLY;
  });
  const least = isCostly ? MIN_GROUPS_COSTLY : MIN_GROUPS;
  const groups = extent(kernel, kernel.outer) / (SPAN * SPAN);
  if (groups < least * planned.target.computeUnits) return null;
  const others = of(false, false);
  return { ...planned, row, column, along, ofRow, ofColumn, ofBoth, others, vectors };
}

function isPacked({ exprs, loads }: LoopKernel, id: number): boolean {
  const e = exprs[id]!;
  return e.op === "load" && loads[e.load]!.packed !== undefined;
}

/** Numbers of the results of a work-item along a loop. */
const parts = Array.from({ length: TILE }, (_, p) => p);

/** Writes the kernel. */
class PairWriter {
  readonly #emitter: Emitter;
  readonly #plan: PairTiles;
  readonly #blocks: Blocks | null;
  readonly #totals: readonly Total[];

  constructor(emitter: Emitter, plan: PairTiles) {
    this.#emitter = emitter;
    this.#plan = plan;
    const reduction = plan.kernel.reductions[0]!,
      text = scalarTotal(emitter.dialect, reduction.dtype);
    this.#blocks = isBlocked(reduction) ? blocksOf(plan.kernel) : null;
    this.#totals = this.#blocks
      ? pairs.map(([p, q]) => new Total(emitter, text, `t${p}_${q}`))
      : [];
  }

  write(): WorkSize {
    const emitter = this.#emitter,
      { kernel, row, column, along } = this.#plan,
      { sizes, outer } = kernel;
    const down = Math.ceil(sizes[row]! / SPAN), across = Math.ceil(sizes[column]! / SPAN);
    const batch = outer.slice(0, -2);
    emitter.line(`const Index group = get_group_id(0), tile = group / ${emitter.index(across)};`);
    emitter.line(`const int lid = get_local_id(0);`);
    this.#place(row, `tile % ${emitter.index(down)} * ${SPAN} + ${DOWN}`);
    this.#place(column, `group % ${emitter.index(across)} * ${SPAN} + ${ACROSS}`);
    decomposeInto(emitter, batch, `(tile / ${emitter.index(down)})`, "i");
    for (const total of this.#totals) total.declare();
    if (!this.#blocks) this.#declareSums();
    const size = emitter.size(along), step = this.#plan.vectors.size > 0 ? LANES : 1;
    if (this.#blocks) {
      const length = Math.ceil(this.#blocks.length / LANES) * LANES;
      emitter.open(`for (Index b = 0; b < ${size}; b += ${length}) {`);
      this.#declareSums();
      emitter.open(`for (Index t = b; t < min(b + ${length}, ${size}); t += ${step}) {`);
    } else emitter.open(`for (Index t = 0; t < ${size}; t += ${step}) {`);
    this.#terms(step);
    emitter.close();
    if (this.#blocks) {
      this.#totals.forEach((total, k) => total.add(sumOf(pairs[k]!)));
      emitter.close();
    }
    for (const total of this.#totals) total.finish();
    for (const pair of pairs) this.#store(pair);
    const groups = extent(kernel, batch) * down * across;
    return { global: [groups * GROUP], local: [GROUP] };
  }

  /** Declares where a work-item's results are along a loop; what is behind its end is not stored. */
  #place(symbol: number, first: string): void {
    const emitter = this.#emitter;
    emitter.line(`const Index at${symbol} = ${first};`);
    for (const p of parts) {
      const last = `${emitter.size(symbol)} - 1`;
      emitter.line(`const Index i${symbol}_${p} = min(at${symbol} + ${SIDE * p}, ${last});`);
    }
  }

  #declareSums(): void {
    const { kernel } = this.#plan, reduction = kernel.reductions[0]!;
    const dtype = accumulatorType(kernel, reduction);
    const identity = this.#emitter.dialect.constant(identityOf(reduction.fn, dtype), dtype);
    for (const pair of pairs) {
      this.#emitter.line(this.#emitter.dialect.declareMutable(dtype, sumOf(pair), identity));
    }
  }

  /** Joins some terms into all sums. */
  #terms(step: number): void {
    const emitter = this.#emitter,
      { along, ofRow, ofColumn, ofBoth, others, row, column } = this.#plan;
    const { kernel } = this.#plan, reduction = kernel.reductions[0]!;
    this.#read(row, ofRow);
    this.#read(column, ofColumn);
    for (let lane = 0; lane < step; lane++) {
      emitter.open("{");
      emitter.line(`const Index i${along} = t + ${lane};`);
      emitter.declare(others);
      this.#compute(row, ofRow, lane);
      this.#compute(column, ofColumn, lane);
      for (const [p, q] of pairs) {
        this.#open(p, q);
        for (const id of ofRow) this.#rename(id, p);
        for (const id of ofColumn) this.#rename(id, q);
        emitter.declare(ofBoth);
        const dtype = accumulatorType(kernel, reduction), value = emitter.name(reduction.expr);
        const lines = this.#emitter.dialect.accumulate(
          reduction.fn,
          dtype,
          sumOf([p, q]),
          value,
          "",
        );
        for (const line of lines) emitter.line(line);
        emitter.close();
      }
      emitter.close();
    }
  }

  /** Reads the vectors that belong to the rows, or columns, of a work-item. */
  #read(symbol: number, ids: readonly number[]): void {
    const emitter = this.#emitter, { kernel, along, vectors } = this.#plan;
    for (const id of ids) {
      const e = kernel.exprs[id]!;
      if (e.op !== "load" || !vectors.has(id)) continue;
      const { input, dtype, index, bounds } = kernel.loads[e.load]!,
        type = vectorType(dtype, LANES);
      for (const p of parts) {
        emitter.line(`${type} w${id}_${p};`);
        emitter.open("{");
        emitter.line(`const Index i${symbol} = i${symbol}_${p}, i${along} = t;`);
        const text = emitter.affine(index);
        const place = bounds.length > 0 ? `(${emitter.maskText(bounds)} ? ${text} : 0)` : text;
        emitter.line(`w${id}_${p} = *(global const ${type}*)(a${input} + ${place});`);
        emitter.close();
      }
    }
  }

  /** Computes what belongs to the rows, or columns, of a work-item. */
  #compute(symbol: number, ids: readonly number[], lane: number): void {
    const emitter = this.#emitter, { exprs } = this.#plan.kernel, { vectors } = this.#plan;
    for (const p of parts) {
      const computed = ids.filter((id) => exprs[id]!.op !== "constant");
      for (const id of computed) {
        emitter.line(`${computeType(exprs[id]!.dtype)} x${id}_${p};`);
      }
      emitter.open("{");
      emitter.line(`const Index i${symbol} = i${symbol}_${p};`);
      for (const id of computed) {
        const text = vectors.has(id)
          ? laneValue(exprs[id]!.dtype, `w${id}_${p}.s${lane}`)
          : undefined;
        emitter.assign(id, `x${id}_${p}`, text);
      }
      emitter.close();
    }
  }

  #rename(id: number, part: number): void {
    if (this.#plan.kernel.exprs[id]!.op !== "constant") this.#emitter.rename(id, `x${id}_${part}`);
  }

  #open(p: number, q: number): void {
    const { row, column } = this.#plan;
    this.#emitter.open("{");
    this.#emitter.line(`const Index i${row} = i${row}_${p}, i${column} = i${column}_${q};`);
  }

  /** Computes and stores what follows a sum. */
  #store([p, q]: Pair): void {
    const emitter = this.#emitter, { kernel, row, column } = this.#plan, { outputs } = kernel;
    const isInside = ([s, n]: readonly [number, number]): string =>
      `at${s} + ${SIDE * n} < ${emitter.size(s)}`;
    emitter.open(`if (${isInside([row, p])} && ${isInside([column, q])}) {`);
    emitter.line(`const Index i${row} = i${row}_${p}, i${column} = i${column}_${q};`);
    const dtype = accumulatorType(kernel, kernel.reductions[0]!);
    const sum = this.#blocks ? `t${p}_${q}` : sumOf([p, q]);
    emitter.line(emitter.dialect.declare(dtype, "r0", sum));
    const ids = neededBy(kernel, outputs.map(({ expr }) => expr));
    for (const id of ids) emitter.alias(id, `v${id}`);
    emitter.declare(ids);
    outputs.forEach((_, o) => emitter.store(o));
    emitter.close();
  }
}

/** A result of a work-item. */
type Pair = readonly [row: number, column: number];

const pairs: readonly Pair[] = parts.flatMap((p) => parts.map((q) => [p, q] as const));

const sumOf = ([p, q]: Pair): string => `s${p}_${q}`;
