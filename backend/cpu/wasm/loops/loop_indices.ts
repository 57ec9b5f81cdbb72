/**
 * The numbers of a loop kernel: its arguments, loop indices, affine expressions of them, and addresses. Of
 * an index that runs over lanes it is the first lane's; the others are `coefficient` further each.
 */
import { type AffineExpr, affineKey, coefficient } from "../../../kernel/affine.ts";
import type { Parameter } from "../../../codegen/emit.ts";
import type { RandomStream } from "../../../graph/scalar.ts";
import type { Bound, IndirectIndex, LoopKernel } from "../../../kernel/kernel.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import type { ElementBytes } from "../lanes.ts";
import { type Interval, LANES, type LoopAccess, type Scope, type Strip } from "./loop_scope.ts";
import { i32, i32x4, v128 } from "../opcodes.ts";

/** Place of an indirect index that is out of range, as positions of the kernel's parameters. */
export interface IndexFault {
  readonly indirect: IndirectIndex;
  /** The index that was found, and the upper word of one of 64 bits. */
  readonly value: number;
  /** See `value`; null where it is the sign. */
  readonly high: number | null;
  /** 1 where there was one. */
  readonly isFound: number;
}

/** Writes indices and addresses. */
export class LoopIndices {
  /** The kernel's arguments behind its buffers. */
  readonly parameters: Parameter[] = [];
  /** Places for indices that are out of range. */
  readonly faults: IndexFault[] = [];
  readonly #f: FunctionBuilder;
  readonly #kernel: LoopKernel;
  readonly #laneSymbol: number;
  readonly #varies: readonly boolean[];
  readonly #parameterIds = new Map<string, number>();
  readonly #locals = new Map<number, Local>();
  readonly #streams: RandomStream[] = [];

  /** `laneSymbol`: the index that runs over lanes; `varies`: the expressions that change with it. */
  constructor(
    f: FunctionBuilder,
    kernel: LoopKernel,
    laneSymbol: number,
    varies: readonly boolean[],
  ) {
    this.#f = f;
    this.#kernel = kernel;
    this.#laneSymbol = laneSymbol;
    this.#varies = varies;
  }

  /** Offset of an argument behind the first, in bytes. */
  word(key: string, parameter: Parameter): number {
    let id = this.#parameterIds.get(key);
    if (id === undefined) {
      id = this.parameters.push(parameter) - 1;
      this.#parameterIds.set(key, id);
    }
    return this.#offset(id);
  }

