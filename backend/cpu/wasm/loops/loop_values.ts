/** The values of a loop kernel: loads, constants, expressions, stores, a vector at a time. */
import { coefficient } from "../../../kernel/affine.ts";
import type { DType } from "../../../graph/dtype.ts";
import type { Expr, Load, LoopKernel } from "../../../kernel/kernel.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { elementBytes, isWide, kindOf, LaneAccess, type WideKind } from "../lanes.ts";
import { boundsKey, type LoopIndices } from "./loop_indices.ts";
import { type Interval, LANES, type LoopAccess, type Scope, type Strip } from "./loop_scope.ts";
import { type RandomKey, randomKey, uniform } from "../functions/random.ts";
import type { VectorMath } from "../math.ts";
import { i32, i32x4, v128 } from "../opcodes.ts";
import { writeCast, writePrimitive } from "./primitives.ts";

/** Writes what is computed. */
export class LoopValues {
  readonly #f: FunctionBuilder;
  readonly #math: VectorMath;
  readonly #lanes: LaneAccess;
  readonly #kernel: LoopKernel;
  readonly #indices: LoopIndices;
  readonly #laneSymbol: number;
  readonly #varies: readonly boolean[];

  /** `laneSymbol`: the index that runs over lanes; `varies`: the expressions that change with it. */
  constructor(
    f: FunctionBuilder,
    math: VectorMath,
    kernel: LoopKernel,
    indices: LoopIndices,
    laneSymbol: number,
    varies: readonly boolean[],
  ) {
    this.#f = f;
    this.#math = math;
    this.#lanes = new LaneAccess(f, math);
    this.#kernel = kernel;
    this.#indices = indices;
    this.#laneSymbol = laneSymbol;
    this.#varies = varies;
  }

  /** Place and form of a load's read. */
  access(load: Load, id: number): LoopAccess {
    const bytes = elementBytes(load.dtype);
    return { key: `load ${id}`, base: this.#indices.base(load.input), index: load.index, bytes };
  }

  /** Place and form of an output's write. */
  outputAccess(output: number): LoopAccess {
    const { dtype, index } = this.#kernel.outputs[output]!;
    const bytes = elementBytes(dtype);
    return { key: `store ${output}`, base: this.#indices.base(null, output), index, bytes };
  }

  /** The place of an access: where a pointer is, or computed here. */
  place(access: LoopAccess, scope: Scope): Local {
    for (const [key, pointer] of scope.pointers) {
      if (key.startsWith(`${access.key} `)) return pointer.local;
    }
    return this.#indices.address(access.base, access.index, access.bytes);
  }

  #load(id: number, scope: Scope, vector: number): Local {
    const load = this.#kernel.loads[id]!;
    const { dtype, bounds } = load;
    const access = this.access(load, id);
    const { strip } = scope;
    const place = this.place(access, scope);
    const c = coefficient(load.index, this.#laneSymbol);
    const varying = bounds.some((g) => coefficient(g.index, this.#laneSymbol) !== 0);
    if (!varying) {
      const inside = bounds.length === 0 ? null : this.#indices.inside(bounds, 0, scope);
      if (c === 0) {
        return this.#lanes.loadAll(dtype, access.bytes, this.#safe(place, access, inside));
      }
      // Nothing may be read around a place that does not exist.
      if (inside === null) return this.loadStrip(load, access, place, strip, vector);
      return this.#either(
        inside,
        () => this.loadStrip(load, access, place, strip, vector),
        () => this.#zero(dtype),
      );
    }
    const interval = scope.interval(boundsKey(bounds));
    if (interval && c === 1 && strip.lanes === LANES) {
      return this.#loadWithin(load, access, place, scope, vector, interval);
    }
    const inside = (lane: number): Local =>
      this.#indices.inside(bounds, vector * LANES + lane, scope);
    const safely = (): Local => {
      const places = this.#indices.places(place, access, strip, vector);
      const safe = places.map((p, lane) => this.#safe(p, access, inside(lane)));
      return this.#lanes.loadEach(dtype, access.bytes, safe);
    };
    if (strip.lanes < LANES) return safely();
    // Bounds are intervals, and lanes go one way: where both ends are inside, all lanes are.
    return this.#either(
      this.#f.i(i32.and, inside(0), inside(LANES - 1)),
      () => this.loadStrip(load, access, place, strip, vector),
      safely,
    );
  }

  /** A vector of which some elements may not exist: those are 0. Memory goes on around buffers. */
  #loadWithin(
    load: Load,
    access: LoopAccess,
    place: Local,
    scope: Scope,
    vector: number,
    { first, reach }: Interval,
  ): Local {
    const f = this.#f;
    const last = f.iWith(
      i32.add,
      this.#indices.index(this.#laneSymbol),
      vector * LANES + LANES - 1,
    );
    return this.#either(f.i(i32.ltU, f.i(i32.sub, last, first), reach), () => {
      const found = this.loadStrip(load, access, place, scope.strip, vector);
      const mask = this.#indices.insideMask(load.bounds, vector, scope);
      if (!f.isPair(found)) return f.v(v128.and, found, mask);
      return this.#math.wide(v128.and, found, this.#math.widenMask(mask));
    }, () => this.#zero(load.dtype));
  }

  #zero(dtype: DType): Local {
    const f = this.#f, zero = f.splat(0);
    return isWide(kindOf(dtype)) ? f.pair(zero, zero) : zero;
  }

