/**
 * An operand of a product on its way to local memory: work-items hold their share of the next tile in registers
 * while the one before is multiplied.
 *
 * Where an operand has several loops (convolutions), an index is the sum of what follows from its row or column
 * and what follows from the term of the sum, and so is each index of its bounds. Work-items keep the former, the
 * group has a table of the latter: an element costs additions and comparisons, no divisions.
 */
import { type AffineExpr, coefficient, partOf, withoutPart } from "../../kernel/affine.ts";
import { type Contraction, extent, type Load } from "../../kernel/kernel.ts";
import { isFlat, liesAlongSum } from "../../kernel/row_order.ts";
import { element, held, kindOf, value } from "../language/elements.ts";
import { add, div, type E, int, mod, mul, type Place } from "../language/expression.ts";
import { all, choose, lt, truth, within } from "../language/values.ts";
import type { Program } from "../program.ts";
import type { Indices, KernelValues } from "./kernel_values.ts";

/** An operand, and the tile of it that a group has. */
export interface OperandTile {
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

/** Elements of a row of local memory, more than it needs: rows begin in different banks. */
const PADDING = 4;
/** So far below 0 that no term of a row that is not there is inside, whatever is added. */
const OUTSIDE = -(2 ** 30);

/** The part of an index, and of those of its bounds, that follows from a row. */
interface RowPart {
  readonly index: E;
  readonly bounds: readonly E[];
  /** There is such a row, where no bound says so. */
  readonly exists: E;
}

/** One element that a work-item copies. */
interface Copied {
  /** Its row or column in the tile, and its term. */
  readonly at: E;
  readonly term: E;
  /** The register that it goes through. */
  readonly next: E;
}

/** Copies the tiles of one operand. */
export class GemmOperand {
  readonly #values: KernelValues;
  readonly #p: Program;
  readonly #c: Contraction;
  readonly #tile: OperandTile;
  readonly #terms: Terms;
  readonly #batch: Indices;
  readonly #elements: readonly Copied[];
  readonly #rows = new Map<E, RowPart>();
  /** Null where each part of an index is one product. */
  readonly #table: { readonly index: Place; readonly bounds: readonly (Place | null)[] } | null;
  readonly #place: Place;

  /** @param batch The indices of the product's batch. */
  constructor(
    values: KernelValues,
    c: Contraction,
    tile: OperandTile,
    terms: Terms,
    batch: Indices,
  ) {
    const { p, kernel } = values, { load: { index, bounds }, symbols, extent } = tile;
    this.#values = values;
    this.#p = p;
    this.#c = c;
    this.#tile = tile;
    this.#terms = terms;
    this.#batch = batch;
    this.#place = p.array("local", terms.count * (extent + PADDING), kindOf(c.dtype));
    const isPlain = bounds.length === 0 && isFlat(kernel, index, symbols) &&
      isFlat(kernel, index, c.k);
    const table = (): Place => p.array("local", terms.count, "int");
    this.#table = isPlain ? null : {
      index: table(),
      bounds: bounds.map((b) => partOf(b.index, c.k).terms.length > 0 ? table() : null),
    };
    this.#elements = this.#copied();
    for (const { at } of this.#elements) {
      if (!this.#rows.has(at)) this.#rows.set(at, this.#rowPart(at));
    }
  }

