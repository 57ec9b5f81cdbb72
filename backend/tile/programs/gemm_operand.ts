/**
 * An operand of a product on its way to local memory: work-items hold their share of the next tile in registers
 * while the one before is multiplied. What follows from the terms of a sum is a table of the group.
 */
import { partOf } from "../../kernel/affine.ts";
import { liesAlongSum } from "../../kernel/row_order.ts";
import { element, held, kindOf, value } from "../language/elements.ts";
import { add, div, type E, mod, mul, type Place } from "../language/expression.ts";
import { all, lt, truth } from "../language/values.ts";
import type { Program } from "../program.ts";
import type { OperandParts, TermPart } from "./operand_parts.ts";

/** Elements of a row of local memory, more than it needs: rows begin in different banks. */
const PADDING = 4;

/** One element that a work-item copies. */
interface Copied {
  /** Its row or column in the tile, and its term. */
  readonly at: E;
  readonly term: E;
  /** The register that it goes through. */
  readonly next: E;
}

/** The parts of the terms of a tile, by term; null for bounds that do not change with it. */
interface Table {
  readonly index: Place;
  readonly bounds: readonly (Place | null)[];
}

/** Copies the tiles of one operand. */
export class GemmOperand {
  readonly #parts: OperandParts;
  readonly #p: Program;
  readonly #elements: readonly Copied[];
  /** Null where a part is one product. */
  readonly #table: Table | null;
  readonly #place: Place;

  constructor(parts: OperandParts) {
    const { values: { p }, c, tile: { load, extent }, terms: { count } } = parts;
    this.#parts = parts;
    this.#p = p;
    this.#place = p.array("local", count * (extent + PADDING), kindOf(c.dtype));
    const table = (): Place => p.array("local", count, "int");
    this.#table = parts.isPlain ? null : {
      index: table(),
      bounds: load.bounds.map((b) => partOf(b.index, c.k).terms.length > 0 ? table() : null),
    };
    this.#elements = this.#copied();
    for (const { at } of this.#elements) parts.row(at);
  }

  /** Neighbouring work-items copy what lies side by side. */
  #copied(): Copied[] {
    const { values: { kernel }, c, tile, terms: { count } } = this.#parts, p = this.#p;
    const alongSum = liesAlongSum(kernel, tile.load.index, tile.symbols, c.k);
    return Array.from({ length: tile.extent * count / p.items }, (_, turn) => {
      const own = add(p.item, turn * p.items);
      return {
        at: alongSum ? div(own, count) : mod(own, tile.extent),
        term: alongSum ? mod(own, count) : div(own, tile.extent),
        next: p.unset(kindOf(c.dtype)),
      };
    });
  }

  /** Writes the table of the tile whose first term is `first`. */
  prepare(first: E): void {
    const table = this.#table, p = this.#p, { count } = this.#parts.terms;
    if (table === null) return;
    for (let from = 0; from < count; from += p.items) {
      const term = add(p.item, from);
      p.when(lt(term, count), () => {
        const part = this.#parts.term(add(first, term));
        p.store(table.index, term, part.index);
        table.bounds.forEach((place, n) => place && p.store(place, term, part.bounds[n]!));
      });
    }
  }

  /** Reads the tile whose first term is `first` into registers: 0 where there is none. */
  fetch(first: E): void {
    const { values, c, tile: { load }, terms, isWhole } = this.#parts, p = this.#p;
    const place = values.input(load.input);
    const reads = this.#elements.map(({ at, term, next }) => {
      const from = add(first, term), part = this.#termPart(from, term);
      const index = this.#parts.index(at, part);
      p.set(next, value(0, c.dtype));
      // Where tiles divide the sum, one test a tile finds the one behind the last.
      const isThere = all([
        isWhole.terms ? lt(first, terms.end) : truth(true),
        this.#parts.isThere(at, from, part),
      ]);
      return { isThere, read: () => p.set(next, element(place, index, load.dtype)) };
    });
    for (const [isThere, all] of Map.groupBy(reads, (each) => each.isThere)) {
      p.when(isThere, () => all.forEach(({ read }) => read()));
    }
  }

  #termPart(from: E, term: E): TermPart {
    if (this.#table === null) return this.#parts.term(from);
    const { index, bounds } = this.#table;
    const read = (place: Place): E => held(place, term, "int");
    return { index: read(index), bounds: bounds.map((place) => place && read(place)) };
  }

  /** Writes the registers to local memory. */
  put(): void {
    for (const { at, term, next } of this.#elements) {
      this.#p.store(this.#place, this.#at(term, at), next);
    }
  }

  #at(term: E, at: E): E {
    return add(mul(term, this.#parts.tile.extent + PADDING), at);
  }

  /** An element of the tile in local memory. */
  element(term: E, at: E): E {
    return held(this.#place, this.#at(term, at), kindOf(this.#parts.c.dtype));
  }
}
