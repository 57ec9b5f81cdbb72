/**
 * Addresses of elements, and sums and products that are computed as early as their variables are known.
 */
import { type Expression, partsOf, someExpression } from "../../../matrix/language.ts";
import type { Local } from "../assembler.ts";
import { i32 } from "../opcodes.ts";
import { type Depth, HERE } from "./places.ts";
import { splitByLane, type Term, termsOf } from "./sums.ts";
import type { Writer } from "./writer.ts";

/** The place of an element. */
export interface Address {
  readonly address: Local;
  /** Bytes behind the address. */
  readonly offset: number;
  /** Bytes from lane to lane, "one" for neighbours; null where all lanes have the same element. */
  readonly step: Local | "one" | null;
}

/** An address that grows by terms: where it is computed, and its text. */
interface Sum {
  readonly address: Local;
  readonly depth: Depth;
  readonly key: string;
}

/** Writes addresses. */
export class Addresses {
  readonly #writer: Writer;
  /** Writes a whole number of the first lane. */
  readonly #first: (e: Expression) => Local;

  constructor(writer: Writer, first: (e: Expression) => Local) {
    this.#writer = writer;
    this.#first = first;
  }

  /** The place of an element: of lanes, that of the first one. */
  of(array: string, index: Expression): Address {
    const { f, places, variables, vectors } = this.#writer;
    const bytes = variables.isWholeArray(array) ? 4 : vectors.bytes;
    const { rest, factor } = splitByLane(index, variables);
    const { moving, constant } = constantApart(rest === null ? [] : termsOf(rest));
    let { address, depth, key } = this.#sum(array, moving, bytes);
    if (constant < 0) {
      // An offset is not negative.
      const by = constant * bytes, before = address;
      key = `${key} by ${by} of ${bytes}`;
      address = places.at(depth, key, () => f.iWith(i32.add, before, by));
    }
    const isOne = factor?.e === "number" && factor.value === 1;
    const step = factor === null ? null : isOne ? "one" : this.#scaled(factor, bytes);
    return { address, offset: Math.max(0, constant) * bytes, step };
  }

  /** The address of an array with terms, those first that are known first. */
  #sum(array: string, terms: readonly Term[], bytes: number): Sum {
    const { f, places, variables } = this.#writer, own = variables.find(array).local;
    let address = own, depth = places.depthOf([array]), key = `$${own}`;
    const placed = terms.map((part) => ({ ...part, depth: this.#depthOf(part.term) }));
    for (const { term, isMinus, depth: inner } of placed.sort((a, b) => a.depth - b.depth)) {
      depth = Math.max(depth, inner);
      const name = inner === HERE ? "" : this.#keyOf(term), before = address;
      key = `${key}${isMinus ? "-" : "+"}${name}`;
      address = places.at(depth, `${key} of ${bytes}`, () => {
        const scaled = this.#scaled(term, bytes, inner, name);
        return f.i(isMinus ? i32.sub : i32.add, before, scaled);
      });
    }
    return { address, depth, key };
  }

  #scaled(term: Expression, bytes: number, depth = this.#depthOf(term), name = ""): Local {
    const { f, places } = this.#writer, shift = Math.log2(bytes);
    const make = () => f.iWith(i32.shl, this.#first(term), shift);
    if (depth === HERE) return make();
    return places.at(depth, `${name || this.#keyOf(term)} * ${bytes}`, make);
  }

  /** Computes a sum or product of whole numbers as early as its variables are known. */
  placed(e: Expression, make: () => Local): Local {
    const depth = this.#depthOf(e);
    return this.#writer.places.at(depth, depth === HERE ? "" : this.#keyOf(e), make);
  }

  #depthOf(e: Expression): Depth {
    if (!isPure(e)) return HERE;
    const names: string[] = [];
    someExpression(e, (part) => (part.e === "name" && names.push(part.name), false));
    return this.#writer.places.depthOf(names);
  }

  /** Text of a pure expression that tells variables of one name apart. */
  #keyOf(e: Expression): string {
    if (e.e === "number") return `${e.value}`;
    if (e.e === "name") return `$${this.#writer.variables.find(e.name).local}`;
    if (e.e === "binary") return `(${this.#keyOf(e.left)}${e.op}${this.#keyOf(e.right)})`;
    throw new Error("Only sums and products are moved");
  }
}

/** True for sums and products of variables, which may be computed anywhere that knows these. */
function isPure(e: Expression): boolean {
  return e.e === "number" || e.e === "name" ||
    e.e === "binary" && "+-*".includes(e.op) && partsOf(e).every(isPure);
}

/** The terms that are no numbers, and the sum of the others. */
function constantApart(terms: readonly Term[]): { moving: readonly Term[]; constant: number } {
  let constant = 0;
  const moving = terms.filter(({ term, isMinus }) => {
    if (term.e !== "number") return true;
    constant += isMinus ? -term.value : term.value;
    return false;
  });
  return { moving, constant };
}
