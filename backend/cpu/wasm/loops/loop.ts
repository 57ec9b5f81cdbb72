/**
 * WebAssembly for loop kernels. One loop index runs over the four lanes of a vector: one along which
 * most of what is read and written lies side by side. Where it is a reduction's own index, each lane
 * sums a part and the parts are joined; where it is not, each lane is a result of its own.
 *
 * This folder (`loops/`) imports `codegen/`, `kernel/`, `graph/`, `script/` and the assembler of
 * `wasm/`. Loop kernels come from `cpu_backend.ts`; what it has no vectors for is left to
 * `script/`.
 */
import { coefficient } from "../../../kernel/affine.ts";
import { type ArgReduceFn, isArgReduction } from "../../../graph/reductions.ts";
import { followsReduction, neededBy, usesInner, variesWith } from "../../../kernel/analysis.ts";
import type { Load, LoopKernel } from "../../../kernel/kernel.ts";
import {
  type KeptValue,
  lastReduction,
  type ReduceStep,
  type RowProgram,
  writeRow,
} from "../../../kernel/row_program.ts";
import { Accumulators } from "./accumulators.ts";
import { ArgAccumulator } from "./arg_accumulator.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { narrowKindOf } from "../lanes.ts";
import { boundsKey, LoopIndices } from "./loop_indices.ts";
import {
  chooseCut,
  chooseLanes,
  costOf,
  costOfKernel,
  fitsLanes,
  type GeneratedLoop,
  laneProgram,
  unrollOf,
} from "./loop_plan.ts";
import {
  type Body,
  type InnerOptions,
  type JoinedSteps,
  LANES,
  type LoopAccess,
  type Pointer,
  ROW,
  Scope,
  type Strip,
} from "./loop_scope.ts";
import { LoopValues } from "./loop_values.ts";
import { VectorMath } from "../math.ts";
import { i32 } from "../opcodes.ts";

/**
 * Writes a loop kernel; null where it needs what there are no vectors for. `mayKeep`: its outputs are
 * none of its inputs, so they may hold values in between.
 */
export function generateLoop(
  kernel: LoopKernel,
  relaxed: boolean,
  mayKeep: boolean,
): GeneratedLoop | null {
  return fitsLanes(kernel) ? new LoopWriter(kernel, relaxed, mayKeep).write() : null;
}

/** Elements along the lanes that a part has at least: the vectors of a pass, and a line of memory. */
const LANE_GRAIN = 16;

/** Steps of a sum over rows that are added up before they are doubles, and instructions of each at most. */
const JOINED_STEPS = 4, MAX_STEP_COST = 8;

class LoopWriter {
  readonly #kernel: LoopKernel;
  readonly #f = new FunctionBuilder();
  readonly #math: VectorMath;
  readonly #indices: LoopIndices;
  readonly #values: LoopValues;
  /** The index that runs over lanes; -1: none does, each row is computed by itself. */
  readonly #laneSymbol: number;
  readonly #lanesAreInner: boolean;
  readonly #varies: readonly boolean[];
  /** The index whose range is cut for several threads. */
  readonly #cut: number;
  readonly #program: RowProgram;

