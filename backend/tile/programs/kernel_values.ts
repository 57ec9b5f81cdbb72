/**
 * The value that a loop kernel computes of an element, as expressions of tile programs: loads, scalar functions,
 * indices that are read. Numbers of a launch are arguments, as the kernel's structure says, so that
 * kernels are shared.
 *
 * This folder (`programs/`) has the programs, each written once for every unit; it imports `tile/` and
 * `formats/`. Templates and runners of the backends call it with sizes and get kernels in statements.
 */
import type { Parameter } from "../../codegen/emit.ts";
import { valueOf } from "../../formats/block_format.ts";
import { formatTable } from "../../formats/block_formats.ts";
import type { DType } from "../../graph/dtype.ts";
import { opCode } from "../../graph/index_error.ts";
import { type AffineExpr, affineKey } from "../../kernel/affine.ts";
import { shiftedProducts } from "../../kernel/analysis.ts";
import type { Bound, Expr, LoopKernel, PackedLoad } from "../../kernel/kernel.ts";
import { hiddenConstants, isWrittenConstant, isWrittenStep } from "../../kernel/structure.ts";
import {
  cast,
  checked,
  element,
  flag,
  indexValue,
  kindOf,
  neighbours,
  primitive,
  random,
  sideBySide,
  value,
} from "../language/elements.ts";
import { add, divideBy, type E, int, mul, type Place } from "../language/expression.ts";
import { all, choose, within } from "../language/values.ts";
import { Program } from "../program.ts";
import type { Unit } from "../units.ts";
import { PackedElement } from "./packed/packed_operand.ts";

/** The name of an argument of a kernel's text. */
export type NameOf = (parameter: Parameter) => string;

/** The places of a kernel's loops, and of indices that are read: an expression each. */
export type Indices = ReadonlyMap<number, E>;

/** The numbers, buffers and elements of one kernel. */
export class KernelValues {
  readonly kernel: LoopKernel;
  readonly p: Program;
  readonly isFixed: boolean;
  readonly #nameOf: NameOf;
  readonly #inputs: readonly Place[];
  readonly #hidden: ReadonlySet<number>;
  readonly #shifted: ReadonlySet<number>;
  readonly #known = new Map<string, E>();

  /**
   * @param contracts A compiler may join a product and a sum of it in one instruction.
   * @param isFixed Sizes and steps are numbers of the text, which is then of this kernel alone.
   */
  constructor(
    kernel: LoopKernel,
    unit: Unit,
    nameOf: NameOf,
    contracts: boolean,
    isFixed = false,
  ) {
    this.kernel = kernel;
    this.isFixed = isFixed;
    this.p = new Program(unit, (value) => nameOf({ kind: "index", value }));
    this.#nameOf = nameOf;
    this.#inputs = kernel.inputs.map((dtype, k) => this.p.input(`a${k}`, dtype));
    this.#hidden = hiddenConstants(kernel);
    this.#shifted = contracts ? shiftedProducts(kernel) : new Set();
  }

