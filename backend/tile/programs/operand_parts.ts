/**
 * Addresses of an operand of a product. Where it has several loops (convolutions), an index is the sum of what
 * follows from its row or column and what follows from the term of the sum, and so is each index of its bounds.
 * Kept apart, an element costs additions and comparisons instead of divisions for every loop.
 */
import { type AffineExpr, coefficient, partOf, withoutPart } from "../../kernel/affine.ts";
import { type Contraction, extent, type Load } from "../../kernel/kernel.ts";
import { isFlat } from "../../kernel/row_order.ts";
import { add, type E, int } from "../language/expression.ts";
import { all, choose, lt, truth, within } from "../language/values.ts";
import type { Indices, KernelValues } from "./kernel_values.ts";

/** An operand, and the tile of it that a group has. */
export interface OperandTile {
  /** Both operands may be views of one input. */
  readonly name: "a" | "b";
  readonly load: Load;
  /** The loops of its rows or columns. */
  readonly symbols: readonly number[];
  /** Rows or columns of the tile, its first one, and how many all tiles have. */
  readonly extent: number;
  readonly origin: E;
  readonly end: E;
}

/** The terms of a sum, so many at a time. */
export interface Terms {
  readonly count: number;
  readonly end: E;
}

/** The part of an index, and of those of its bounds, that follows from a row or column. */
interface RowPart {
  readonly index: E;
  readonly bounds: readonly E[];
  /** There is such a row, where no bound says so. */
  readonly exists: E;
}

/** The part that follows from a term; null for bounds that do not change with it. */
export interface TermPart {
  readonly index: E;
  readonly bounds: readonly (E | null)[];
}

/** So far below 0 that no term of a row that is not there is inside, whatever is added. */
const OUTSIDE = -(2 ** 30);

/** The parts of one operand's indices. */
export class OperandParts {
  readonly values: KernelValues;
  readonly c: Contraction;
  readonly tile: OperandTile;
  readonly terms: Terms;
  /** Each part of an index is one product. */
  readonly isPlain: boolean;
  /** No tile ends behind the last row or column; no stage behind the last term. */
  readonly isWhole: { readonly rows: boolean; readonly terms: boolean };
  readonly #batch: Indices;
  readonly #rows = new Map<E, RowPart>();

  /** @param batch The indices of the product's batch. */
  constructor(
    values: KernelValues,
    c: Contraction,
    tile: OperandTile,
    terms: Terms,
    batch: Indices,
  ) {
    const { kernel } = values, { load: { index, bounds }, symbols } = tile;
    this.values = values;
    this.c = c;
    this.tile = tile;
    this.terms = terms;
    this.#batch = batch;
    this.isPlain = bounds.length === 0 && isFlat(kernel, index, symbols) &&
      isFlat(kernel, index, c.k);
    this.isWhole = {
      rows: extent(kernel, symbols) % tile.extent === 0,
      terms: extent(kernel, c.k) % terms.count === 0,
    };
  }

  /** The part of a row of the tile, which is computed where it is asked for first. */
  row(at: E): RowPart {
    return this.#rows.get(at) ?? this.#computed(at);
  }

  #computed(at: E): RowPart {
    const { load: { index, bounds }, symbols, origin, end } = this.tile, { p } = this.values;
    const row = add(origin, at), inside = this.isWhole.rows ? truth(true) : lt(row, end);
    const part = (e: AffineExpr, indices: Indices): E =>
      this.values.affine(withoutPart(e, this.c.k), indices);
    let made: RowPart;
    if (this.isPlain) {
      const indices = new Map([...this.#batch, [symbols.at(-1)!, row]]);
      made = { index: part(flat(index, symbols), indices), bounds: [], exists: inside };
    } else {
      const indices = new Map([...this.#batch, ...decomposed(this.values, this.c, symbols, row)]);
      made = {
        index: p.let(part(index, indices)),
        bounds: bounds.map(({ index }, n) => {
          const bound = part(index, indices);
          return p.let(n === 0 ? choose(inside, bound, OUTSIDE) : bound);
        }),
        exists: bounds.length === 0 ? p.let(inside) : truth(true),
      };
    }
    this.#rows.set(at, made);
    return made;
  }

  /** The part of a term of the sum, computed where the program stands. */
  term(term: E): TermPart {
    const { load: { index, bounds } } = this.tile, { k } = this.c;
    if (this.isPlain) {
      const indices = new Map([[k.at(-1)!, term]]);
      return { index: this.values.affine(partOf(flat(index, k), k), indices), bounds: [] };
    }
    const indices = decomposed(this.values, this.c, k, term);
    const part = (e: AffineExpr): E => this.values.affine(partOf(e, k), indices);
    return {
      index: part(index),
      bounds: bounds.map(({ index }) => partOf(index, k).terms.length > 0 ? part(index) : null),
    };
  }

  /** True where an element is there. */
  isThere(at: E, term: E, part: TermPart): E {
    const { exists, bounds } = this.row(at), { name, load } = this.tile;
    return all([
      exists,
      this.isWhole.terms ? truth(true) : lt(term, this.terms.end),
      ...bounds.map((bound, n) => {
        const moved = part.bounds[n];
        const size = this.values.boundSize(load.bounds[n]!.size, `${n} of ${name}`);
        return within(moved ? add(bound, moved) : bound, size);
      }),
    ]);
  }

  index(at: E, part: TermPart): E {
    return add(this.row(at).index, part.index);
  }
}

/**
 * The indices of several loops from one number. Sizes of a convolution are numbers: dividing by one that is known
 * costs a multiplication.
 */
export function decomposed(
  values: KernelValues,
  c: Contraction,
  symbols: readonly number[],
  number: E,
): Indices {
  const { kernel, p } = values, isConvolution = c.k.length > 1;
  return values.decomposed(
    symbols,
    p.let(number),
    (s) => isConvolution ? int(kernel.sizes[s]!) : values.size(s),
  );
}

/** An index whose loops are walked as one, by the innermost. */
const flat = (index: AffineExpr, symbols: readonly number[]): AffineExpr => {
  const last = symbols.at(-1)!, step = coefficient(index, last);
  const others = withoutPart(index, symbols);
  return step === 0 ? others : { ...others, terms: [...others.terms, [last, step]] };
};
