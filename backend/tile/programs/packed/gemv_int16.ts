/**
 * Products of a few rows with a packed matrix in whole numbers, for CPUs: a group rounds its rows of x to 16 bits, and
 * multiplies them with the quants as they are. What quants of one scale add up to becomes a float, which is scaled.
 *
 * Blocks of x have a scale of their own: elements are rounded to 1/65534 of the largest one of their 32.
 */
import { formatTable } from "../../../formats/block_formats.ts";
import { BLOCK, chunkOf, FEW_ROWS, isOfBlocks } from "../../../kernel/forms/packed_product.ts";
import { add, div, type E, int, lanes, mul, type Place } from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import {
  dot,
  fadd,
  float,
  fma,
  fmul,
  lane,
  laneSum,
  load,
  loadShorts,
  lt,
  splat,
  toFloat,
  truth,
} from "../../language/values.ts";
import { Program, type Tile } from "../../program.ts";
import type { Unit } from "../../units.ts";
import type { Gemv } from "./gemv.ts";
import { shortsOf } from "./packed_int16.ts";
import { PackedElement } from "./packed_operand.ts";
import { floatsOf, rounded, storeShorts } from "./rounded_blocks.ts";

/** Elements of x that a group keeps: room for rows, which are as long in all texts of a size. */
const ROOM = [4096, 16384], MAX_ROOM = 32768;
/** Columns of a group: rounding a row takes as long as four of them. */
const MAX_COLUMNS = 256;
/** Blocks of 32 whose scales are decoded together. */
const NEIGHBOURS = 4;
/** Groups of each core, while these have columns enough. */
const GROUPS = 4;

/** Mapping of a product to work-items. */
export interface IntegerMapping {
  /**
   * Columns of a group, one after the other: neighbours that are read in turn are no stream for the units that fetch
   * ahead (four of 576 elements took twice the time where no cache has them).
   */
  readonly turns: number;
  readonly groups: number;
  /** Elements that a row of x has room for. */
  readonly room: number;
}

/** The mapping of a product; null where its format or its sizes are others. */
export function integerMapping(
  product: Gemv,
  { width }: Unit,
  cores: number,
): IntegerMapping | null {
  const { rows, columns, terms } = product, room = ROOM.find((n) => n >= terms);
  if (!isOfBlocks(product) || width === 1 || 2 * width > BLOCK / 2) return null;
  if (room === undefined || room * rows > MAX_ROOM || rows > FEW_ROWS) return null;
  const most = Math.max(1, Math.min(MAX_COLUMNS, Math.floor(columns / (cores * GROUPS))));
  // A number of turns that divides all is left out if it is much smaller.
  const turns = range(most, Math.ceil(most / 2)).find((n) => columns % n === 0) ?? most;
  return { turns, room, groups: Math.ceil(columns / turns) };
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: from - to + 1 }, (_, k) => from - k);

/**
 * The kernel of a product; its results are (row of x, column).
 *
 * @param nameOf The name of an argument that hands over a number.
 */
export function integerGemv(
  product: Gemv,
  unit: Unit,
  mapping: IntegerMapping,
  nameOf: (value: number) => string,
): TileKernel {
  return new Writer(product, mapping, new Program(unit, nameOf)).write();
}

/** Neighbours that have scale, offset and block of x in common. */
interface Run {
  readonly block: number;
  readonly scale: E;
  readonly offset: E | undefined;
  readonly quants: E[];
  /** The vectors of x that they are multiplied with. */
  readonly inputs: number[];
}

class Writer {
  readonly #product: Gemv;
  readonly #mapping: IntegerMapping;
  readonly #p: Program;
  readonly #width: number;
  readonly #w: Place;
  /** Number of blocks of the matrix, of a column, and those before the first element. */
  readonly #blocks: E;
  readonly #step: E;
  readonly #before: E;
  /** Rows of x as whole numbers. */
  readonly #shorts: Place;
  /** Scales and sums of the blocks of x. */
  readonly #scales: Place;
  readonly #sums: Place | null;