  /** Offset of a parameter behind the first argument, in bytes. */
  #offset(parameter: number): number {
    const { inputs, outputs } = this.#kernel;
    return 4 * (inputs.length + outputs.length + parameter);
  }

  /** A whole number that is given at launch. */
  number(value: number): Local {
    const offset = this.word(`index ${value}`, { kind: "index", value });
    return this.#f.once(`word ${offset}`, () => this.argument(offset));
  }

  /** A size is a parameter of its own, so that kernels of other sizes have the same code. */
  size(symbol: number): Local {
    const value = this.#kernel.sizes[symbol]!;
    const offset = this.word(`size ${symbol}`, { kind: "index", value });
    return this.#f.once(`word ${offset}`, () => this.argument(offset));
  }

  /** A number for each random stream of the kernel: equal streams have equal ones. */
  streamId(stream: RandomStream): number {
    const known = this.#streams.indexOf(stream);
    return known < 0 ? this.#streams.push(stream) - 1 : known;
  }

  /** The argument at that place. */
  argument(offset: number): Local {
    return this.#f.loadNumber(i32.load, FunctionBuilder.parameters.args, offset);
  }

  /** Start of an input, or else of an output. */
  base(input: number | null, output = 0): Local {
    const place = input ?? this.#kernel.inputs.length + output;
    return this.#f.once(`base ${place}`, () => this.argument(4 * place));
  }

  /** The loop index of a symbol, as it is now. */
  index(symbol: number): Local {
    const local = this.#locals.get(symbol);
    if (local === undefined) throw new Error("An index is used outside its loop");
    return local;
  }

  /** Sets a loop index to where it starts. */
  newIndex(symbol: number, start: Local): Local {
    let index = this.#locals.get(symbol);
    if (index === undefined) this.#locals.set(symbol, index = this.#f.number());
    this.#f.assign(index, start);
    return index;
  }

  /**
   * Sets an indirect index to the value of its expression, the same in all lanes. One that is out of range
   * is left behind for the host, and 0 is read instead.
   */
  setIndirect(indirect: IndirectIndex, vector: Local): void {
    const f = this.#f, { args } = FunctionBuilder.parameters;
    const isWide = f.isPair(vector), first = isWide ? f.halves(vector)[0] : vector;
    const index = this.newIndex(indirect.symbol, f.laneOf(first, 0));
    const high = isWide ? f.laneOf(first, 1) : null,
      isSmall = f.i(i32.ltU, index, this.number(indirect.size));
    const isValid = high === null ? isSmall : f.i(i32.and, isSmall, f.iWith(i32.eq, high, 0));
    f.branch(f.iWith(i32.xor, isValid, 1), () => {
      const fault = this.#faultOf(indirect, isWide);
      f.storeNumber(args, index, this.#offset(fault.value));
      if (high !== null) f.storeNumber(args, high, this.#offset(fault.high!));
      f.storeNumber(args, f.integer(1), this.#offset(fault.isFound));
      f.assign(index, f.integer(0));
    });
  }

  #faultOf(indirect: IndirectIndex, isWide: boolean): IndexFault {
    const known = this.faults.find((fault) => fault.indirect === indirect);
    if (known) return known;
    const zero: Parameter = { kind: "index", value: 0 };
    const place = (): number => this.parameters.push(zero) - 1;
    const fault = { indirect, value: place(), high: isWide ? place() : null, isFound: place() };
    this.faults.push(fault);
    return fault;
  }

  /** True when the values of all indirect indices of an expression are known in a scope. */
  isKnown(affine: AffineExpr, isComputed: (expr: number) => boolean): boolean {
    return this.#kernel.indirect.every(({ symbol, expr }) =>
      coefficient(affine, symbol) === 0 || isComputed(expr)
    );
  }

  /** The value of an expression where the loops are now. */
  affine(expr: AffineExpr): Local {
    const f = this.#f;
    let sum: Local | null = expr.offset === 0 ? null : this.number(expr.offset);
    for (const [symbol, c] of expr.terms) {
      const index = this.index(symbol);
      const term = c === 1 ? index : f.i(i32.mul, index, this.number(c));
      sum = sum === null ? term : f.i(i32.add, sum, term);
    }
    return sum ?? f.integer(0);
  }

  /** The address of the element at an index. */
  address(base: Local, affine: AffineExpr, bytes: ElementBytes): Local {
    const f = this.#f;
    const index = this.affine(affine);
    const scaled = bytes === 1 ? index : f.iWith(i32.shl, index, Math.log2(bytes));
    return f.i(i32.add, base, scaled);
  }

  /** The address of each lane of a vector. */
  places(place: Local, access: LoopAccess, strip: Strip, vector: number): Local[] {
    const f = this.#f;
    const c = coefficient(access.index, this.#laneSymbol);
    const at = (lane: number): Local => {
      const element = vector * LANES + lane;
      if (element === 0 || c === 0) return place;
      const bytes = element * access.bytes;
      const step = c === 1
        ? f.integer(bytes)
        : f.once(`step ${c} ${bytes}`, () => f.iWith(i32.mul, this.number(c), bytes));
      return f.i(i32.add, place, step);
    };
    return Array.from({ length: strip.lanes }, (_, lane) => at(lane));
  }

  /** An expression's value in each lane. */
  affineVector(index: AffineExpr, vector: number): Local {
    const f = this.#f;
    const value = f.v(i32x4.splat, this.affine(index));
    const c = coefficient(index, this.#laneSymbol);
    if (c === 0) return value;
    const steps = f.lanes([0, 1, 2, 3].map((lane) => vector * LANES + lane));
    const scaled = c === 1 ? steps : f.v(i32x4.mul, steps, f.v(i32x4.splat, this.number(c)));
    return f.v(i32x4.add, value, scaled);
  }

  /** The bounds of expressions that some lanes may be inside of and others not. */
  boundsOf(ids: readonly number[]): (readonly Bound[])[] {
    return ids.flatMap((id) => {
      const e = this.#kernel.exprs[id]!;
      if (!this.#varies[id]) return [];
      if (e.op === "inside") return [e.bounds];
      return e.op === "load" ? [this.#kernel.loads[e.load]!.bounds] : [];
    }).filter((bounds) => bounds.some((g) => coefficient(g.index, this.#laneSymbol) !== 0));
  }

  /** Computed once before the loop over lanes; null where a bound does not step with it. */
  intervalOf(bounds: readonly Bound[]): Interval | null {
    const f = this.#f;
    const moving = bounds.filter((g) => coefficient(g.index, this.#laneSymbol) !== 0);
    if (moving.some((g) => coefficient(g.index, this.#laneSymbol) !== 1)) return null;
    const intervals = moving.map(({ index, size }) => {
      const terms = index.terms.filter(([s]) => s !== this.#laneSymbol);
      const first = f.i(i32.sub, f.integer(0), this.affine({ ...index, terms }));
      return { first, end: f.i(i32.add, first, this.number(size)) };
    });
    const first = intervals.map((b) => b.first).reduce((a, b) => f.larger(a, b));
    const end = intervals.map((b) => b.end).reduce((a, b) => f.smaller(a, b));
    const count = f.larger(f.i(i32.sub, end, first), f.integer(0));
    const fixed = bounds.filter((g) => !moving.includes(g));
    const inside = fixed.length === 0 ? null : this.inside(fixed, 0, null);
    const found = inside === null ? count : f.choose(inside, count, f.integer(0));
    const longer = f.iWith(i32.add, found, LANES - 1);
    return { first, count: found, reach: f.choose(found, longer, found) };
  }

  /** 1 where one lane is inside all bounds. */
  inside(bounds: readonly Bound[], element: number, scope: Scope | null): Local {
    const f = this.#f;
    const interval = scope?.interval(boundsKey(bounds));
    if (interval) {
      const place = f.iWith(i32.add, this.index(this.#laneSymbol), element);
      return f.i(i32.ltU, f.i(i32.sub, place, interval.first), interval.count);
    }
    const tests = bounds.map(({ index, size }) => {
      let value = this.affine(index);
      const c = coefficient(index, this.#laneSymbol);
      if (c !== 0 && element !== 0) {
        value = f.i(i32.add, value, f.iWith(i32.mul, this.number(c), element));
      }
      // Below zero is large without a sign.
      return f.i(i32.ltU, value, this.number(size));
    });
    return tests.reduce((all, test) => f.i(i32.and, all, test));
  }

  /** The mask of the lanes that are inside all bounds. */
  insideMask(bounds: readonly Bound[], vector: number, scope: Scope): Local {
    const f = this.#f;
    const interval = scope.interval(boundsKey(bounds));
    if (interval) {
      const first = f.i(i32.sub, this.index(this.#laneSymbol), interval.first);
      const steps = f.lanes([0, 1, 2, 3].map((lane) => vector * LANES + lane));
      const places = f.v(i32x4.add, f.v(i32x4.splat, first), steps);
      return f.v(i32x4.ltU, places, f.v(i32x4.splat, interval.count));
    }
    const masks = bounds.map((bound) => {
      if (coefficient(bound.index, this.#laneSymbol) === 0) {
        const inside = this.inside([bound], 0, null);
        return f.v(i32x4.splat, f.i(i32.sub, f.integer(0), inside));
      }
      const value = this.affineVector(bound.index, vector);
      return f.v(i32x4.ltU, value, f.v(i32x4.splat, this.number(bound.size)));
    });
    return masks.reduce((all, mask) => f.v(v128.and, all, mask));
  }
}

/** A text that is the same for equal bounds. */
export function boundsKey(bounds: readonly Bound[]): string {
  return bounds.map(({ index, size }) => `${affineKey(index)}<${size}`).join();
}