  #either(condition: Local, then: () => Local, orElse: () => Local): Local {
    const f = this.#f;
    let result: Local | null = null;
    const keep = (value: Local): void => {
      result ??= f.isPair(value) ? f.pair(f.vector(), f.vector()) : f.vector();
      f.assign(result, value);
    };
    f.branch(condition, () => keep(then()), () => keep(orElse()));
    return result!;
  }

  /** The place, or the buffer's beginning where it is outside. */
  #safe(place: Local, { base }: LoopAccess, inside: Local | null): Local {
    return inside === null ? place : this.#f.choose(inside, place, base);
  }

  /** The elements of a vector, all of which exist. */
  loadStrip(
    { dtype }: Load,
    access: LoopAccess,
    place: Local,
    strip: Strip,
    vector: number,
  ): Local {
    const step = coefficient(access.index, this.#laneSymbol);
    if (step === 1 && strip.lanes === LANES) {
      return this.#lanes.loadFour(dtype, access.bytes, place, vector * LANES * access.bytes);
    }
    if (step === 2 && strip.lanes === LANES && access.bytes === 4) {
      return this.#lanes.loadEverySecond(dtype, place, vector * LANES * 8);
    }
    if (strip.lanes === 1) return this.#lanes.loadAll(dtype, access.bytes, place);
    return this.#lanes.loadEach(
      dtype,
      access.bytes,
      this.#indices.places(place, access, strip, vector),
    );
  }

  /** Name of a value: those that change with the lanes are there once a vector. */
  name(id: number, vector: number): string {
    return this.#varies[id] ? `${id} ${vector}` : `${id}`;
  }

  /** The value of an expression that was declared. */
  operand(id: number, scope: Scope, vector: number): Local {
    const e = this.#kernel.exprs[id]!;
    if (e.op === "constant") return this.#constant(e.value, e.dtype);
    const local = scope.value(this.name(id, vector));
    if (local === undefined) throw new Error(`Expression ${id} is used before it is computed`);
    return local;
  }

  /** Common constants are written out, others are arguments, so that kernels are shared. */
  #constant(value: number, dtype: DType): Local {
    const f = this.#f;
    const kind = kindOf(dtype);
    if (isWide(kind)) return this.#wideConstant(value, kind);
    if (kind === "mask") return f.splat(value === 0 ? 0 : -1);
    const isCommon = !Number.isFinite(value) || [0, 1, -1, 2, 0.5].includes(value);
    if (kind === "int") {
      return isCommon ? f.splat(value | 0) : f.once(
        `int ${value}`,
        () =>
          f.v(
            i32x4.splat,
            this.#indices.argument(this.#indices.word(`index ${value}`, { kind: "index", value })),
          ),
      );
    }
    if (isCommon) return f.float(value);
    const offset = this.#indices.word(`float ${value}`, {
      kind: "constant",
      value,
      dtype: "float32",
    });
    return f.once(
      `float ${offset}`,
      () => f.load(v128.loadSplat, FunctionBuilder.parameters.args, offset),
    );
  }

  /** A constant of 64 bits: two arguments. */
  #wideConstant(value: number, kind: WideKind): Local {
    const f = this.#f, indices = this.#indices;
    const bits = new Int32Array(2);
    if (kind === "double") new Float64Array(bits.buffer)[0] = value;
    else new BigInt64Array(bits.buffer)[0] = BigInt(Math.trunc(value));
    const key = Object.is(value, -0) ? "-0" : `${value}`;
    const [low] = [...bits].map((word, k) =>
      indices.word(`${kind} ${key} ${k}`, { kind: "index", value: word })
    );
    const both = f.once(
      `${kind} ${low}`,
      () => f.load(v128.load64Splat, FunctionBuilder.parameters.args, low!),
    );
    return f.pair(both, both);
  }

  /** Parameters of random numbers beside the element: the same in all lanes. */
  #key({ seed, stream }: Expr & { readonly op: "random" }): RandomKey {
    const indices = this.#indices;
    return randomKey(
      this.#f,
      indices.word(`index ${seed}`, { kind: "index", value: seed }),
      indices.word(`stream ${indices.streamId(stream)}`, { kind: "stream", stream }),
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
        const value = this.#indices.affineVector(e.index, vector);
        return writeCast(this.#f, this.#math, value, "int32", e.dtype);
      }
      case "random": {
        const counter = this.#indices.affineVector(e.index, vector);
        return uniform(this.#f, counter, this.#key(e));
      }
      case "inside":
        return this.#indices.insideMask(e.bounds, vector, scope);
      case "primitive": {
        const dtype = this.#kernel.exprs[e.args.at(-1)!]!.dtype;
        const args = e.args.map((a) => this.operand(a, scope, vector));
        return writePrimitive(this.#f, this.#math, e.fn, args, dtype, e.dtype);
      }
      case "cast": {
        const from = this.#kernel.exprs[e.args[0]!]!.dtype;
        const value = this.operand(e.args[0]!, scope, vector);
        return writeCast(this.#f, this.#math, value, from, e.dtype);
      }
      default:
        throw new Error(`There are no lanes for ${e.op}`);
    }
  }

  /** Computes expressions, in order, those that are not known yet. */
  declare(ids: readonly number[], scope: Scope): void {
    for (let vector = 0; vector < scope.strip.vectors; vector++) {
      for (const id of ids) {
        const name = this.name(id, vector);
        if (scope.value(name) !== undefined) continue;
        const value = this.#compute(id, scope, vector);
        scope.setValue(name, value);
        for (const indirect of this.#kernel.indirect) {
          if (indirect.expr === id) this.#indices.setIndirect(indirect, value);
        }
      }
    }
  }

  /** Writes an expression to the place of an output. */
  store(output: number, expr: number, scope: Scope): void {
    const { dtype, index } = this.#kernel.outputs[output]!;
    const access = this.outputAccess(output);
    const { strip } = scope;
    const place = this.place(access, scope);
    const c = coefficient(index, this.#laneSymbol);
    for (let vector = 0; vector < strip.vectors; vector++) {
      const value = this.operand(expr, scope, vector);
      if (c === 1 && strip.lanes === LANES) {
        this.#lanes.storeFour(dtype, access.bytes, place, vector * LANES * access.bytes, value);
      } else {
        const places = c === 0 ? [place] : this.#indices.places(place, access, strip, vector);
        this.#lanes.storeEach(dtype, access.bytes, places, value);
      }
    }
  }
}
