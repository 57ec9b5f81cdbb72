/**
 * Writes the expressions of a loop kernel. OpenCL C and JavaScript differ in how a value is declared,
 * loaded and stored; what is computed in which loop is the row program's (kernel/row_program.ts).
 *
 * This folder (`codegen/`) is what the writers of OpenCL C, JavaScript and WebAssembly have in
 * common. It imports `kernel/` and the scalar functions of `graph/`, and no backend. A kernel and a
 * dialect come in, statements go out.
 */
import { type AffineExpr, affineKey } from "../kernel/affine.ts";
import type { DType } from "../graph/dtype.ts";
import type { ReduceFn } from "../graph/op.ts";
import type { PrimitiveName } from "../graph/primitives.ts";
import { shiftedProducts } from "../kernel/analysis.ts";
import type { Bound, Load, LoopKernel } from "../kernel/kernel.ts";
import { hiddenConstants, isWrittenConstant, isWrittenStep } from "../kernel/structure.ts";
import { opCode } from "../graph/index_error.ts";

/** Text of what kernels need, in a target language. */
export interface Dialect {
  /** `const float v = text;` */
  declare(dtype: DType, name: string, text: string): string;
  /** `const int i = text;` */
  declareIndex(name: string, text: string): string;
  /** `int i = text;` for an index that changes. */
  declareMutableIndex(name: string, text: string): string;
  /** `float v = text;` for a value that changes. */
  declareMutable(dtype: DType, name: string, text: string): string;
  /** The head of a loop from `start` to before `end`, by `step` (default 1), with its opening brace. */
  loopHead(name: string, start: string, end: string, step?: string): string;
  /** The smaller of two indices. */
  smaller(a: string, b: string): string;
  /** The element of an input, in compute type; of a packed one, with the number of its blocks. */
  load(load: Load, index: string, blocks: string): string;
  /** Stores a value of compute type in an output. */
  store(output: number, dtype: DType, index: string, value: string): string;
  primitive(fn: PrimitiveName, args: readonly string[], dtype: DType, result: DType): string;
  cast(text: string, from: DType, to: DType): string;
  constant(value: number | bigint, dtype: DType): string;
  /** An index as a number of `dtype`. */
  indexValue(index: string, dtype: DType): string;
  random(index: string, seed: string, stream: string): string;
  /** The value of an index that was read from memory, checked. */
  checkedIndex(value: string, size: string, op: string): string;
  /** True where a compiler may join a product and a sum of it in one instruction, across statements. */
  readonly contracts: boolean;
  /** True when sums of the type are kept in more precision than it has. */
  sumsWide(dtype: DType): boolean;
  /** Statements that join a value into an accumulator of `dtype` (and its position, for argmax). */
  accumulate(fn: ReduceFn, dtype: DType, acc: string, value: string, index: string): string[];
  /** The accumulated sum, in the precision of its type. */
  total(acc: string, dtype: DType): string;
  /** The result of an arg-reduction as a number of its type. */
  argResult(acc: string, dtype: DType): string;
}

/** Numbers that a kernel is given at launch, in the order of its scalar parameters. */
export type Parameter =
  | { readonly kind: "index"; readonly value: number }
  | { readonly kind: "constant"; readonly value: number; readonly dtype: DType }
  | { readonly kind: "stream"; readonly stream: { readonly value: number } };

/** Lines of a kernel, and the scalar parameters that they refer to. */
export class Lines {
  readonly lines: string[] = [];
  readonly parameters: Parameter[] = [];
  #indent = 1;

