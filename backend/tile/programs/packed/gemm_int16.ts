/**
 * Products of many rows with a packed matrix in whole numbers, for CPUs: a group rounds its rows of x to 16 bits as
 * `gemv_int16.ts` does, and lays them side by side, pair by pair of terms. Quants of a few columns are decoded once
 * for all these rows; a pair of them is multiplied with those of a vector of rows.
 */
import { type BlockFormatName, formatTable } from "../../../formats/block_formats.ts";
import {
  BLOCK,
  chunkOf,
  isOfBlocks,
  MAX_INTEGER_TERMS,
} from "../../../kernel/forms/packed_product.ts";
import {
  add,
  divideBy,
  type E,
  int,
  lanes,
  min,
  mul,
  type Place,
  sub,
} from "../../language/expression.ts";
import { elementFrom, held } from "../../language/elements.ts";
import type { TileKernel } from "../../language/statements.ts";
import {
  dot,
  float,
  fma,
  fmul,
  loadFrom,
  loadShorts,
  lt,
  repeated,
  splat,
  toFloat,
} from "../../language/values.ts";
import { Program } from "../../program.ts";
import type { Unit } from "../../units.ts";
import type { Gemv } from "./gemv.ts";
import { shortsOf } from "./packed_int16.ts";
import { PackedElement } from "./packed_operand.ts";
import { floatsOf, rounded, storeShorts } from "./rounded_blocks.ts";

/** Columns whose quants are decoded together, and vectors of rows that they are multiplied with at most. */
const COLUMNS = 4, MAX_VECTORS = 2;
/** Quants that are decoded as a vector at most. */
const MAX_SHORTS = 16;
/** Elements of x that a group keeps: a second cache holds them; and where a few rows have more. */
const ROOM = 2 ** 17, MAX_ROOM = 2 ** 18;
/** Columns of a group, where each core has one: rounding a row takes as long as twenty to forty of them. */
const MIN_COLUMNS = 512;
/** Groups of a core, at most. */
const GROUPS = 4;

/** Mapping of a product to work-items. */
export interface PanelMapping {
  /** Vectors of rows of a tile. */
  readonly vectors: number;
  /** Rows and columns of a group: multiples of those of a tile. */
  readonly tileRows: number;
  readonly tileColumns: number;
  /** Groups side by side, and all of them. */
  readonly across: number;
  readonly groups: number;
}

/** The mapping of a product; null where its format or its sizes are others. */
export function panelMapping(product: Gemv, { width }: Unit, cores: number): PanelMapping | null {
  const { rows, columns, terms } = product;
  const vectors = rows <= width || MAX_VECTORS * width * terms > MAX_ROOM ? 1 : MAX_VECTORS;
  const unit = width * vectors;
  if (!isOfBlocks(product) || width === 1 || unit * terms > MAX_ROOM) return null;
  const most = Math.max(unit, Math.floor(ROOM / terms / unit) * unit);
  const down = Math.ceil(rows / most), tileRows = Math.ceil(rows / down / unit) * unit;
  const wanted = Math.max(Math.floor(columns / MIN_COLUMNS), Math.ceil(cores / down));
  const parts = Math.min(wanted, cores * GROUPS, Math.ceil(columns / COLUMNS));
  const tileColumns = Math.ceil(columns / parts / COLUMNS) * COLUMNS;
  const across = Math.ceil(columns / tileColumns);
  return { vectors, tileRows, tileColumns, across, groups: across * Math.ceil(rows / tileRows) };
}

/** Elements that have a scale in common. */
const runOf = (format: BlockFormatName): number => format === "Q6_K" ? BLOCK / 2 : BLOCK;

/**
 * The kernel of a product; its results are (row of x, column).
 *
 * @param nameOf The name of an argument that hands over a number.
 */
export function panelGemm(
  product: Gemv,
  unit: Unit,
  mapping: PanelMapping,
  nameOf: (value: number) => string,
): TileKernel {
  return new Writer(product, mapping, new Program(unit, nameOf)).write();
}

class Writer {
  readonly #product: Gemv;
  readonly #mapping: PanelMapping;
  readonly #p: Program;
  readonly #width: number;
  readonly #w: Place;
  /** Blocks of the matrix, of a column, and those before the first element. */
  readonly #blocks: E;
  readonly #step: E;
  readonly #before: E;
  readonly #terms: E;
  readonly #rows: E;
  readonly #columns: E;
  /** Rows of x as whole numbers: of each vector of rows the pairs of terms. */
  readonly #x: Place;
  /** Scales and sums of the blocks of x. */
  readonly #scales: Place;
  readonly #sums: Place | null;
  /** A rounded block. */
  readonly #block: Place;
  /** Columns as whole numbers, with scales and offsets of their runs. */
  readonly #quants: Place;
  readonly #factors: Place;
  readonly #offsets: Place | null;
  /** Sums of a tile. */
  readonly #tile: Place;

