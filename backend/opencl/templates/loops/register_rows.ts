/**
 * Rows of some hundred elements on GPUs: work-items hold a row in registers, so that it is read once however
 * many reductions and stores walk it. Few work-items share a short row, of which a group has several; a
 * whole group shares one of thousands. On an H200 softmax of 65536 rows of 128 floats takes 27 us, a group a
 * row 51; of 4096 rows of 4096 41 us, read three times 61.
 */
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { StageSums } from "../../../codegen/stage_sums.ts";
import { isArgReduction } from "../../../graph/reductions.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { reducesInGroups } from "../../../kernel/row_order.ts";
import {
  type ReduceStep,
  type RowProgram,
  rowProgram,
  type RowWriter,
  type StoreEachStep,
  writeRow,
} from "../../../kernel/row_program.ts";
import type { Target } from "../../../kernel/target.ts";
import { generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import { decompose } from "../../codegen/indices.ts";
import { computeType } from "../../codegen/types.ts";
import { joinItems } from "../parts/joined_items.ts";
import {
  closeStores,
  collect,
  LANES,
  neighbour,
  neighbourLoads,
  openStores,
  readNeighbours,
  walksNeighbours,
} from "../parts/neighbours.ts";
import { type LoopTemplate, type Planned, single } from "../parts/template.ts";

/** Work-items of a group, unless one row needs more. */
const GROUP = 128;
/** Work-items that share a row: at least, by how many neighbours they read at once, and at most. */
const MIN_ITEMS = { vectors: 16, elements: 32 }, MAX_ITEMS = { warps: 1024, groups: 256 };
/** Elements that a work-item holds of all that it reads. */
const MAX_HELD = 16;
/** More expressions of an element fill the registers. */
const MAX_EXPRS = 64;

/** How work-items share a row. */
interface RegisterRows extends Planned<LoopKernel> {
  /** Work-items of a row and of a group. */
  readonly items: number;
  readonly group: number;
  /** Elements that a work-item holds: so many times one, or as many neighbours as make a vector. */
  readonly held: number;
  readonly lanes: number;
  /** The expressions that are loads of neighbours; none where elements are read one by one. */
  readonly vectors: ReadonlySet<number>;
}

/** Rows that the registers of a group hold. */
export const registerRows: LoopTemplate<RegisterRows> = {
  name: "rows in registers",
  matches: planOf,
  emit: (plan) =>
    single(generatedLoop(
      plan.kernel,
      plan.target,
      (emitter, dialect) => writeRows(emitter, dialect, plan),
    )),
  workItems: ({ kernel, items }) => extent(kernel, kernel.outer) * items,
  variant: (plan) => {
    const stages = plan.kernel.reductions.length + 1;
    const key = `${plan.items} ${plan.held} ${plan.lanes}${isFull(plan) ? " full" : ""}`;
    return { key, numbers: 2 + 2 * stages, copies: stages * plan.lanes };
  },
};

function planOf(kernel: LoopKernel, target: Target): RegisterRows | null {
  if (!target.isGpu || !reducesInGroups(kernel) || !holdsRows(kernel)) return null;
  const length = extent(kernel, kernel.inner);
  const vectors = vectorsOf(kernel), lanes = vectors ? LANES : 1;
  const pieces = Math.ceil(length / lanes), most = Math.floor(MAX_HELD / readsOf(kernel));
  let items = vectors ? MIN_ITEMS.vectors : MIN_ITEMS.elements;
  const maxItems = target.warps ? MAX_ITEMS.warps : MAX_ITEMS.groups;
  while (items < maxItems && Math.ceil(pieces / items) * lanes > most) items *= 2;
  const held = Math.ceil(pieces / items) * lanes;
  if (held > Math.max(most, lanes)) return null;
  const group = Math.max(items, GROUP);
  return { kernel, target, items, group, held, lanes, vectors: vectors ?? new Set() };
}

function holdsRows({ chunk, contraction, reductions, exprs }: LoopKernel): boolean {
  return !chunk && contraction === null && exprs.length <= MAX_EXPRS && reductions.length > 0 &&
    !reductions.some(({ fn }) => isArgReduction(fn));
}

/** How many values of each element are read for several steps. */
function readsOf(kernel: LoopKernel): number {
  const kept = [...keptExprs(rowProgram(kernel))];
  return Math.max(kept.filter((id) => kernel.exprs[id]!.op === "load").length, 1);
}

/** Expressions that several steps need of each element: they are kept in arrays of registers. */
function keptExprs(program: RowProgram): ReadonlySet<number> {
  const needed = program.flatMap((step) =>
    step.kind === "reduce" || step.kind === "storeEach" ? step.exprs : []
  );
  return new Set(needed.filter((id, k) => needed.indexOf(id) !== k));
}

/** The loads of neighbours, where all that is read and stored along a row can be vectors. */
function vectorsOf(kernel: LoopKernel): ReadonlySet<number> | null {
  const { inner, sizes, outputs } = kernel, along = inner[inner.length - 1]!;
  const isEven = sizes[along]! % LANES === 0 &&
    outputs.every(({ index }) =>
      !index.terms.some(([s]) => inner.includes(s)) || walksNeighbours(index, along)
    );
  return isEven ? neighbourLoads(kernel, along) : null;
}

/** True where every work-item holds elements of the row in all its registers. */
function isFull({ kernel, items, held }: RegisterRows): boolean {
  return extent(kernel, kernel.inner) === items * held;
}

function writeRows(emitter: Emitter, dialect: Dialect, plan: RegisterRows): WorkSize {
  const { kernel } = emitter, { items, group } = plan;
  const rows = extent(kernel, kernel.outer), perGroup = group / items;
  emitter.line("const int lid = get_local_id(0);");
  emitter.line(`const int item = ${perGroup === 1 ? "lid" : `lid & ${items - 1}`};`);
  if (perGroup > 1) {
    // The last group may have fewer rows: what is left of it computes the last one, and stores nothing.
    emitter.line(`const Index own = get_group_id(0) * ${perGroup} + lid / ${items};`);
    emitter.line(`const int exists = own < ${emitter.index(rows)};`);
  }
  if (kernel.outer.length > 0) {
    const row = perGroup === 1 ? "get_group_id(0)" : `min(own, ${emitter.index(rows - 1)})`;
    decompose(emitter, kernel.outer, row);
  }
  const program = rowProgram(kernel);
  writeRow(program, new RegisterRow(emitter, dialect, plan, program));
  return { global: [Math.ceil(rows / perGroup) * group], local: [group] };
}

/** The steps of a row whose elements are in registers. */
class RegisterRow implements RowWriter {
  readonly #emitter: Emitter;
  readonly #dialect: Dialect;
  readonly #plan: RegisterRows;
  readonly #kept: ReadonlySet<number>;
  /** Those of them that were computed. */
  readonly #known = new Set<number>();

  constructor(emitter: Emitter, dialect: Dialect, plan: RegisterRows, program: RowProgram) {
    this.#emitter = emitter;
    this.#dialect = dialect;
    this.#plan = plan;
    this.#kept = keptExprs(program);
  }

  compute(exprs: readonly number[]): void {
    this.#emitter.declare(exprs);
  }

  reduce(step: ReduceStep): void {
    const sums = new StageSums(this.#emitter, this.#dialect, step);
    sums.declare();
    this.#walk(step.exprs, step.outputs, () => sums.accumulate());
    sums.finish((r) => joinItems(this.#emitter, this.#plan.target, r, this.#plan));
  }

  store(outputs: readonly number[]): void {
    const { items, group } = this.#plan;
    this.#emitter.open(`if (item == 0${group > items ? " && exists" : ""}) {`);
    for (const o of outputs) this.#emitter.store(o);
    this.#emitter.close();
  }

  storeEach({ exprs, outputs }: StoreEachStep): void {
    this.#walk(exprs, outputs, () => {});
  }

  /** Walks the elements of a work-item, computes what is not known of each, and stores outputs. */
  #walk(exprs: readonly number[], outputs: readonly number[], each: () => void): void {
    const emitter = this.#emitter, { kernel } = emitter, { items, held, lanes } = this.#plan;
    const missing = exprs.filter((id) => !this.#known.has(id));
    const kept = missing.filter((id) => this.#kept.has(id));
    for (const id of kept) {
      emitter.line(`${computeType(kernel.exprs[id]!.dtype)} v${id}[${held}];`);
    }
    emitter.open(`#pragma unroll\nfor (int k = 0; k < ${held / lanes}; ++k) {`);
    const place = `(k * ${items} + item)`;
    emitter.line(`const Index t = ${lanes === 1 ? place : `${place} * ${lanes}`};`);
    if (!isFull(this.#plan)) {
      emitter.open(`if (t < ${emitter.index(extent(kernel, kernel.inner))}) {`);
    }
    if (lanes === 1) this.#element(exprs, outputs, each);
    else this.#neighbours(exprs, outputs, each);
    if (!isFull(this.#plan)) emitter.close();
    emitter.close();
    for (const id of kept) this.#known.add(id);
  }

  #element(exprs: readonly number[], outputs: readonly number[], each: () => void): void {
    decompose(this.#emitter, this.#emitter.kernel.inner, "t");
    for (const id of exprs) this.#evaluate(id, "k", null);
    each();
    this.#storing(outputs, () => {
      for (const o of outputs) this.#emitter.store(o);
    });
  }

  #neighbours(exprs: readonly number[], outputs: readonly number[], each: () => void): void {
    const emitter = this.#emitter, { inner } = emitter.kernel, { vectors } = this.#plan;
    const along = inner[inner.length - 1]!;
    decompose(emitter, inner, "t");
    const missing = exprs.filter((id) => !this.#known.has(id));
    for (const id of missing) if (vectors.has(id)) readNeighbours(emitter, id);
    openStores(emitter, outputs);
    emitter.line(`const Index first = i${along};`);
    for (let lane = 0; lane < LANES; lane++) {
      emitter.open("{");
      emitter.line(this.#dialect.declareIndex(`i${along}`, `first + ${lane}`));
      for (const id of exprs) this.#evaluate(id, `${LANES} * k + ${lane}`, lane);
      each();
      collect(emitter, outputs, lane);
      emitter.close();
    }
    this.#storing(outputs, () => closeStores(emitter, outputs));
  }

  /** Computes an expression of an element, or gives it the name of what is known. */
  #evaluate(id: number, place: string, lane: number | null): void {
    const emitter = this.#emitter, name = `v${id}[${place}]`;
    const isKept = this.#kept.has(id), isVector = lane !== null && this.#plan.vectors.has(id);
    if (this.#known.has(id)) emitter.rename(id, name);
    else if (isVector && isKept) emitter.assign(id, name, neighbour(emitter, id, lane));
    else if (isVector) emitter.declareAs(id, neighbour(emitter, id, lane));
    else if (isKept) emitter.assign(id, name);
    else emitter.declare([id]);
  }

  /** Writes stores of elements, which a row that is not there has none of. */
  #storing(outputs: readonly number[], stores: () => void): void {
    const { items, group } = this.#plan;
    const isShared = group > items && outputs.length > 0;
    if (isShared) this.#emitter.open("if (exists) {");
    stores();
    if (isShared) this.#emitter.close();
  }
}