  constructor(kernel: LoopKernel, relaxed: boolean, mayKeep: boolean) {
    this.#kernel = kernel;
    this.#math = new VectorMath(this.#f, relaxed);
    this.#laneSymbol = chooseLanes(kernel);
    this.#lanesAreInner = kernel.inner.includes(this.#laneSymbol);
    this.#varies = variesWith(kernel, [this.#laneSymbol]);
    this.#cut = chooseCut(kernel, this.#laneSymbol);
    this.#indices = new LoopIndices(this.#f, kernel, this.#laneSymbol, this.#varies);
    this.#values = new LoopValues(
      this.#f,
      this.#math,
      kernel,
      this.#indices,
      this.#laneSymbol,
      this.#varies,
    );
    this.#program = laneProgram(kernel, this.#laneSymbol, mayKeep);
  }

  write(): GeneratedLoop {
    const { outer, sizes } = this.#kernel;
    const rows = outer.filter((s) => s !== this.#laneSymbol);
    this.#loops(rows, () => this.#row());
    const isLanes = this.#cut === this.#laneSymbol;
    return {
      bytes: this.#f.finish(),
      parameters: this.#indices.parameters,
      faults: this.#indices.faults,
      range: this.#cut < 0 ? 1 : sizes[this.#cut]!,
      grain: isLanes ? LANE_GRAIN : 1,
      cost: costOfKernel(this.#kernel),
      keepsValues: lastReduction(this.#program)?.keeps != null,
    };
  }

  #range(symbol: number): { start: Local; end: Local } {
    const { begin, end } = FunctionBuilder.parameters;
    const { chunk } = this.#kernel;
    if (symbol === this.#cut) return { start: begin, end };
    if (chunk?.symbol !== symbol) {
      return { start: this.#f.integer(0), end: this.#indices.size(symbol) };
    }
    const length = this.#indices.number(chunk.length);
    const start = this.#f.i(i32.mul, this.#indices.index(chunk.part), length);
    const last = this.#f.i(i32.add, start, length);
    return { start, end: this.#f.smaller(last, this.#indices.size(symbol)) };
  }

  /** Opens a loop, `step` at a time while that many are left; the index stays where it ended. */
  #while(index: Local, end: Local, step: number, body: () => void): void {
    const f = this.#f;
    const last = step === 1 ? end : f.iWith(i32.sub, end, step - 1);
    f.whileLess(index, last, () => {
      body();
      f.step(index, step);
    });
  }

  #loops(symbols: readonly number[], body: () => void): void {
    const [symbol, ...rest] = symbols;
    if (symbol === undefined) return body();
    const { start, end } = this.#range(symbol);
    const index = this.#indices.newIndex(symbol, start);
    this.#while(index, end, 1, () => this.#loops(rest, body));
  }

  /** The loop over lanes: many vectors at a time, then one, then element by element. */
  #laneLoop(
    scope: Scope,
    ids: readonly number[],
    accesses: readonly LoopAccess[],
    unroll: number,
    body: Body,
  ): void {
    const { start, end } = this.#range(this.#laneSymbol);
    const index = this.#indices.newIndex(this.#laneSymbol, start);
    const pointers = this.#pointersFor(accesses, this.#laneSymbol, scope);
    for (const bounds of this.#indices.boundsOf(ids)) {
      const interval = this.#indices.intervalOf(bounds);
      if (interval) scope.intervals.set(boundsKey(bounds), interval);
    }
    const strips: Strip[] = [{ vectors: 1, lanes: LANES }, { vectors: 1, lanes: 1 }];
    if (unroll > 1) strips.unshift({ vectors: unroll, lanes: LANES });
    for (const strip of strips) {
      const step = strip.vectors * strip.lanes;
      this.#while(index, end, step, () => {
        const inside = new Scope(scope, strip);
        for (const [key, pointer] of pointers) inside.pointers.set(key, pointer);
        body(inside);
        this.#advance(pointers, this.#laneSymbol, step);
      });
    }
  }

  /** Pointers for what lies where the scope says; places that are found within the loop have none. */
  #pointersFor(
    accesses: readonly LoopAccess[],
    symbol: number,
    scope: Scope,
  ): Map<string, Pointer> {
    const pointers = new Map<string, Pointer>();
    const isComputed = (expr: number): boolean =>
      scope.value(this.#values.name(expr, 0)) !== undefined;
    for (const { key, base, index, bytes } of accesses) {
      if (!this.#indices.isKnown(index, isComputed)) continue;
      const copy = this.#f.number();
      this.#f.assign(copy, this.#indices.address(base, index, bytes));
      pointers.set(`${key} ${symbol}`, { local: copy, index, bytes });
    }
    return pointers;
  }

  #advance(pointers: ReadonlyMap<string, Pointer>, symbol: number, step: number): void {
    const f = this.#f;
    for (const { local, index, bytes } of pointers.values()) {
      const c = coefficient(index, symbol);
      if (c === 0) continue;
      if (c === 1) f.step(local, step * bytes);
      else {
        const moved = f.iWith(i32.mul, this.#indices.number(c), step * bytes);
        f.assign(local, f.i(i32.add, local, moved));
      }
    }
  }

  /** Everything inside the loops over rows. */
  #row(): void {
    const scope = new Scope(null, ROW);
    if (this.#laneSymbol < 0 || this.#lanesAreInner) return this.#steps(scope);
    const { outputs } = this.#kernel;
    const needed = neededBy(this.#kernel, [
      ...outputs.map((o) => o.expr),
      ...this.#kernel.reductions.map((r) => r.expr),
    ]);
    const isInner = variesWith(this.#kernel, this.#kernel.inner);
    const inner = needed.filter((id) => isInner[id]), row = needed.filter((id) => !isInner[id]);
    const rowIds = row.filter((id) => this.#isComputed(id));
    const follows = followsReduction(this.#kernel);
    this.#values.declare(rowIds.filter((id) => !this.#varies[id] && !follows[id]), scope);
    const hasReductions = this.#kernel.reductions.length > 0;
    const accesses = [
      ...this.#loadsOf(rowIds.filter((id) => this.#varies[id])),
      ...outputs.flatMap((_, o) =>
        usesInner(this.#kernel, o) ? [] : [this.#values.outputAccess(o)]
      ),
    ];
    const unroll = unrollOf(this.#kernel, hasReductions ? inner : row);
    this.#laneLoop(scope, rowIds, accesses, unroll, (inside) => this.#steps(inside));
  }

  #isComputed(id: number): boolean {
    return this.#kernel.exprs[id]!.op !== "reduced";
  }

  #loadsOf(ids: readonly number[]): LoopAccess[] {
    const found = new Map<number, LoopAccess>();
    for (const id of ids) {
      const e = this.#kernel.exprs[id]!;
      if (e.op !== "load") continue;
      found.set(e.load, this.#values.access(this.#kernel.loads[e.load]!, e.load));
    }
    return [...found.values()];
  }

  /** The steps of a row, or of the rows in a strip of lanes. */
  #steps(scope: Scope): void {
    const { outputs } = this.#kernel, values = this.#values;
    const store = (stored: readonly number[], inside: Scope): void => {
      for (const o of stored) values.store(o, outputs[o]!.expr, inside);
    };
    writeRow(this.#program, {
      compute: (exprs) => values.declare(exprs, scope),
      reduce: (step) => this.#reduce(scope, step),
      store: (stored) => store(stored, scope),
      storeEach: ({ exprs, outputs: stored, keeps }) =>
        this.#inner(scope, exprs, stored, (inside) => store(stored, inside), { kept: keeps }),
    });
  }

  #reduce(scope: Scope, step: ReduceStep): void {
    const { exprs, reductions: stage, copies, keeps, outputs } = step;
    const { reductions } = this.#kernel;
    const count = this.#lanesAreInner ? copies : scope.strip.vectors;
    const plain = stage.flatMap((r) => {
      const { fn, dtype } = reductions[r]!;
      return isArgReduction(fn) ? [] : [{ r, fn, dtype }];
    });
    const sums = new Accumulators(this.#f, this.#math, plain, this.#lanesAreInner, count);
    const places = new Map(stage.flatMap((r) => {
      const { fn } = reductions[r]!;
      return isArgReduction(fn) ? [[r, this.#argAccumulator(r, fn, count)] as const] : [];
    }));
    const valuesOf = (inside: Scope, r: number): Local[] =>
      Array.from(
        { length: inside.strip.vectors },
        (_, vector) => this.#values.operand(reductions[r]!.expr, inside, vector),
      );
    const joined: JoinedSteps = (insides) => {
      plain.forEach(({ r }, k) => sums.addSteps(k, insides.map((i) => valuesOf(i, r))));
    };
    const isJoined = !keeps && outputs.length + places.size === 0 && sums.mayJoinSteps &&
      costOf(this.#kernel, exprs) <= MAX_STEP_COST;
    this.#inner(scope, exprs, keeps ? [keeps.output] : outputs, (inside) => {
      if (keeps) this.#values.store(keeps.output, keeps.expr, inside);
      for (const o of outputs) this.#values.store(o, this.#kernel.outputs[o]!.expr, inside);
      const { lanes } = inside.strip;
      plain.forEach(({ r }, k) => sums.add(k, valuesOf(inside, r), lanes));
      for (const [r, found] of places) {
        valuesOf(inside, r).forEach((value, vector) => {
          found.add(vector, value, this.#indices.affineVector(reductions[r]!.index, vector), lanes);
        });
      }
    }, { joined: isJoined ? joined : null });
    const resultOf = (r: number, vector: number): Local =>
      places.get(r)?.result(vector) ??
        sums.result(plain.findIndex((each) => each.r === r), vector);
    this.#keepResults(scope, stage, resultOf);
  }

  /** Makes the results of reductions known to what is made of them. */
  #keepResults(
    scope: Scope,
    stage: readonly number[],
    resultOf: (reduction: number, vector: number) => Local,
  ): void {
    const count = this.#lanesAreInner ? 1 : scope.strip.vectors;
    for (const r of stage) {
      for (let vector = 0; vector < count; vector++) {
        const result = resultOf(r, vector);
        this.#kernel.exprs.forEach((e, id) => {
          if (e.op !== "reduced" || e.reduction !== r) return;
          scope.setValue(this.#values.name(id, vector), result);
        });
      }
    }
  }

  #argAccumulator(r: number, fn: ArgReduceFn, count: number): ArgAccumulator {
    const { expr } = this.#kernel.reductions[r]!;
    const kind = narrowKindOf(this.#kernel.exprs[expr]!.dtype);
    return new ArgAccumulator(this.#f, this.#math, fn, kind, this.#lanesAreInner, count);
  }

  /** Reads a value back from where it was kept. */
  #fetch({ expr, output }: KeptValue, scope: Scope): void {
    const { dtype, index } = this.#kernel.outputs[output]!;
    const access = this.#values.outputAccess(output);
    const load: Load = { input: -1, dtype, index, bounds: [] };
    const place = this.#values.place(access, scope);
    for (let vector = 0; vector < scope.strip.vectors; vector++) {
      const value = this.#values.loadStrip(load, access, place, scope.strip, vector);
      scope.setValue(this.#values.name(expr, vector), value);
    }
  }

  /** The inner loops around `body`, with the given expressions computed where they first can be. */
  #inner(
    scope: Scope,
    ids: readonly number[],
    stored: readonly number[],
    body: Body,
    { kept = null, joined = null }: InnerOptions = {},
  ): void {
    const { inner } = this.#kernel;
    const accesses = [...this.#loadsOf(ids), ...stored.map((o) => this.#values.outputAccess(o))];
    if (this.#lanesAreInner) {
      const others = inner.filter((s) => s !== this.#laneSymbol);
      this.#loops(others, () => {
        const outside = new Scope(scope, ROW);
        this.#values.declare(ids.filter((id) => !this.#varies[id]), outside);
        const moving = accesses.filter(({ index: affine }) =>
          coefficient(affine, this.#laneSymbol) !== 0
        );
        this.#laneLoop(outside, ids, moving, unrollOf(this.#kernel, ids), (inside) => {
          if (kept) this.#fetch(kept, inside);
          this.#values.declare(ids.filter((id) => this.#varies[id]), inside);
          body(inside);
        });
      });
      return;
    }
    const last = inner.at(-1);
    if (last === undefined) return body(scope);
    this.#loops(inner.slice(0, -1), () => {
      const { start, end } = this.#range(last);
      const index = this.#indices.newIndex(last, start);
      const pointers = this.#pointersFor(accesses, last, scope);
      const declared = (): Scope => {
        const inside = new Scope(scope, scope.strip);
        for (const [key, pointer] of pointers) inside.pointers.set(key, pointer);
        this.#values.declare(ids, inside);
        return inside;
      };
      if (joined) {
        this.#f.whileLess(index, this.#f.iWith(i32.sub, end, JOINED_STEPS - 1), () => {
          joined(Array.from({ length: JOINED_STEPS }, () => {
            const inside = declared();
            this.#advance(pointers, last, 1);
            this.#f.step(index, 1);
            return inside;
          }));
        });
      }
      this.#while(index, end, 1, () => {
        body(declared());
        this.#advance(pointers, last, 1);
      });
    });
  }
}