  #once(key: string, make: () => E): E {
    let e = this.#known.get(key);
    if (e === undefined) this.#known.set(key, e = make());
    return e;
  }

  /** The number of turns of a loop, where that is known to be a multiple. */
  size(symbol: number, multiple = 1): E {
    const size = this.kernel.sizes[symbol]!;
    if (this.isFixed) return int(size);
    return this.#once(`size ${symbol} ${multiple}`, () => this.p.size(size, multiple));
  }

  /**
   * An index of a buffer.
   *
   * @param multiple A number that divides the steps of all loops but those whose step is 1.
   */
  affine(index: AffineExpr, at: Indices, multiple = 1): E {
    const key = `${affineKey(index)} ${multiple}`, { p } = this;
    const number = (n: number, part: number): E =>
      this.isFixed || isWrittenStep(n)
        ? int(n)
        : this.#once(`${key} ${part}`, () => p.step(n, multiple));
    const terms = index.terms.map(([s, c], k) => mul(at.get(s)!, number(c, k)));
    return index.offset === 0 ? add(...terms) : add(...terms, number(index.offset, -1));
  }

  /**
   * True inside all bounds.
   *
   * @param owner The load or expression that has them: its sizes are arguments of its own.
   */
  inside(bounds: readonly Bound[], at: Indices, owner: string): E {
    return all(
      bounds.map(({ index, size }, k) =>
        within(this.affine(index, at), this.boundSize(size, `${k} of ${owner}`))
      ),
    );
  }

  /** The size of a bound, an argument of its own. */
  boundSize(size: number, name: string): E {
    if (this.isFixed) return int(size);
    return this.#once(`bound ${name}`, () => this.p.size(size));
  }

  /** The elements of an input. */
  input(input: number): Place {
    return this.#inputs[input]!;
  }

  /** The place of the element of a load; any that there is, where it is outside of its bounds. */
  place(load: number, at: Indices, multiple = 1): { buffer: Place; index: E; dtype: DType } {
    const { input, index, dtype, bounds } = this.kernel.loads[load]!;
    const inside = this.inside(bounds, at, `load ${load}`),
      where = this.affine(index, at, multiple);
    return { buffer: this.#inputs[input]!, index: choose(inside, where, 0), dtype };
  }

  /** An element of blocks. */
  #decoded({ format, blocks }: PackedLoad, load: number, place: Place, index: E): E {
    const count = this.#once(`blocks of ${load}`, () => this.p.size(blocks));
    const packed = new PackedElement(format, { ...place, element: "uint8" }, count, index);
    return valueOf(formatTable[format], packed);
  }

  #constant(number: number, dtype: DType, isHidden: boolean): E {
    if (isWrittenConstant(number, isHidden)) return value(number, dtype);
    return this.#once(`${dtype} ${number}`, () => {
      const name = this.#nameOf({ kind: "constant", value: number, dtype });
      return this.p.argument(name, number, kindOf(dtype));
    });
  }

  /** Draws have streams of their own, whatever they have in common. */
  #random(id: number, e: Extract<Expr, { op: "random" }>, at: Indices): E {
    const { index, seed, stream } = e;
    const drawn = this.#once(`stream of ${id}`, () => {
      const name = this.#nameOf({ kind: "stream", stream });
      return this.p.argument(name, stream.value, "int");
    });
    const key = this.#once(`seed of ${id}`, () => this.p.step(seed));
    return random(this.affine(index, at), key, drawn);
  }

  /** An expression whose operands are known. */
  compute(id: number, at: Indices, operand: (id: number) => E): E {
    const { exprs } = this.kernel, e = exprs[id]!;
    switch (e.op) {
      case "load": {
        const { buffer, index, dtype } = this.place(e.load, at);
        const { packed } = this.kernel.loads[e.load]!;
        return packed
          ? this.#decoded(packed, e.load, buffer, index)
          : element(buffer, index, dtype);
      }
      case "constant":
        return this.#constant(e.value, e.dtype, this.#hidden.has(id));
      case "index": {
        const isFixed = e.index.terms.length === 0;
        const fixed = (): E => this.p.step(e.index.offset);
        return indexValue(
          isFixed ? this.#once(`index ${id}`, fixed) : this.affine(e.index, at),
          e.dtype,
        );
      }
      case "random":
        return this.#random(id, e, at);
      case "primitive": {
        const { dtype } = exprs[e.args.at(-1)!]!, args = e.args.map(operand);
        // What is joined with the difference is then this product, by a 1 that no compiler sees.
        if (this.#shifted.has(id)) {
          args[0] = primitive("mul", [args[0]!, this.#constant(1, dtype, true)], dtype);
        }
        return primitive(e.fn, args, dtype, e.dtype);
      }
      case "cast":
        return cast(operand(e.args[0]!), exprs[e.args[0]!]!.dtype, e.dtype);
      case "inside":
        return flag(this.inside(e.bounds, at, `${id}`));
      case "reduced":
      case "contracted":
        throw new Error(`A ${e.op} value has no expression of its own`);
    }
  }

  /** The indices of several loops from a number that counts their turns. */
  decomposed(symbols: readonly number[], number: E, sizeOf: (symbol: number) => E): Indices {
    const at = new Map<number, E>();
    let rest = number;
    for (const s of symbols.slice(1).toReversed()) {
      const [quotient, index] = divideBy(rest, sizeOf(s));
      at.set(s, this.p.let(index));
      rest = this.p.let(quotient);
    }
    if (symbols.length > 0) at.set(symbols[0]!, rest);
    return at;
  }

  /** The number that an index is checked with, and the code of the operation that reads by it. */
  bound(k: number): readonly [size: E, operation: E] {
    const { size, opName } = this.kernel.indirect[k]!;
    return [
      this.boundSize(size, `${k}`),
      this.#once(`operation ${k}`, () => this.p.step(opCode(opName))),
    ];
  }
}

/** Knowledge at a place of the loops: indices, and values by their expressions. */
export class Scope {
  readonly #values: KernelValues;
  readonly #at: Map<number, E>;
  readonly #known: Map<number, E>;

  constructor(values: KernelValues, at: Indices, known: ReadonlyMap<number, E> = new Map()) {
    this.#values = values;
    this.#at = new Map(at);
    this.#known = new Map(known);
  }

  /** The scope of a place within. */
  inside(at: Indices): Scope {
    return new Scope(this.#values, new Map([...this.#at, ...at]), this.#known);
  }

  index(symbol: number): E {
    return this.#at.get(symbol)!;
  }

  value(id: number): E {
    const known = this.#known.get(id);
    if (known === undefined) throw new Error(`Expression ${id} is not computed yet`);
    return known;
  }

  /** Makes a value known, and the indices that it gives. */
  know(id: number, value: E): void {
    this.#known.set(id, value);
    this.#values.kernel.indirect.forEach(({ symbol, expr }, k) => {
      if (expr !== id) return;
      this.#at.set(symbol, this.#values.p.let(checked(value, ...this.#values.bound(k))));
    });
  }

  /** Computes an expression, whose operands are known, where the program stands. */
  compute(id: number): E {
    return this.#values.compute(id, this.#at, (operand) => this.value(operand));
  }

  /** Computes the expressions that are not known, in their order. */
  declare(ids: readonly number[]): void {
    for (const id of ids) {
      if (!this.#known.has(id)) this.know(id, this.#values.p.let(this.compute(id)));
    }
  }

  affine(index: AffineExpr, multiple = 1): E {
    return this.#values.affine(index, this.#at, multiple);
  }

  /** The neighbours of a load from here on. */
  neighbours(load: number, width: number, streams = false): E {
    const { buffer, index, dtype } = this.#values.place(load, this.#at, width);
    return this.#values.p.let(neighbours(buffer, index, dtype, width, streams));
  }
}

/** Stores an output of neighbouring elements, or of one. */
export function storeNeighbours(
  p: Program,
  { outputs }: LoopKernel,
  output: number,
  elements: readonly Scope[],
): void {
  const { expr, dtype, index } = outputs[output]!, count = elements.length;
  const values = elements.map((element) => element.value(expr));
  const place: Place = { space: "global", buffer: `o${output}`, element: dtype };
  const value = count === 1 ? values[0]! : sideBySide(values, dtype);
  p.store(place, elements[0]!.affine(index, count), value);
}
