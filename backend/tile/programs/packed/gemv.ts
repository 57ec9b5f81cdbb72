/**
 * Products of a few rows with a packed matrix, `x wᵀ`: each weight is read once, and decoded in registers.
 * A sum of products that share a scale is multiplied with it once.
 */
import { type BlockFormatName, formatTable } from "../../../formats/block_formats.ts";
import { type PackedFactor, straightStep } from "../../../kernel/forms/packed_product.ts";
import {
  add,
  alignmentOf,
  div,
  type E,
  int,
  isMultiple,
  min,
  mul,
  type Place,
  sub,
} from "../../language/expression.ts";
import { Program, type Tile } from "../../program.ts";
import type { TileKernel } from "../../language/statements.ts";
import type { Unit } from "../../units.ts";
import {
  fadd,
  fma,
  fmul,
  lane,
  load,
  loadVector,
  lt,
  truth,
  unpacked,
} from "../../language/values.ts";
import { PackedElement, type PackedPlace, placesOf, turnOf, waysOf } from "./packed_operand.ts";
import { QUAD, quadOf } from "./packed_quad.ts";

/** A product, with sizes. */
export interface Gemv {
  readonly format: BlockFormatName;
  /** Rows of x and columns of the result; terms of a sum. */
  readonly rows: number;
  readonly columns: number;
  readonly terms: number;
  /** The floats, row by row. */
  readonly x: PackedFactor;
  /** The name of the packed matrix (columns, terms), its blocks, and its first element. */
  readonly w: { readonly name: string; readonly blocks: number; readonly offset: number };
}

/** Sums of a work-item, at most, and elements of x that it reads together: floats, halves. */
const MAX_SUMS = 8, READ = 4, READ_HALVES = 8;
/** Columns of a work-item, at most. */
const MAX_COLUMNS = 4;

/** Mapping of a product to a unit. */
export interface GemvMapping {
  /** Columns of a work-item. */
  readonly columns: number;
  /** Bytes that the work-items of a row, or the vectors of one, read in a turn. */
  readonly turn: number;
}

/** The mapping of a product; null where the unit cannot read its rows. */
export function gemvMapping(
  { format, rows, terms, x, w }: Gemv,
  unit: Unit,
  most = MAX_COLUMNS,
): GemvMapping | null {
  const { elements } = formatTable[format], turn = turnOf(format, unit);
  const columns = Math.max(1, Math.min(most, Math.floor(MAX_SUMS / rows)));
  if (rows > MAX_SUMS || terms % elements !== 0 || w.offset % elements !== 0) return null;
  if (terms / waysOf(format) % turn !== 0 || straightStep(x) === null) return null;
  return { columns, turn: unit.across * turn };
}

/** The groups of a product: each has the columns of its work-items. */
export const gemvGroups = ({ columns }: Gemv, unit: Unit, mapping: GemvMapping): number =>
  Math.ceil(columns / (unit.down * mapping.columns));

/**
 * The kernel of a product; its results are (row of x, column).
 *
 * @param nameOf The name of an argument that hands over a number.
 */
export function gemv(
  product: Gemv,
  unit: Unit,
  mapping: GemvMapping,
  nameOf: (value: number) => string,
): TileKernel {
  return new GemvWriter(product, unit, mapping, new Program(unit, nameOf)).write();
}

/** An element: `scale * quant + offset`. */
interface Quant {
  readonly scale: E | undefined;
  readonly offset: E | undefined;
  readonly quant: E;
}

class GemvWriter {
  readonly #product: Gemv;
  readonly #mapping: GemvMapping;
  readonly #p: Program;
  readonly #unit: Unit;
  readonly #x: Place;
  readonly #w: Place;

  constructor(product: Gemv, unit: Unit, mapping: GemvMapping, p: Program) {
    this.#product = product;
    this.#mapping = mapping;
    this.#unit = unit;
    this.#p = p;
    this.#x = p.input(product.x.name, product.x.element);
    this.#w = p.input(product.w.name, "uint8");
  }