  /** Neighbouring work-items copy what lies side by side. */
  #copied(): Copied[] {
    const { load, symbols, extent } = this.#tile, { count } = this.#terms, p = this.#p;
    const alongSum = liesAlongSum(this.#values.kernel, load.index, symbols, this.#c.k);
    return Array.from({ length: extent * count / p.items }, (_, turn) => {
      const own = add(p.item, turn * p.items);
      return {
        at: alongSum ? div(own, count) : mod(own, extent),
        term: alongSum ? mod(own, count) : div(own, extent),
        next: p.unset(kindOf(this.#c.dtype)),
      };
    });
  }

  #rowPart(at: E): RowPart {
    const { load: { index, bounds }, symbols, extent: rows, origin, end } = this.#tile;
    const { k } = this.#c, values = this.#values, row = add(origin, at);
    const isWhole = extent(values.kernel, symbols) % rows === 0;
    const inside = isWhole ? truth(true) : lt(row, end);
    if (this.#table === null) {
      const whole = new Map([...this.#batch, [symbols.at(-1)!, row]]);
      const part = flat(withoutPart(index, k), symbols);
      return { index: values.affine(part, whole), bounds: [], exists: inside };
    }
    const indices = new Map([...this.#batch, ...this.#decomposed(symbols, row)]);
    const part = (e: AffineExpr): E => values.affine(withoutPart(e, k), indices);
    return {
      index: this.#p.let(part(index)),
      bounds: bounds.map((b, n) =>
        this.#p.let(n === 0 ? choose(inside, part(b.index), OUTSIDE) : part(b.index))
      ),
      exists: bounds.length === 0 ? this.#p.let(inside) : truth(true),
    };
  }

  /** Sizes of a convolution are numbers: dividing by one that is known costs a multiplication. */
  #decomposed(symbols: readonly number[], number: E): Indices {
    const { kernel } = this.#values, isConvolution = this.#c.k.length > 1;
    return this.#values.decomposed(
      symbols,
      this.#p.let(number),
      (s) => isConvolution ? int(kernel.sizes[s]!) : this.#values.size(s),
    );
  }

  /** Writes the table of the tile whose first term is `first`. */
  prepare(first: E): void {
    const table = this.#table, p = this.#p, { k } = this.#c;
    if (table === null) return;
    const { index, bounds } = this.#tile.load;
    for (let from = 0; from < this.#terms.count; from += p.items) {
      const term = add(p.item, from);
      p.when(lt(term, this.#terms.count), () => {
        const indices = this.#decomposed(k, add(first, term));
        const write = (place: Place, e: AffineExpr): void =>
          p.store(place, term, this.#values.affine(partOf(e, k), indices));
        write(table.index, index);
        table.bounds.forEach((place, n) => place && write(place, bounds[n]!.index));
      });
    }
  }

  /** Reads the tile whose first term is `first` into registers: 0 where there is none. */
  fetch(first: E): void {
    const { input, dtype } = this.#tile.load, place = this.#values.input(input), p = this.#p;
    const reads = this.#elements.map(({ at, term, next }) => {
      const row = this.#rows.get(at)!, index = add(row.index, this.#termPart(first, term));
      p.set(next, value(0, this.#c.dtype));
      const read = (): void => p.set(next, element(place, index, dtype));
      return { isThere: this.#exists(row, first, term), read };
    });
    for (const [isThere, all] of Map.groupBy(reads, (each) => each.isThere)) {
      p.when(isThere, () => all.forEach(({ read }) => read()));
    }
  }

  /** True where an element is there: where tiles divide the sum, that is one test a tile. */
  #exists({ exists, bounds }: RowPart, first: E, term: E): E {
    const { kernel } = this.#values, { count, end } = this.#terms;
    const isWhole = extent(kernel, this.#c.k) % count === 0;
    return all([
      lt(isWhole ? first : add(first, term), end),
      exists,
      ...bounds.map((bound, n) => {
        const place = this.#table!.bounds[n];
        const at = place ? add(bound, held(place, term, "int")) : bound;
        const { size } = this.#tile.load.bounds[n]!;
        return within(at, this.#values.boundSize(size, `${n} of input ${this.#tile.load.input}`));
      }),
    ]);
  }

  #termPart(first: E, term: E): E {
    const { k } = this.#c;
    if (this.#table) return held(this.#table.index, term, "int");
    const part = flat(partOf(this.#tile.load.index, k), k);
    return this.#values.affine(part, new Map([[k.at(-1)!, add(first, term)]]));
  }

  /** Writes the registers to local memory. */
  put(): void {
    for (const { at, term, next } of this.#elements) {
      this.#p.store(this.#place, this.#at(term, at), next);
    }
  }

  #at(term: E, at: E): E {
    return add(mul(term, this.#tile.extent + PADDING), at);
  }

  /** An element of the tile in local memory. */
  element(term: E, at: E): E {
    return held(this.#place, this.#at(term, at), kindOf(this.#c.dtype));
  }
}

/** An index whose loops are walked as one, by the innermost. */
const flat = (index: AffineExpr, symbols: readonly number[]): AffineExpr => {
  const last = symbols.at(-1)!, step = coefficient(index, last);
  const others = withoutPart(index, symbols);
  return step === 0 ? others : { ...others, terms: [...others.terms, [last, step]] };
};