  constructor(product: Gemv, mapping: PanelMapping, p: Program) {
    const { format, x, w, terms, rows, columns } = product,
      { elements, offset } = formatTable[format];
    const floats = (size: number): Place => p.array("private", size, "float");
    this.#product = product;
    this.#mapping = mapping;
    this.#p = p;
    this.#width = p.unit.width;
    p.input(x.name, x.element);
    this.#w = p.input(w.name, "uint8");
    this.#blocks = p.size(w.blocks);
    this.#step = p.size(terms / elements);
    this.#before = w.offset === 0 ? int(0) : p.size(w.offset / elements);
    this.#terms = p.size(terms, BLOCK);
    this.#rows = p.size(rows);
    this.#columns = p.size(columns);
    this.#x = p.array("private", MAX_ROOM, "int16");
    this.#scales = floats(MAX_ROOM / BLOCK);
    this.#sums = offset ? floats(MAX_ROOM / BLOCK) : null;
    this.#block = p.array("private", BLOCK, "int16");
    this.#quants = p.array("private", COLUMNS * MAX_INTEGER_TERMS, "int16");
    this.#factors = floats(COLUMNS * MAX_INTEGER_TERMS / runOf(format));
    this.#offsets = offset ? floats(COLUMNS * MAX_INTEGER_TERMS / runOf(format)) : null;
    this.#tile = floats(COLUMNS * this.#tileRows);
  }