  write(): TileKernel {
    const p = this.#p, { rows, columns } = this.#product, each = this.#mapping.columns;
    const first = mul(add(mul(p.group, this.#unit.down), p.down), each);
    const isWhole = columns % (this.#unit.down * each) === 0, end = p.size(columns);
    const column = (k: number): E => add(first, k);
    // The last work-items read a column again, and store nothing.
    const read = (k: number): E => isWhole ? column(k) : min(column(k), sub(end, 1));
    const sums = p.tile(rows * each);
    this.#multiply(sums, read);
    p.results(p.sum(sums), (at) => ({
      coordinates: [int(at % rows), column(Math.floor(at / rows))],
      inside: isWhole ? truth(true) : lt(column(Math.floor(at / rows)), end),
    }));
    const { format } = this.#product;
    return p.finish(`gemv_${format}`, gemvGroups(this.#product, this.#unit, this.#mapping));
  }

  /** Adds the products of all turns to the sums. */
  #multiply(sums: Tile, column: (k: number) => E): void {
    const p = this.#p, { format, rows, terms, x, w } = this.#product, { turn } = this.#mapping;
    const bytes = terms / waysOf(format), turns = Math.ceil(bytes / turn);
    const { elements } = formatTable[format];
    const whole = (n: number): number => elements === 1 ? alignmentOf(n) : elements;
    const [step, blocks] = [p.size(terms, whole(terms)), p.size(w.blocks)];
    const [begin, apart] = [x.offset, straightStep(x)!].map((n) =>
      n === 0 ? int(0) : p.size(n, alignmentOf(n))
    );
    const offset = w.offset === 0 ? int(0) : p.size(w.offset, whole(w.offset));
    p.loop(p.size(turns), (at) => {
      const own = add(mul(at, turn), mul(p.across, this.#unit.run));
      const isInside = bytes % turn === 0 ? truth(true) : lt(own, p.size(bytes));
      p.when(isInside, () => {
        const places = placesOf(format, this.#unit, own);
        const inputs = Array.from({ length: rows }, (_, row) => {
          const from = add(begin!, mul(int(row), apart!));
          return places.map(({ element, lane }) => this.#input(add(from, element), lane));
        });
        p.map(sums, (sum, at) => {
          const weights = add(offset, mul(column(Math.floor(at / rows)), step));
          return this.#sum(this.#quants(places, weights, blocks), inputs[at % rows]!, sum);
        });
      });
    });
  }

  /** A vector of x, or one of the neighbours that a work-item reads together. */
  #input(first: E, at: E): E {
    if (at.op !== "const") return load(this.#x, add(first, at));
    const { element } = this.#x, within = at.value % READ;
    if (element === "float16" || element === "bfloat16") {
      const own = at.value % READ_HALVES, start = add(first, at.value - own);
      if (isMultiple(start, READ_HALVES)) {
        const words = loadVector({ ...this.#x, element: "uint32" }, div(start, 2), READ_HALVES / 2);
        return unpacked(lane(words, own >> 1), own % 2, element);
      }
    }
    return lane(loadVector(this.#x, add(first, at.value - within), READ), within);
  }

  /** The elements of places, as far as it goes four at once. */
  #quants(places: readonly PackedPlace[], weights: E, blocks: E): Quant[] {
    const { format } = this.#product, row = formatTable[format], place = this.#w;
    const byFour = this.#unit.width === 1 && this.#unit.run % QUAD === 0;
    let quad: readonly E[] | null = null;
    return places.map(({ element, lane }, k) => {
      const index = add(weights, element, lane),
        packed = new PackedElement(format, place, blocks, index);
      if (byFour && k % QUAD === 0) quad = quadOf(format, place, blocks, index);
      return {
        scale: row.scale?.(packed),
        offset: row.offset?.(packed),
        quant: quad?.[k % QUAD] ?? row.quant(packed),
      };
    });
  }

  /** `sum` and the products with elements, those of one scale together. */
  #sum(elements: readonly Quant[], x: readonly E[], sum: E): E {
    const scaled = new Map<E | undefined, E>(), offsets = new Map<E, E>();
    elements.forEach(({ scale, offset, quant }, k) => {
      const before = scale === undefined ? scaled.get(scale) ?? sum : scaled.get(scale);
      scaled.set(scale, before ? fma(quant, x[k]!, before) : fmul(quant, x[k]!));
      if (offset) {
        offsets.set(offset, offsets.has(offset) ? fadd(offsets.get(offset)!, x[k]!) : x[k]!);
      }
    });
    const products = [...scaled].reduce((all, [scale, t]) => scale ? fma(scale, t, all) : t, sum);
    return [...offsets].reduce((all, [offset, t]) => fma(offset, t, all), products);
  }
}
