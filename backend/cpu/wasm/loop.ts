/**
 * WebAssembly for loop kernels. One loop index runs over the four lanes of a vector: one along which
 * most of what is read and written lies side by side. Where it is a reduction's own index, each lane
 * sums a part and the parts are joined; where it is not, each lane is a result of its own.
 */
import { coefficient, type Form, formKey, rangeOf } from "../../graph/affine.ts";
import { type DType, dtypes } from "../../graph/dtype.ts";
import { accumulatorType, Emitter, type Parameter, usesInner } from "../../graph/emit.ts";
import type { Expr, Guard, Load, LoopKernel } from "../../graph/kernel.ts";
import { scriptDialect } from "../dialect.ts";
import { Accumulators } from "./accumulators.ts";
import { ArgAccumulator } from "./arg_accumulator.ts";
import { f32x4, FunctionBuilder, i32, i32x4, type Local, v128 } from "./assembler.ts";
import { type ElementBytes, kindOf, LaneAccess, Unsupported } from "./lanes.ts";
import { VectorMath } from "./math.ts";
import { costOf, writeCast, writePrimitive } from "./primitives.ts";

const LANES = 4;

/** A kernel in WebAssembly. Its arguments are 32-bit words: the buffers' addresses, then these. */
export interface GeneratedLoop {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly parameters: readonly Parameter[];
  /** The size of the range that a run may be cut into, and the multiples to cut it at. */
  readonly range: number;
  readonly grain: number;
  /** About how many nanoseconds it takes on one core. */
  readonly cost: number;
  /** An output holds values in between: it must not be an input as well. */
  readonly parks: boolean;
}

/**
 * Writes a loop kernel; null where it needs what there are no vectors for. `mayPark`: its outputs are
 * none of its inputs, so they may hold values in between.
 */
export function generateLoop(
  kernel: LoopKernel,
  relaxed: boolean,
  mayPark: boolean,
): GeneratedLoop | null {
  try {
    return new LoopWriter(kernel, relaxed, mayPark).write();
  } catch (error) {
    if (error instanceof Unsupported) return null;
    throw error;
  }
}

/** How many elements a pass over the vector loop's body computes, and whether they fill vectors. */
interface Strip {
  /** Vectors side by side. */
  readonly vectors: number;
  /** 4, or 1 at the end of the loop. */
  readonly lanes: number;
}

const ROW: Strip = { vectors: 1, lanes: LANES };

/** A place in memory that moves with a loop. */
interface Pointer {
  readonly local: Local;
  readonly form: Form;
  readonly bytes: ElementBytes;
}

/** The places along the lanes that are inside all guards: `first`, and how many from there on. */
interface Interval {
  readonly first: Local;
  readonly count: Local;
  /** The places where a vector may end that has some of them. */
  readonly reach: Local;
}

/** What is known inside a loop. */
class Scope {
  readonly #values = new Map<string, Local>();
  readonly intervals = new Map<string, Interval>();
  readonly pointers = new Map<string, Pointer>();

  constructor(readonly parent: Scope | null, readonly strip: Strip) {}

  value(key: string): Local | undefined {
    return this.#values.get(key) ?? this.parent?.value(key);
  }

  interval(key: string): Interval | undefined {
    return this.intervals.get(key) ?? this.parent?.interval(key);
  }

  setValue(key: string, local: Local): void {
    this.#values.set(key, local);
  }

  pointer(key: string): Pointer | undefined {
    return this.pointers.get(key) ?? this.parent?.pointer(key);
  }
}

class LoopWriter {
  readonly #kernel: LoopKernel;
  readonly #emitter: Emitter;
  readonly #f = new FunctionBuilder();
  readonly #math: VectorMath;
  readonly #lanes: LaneAccess;
  readonly #parameters: Parameter[] = [];
  readonly #parameterIds = new Map<string, number>();
  readonly #indices = new Map<number, Local>();
  /** The index that runs over lanes; -1: none does, each row is computed by itself. */
  readonly #along: number;
  readonly #alongInner: boolean;
  readonly #varies: readonly boolean[];
  /** The index whose range is cut for several threads. */
  readonly #cut: number;
  readonly #parked: Parked | null;

  constructor(kernel: LoopKernel, relaxed: boolean, mayPark: boolean) {
    check(kernel);
    this.#kernel = kernel;
    this.#emitter = new Emitter(kernel, scriptDialect((r) => accumulatorType(kernel, r)));
    this.#math = new VectorMath(this.#f, relaxed);
    this.#lanes = new LaneAccess(this.#f, this.#math);
    this.#along = chooseLanes(kernel);
    this.#alongInner = kernel.inner.includes(this.#along);
    this.#varies = variesWith(kernel, this.#along);
    this.#cut = chooseCut(kernel, this.#along);
    this.#parked = mayPark && this.#alongInner ? this.#choosePark() : null;
  }