  write(): TileKernel {
    const p = this.#p, { groups, across, tileRows, tileColumns } = this.#mapping;
    const { format } = this.#product, unit = this.#tileRows;
    const [down, part] = divideBy(p.group, p.size(across));
    const firstRow = p.let(mul(down, p.size(tileRows, unit)));
    const rows = p.let(min(sub(this.#rows, firstRow), p.size(tileRows, unit)));
    const count = p.let(divideBy(add(rows, unit - 1), int(unit))[0]);
    this.#round(firstRow, count);
    const firstColumn = mul(part, p.size(tileColumns, COLUMNS));
    p.loop(p.size(tileColumns / COLUMNS), (turn) => {
      const column = p.let(add(firstColumn, mul(turn, COLUMNS)));
      p.when(lt(column, this.#columns), () => {
        this.#decode(column);
        const columns = p.let(min(sub(this.#columns, column), COLUMNS));
        p.loop(count, (at) => {
          const row = p.let(mul(at, unit));
          this.#multiply(at);
          const rest = p.let(min(sub(rows, row), unit));
          p.loop(rest, (r) => {
            p.loop(columns, (c) => {
              const sum = held(this.#tile, add(mul(c, unit), r), "float");
              p.give([add(firstRow, row, r), add(column, c)], sum);
            });
          });
        });
      });
    });
    return p.finish(`gemm_int16_${format}`, groups);
  }

  /** Rounds rows from one on; behind the last one that is repeated. */
  #round(first: E, tiles: E): void {
    const p = this.#p, { x } = this.#product, rows = this.#tileRows;
    p.loop(tiles, (tile) => {
      p.loop(int(rows), (own) => {
        const row = p.let(min(add(first, mul(tile, rows), own), sub(this.#rows, 1)));
        p.loop(this.#blocksOfTerms, (block) => {
          const { shorts, scale, sum } = rounded(
            p,
            floatsOf(p, x, row, block),
            this.#sums !== null,
          );
          storeShorts(p, this.#block, int(0), shorts);
          const to = p.let(add(this.#pairsOf(tile, block), mul(own, 2)));
          for (let k = 0; k < BLOCK; k += 2) {
            const pair = p.let(loadShorts(this.#block, int(0), add(k, lanes(2))));
            p.store(this.#x, add(to, k * rows), pair);
          }
          const at = p.let(add(this.#scalesOf(tile, block), own));
          p.store(this.#scales, at, scale);
          if (sum) p.store(this.#sums!, at, sum);
        });
      });
    });
  }

  get #blocksOfTerms(): E {
    return divideBy(this.#terms, int(BLOCK))[0];
  }

  /** The first pairs of a block of a tile of rows: those of its vectors are in turn. */
  #pairsOf(tile: E, block: E): E {
    return mul(add(mul(tile, this.#terms), mul(block, BLOCK)), this.#tileRows);
  }

  #scalesOf(tile: E, block: E): E {
    return mul(add(mul(tile, this.#blocksOfTerms), block), this.#tileRows);
  }

  /** Rows of a tile. */
  get #tileRows(): number {
    return this.#mapping.vectors * this.#width;
  }

  /** Decodes columns from one on; behind the last one that is repeated. */
  #decode(first: E): void {
    const p = this.#p, { format } = this.#product, chunk = chunkOf(format), run = runOf(format);
    const row = formatTable[format], shorts = Math.min(2 * this.#width, MAX_SHORTS);
    p.loop(int(COLUMNS), (own) => {
      const column = min(add(first, own), sub(this.#columns, 1));
      const before = p.let(add(this.#before, mul(column, this.#step)));
      const element = (at: E): PackedElement =>
        new PackedElement(format, this.#w, this.#blocks, at, before);
      p.loop(divideBy(this.#terms, int(chunk))[0], (turn) => {
        const start = mul(turn, chunk);
        const [runs, quants] = [chunk / run, this.#quants];
        const at = p.let(add(mul(turn, runs * COLUMNS), own));
        for (let k = 0; k < chunk; k += shorts) {
          const to = add(mul(at, run), Math.floor(k / run) * COLUMNS * run + k % run);
          p.store(quants, to, shortsOf(format, this.#w, element(add(start, k, lanes(shorts)))));
        }
        for (let k = 0; k < runs; k++) {
          const packed = element(add(start, k * run)), to = add(at, k * COLUMNS);
          p.store(this.#factors, to, row.scale!(packed));
          if (row.offset) p.store(this.#offsets!, to, row.offset(packed));
        }
      });
    });
  }

  /** Computes the sums of a tile of rows. */
  #multiply(tile: E): void {
    const p = this.#p, run = runOf(this.#product.format), width = this.#width;
    const { vectors } = this.#mapping;
    const all = each(COLUMNS, () => each(vectors, () => p.register(splat(float(0), width))));
    p.loop(divideBy(this.#terms, int(run))[0], (turn) => {
      const term = mul(turn, run), block = divideBy(term, int(BLOCK))[0];
      const sums = this.#integers(tile, term, run);
      const at = p.let(this.#scalesOf(tile, block)), own = p.let(mul(turn, COLUMNS));
      const vectorOf = (place: Place, v: number): E =>
        p.let(loadFrom(place, at, add(v * width, lanes(width))));
      const scales = each(vectors, (v) => vectorOf(this.#scales, v));
      const totals = this.#sums ? each(vectors, (v) => vectorOf(this.#sums!, v)) : [];
      all.forEach((column, c) => {
        const numberOf = (place: Place): E =>
          p.let(splat(elementFrom(place, own, int(c), "float32"), width));
        const factor = numberOf(this.#factors), offset = this.#offsets && numberOf(this.#offsets);
        column.forEach((sum, v) => {
          const scaled = fma(toFloat(sums[c]![v]!), fmul(scales[v]!, factor), sum);
          p.set(sum, offset ? fma(totals[v]!, offset, scaled) : scaled);
        });
      });
    });
    all.flat().forEach((sum, k) => p.store(this.#tile, int(k * width), sum));
  }

  /** Sums of the products of a run of terms: of each column for each vector of rows. */
  #integers(tile: E, term: E, run: number): E[][] {
    const p = this.#p,
      { vectors } = this.#mapping,
      pairs = 2 * this.#width,
      sums: E[][] = each(COLUMNS, () => []);
    const from = p.let(mul(add(mul(tile, this.#terms), term), this.#tileRows));
    const own = p.let(mul(term, COLUMNS));
    for (let k = 0; k < run; k += 2) {
      const x = each(
        vectors,
        (v) => p.let(loadShorts(this.#x, from, add((k / 2 * vectors + v) * pairs, lanes(pairs)))),
      );
      sums.forEach((column, c) => {
        const pair = loadShorts(this.#quants, own, add(c * run + k, lanes(2)));
        const quants = p.let(repeated(pair, pairs));
        x.forEach((vector, v) => {
          const product = dot(vector, quants);
          if (k === 0) column.push(p.register(product));
          else p.set(column[v]!, add(column[v]!, product));
        });
      });
    }
    return sums;
  }
}

const each = <T>(count: number, of: (k: number) => T): T[] =>
  Array.from({ length: count }, (_, k) => of(k));