  line(text: string): void {
    this.lines.push("  ".repeat(this.#indent) + text);
  }

  open(text: string): void {
    this.line(text);
    this.#indent++;
  }

  close(text = "}"): void {
    this.#indent--;
    this.line(text);
  }

  /** The name of a new scalar parameter. */
  parameter(parameter: Parameter): string {
    return `p${this.parameters.push(parameter) - 1}`;
  }
}

/** Writes one loop kernel. */
export class Emitter extends Lines {
  readonly kernel: LoopKernel;
  readonly dialect: Dialect;
  readonly #hidden: ReadonlySet<number>;
  readonly #shifted: ReadonlySet<number>;
  readonly #texts = new Map<string, string>();
  readonly #constants = new Map<string, string>();
  readonly #names = new Map<number, string>();

  constructor(kernel: LoopKernel, dialect: Dialect) {
    super();
    this.kernel = kernel;
    this.dialect = dialect;
    this.#hidden = hiddenConstants(kernel);
    this.#shifted = dialect.contracts ? shiftedProducts(kernel) : new Set();
  }

  index(value: number): string {
    return this.parameter({ kind: "index", value });
  }

  /** The parameter that holds the size of a symbol. */
  size(symbol: number): string {
    const key = `n${symbol}`;
    let name = this.#texts.get(key);
    if (!name) this.#texts.set(key, name = this.index(this.kernel.sizes[symbol]!));
    return name;
  }

  /** An affine expression as text; equal ones share their parameters. */
  affine(index: AffineExpr): string {
    const key = affineKey(index);
    let text = this.#texts.get(key);
    if (text === undefined) {
      const parts = index.terms.map(([s, c]) => {
        return c === 1 ? `i${s}` : `i${s} * ${isWrittenStep(c) ? c : this.index(c)}`;
      });
      if (index.offset !== 0) parts.push(this.index(index.offset));
      text = parts.length === 0 ? "0" : parts.join(" + ");
      this.#texts.set(key, text);
    }
    return text;
  }

  /** The test whether a masked element exists. */
  maskText(bounds: readonly Bound[]): string {
    return bounds.map((g) => {
      const text = this.affine(g.index), isBelow = `(${text}) < ${this.index(g.size)}`;
      // Compilers warn of a constant in a condition, and NVIDIA's prints how often it did.
      return text === "0" ? isBelow : `(${text}) >= 0 && ${isBelow}`;
    }).join(" && ");
  }

  /** An element of an input in compute type. */
  load(load: Load, index: string): string {
    return this.dialect.load(load, index, load.packed ? this.index(load.packed.blocks) : "");
  }

  /** The text of an expression whose operands have names. */
  #text(id: number): string {
    const d = this.dialect;
    const e = this.kernel.exprs[id]!;
    switch (e.op) {
      case "load": {
        const load = this.kernel.loads[e.load]!;
        const index = this.affine(load.index);
        const masked = load.bounds.length > 0
          ? `(${this.maskText(load.bounds)} ? ${index} : 0)`
          : index;
        return this.load(load, masked);
      }
      case "constant":
        return this.#constant(e.value, e.dtype, this.#hidden.has(id));
      case "index": {
        const isFixed = e.index.terms.length === 0;
        return d.indexValue(isFixed ? this.index(e.index.offset) : this.affine(e.index), e.dtype);
      }
      case "random": {
        const stream = this.parameter({ kind: "stream", stream: e.stream });
        return d.random(this.affine(e.index), this.index(e.seed), stream);
      }
      case "primitive": {
        const dtype = this.kernel.exprs[e.args[e.args.length - 1]!]!.dtype;
        const args = e.args.map((a) => this.name(a));
        if (this.#shifted.has(id)) {
          // What is joined with the difference is then this product, by a 1 that no compiler sees.
          args[0] = d.primitive("mul", [args[0]!, this.#constant(1, dtype, true)], dtype, dtype);
        }
        return d.primitive(e.fn, args, dtype, e.dtype);
      }
      case "cast":
        return d.cast(this.name(e.args[0]!), this.kernel.exprs[e.args[0]!]!.dtype, e.dtype);
      case "inside":
        return `(${this.maskText(e.bounds)} ? 1 : 0)`;
      case "reduced":
      case "contracted":
        throw new Error(`A ${e.op} value has no text of its own`);
    }
  }

  /**
   * Common constants are written out, others are parameters, so that kernels are shared. So are those
   * that a compiler must not see: see {@linkcode hiddenConstants}.
   */
  #constant(value: number, dtype: DType, isHidden: boolean): string {
    if (isWrittenConstant(value, isHidden)) return this.dialect.constant(value, dtype);
    const key = `${dtype}:${value}`;
    let name = this.#constants.get(key);
    if (!name) {
      name = this.parameter({ kind: "constant", value, dtype });
      this.#constants.set(key, name);
    }
    return name;
  }

  /** The name of an expression's value. */
  name(id: number): string {
    return this.#names.get(id) ?? `v${id}`;
  }

  /** Gives an expression a name that was computed elsewhere. */
  alias(id: number, name: string): void {
    this.#names.set(id, name);
  }

  /** Declares the given expressions in order, where they stand. */
  declare(ids: readonly number[]): void {
    for (const id of ids) {
      const e = this.kernel.exprs[id]!;
      if (e.op === "reduced") this.#names.set(id, this.dialect.total(`r${e.reduction}`, e.dtype));
      else if (e.op === "contracted") this.#names.set(id, this.dialect.total("acc", e.dtype));
      else if (e.op === "constant") this.#names.set(id, this.#text(id));
      else this.line(this.dialect.declare(e.dtype, `v${id}`, this.#text(id)));
      this.#declareIndirect(id);
    }
  }

  /** Declares an expression whose value a text gives. */
  declareAs(id: number, text: string): void {
    this.line(this.dialect.declare(this.kernel.exprs[id]!.dtype, `v${id}`, text));
    this.#declareIndirect(id);
  }

  /** Assigns an expression's value, or what a text gives, to a variable, which is its name from then on. */
  assign(id: number, name: string, text = this.#text(id)): void {
    this.line(`${name} = ${text};`);
    this.rename(id, name);
  }

  /** Gives an expression the name of a variable that has its value, in a scope of its own. */
  rename(id: number, name: string): void {
    this.#names.set(id, name);
    this.#declareIndirect(id);
  }

  /** Declares the indices that an expression gives. */
  #declareIndirect(id: number): void {
    for (const d of this.kernel.indirect) {
      if (d.expr !== id) continue;
      const op = this.index(opCode(d.opName));
      const text = this.dialect.checkedIndex(this.name(id), this.index(d.size), op);
      this.line(this.dialect.declareIndex(`i${d.symbol}`, text));
    }
  }

  /** Stores an output where it lies, or at another index. */
  store(output: number, index?: string): void {
    const o = this.kernel.outputs[output]!;
    const text = this.dialect.store(
      output,
      o.dtype,
      index ?? this.affine(o.index),
      this.name(o.expr),
    );
    this.line(text);
  }
}