  /** The most expensive floats that the last reduction and an output are both made of. */
  #choosePark(): Parked | null {
    const { reductions, outputs } = this.#kernel;
    const stage = this.#emitter.stages().at(-1) ?? [];
    const output = outputs.findIndex((o, k) => o.dtype === "float32" && this.#isInnerOutput(k));
    if (stage.length === 0 || output < 0) return null;
    const used = new Set(this.#emitter.needs(stage.map((r) => reductions[r]!.expr)).inner);
    const common = this.#emitter.needs([outputs[output]!.expr]).inner.filter((id) =>
      used.has(id) && this.#varies[id] && kindOf(this.#kernel.exprs[id]!.dtype) === "float"
    );
    let best: Parked | null = null, most = PARKING_COST;
    for (const expr of common) {
      const needed = [...reach(this.#kernel, [expr], -1)].filter((id) => this.#emitter.isInner(id));
      const cost = needed.reduce((sum, id) => sum + costOfExpr(this.#kernel, id), 0);
      if (cost > most) [best, most] = [{ expr, output }, cost];
    }
    return best;
  }

  write(): GeneratedLoop {
    const { outer, sizes } = this.#kernel;
    const rows = outer.filter((s) => s !== this.#along);
    this.#loops(rows, () => this.#row());
    const isLanes = this.#cut === this.#along;
    return {
      bytes: this.#f.finish(),
      parameters: this.#parameters,
      range: this.#cut < 0 ? 1 : sizes[this.#cut]!,
      grain: isLanes ? 64 : 1,
      cost: costOfKernel(this.#kernel, this.#emitter),
      parks: this.#parked !== null,
    };
  }

  // ---- arguments

  #word(key: string, parameter: Parameter): number {
    let id = this.#parameterIds.get(key);
    if (id === undefined) {
      id = this.#parameters.push(parameter) - 1;
      this.#parameterIds.set(key, id);
    }
    const { inputs, outputs } = this.#kernel;
    return 4 * (inputs.length + outputs.length + id);
  }

  /** A whole number that is given at launch. */
  #number(value: number): Local {
    const offset = this.#word(`index ${value}`, { kind: "index", value });
    return this.#f.once(`word ${offset}`, () => this.#argument(offset));
  }

  /** A size is a parameter of its own, so that kernels of other sizes have the same code. */
  #size(symbol: number): Local {
    const value = this.#kernel.sizes[symbol]!;
    const offset = this.#word(`size ${symbol}`, { kind: "index", value });
    return this.#f.once(`word ${offset}`, () => this.#argument(offset));
  }

  #argument(offset: number): Local {
    return this.#f.loadNumber(i32.load, FunctionBuilder.parameters.args, offset);
  }

  #base(input: number | null, output = 0): Local {
    const place = input ?? this.#kernel.inputs.length + output;
    return this.#f.once(`base ${place}`, () => this.#argument(4 * place));
  }

  // ---- loops

  #range(symbol: number): { start: Local; end: Local } {
    const { begin, end } = FunctionBuilder.parameters;
    const { chunk } = this.#kernel;
    if (symbol === this.#cut) return { start: begin, end };
    if (chunk?.symbol !== symbol) {
      return { start: this.#f.integer(0), end: this.#size(symbol) };
    }
    const length = this.#number(chunk.length);
    const start = this.#f.i(i32.mul, this.#index(chunk.part), length);
    const last = this.#f.i(i32.add, start, length);
    const size = this.#size(symbol);
    return { start, end: this.#f.choose(this.#f.i(i32.ltS, last, size), last, size) };
  }

  #index(symbol: number): Local {
    const local = this.#indices.get(symbol);
    if (local === undefined) throw new Unsupported("an index outside its loop");
    return local;
  }

  /** Opens a loop, `step` at a time while that many are left; the index stays where it ended. */
  #while(index: Local, end: Local, step: number, body: () => void): void {
    const f = this.#f;
    const last = step === 1 ? end : f.iWith(i32.sub, end, step - 1);
    f.while(() => {
      f.get(index);
      f.get(last);
      f.put(i32.ltS);
    }, () => {
      body();
      f.step(index, step);
    });
  }

  #loops(symbols: readonly number[], body: () => void): void {
    const [symbol, ...rest] = symbols;
    if (symbol === undefined) return body();
    const { start, end } = this.#range(symbol);
    const index = this.#newIndex(symbol, start);
    this.#while(index, end, 1, () => this.#loops(rest, body));
  }

