/**
 * Expressions in explicit vectors of 16 lanes for CPU devices. Compilers keep the order of floating
 * point sums, so they do not vectorize reductions; they call exp and its like lane by lane; and for
 * simple arithmetic over work-items they use half the width of an AVX-512 register (PoCL 3.1).
 *
 * What is left over at the end of a loop is computed by the same vectors, of which a part is loaded
 * and stored: a value does not depend on where its element stands.
 */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import { variesWith } from "../../../kernel/analysis.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import type { Expr } from "../../../kernel/kernel.ts";
import { renderVector } from "./primitives.ts";
import { castLanes, lanesOf, loadLanes, storeLanes } from "./vector_types.ts";

/** One vector of an iteration. */
export interface Lanes {
  /** Keeps the names of copies apart. */
  readonly tag?: string;
  /** Elements behind the loop's index. */
  readonly shift?: number;
  /** Number of lanes that count, as text; by default all. */
  readonly left?: string;
  /** The variable that holds the result of the kernel's contraction. */
  readonly contracted?: string;
}

/** Writes what a vector of elements is read with where they are no neighbours; null for all else. */
export type LaneReader = (e: Expr, id: number, lanes: Lanes) => string | null;

/** Writes expressions of one iteration of 16 elements. */
export class VectorBody {
  readonly #emitter: Emitter;
  readonly #symbol: number;
  readonly #read: LaneReader;
  readonly #depends: readonly boolean[];

  constructor(emitter: Emitter, symbol: number, read: LaneReader = () => null) {
    this.#emitter = emitter;
    this.#symbol = symbol;
    this.#read = read;
    this.#depends = variesWith(emitter.kernel, [symbol]);
  }

  /** A value as a vector; what does not change with the loop is spread. */
  name(id: number, tag = ""): string {
    const { dtype, op } = this.#emitter.kernel.exprs[id]!;
    if (this.#depends[id]) {
      return op === "reduced" ? `${this.#emitter.name(id)}${tag}` : `w${id}${tag}`;
    }
    const name = this.#emitter.name(id);
    return dtype === "bool" ? `(int16)(${name} ? -1 : 0)` : `(${lanesOf(dtype).type})(${name})`;
  }

  /** Declares the values that do not change with the loop. */
  declareScalars(ids: readonly number[]): void {
    this.#emitter.declare(ids.filter((id) => !this.#depends[id]));
  }

  /** Declares the values of one iteration, as vectors. */
  declareVectors(ids: readonly number[], lanes: Lanes = {}): void {
    const { exprs } = this.#emitter.kernel;
    for (const id of ids) {
      const e = exprs[id]!;
      if (!this.#depends[id]) continue;
      if (e.op === "reduced") this.#emitter.alias(id, `z${e.reduction}`);
      else {
        const type = lanesOf(e.dtype).type;
        const text = this.#read(e, id, lanes) ?? this.#text(e, lanes);
        this.#emitter.line(`const ${type} ${this.name(id, lanes.tag)} = ${text};`);
      }
    }
  }

  /** Declares the values of one iteration that begins `shift` elements on. */
  declare(ids: readonly number[], tag = "", shift = 0, contracted = ""): void {
    if (shift === 0) this.declareScalars(ids);
    this.declareVectors(ids, { tag, shift, contracted });
  }

  #pointer(buffer: string, index: AffineExpr, shift: number): string {
    return `${buffer} + ${this.#emitter.affine(index)}${shift === 0 ? "" : ` + ${shift}`}`;
  }

  #text(e: Expr, { tag = "", shift = 0, left = "", contracted = "" }: Lanes): string {
    const { kernel } = this.#emitter;
    switch (e.op) {
      case "load": {
        const load = kernel.loads[e.load]!;
        return loadLanes(load.dtype, this.#pointer(`a${load.input}`, load.index, shift), left);
      }
      case "index":
        return this.position(e.index, { shift });
      case "random":
        return this.#random(e, shift);
      case "primitive": {
        const { dtype } = kernel.exprs[e.args[e.args.length - 1]!]!;
        return renderVector(e.fn, e.args.map((a) => this.name(a, tag)), lanesOf(dtype).kind!);
      }
      case "cast":
        return castLanes(
          this.name(e.args[0]!, tag),
          kernel.exprs[e.args[0]!]!.dtype,
          e.dtype,
        );
      case "contracted":
        return contracted;
      default:
        throw new Error(`Cannot vectorize ${e.op}`);
    }
  }

  /** An index in each of the lanes. */
  position(index: AffineExpr, { shift = 0 }: Lanes = {}): string {
    const step = coefficient(index, this.#symbol);
    const first = `(int16)((int)(${this.#emitter.affine(index)}))`;
    if (step === 0) return first;
    const lane = shift === 0 ? "lanes16()" : `(lanes16() + ${shift})`;
    return `${first} + ${step === 1 ? lane : `${lane} * (int)${this.#emitter.index(step)}`}`;
  }

  /** The random numbers of 16 counters: those of the loop's elements from `shift` on. */
  #random({ index, seed, stream }: Extract<Expr, { op: "random" }>, shift: number): string {
    const emitter = this.#emitter;
    const step = emitter.index(coefficient(index, this.#symbol));
    const first = emitter.affine(index) + (shift === 0 ? "" : ` + ${shift} * ${step}`);
    const drawn = emitter.parameter({ kind: "stream", stream });
    const key = `(uint)${emitter.index(seed)}, (uint)${drawn}`;
    return `philox_16((ulong)(${first}), (ulong)${step}, ${key})`;
  }

  /** Asks early for what is loaded `ahead` elements on. */
  prefetch(ids: readonly number[], shift: number, ahead: number): void {
    const { exprs, loads } = this.#emitter.kernel;
    for (const id of ids) {
      const e = exprs[id]!;
      if (e.op !== "load" || e.dtype !== "float32" || !this.#depends[id]) continue;
      const { input, index } = loads[e.load]!;
      this.#emitter.line(`prefetch_16(${this.#pointer(`a${input}`, index, shift + ahead)});`);
    }
  }

  /** Stores an output's lanes. */
  store(output: number, { tag = "", shift = 0, left = "" }: Lanes = {}): void {
    const o = this.#emitter.kernel.outputs[output]!;
    const pointer = this.#pointer(`o${output}`, o.index, shift);
    this.#emitter.line(storeLanes(o.dtype, pointer, this.name(o.expr, tag), left));
  }

  /** Stores an output past the caches, where nobody would find it before it is gone from them. */
  stream(output: number): void {
    const o = this.#emitter.kernel.outputs[output]!;
    const pointer = this.#pointer(`o${output}`, o.index, 0);
    this.#emitter.line(`stream_16(${this.name(o.expr)}, ${pointer});`);
  }

  /** Declares a value as what an output holds there. */
  reload(id: number, output: number, left = ""): void {
    const o = this.#emitter.kernel.outputs[output]!;
    const text = loadLanes(o.dtype, this.#pointer(`o${output}`, o.index, 0), left);
    const { type } = lanesOf(o.dtype);
    this.#emitter.line(`const ${type} ${this.name(id)} = ${text};`);
  }

  /** Keeps a value in an output's place until the output is known. */
  keep(id: number, output: number, { tag = "", shift = 0, left = "" }: Lanes): void {
    const o = this.#emitter.kernel.outputs[output]!;
    const pointer = this.#pointer(`o${output}`, o.index, shift);
    this.#emitter.line(storeLanes(o.dtype, pointer, this.name(id, tag), left));
  }
}