  constructor(product: Gemv, mapping: IntegerMapping, p: Program) {
    const { rows, format, terms, w } = product, { elements, offset } = formatTable[format];
    this.#product = product;
    this.#mapping = mapping;
    this.#p = p;
    this.#width = p.unit.width;
    this.#w = p.input(w.name, "uint8");
    this.#blocks = p.size(w.blocks);
    this.#step = p.size(terms / elements);
    this.#before = this.#size(w.offset / elements, 1);
    this.#shorts = p.array("private", rows * mapping.room, "int16");
    this.#scales = this.#places(rows);
    this.#sums = offset ? this.#places(rows) : null;
  }

  /** A float for each block of so many rows. */
  #places(rows: number): Place {
    return this.#p.array("private", rows * this.#pitch, "float");
  }

  /** Floats from one row to the next. */
  get #pitch(): number {
    return this.#mapping.room / BLOCK;
  }

  write(): TileKernel {
    const p = this.#p, { columns, format } = this.#product, { turns, groups } = this.#mapping;
    const isWhole = columns === turns * groups, end = p.size(columns), count = p.size(turns);
    this.#round();
    p.loop(count, (turn) => {
      const column = add(mul(p.group, count), turn);
      p.when(isWhole ? truth(true) : lt(column, end), () => {
        const from = p.let(add(this.#before, mul(column, this.#step)));
        p.results(
          this.#multiply(from),
          (row) => ({ coordinates: [int(row), column], inside: truth(true) }),
        );
      });
    });
    return p.finish(`gemv_int16_${format}`, groups);
  }

  /** A number that is known to be a multiple. */
  #size(value: number, multiple: number): E {
    return value === 0 ? int(0) : this.#p.size(value, multiple);
  }

  /** Rounds the rows of x. */
  #round(): void {
    const p = this.#p, { x, rows, terms } = this.#product, { room } = this.#mapping;
    p.input(x.name, x.element);
    p.loop(int(rows), (row) => {
      p.loop(p.size(terms / BLOCK), (block) => {
        const own = rounded(p, floatsOf(p, x, row, block), this.#sums !== null);
        const place = add(mul(row, this.#pitch), block);
        storeShorts(p, this.#shorts, add(mul(row, room), mul(block, BLOCK)), own.shorts);
        p.store(this.#scales, place, own.scale);
        if (own.sum) p.store(this.#sums!, place, own.sum);
      });
    });
  }

  /** The sums of a column, which begins behind so many blocks. */
  #multiply(column: E): Tile {
    const p = this.#p, { format, rows, terms } = this.#product, count = terms / chunkOf(format);
    const zeros = (count: number, width: number): E[] =>
      Array.from({ length: count }, () => p.register(splat(float(0), width)));
    const sums = zeros(rows, this.#width);
    // Large blocks are read whole: what chunks have in common is decoded once.
    const { elements } = formatTable[format], isSmall = this.#hasNeighbours;
    const most = isSmall ? NEIGHBOURS : elements / chunkOf(format);
    const together = count < most ? 1 : most, rest = count % together;
    const offsets = zeros(this.#sums ? rows : 0, isSmall ? together : 1);
    p.loop(p.size((count - rest) / together), (at) => {
      this.#multiplyChunks(mul(at, together), 0, together, column, sums, offsets);
    });
    const last = zeros(this.#sums && rest > 0 ? rows : 0, 1);
    // The last ones are decoded with neighbours before them.
    if (rest > 0) {
      const first = p.size(count - together);
      this.#multiplyChunks(first, together - rest, together, column, sums, last);
    }
    // Offsets in as many lanes are added up with the products.
    const isAsWide = offsets[0]?.width === this.#width, all = p.tile(rows);
    p.map(all, (_, row) => isAsWide ? fadd(sums[row]!, offsets[row]!) : sums[row]!);
    const results = p.sum(all), left = isAsWide ? [last] : [offsets, last];
    const added = (sum: E, offset: E): E => fadd(sum, laneSum(offset));
    p.map(results, (sum, row) => left.flatMap((own) => own[row] ?? []).reduce(added, sum));
    return results;
  }

  /** True where a block has one scale, as those of x have. */
  get #hasNeighbours(): boolean {
    return formatTable[this.#product.format].elements === BLOCK;
  }

  /** Adds the products of neighbouring chunks to the sums of rows; leaves the first ones out. */
  #multiplyChunks(
    first: E,
    from: number,
    count: number,
    column: E,
    sums: readonly E[],
    offsets: readonly E[],
  ): void {
    const p = this.#p, chunk = chunkOf(this.#product.format);
    const scales = this.#hasNeighbours
      ? this.#neighbours(first, from, count, column, offsets)
      : null;
    for (let k = from; k < count; k++) {
      const start = mul(add(first, k), chunk), runs = this.#runs(start, column, chunk);
      const factors = scales?.map((scale) => [lane(scale, k)]) ??
        this.#factors(div(start, BLOCK), runs, offsets);
      runs.forEach(({ quants, inputs }, n) => {
        sums.forEach((sum, row) => {
          const products = quants.map((q, k) => dot(q, this.#vector(start, row, inputs[k]!)));
          p.set(sum, fma(factors[row]![n]!, toFloat(add(...products)), sum));
        });
      });
    }
  }

  /** A vector of a chunk of a row of x. */
  #vector(start: E, row: number, k: number): E {
    const shorts = 2 * this.#width, first = add(start, row * this.#mapping.room + k * shorts);
    return loadShorts(this.#shorts, int(0), add(first, lanes(shorts)));
  }

  /** Scales of neighbouring blocks, times those of each row of x; adds the offsets of those from one on. */
  #neighbours(first: E, from: number, count: number, column: E, offsets: readonly E[]): E[] {
    const p = this.#p, { rows, format } = this.#product, { scale, offset } = formatTable[format];
    const index = mul(add(first, lanes(count)), BLOCK);
    const packed = new PackedElement(format, this.#w, this.#blocks, index, column);
    return Array.from({ length: rows }, (_, row) => {
      const of = (x: Place): E => p.let(load(x, add(first, row * this.#pitch, lanes(count))));
      const sum = offsets[row];
      if (sum) {
        const factors = [p.let(offset!(packed)), of(this.#sums!)] as const;
        const each = (k: number): [E, E] => [lane(factors[0], k), lane(factors[1], k)];
        const single = Array.from({ length: count - from }, (_, k) => each(from + k));
        const parts = from === 0 ? [factors] : single;
        p.set(sum, parts.reduce((all, [a, b]) => fma(a, b, all), sum));
      }
      return p.let(fmul(scale!(packed), of(this.#scales)));
    });
  }

  /** The runs of a chunk of a column, which begins behind so many blocks. */
  #runs(start: E, column: E, chunk: number): Run[] {
    const { format } = this.#product, row = formatTable[format], shorts = 2 * this.#width;
    const element = (at: E): PackedElement =>
      new PackedElement(format, this.#w, this.#blocks, at, column);
    const runs: Run[] = [];
    for (let k = 0; k < chunk / shorts; k++) {
      const at = add(start, k * shorts), packed = element(at);
      const scale = row.scale!(packed), offset = row.offset?.(packed);
      const quants = shortsOf(format, this.#w, element(add(at, lanes(shorts))));
      const last = runs.at(-1), block = Math.floor(k * shorts / BLOCK);
      if (last?.scale === scale && last.block === block) {
        last.quants.push(quants);
        last.inputs.push(k);
      } else runs.push({ scale, offset, block, quants: [quants], inputs: [k] });
    }
    return runs;
  }

  /** Factors of runs, for each row of x; adds their offsets. */
  #factors(start: E, runs: readonly Run[], offsets: readonly E[]): E[][] {
    const p = this.#p, { rows } = this.#product;
    const of = (x: Place, row: number, { block }: Run): E =>
      load(x, add(start, row * this.#pitch + block));
    offsets.forEach((sum, row) => {
      const added = (all: E, run: Run): E => fma(run.offset!, of(this.#sums!, row, run), all);
      p.set(sum, runs.reduce(added, sum));
    });
    return Array.from(
      { length: rows },
      (_, row) => runs.map((run) => fmul(run.scale, of(this.#scales, row, run))),
    );
  }
}