  #newIndex(symbol: number, start: Local): Local {
    let index = this.#indices.get(symbol);
    if (index === undefined) this.#indices.set(symbol, index = this.#f.number());
    this.#f.assign(index, start);
    return index;
  }

  /** The loop over lanes: many vectors at a time, then one, then element by element. */
  #laneLoop(
    scope: Scope,
    ids: readonly number[],
    accesses: readonly Access[],
    unroll: number,
    body: Body,
  ): void {
    const { start, end } = this.#range(this.#along);
    const index = this.#newIndex(this.#along, start);
    const pointers = this.#pointersFor(accesses, this.#along);
    for (const guards of this.#guardsOf(ids)) {
      const interval = this.#intervalOf(guards);
      if (interval) scope.intervals.set(guardsKey(guards), interval);
    }
    const strips: Strip[] = [{ vectors: 1, lanes: LANES }, { vectors: 1, lanes: 1 }];
    if (unroll > 1) strips.unshift({ vectors: unroll, lanes: LANES });
    for (const strip of strips) {
      const step = strip.vectors * strip.lanes;
      this.#while(index, end, step, () => {
        const inside = new Scope(scope, strip);
        for (const [key, pointer] of pointers) inside.pointers.set(key, pointer);
        body(inside);
        this.#advance(pointers, this.#along, step);
      });
    }
  }

  #pointersFor(accesses: readonly Access[], symbol: number): Map<string, Pointer> {
    const pointers = new Map<string, Pointer>();
    for (const { key, base, form, bytes } of accesses) {
      const copy = this.#f.number();
      this.#f.assign(copy, this.#address(base, form, bytes));
      pointers.set(`${key} ${symbol}`, { local: copy, form, bytes });
    }
    return pointers;
  }

  #advance(pointers: ReadonlyMap<string, Pointer>, symbol: number, step: number): void {
    const f = this.#f;
    for (const { local, form, bytes } of pointers.values()) {
      const c = coefficient(form, symbol);
      if (c === 0) continue;
      if (c === 1) f.step(local, step * bytes);
      else {
        const moved = f.iWith(i32.mul, this.#number(c), step * bytes);
        f.assign(local, f.i(i32.add, local, moved));
      }
    }
  }

  // ---- indices and addresses

  /** The value of a form where the loops are now. */
  #form(form: Form): Local {
    const f = this.#f;
    let sum: Local | null = form.offset === 0 ? null : this.#number(form.offset);
    for (const [symbol, c] of form.terms) {
      const index = this.#index(symbol);
      const term = c === 1 ? index : f.i(i32.mul, index, this.#number(c));
      sum = sum === null ? term : f.i(i32.add, sum, term);
    }
    return sum ?? f.integer(0);
  }

  #address(base: Local, form: Form, bytes: ElementBytes): Local {
    const f = this.#f;
    const index = this.#form(form);
    const scaled = bytes === 1 ? index : f.iWith(i32.shl, index, bytes === 4 ? 2 : 1);
    return f.i(i32.add, base, scaled);
  }

  /** The place of an access: where a pointer is, or computed here. */
  #place(access: Access, scope: Scope): Local {
    for (const [key, pointer] of scope.pointers) {
      if (key.startsWith(`${access.key} `)) return pointer.local;
    }
    return this.#address(access.base, access.form, access.bytes);
  }

  /** The address of each lane of a vector. */
  #places(place: Local, access: Access, strip: Strip, vector: number): Local[] {
    const f = this.#f;
    const c = coefficient(access.form, this.#along);
    const at = (lane: number): Local => {
      const element = vector * LANES + lane;
      if (element === 0 || c === 0) return place;
      const step = c === 1
        ? f.integer(element * access.bytes)
        : f.iWith(i32.mul, this.#number(c), element * access.bytes);
      return f.i(i32.add, place, step);
    };
    return Array.from({ length: strip.lanes }, (_, lane) => at(lane));
  }

  // ---- guards

  #guardsOf(ids: readonly number[]): (readonly Guard[])[] {
    return ids.flatMap((id) => {
      const e = this.#kernel.exprs[id]!;
      if (!this.#varies[id]) return [];
      if (e.op === "inside") return [e.guards];
      return e.op === "load" ? [this.#kernel.loads[e.load]!.guards] : [];
    }).filter((guards) => guards.some((g) => coefficient(g.form, this.#along) !== 0));
  }

  /** Computed once before the loop over lanes; null where a guard does not step with it. */
  #intervalOf(guards: readonly Guard[]): Interval | null {
    const f = this.#f;
    const moving = guards.filter((g) => coefficient(g.form, this.#along) !== 0);
    if (moving.some((g) => coefficient(g.form, this.#along) !== 1)) return null;
    const bounds = moving.map(({ form, size }) => {
      const terms = form.terms.filter(([s]) => s !== this.#along);
      const first = f.i(i32.sub, f.integer(0), this.#form({ ...form, terms }));
      return { first, end: f.i(i32.add, first, this.#number(size)) };
    });
    const larger = (a: Local, b: Local): Local => f.choose(f.i(i32.ltS, a, b), b, a);
    const first = bounds.map((b) => b.first).reduce(larger);
    const end = bounds.map((b) => b.end).reduce((a, b) => f.choose(f.i(i32.ltS, a, b), a, b));
    const count = larger(f.i(i32.sub, end, first), f.integer(0));
    const fixed = guards.filter((g) => !moving.includes(g));
    const inside = fixed.length === 0 ? null : this.#inside(fixed, 0, null);
    const found = inside === null ? count : f.choose(inside, count, f.integer(0));
    const longer = f.iWith(i32.add, found, LANES - 1);
    return { first, count: found, reach: f.choose(found, longer, found) };
  }

  /** 1 where one lane is inside all guards. */
  #inside(guards: readonly Guard[], element: number, scope: Scope | null): Local {
    const f = this.#f;
    const interval = scope?.interval(guardsKey(guards));
    if (interval) {
      const place = f.iWith(i32.add, this.#index(this.#along), element);
      return f.i(i32.ltU, f.i(i32.sub, place, interval.first), interval.count);
    }
    const tests = guards.map(({ form, size }) => {
      let value = this.#form(form);
      const c = coefficient(form, this.#along);
      if (c !== 0 && element !== 0) {
        value = f.i(i32.add, value, f.iWith(i32.mul, this.#number(c), element));
      }
      // Below zero is large without a sign.
      return f.i(i32.ltU, value, this.#number(size));
    });
    return tests.reduce((all, test) => f.i(i32.and, all, test));
  }

  /** The mask of the lanes that are inside all guards. */
  #insideMask(guards: readonly Guard[], vector: number, scope: Scope): Local {
    const f = this.#f;
    const interval = scope.interval(guardsKey(guards));
    if (interval) {
      const first = f.i(i32.sub, this.#index(this.#along), interval.first);
      const steps = f.lanes([0, 1, 2, 3].map((lane) => vector * LANES + lane));
      const places = f.v(i32x4.add, f.v(i32x4.splat, first), steps);
      return f.v(i32x4.ltU, places, f.v(i32x4.splat, interval.count));
    }
    const masks = guards.map((guard) => {
      if (coefficient(guard.form, this.#along) === 0) {
        const inside = this.#inside([guard], 0, null);
        return f.v(i32x4.splat, f.i(i32.sub, f.integer(0), inside));
      }
      const value = this.#formVector(guard.form, vector);
      return f.v(i32x4.ltU, value, f.v(i32x4.splat, this.#number(guard.size)));
    });
    return masks.reduce((all, mask) => f.v(v128.and, all, mask));
  }

  /** A form's value in each lane. */
  #formVector(form: Form, vector: number): Local {
    const f = this.#f;
    const value = f.v(i32x4.splat, this.#form(form));
    const c = coefficient(form, this.#along);
    if (c === 0) return value;
    const steps = f.lanes([0, 1, 2, 3].map((lane) => vector * LANES + lane));
    const scaled = c === 1 ? steps : f.v(i32x4.mul, steps, f.v(i32x4.splat, this.#number(c)));
    return f.v(i32x4.add, value, scaled);
  }

  // ---- values

  #access(load: Load, id: number): Access {
    const bytes = elementBytes(load.dtype);
    return { key: `load ${id}`, base: this.#base(load.input), form: load.form, bytes };
  }

  #outputAccess(output: number): Access {
    const { dtype, form } = this.#kernel.outputs[output]!;
    const bytes = elementBytes(dtype);
    return { key: `store ${output}`, base: this.#base(null, output), form, bytes };
  }

  #load(id: number, scope: Scope, vector: number): Local {
    const load = this.#kernel.loads[id]!;
    const { dtype, guards } = load;
    const access = this.#access(load, id);
    const { strip } = scope;
    const place = this.#place(access, scope);
    const c = coefficient(load.form, this.#along);
    const varying = guards.some((g) => coefficient(g.form, this.#along) !== 0);
    if (!varying) {
      const inside = guards.length === 0 ? null : this.#inside(guards, 0, scope);
      if (c === 0) {
        return this.#lanes.loadAll(dtype, access.bytes, this.#safe(place, access, inside));
      }
      // Nothing may be read around a place that does not exist.
      if (inside === null) return this.#loadStrip(load, access, place, strip, vector);
      return this.#either(
        inside,
        () => this.#loadStrip(load, access, place, strip, vector),
        () => this.#f.splat(0),
      );
    }
    const interval = scope.interval(guardsKey(guards));
    if (interval && c === 1 && strip.lanes === LANES) {
      return this.#loadWithin(load, access, place, scope, vector, interval);
    }
    const places = this.#places(place, access, strip, vector).map((p, lane) =>
      this.#safe(p, access, this.#inside(guards, vector * LANES + lane, scope))
    );
    return this.#lanes.loadEach(dtype, access.bytes, places);
  }

  /** A vector of which some elements may not exist: those are 0. Memory goes on around buffers. */
  #loadWithin(
    load: Load,
    access: Access,
    place: Local,
    scope: Scope,
    vector: number,
    { first, reach }: Interval,
  ): Local {
    const f = this.#f;
    const last = f.iWith(i32.add, this.#index(this.#along), vector * LANES + LANES - 1);
    return this.#either(f.i(i32.ltU, f.i(i32.sub, last, first), reach), () => {
      const found = this.#loadStrip(load, access, place, scope.strip, vector);
      return f.v(v128.and, found, this.#insideMask(load.guards, vector, scope));
    }, () => f.splat(0));
  }

  #either(condition: Local, then: () => Local, otherwise: () => Local): Local {
    const f = this.#f;
    const result = f.vector();
    f.branch(condition, () => f.assign(result, then()), () => f.assign(result, otherwise()));
    return result;
  }

  /** The place, or the buffer's beginning where it is outside. */
  #safe(place: Local, { base }: Access, inside: Local | null): Local {
    return inside === null ? place : this.#f.choose(inside, place, base);
  }

  #loadStrip({ dtype }: Load, access: Access, place: Local, strip: Strip, vector: number): Local {
    const isSide = coefficient(access.form, this.#along) === 1;
    if (isSide && strip.lanes === LANES) {
      return this.#lanes.loadFour(dtype, access.bytes, place, vector * LANES * access.bytes);
    }
    if (strip.lanes === 1) return this.#lanes.loadAll(dtype, access.bytes, place);
    return this.#lanes.loadEach(
      dtype,
      access.bytes,
      this.#places(place, access, strip, vector),
    );
  }

  #name(id: number, vector: number): string {
    return this.#varies[id] ? `${id} ${vector}` : `${id}`;
  }

  #operand(id: number, scope: Scope, vector: number): Local {
    const e = this.#kernel.exprs[id]!;
    if (e.op === "constant") return this.#constant(e.value, e.dtype);
    const local = scope.value(this.#name(id, vector));
    if (local === undefined) throw new Error(`Expression ${id} is used before it is computed`);
    return local;
  }

  /** Common constants are written out, others are arguments, so that kernels are shared. */
  #constant(value: number, dtype: DType): Local {
    const f = this.#f;
    const kind = kindOf(dtype);
    if (kind === "mask") return f.splat(value === 0 ? 0 : -1);
    const isCommon = !Number.isFinite(value) || [0, 1, -1, 2, 0.5].includes(value);
    if (kind === "int") {
      return isCommon ? f.splat(value | 0) : f.once(
        `int ${value}`,
        () =>
          f.v(i32x4.splat, this.#argument(this.#word(`index ${value}`, { kind: "index", value }))),
      );
    }
    if (isCommon) return f.float(value);
    const offset = this.#word(`float ${value}`, { kind: "constant", value, dtype: "float32" });
    return f.once(
      `float ${offset}`,
      () => f.load(v128.loadSplat, FunctionBuilder.parameters.args, offset),
    );
  }

  #compute(id: number, scope: Scope, vector: number): Local {
    const e: Expr = this.#kernel.exprs[id]!;
    switch (e.op) {
      case "load":
        return this.#load(e.load, scope, vector);
      case "constant":
        return this.#constant(e.value, e.dtype);
      case "index": {
        const value = this.#formVector(e.form, vector);
        return kindOf(e.dtype) === "float" ? this.#f.v(f32x4.convert, value) : value;
      }
      case "inside":
        return this.#insideMask(e.guards, vector, scope);
      case "primitive": {
        const dtype = this.#kernel.exprs[e.args.at(-1)!]!.dtype;
        const args = e.args.map((a) => this.#operand(a, scope, vector));
        return writePrimitive(this.#f, this.#math, e.fn, args, dtype, e.dtype);
      }
      case "cast": {
        const from = this.#kernel.exprs[e.args[0]!]!.dtype;
        const value = this.#operand(e.args[0]!, scope, vector);
        return writeCast(this.#f, this.#math, value, from, e.dtype);
      }
      default:
        throw new Unsupported(e.op);
    }
  }

  #declare(ids: readonly number[], scope: Scope): void {
    for (let vector = 0; vector < scope.strip.vectors; vector++) {
      for (const id of ids) {
        const name = this.#name(id, vector);
        if (scope.value(name) === undefined) scope.setValue(name, this.#compute(id, scope, vector));
      }
    }
  }

  #store(output: number, expr: number, scope: Scope): void {
    const { dtype, form } = this.#kernel.outputs[output]!;
    const access = this.#outputAccess(output);
    const { strip } = scope;
    const place = this.#place(access, scope);
    const c = coefficient(form, this.#along);
    for (let vector = 0; vector < strip.vectors; vector++) {
      const value = this.#operand(expr, scope, vector);
      if (c === 1 && strip.lanes === LANES) {
        this.#lanes.storeFour(dtype, access.bytes, place, vector * LANES * access.bytes, value);
      } else {
        const places = c === 0 ? [place] : this.#places(place, access, strip, vector);
        this.#lanes.storeEach(dtype, access.bytes, places, value);
      }
    }
  }

  // ---- the kernel

  /** Everything inside the loops over rows. */
  #row(): void {
    const scope = new Scope(null, ROW);
    if (this.#along < 0 || this.#alongInner) return this.#stages(scope);
    const { outputs } = this.#kernel;
    const all = this.#emitter.needs([
      ...outputs.map((o) => o.expr),
      ...this.#kernel.reductions.map((r) => r.expr),
    ]);
    const rowIds = all.row.filter((id) => this.#isComputed(id));
    this.#declare(rowIds.filter((id) => !this.#varies[id] && !this.#afterReduction(id)), scope);
    const hasReductions = this.#kernel.reductions.length > 0;
    const accesses = [
      ...this.#loadsOf(rowIds.filter((id) => this.#varies[id])),
      ...outputs.flatMap((_, o) => usesInner(this.#kernel, o) ? [] : [this.#outputAccess(o)]),
    ];
    const unroll = hasReductions ? Math.min(4, this.#unrollOf(all.inner)) : this.#unrollOf(all.row);
    this.#laneLoop(scope, rowIds, accesses, unroll, (inside) => this.#stages(inside));
  }

  #isComputed(id: number): boolean {
    return this.#kernel.exprs[id]!.op !== "reduced";
  }

  #afterReduction(id: number): boolean {
    const e = this.#kernel.exprs[id]!;
    if (e.op === "reduced") return true;
    return "args" in e && e.args.some((a) => this.#afterReduction(a));
  }

  #unrollOf(ids: readonly number[]): number {
    const cost = ids.reduce((sum, id) => sum + costOfExpr(this.#kernel, id), 0);
    return cost <= 24 ? 4 : cost <= 48 ? 2 : 1;
  }

  #loadsOf(ids: readonly number[]): Access[] {
    const found = new Map<number, Access>();
    for (const id of ids) {
      const e = this.#kernel.exprs[id]!;
      if (e.op !== "load") continue;
      found.set(e.load, this.#access(this.#kernel.loads[e.load]!, e.load));
    }
    return [...found.values()];
  }

  /** Reductions stage by stage, then what is stored. */
  #stages(scope: Scope): void {
    const stages = this.#emitter.stages();
    stages.forEach((stage, k) => this.#stage(scope, stage, k === stages.length - 1));
    const { outputs } = this.#kernel;
    const rowOutputs = [...outputs.keys()].filter((o) => !this.#isInnerOutput(o));
    this.#declare(this.#emitter.needs(rowOutputs.map((o) => outputs[o]!.expr)).row, scope);
    for (const o of rowOutputs) this.#store(o, outputs[o]!.expr, scope);
    const innerOutputs = [...outputs.keys()].filter((o) => this.#isInnerOutput(o));
    if (innerOutputs.length === 0) return;
    const { row, inner } = this.#emitter.needs(innerOutputs.map((o) => outputs[o]!.expr));
    this.#declare(row, scope);
    const parked = this.#parked;
    const ids = parked === null ? inner : this.#without(innerOutputs, parked.expr, inner);
    this.#inner(scope, ids, innerOutputs, (inside) => {
      for (const o of innerOutputs) this.#store(o, outputs[o]!.expr, inside);
    }, parked);
  }

  #isInnerOutput(o: number): boolean {
    return this.#emitter.isInner(this.#kernel.outputs[o]!.expr) || usesInner(this.#kernel, o);
  }

  #stage(scope: Scope, stage: readonly number[], isLast: boolean): void {
    const { reductions, exprs } = this.#kernel;
    const { row, inner } = this.#emitter.needs(stage.map((r) => reductions[r]!.expr));
    this.#declare(row, scope);
    const count = this.#alongInner ? this.#unrollOf(inner) : scope.strip.vectors;
    const plain = stage.filter((r) => !Emitter.isArg(reductions[r]!));
    const sums = new Accumulators(
      this.#f,
      this.#math,
      plain.map((r) => ({ fn: reductions[r]!.fn, dtype: reductions[r]!.dtype })),
      this.#alongInner,
      count,
    );
    const places = new Map(
      stage.filter((r) => !plain.includes(r)).map((r) => [r, this.#argAccumulator(r, count)]),
    );
    const parked = isLast ? this.#parked : null;
    this.#inner(scope, inner, parked ? [parked.output] : [], (inside) => {
      if (parked) this.#store(parked.output, parked.expr, inside);
      const { lanes } = inside.strip;
      const vectors = Array.from({ length: inside.strip.vectors }, (_, vector) => vector);
      const valuesOf = (r: number): Local[] =>
        vectors.map((v) => this.#operand(reductions[r]!.expr, inside, v));
      plain.forEach((r, k) => sums.add(k, valuesOf(r), lanes));
      for (const [r, found] of places) {
        valuesOf(r).forEach((value, vector) => {
          found.add(vector, value, this.#formVector(reductions[r]!.index, vector), lanes);
        });
      }
    });
    for (const r of stage) {
      for (let vector = 0; vector < (this.#alongInner ? 1 : scope.strip.vectors); vector++) {
        const result = places.get(r)?.result(vector) ?? sums.result(plain.indexOf(r), vector);
        exprs.forEach((e, id) => {
          if (e.op !== "reduced" || e.reduction !== r) return;
          scope.setValue(this.#name(id, vector), result);
        });
      }
    }
  }

  #argAccumulator(r: number, count: number): ArgAccumulator {
    const { fn, expr } = this.#kernel.reductions[r]!;
    const isFloat = kindOf(this.#kernel.exprs[expr]!.dtype) === "float";
    const which = fn === "argmax" ? fn : "argmin";
    return new ArgAccumulator(this.#f, this.#math, which, isFloat, this.#alongInner, count);
  }

  /** What the outputs need of `ids` when one expression is there already. */
  #without(outputs: readonly number[], known: number, ids: readonly number[]): number[] {
    const needed = reach(this.#kernel, outputs.map((o) => this.#kernel.outputs[o]!.expr), known);
    return ids.filter((id) => id !== known && needed.has(id));
  }

  /** Reads an expression back from where it was parked. */
  #fetch({ expr, output }: Parked, scope: Scope): void {
    const { dtype, form } = this.#kernel.outputs[output]!;
    const access = this.#outputAccess(output);
    const load: Load = { input: -1, dtype, form, guards: [] };
    const place = this.#place(access, scope);
    for (let vector = 0; vector < scope.strip.vectors; vector++) {
      const value = this.#loadStrip(load, access, place, scope.strip, vector);
      scope.setValue(this.#name(expr, vector), value);
    }
  }

  /** The inner loops around `body`, with the given expressions computed where they first can be. */
  #inner(
    scope: Scope,
    ids: readonly number[],
    stored: readonly number[],
    body: Body,
    parked: Parked | null = null,
  ): void {
    const { inner } = this.#kernel;
    const accesses = [...this.#loadsOf(ids), ...stored.map((o) => this.#outputAccess(o))];
    if (this.#alongInner) {
      const others = inner.filter((s) => s !== this.#along);
      this.#loops(others, () => {
        const outside = new Scope(scope, ROW);
        this.#declare(ids.filter((id) => !this.#varies[id]), outside);
        const moving = accesses.filter(({ form }) => coefficient(form, this.#along) !== 0);
        this.#laneLoop(outside, ids, moving, this.#unrollOf(ids), (inside) => {
          if (parked) this.#fetch(parked, inside);
          this.#declare(ids.filter((id) => this.#varies[id]), inside);
          body(inside);
        });
      });
      return;
    }
    const last = inner.at(-1);
    if (last === undefined) return body(scope);
    this.#loops(inner.slice(0, -1), () => {
      const { start, end } = this.#range(last);
      const index = this.#newIndex(last, start);
      const pointers = this.#pointersFor(accesses, last);
      this.#while(index, end, 1, () => {
        const inside = new Scope(scope, scope.strip);
        for (const [key, pointer] of pointers) inside.pointers.set(key, pointer);
        this.#declare(ids, inside);
        body(inside);
        this.#advance(pointers, last, 1);
      });
    });
  }
}

type Body = (inside: Scope) => void;

function guardsKey(guards: readonly Guard[]): string {
  return guards.map(({ form, size }) => `${formKey(form)}<${size}`).join();
}

/** An expression that an output holds from the last reduction until the output itself is stored. */
interface Parked {
  readonly expr: number;
  readonly output: number;
}

/** Cheaper expressions than this are computed twice. */
const PARKING_COST = 8;

/** The expressions that some are made of, not looking behind `stop`. */
function reach(kernel: LoopKernel, ids: readonly number[], stop: number): Set<number> {
  const seen = new Set<number>();
  const stack = [...ids];
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    if (seen.has(id)) continue;
    seen.add(id);
    const e = kernel.exprs[id]!;
    if (id !== stop && "args" in e) stack.push(...e.args);
  }
  return seen;
}

/** Something that is read or written at a form. */
interface Access {
  readonly key: string;
  readonly base: Local;
  readonly form: Form;
  readonly bytes: ElementBytes;
}

function elementBytes(dtype: DType): ElementBytes {
  kindOf(dtype);
  return dtypes[dtype].bytes as ElementBytes;
}

/** Addresses and indices are 32-bit numbers. */
const MOST_ELEMENTS = 2 ** 30;

function check(kernel: LoopKernel): void {
  if (kernel.contraction || kernel.dynamic.length > 0) throw new Unsupported("not a plain loop");
  for (const { dtype } of [...kernel.exprs, ...kernel.outputs]) kindOf(dtype);
  for (const dtype of kernel.inputs) kindOf(dtype);
  for (const r of kernel.reductions) {
    kindOf(r.dtype);
    if (Emitter.isArg(r) && kindOf(kernel.exprs[r.expr]!.dtype) === "mask") {
      throw new Unsupported(r.fn);
    }
  }
  for (const { form } of [...kernel.loads, ...kernel.outputs]) {
    const [low, high] = rangeOf(form, kernel.sizes);
    if (low < -MOST_ELEMENTS || high >= MOST_ELEMENTS) throw new Unsupported("its size");
  }
}

/** For each expression, whether it changes with a loop index. */
function variesWith(kernel: LoopKernel, symbol: number): boolean[] {
  const isOuter = kernel.outer.includes(symbol);
  const varies: boolean[] = [];
  const moves = (form: Form): boolean => coefficient(form, symbol) !== 0;
  const guarded = (guards: readonly Guard[]): boolean => guards.some((g) => moves(g.form));
  for (const e of kernel.exprs) {
    switch (e.op) {
      case "load": {
        const load = kernel.loads[e.load]!;
        varies.push(moves(load.form) || guarded(load.guards));
        break;
      }
      case "index":
      case "random":
        varies.push(moves(e.form));
        break;
      case "inside":
        varies.push(guarded(e.guards));
        break;
      case "primitive":
      case "cast":
        varies.push(e.args.some((a) => varies[a]!));
        break;
      case "reduced":
        varies.push(isOuter);
        break;
      default:
        varies.push(false);
    }
  }
  return varies;
}

/** Rows shorter than this are better computed side by side than one by one. */
const SHORT_ROW = 16;

/** The loop index for the lanes: the one that most of the elements lie side by side along. */
function chooseLanes(kernel: LoopKernel): number {
  let best = -1, least = Infinity;
  // Places are counted in the order of the loops: that of the last one may run over lanes.
  const isOrdered = kernel.reductions.some((r) => Emitter.isArg(r));
  const inner = isOrdered ? kernel.inner.slice(-1) : kernel.inner.toReversed();
  const candidates = [...inner, ...kernel.outer.toReversed()];
  for (const symbol of candidates) {
    const size = kernel.sizes[symbol]!;
    if (kernel.chunk?.part === symbol) continue;
    const isInner = kernel.inner.includes(symbol);
    const forms = [
      ...kernel.loads.map((l) => l.form),
      ...kernel.outputs.flatMap((o, k) => usesInner(kernel, k) || !isInner ? [o.form] : []),
    ];
    let cost = size < LANES ? 4 * forms.length : 0;
    if (isInner && size < SHORT_ROW) cost += 2;
    for (const form of forms) {
      const c = coefficient(form, symbol);
      cost += c === 1 ? 1 : c === 0 ? 0.9 : 6;
    }
    if (cost < least) [best, least] = [symbol, cost];
  }
  return best;
}

/** The outer index to cut for threads: the longest, preferably not the one over lanes. */
function chooseCut(kernel: LoopKernel, along: number): number {
  let best = -1, most = 0;
  for (const symbol of kernel.outer) {
    const parts = symbol === along ? kernel.sizes[symbol]! / 64 : kernel.sizes[symbol]!;
    if (parts > most) [best, most] = [symbol, parts];
  }
  return best;
}

function costOfExpr(kernel: LoopKernel, id: number): number {
  const e = kernel.exprs[id]!;
  switch (e.op) {
    case "primitive":
      return costOf(e.fn);
    case "load":
      return kernel.loads[e.load]!.guards.length > 0 ? 12 : 1;
    case "constant":
      return 0;
    default:
      return 2;
  }
}

/** About how long a kernel takes on one core, in nanoseconds. */
function costOfKernel(kernel: LoopKernel, emitter: Emitter): number {
  let rows = 1, inner = 1;
  for (const s of kernel.outer) rows *= kernel.sizes[s]!;
  for (const s of kernel.inner) inner *= kernel.sizes[s]!;
  let cost = 0;
  kernel.exprs.forEach((_, id) => {
    cost += costOfExpr(kernel, id) * rows * (emitter.isInner(id) ? inner : 1);
  });
  // Four lanes, about three instructions a nanosecond... and no less than the bytes take.
  return cost / 10;
}
