/**
 * Products of a few rows with a packed matrix in whole numbers, for CPUs: a group rounds its rows of x to 16 bits, and
 * multiplies them with the quants as they are. What quants of one scale add up to becomes a float, which is scaled.
 *
 * Blocks of x have a scale of their own: elements are rounded to 1/65534 of the largest one of their 32.
 */
import { type BlockFormatName, formatTable } from "../../formats/block_formats.ts";
import {
  add,
  alignmentOf,
  div,
  type E,
  int,
  lanes,
  min,
  mul,
  type Place,
  sub,
} from "../language/expression.ts";
import { primitive } from "../language/elements.ts";
import type { TileKernel } from "../language/statements.ts";
import {
  above,
  dot,
  fadd,
  float,
  fma,
  fmul,
  lane,
  laneSum,
  larger,
  load,
  loadFrom,
  loadShorts,
  lt,
  nearest,
  select,
  splat,
  toFloat,
  toShorts,
  truth,
} from "../language/values.ts";
import { Program, type Tile } from "../program.ts";
import type { Unit } from "../units.ts";
import type { Gemv } from "./gemv.ts";
import { shortsOf } from "./packed_int16.ts";
import { PackedElement } from "./packed_operand.ts";

/** Elements of x that have a scale in common. */
const BLOCK = 32;
/** The largest number of 16 bits. */
const LARGEST = 2 ** 15 - 1;
/** Blocks of x of which none is larger are zeros: floats have no reciprocals of smaller ones. */
const SMALLEST = 1e-30;
/** Elements of x that a group keeps: room for rows, which are as long in all texts of a size. */
const ROOM = [4096, 16384], MAX_ROOM = 32768;
/** Sums of a work-item at a time. */
const MAX_SUMS = 4;
/** Columns of a group: rounding a row takes as long as two of them. */
const MAX_COLUMNS = 64;
/** Groups of each core, while these have columns enough. */
const GROUPS = 4;

/** Formats whose quants are multiplied as they are. */
const formats: ReadonlySet<BlockFormatName> = new Set<BlockFormatName>([
  "Q4_0",
  "Q4_1",
  "Q5_0",
  "Q5_1",
  "Q8_0",
  "Q4_K",
  "Q5_K",
  "Q6_K",
]);

/** Mapping of a product to work-items. */
export interface IntegerMapping {
  /** Columns whose sums a work-item has at a time, and how often. */
  readonly columns: number;
  readonly turns: number;
  readonly groups: number;
  /** Elements that a row of x has room for. */
  readonly room: number;
  /** Scales that are decoded at a time, before the products; 0 where these decode their own. */
  readonly scales: number;
}

/** The mapping of a product; null where its format or its sizes are others. */
export function integerMapping(
  { format, rows, columns: all, terms, w }: Gemv,
  { width }: Unit,
  cores: number,
): IntegerMapping | null {
  const chunk = chunkOf(format), { elements } = formatTable[format];
  const room = ROOM.find((n) => n >= terms);
  if (!formats.has(format) || width === 1 || 2 * width > BLOCK / 2) return null;
  if (room === undefined || room * rows > MAX_ROOM || rows > 2 * MAX_SUMS) return null;
  if (terms % Math.max(chunk, elements) !== 0 || w.offset % elements !== 0) return null;
  const columns = Math.min(all, Math.max(1, Math.floor(MAX_SUMS / rows)));
  const parts = Math.ceil(all / columns), share = Math.floor(parts / (cores * GROUPS));
  const most = Math.max(1, Math.min(MAX_COLUMNS / columns, share));
  // A number of turns that divides all is left out if it is much smaller.
  const turns = range(most, Math.ceil(most / 2)).find((n) => parts % n === 0) ?? most;
  const scales = [width, 4, 1].find((n) => terms / BLOCK * columns % n === 0)!;
  return {
    ...{ columns, turns, room },
    groups: Math.ceil(parts / turns),
    scales: elements === BLOCK ? scales : 0,
  };
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: from - to + 1 }, (_, k) => from - k);

/** Elements whose bytes are read together. */
function chunkOf(format: BlockFormatName): number {
  const { bit, count } = formatTable[format].packedBits ?? { bit: 5, count: 0 };
  return 2 ** (bit + count);
}

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

/** Scales and offsets of columns, those of x included. */
interface Decoded {
  readonly scales: Place;
  readonly offsets: Place | null;
}

/** Factor of a run's sum, and what is added to it. */
interface Factor {
  readonly scale: E;
  readonly offset: E | null;
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
  /** Scales and sums of the blocks of x, again for each column, so that they lie as those of the matrix do. */
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
    this.#scales = this.#places();
    this.#sums = offset ? this.#places() : null;
  }

  /** A float for each block of the columns of a turn and each row. */
  #places(): Place {
    return this.#p.array("private", this.#product.rows * this.#pitch, "float");
  }

  /** Floats from one row to the next. */
  get #pitch(): number {
    return this.#mapping.room / BLOCK * this.#mapping.columns;
  }

  write(): TileKernel {
    const p = this.#p, { columns: all, rows, format } = this.#product;
    const { columns, turns, groups } = this.#mapping;
    const isWhole = all === columns * turns * groups, end = p.size(all), count = p.size(turns);
    this.#round();
    p.loop(count, (turn) => {
      const first = mul(add(mul(p.group, count), turn), columns);
      // The last work-items read columns again, and do not store these.
      const from = isWhole ? first : min(first, sub(end, columns));
      const sums = this.#multiply(from);
      p.results(sums, (at) => {
        const column = add(from, Math.floor(at / rows));
        const inside = isWhole ? truth(true) : lt(sub(first, 1), column);
        return { coordinates: [int(at % rows), column], inside };
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
    const from = p.input(x.name, x.element), count = BLOCK / this.#width;
    const [begin, apart] = [x.offset, x.step].map((n) => this.#size(n, alignmentOf(n)));
    p.loop(int(rows), (row) => {
      p.loop(p.size(terms / BLOCK), (block) => {
        const first = add(begin!, mul(row, apart!), mul(block, BLOCK));
        const values = Array.from(
          { length: count },
          (_, k) => p.let(load(from, add(first, k * this.#width, lanes(this.#width)))),
        );
        this.#roundBlock(values, add(mul(row, room), mul(block, BLOCK)), row, block);
      });
    });
  }

  /** Rounds a block: its scale is not a number where one of its elements is none. */
  #roundBlock(values: readonly E[], to: E, row: E, block: E): void {
    const p = this.#p, width = this.#width;
    const all = p.let(values.map((v) => primitive("abs", [v], "float32")).reduce(larger));
    const each = Array.from({ length: width }, (_, k) => lane(all, k));
    const most = p.let(each.reduce((a, b) => larger(a, b)));
    const inverse = primitive("div", [float(LARGEST), most], "float32");
    const by = p.let(select(above(most, float(SMALLEST)), inverse, float(0)));
    const nothing = laneSum(values.map((v) => fmul(v, splat(float(0), width))).reduce(fadd));
    const scale = p.let(fadd(fmul(most, float(1 / LARGEST)), nothing));
    const rounded = values.map((v) => p.let(nearest(fmul(v, splat(by, width)))));
    rounded.forEach((n, k) => p.store(this.#shorts, add(to, k * width), toShorts(n)));
    const sum = this.#sums && p.let(fmul(laneSum(toFloat(add(...rounded))), scale));
    const blocks = p.size(this.#product.terms / BLOCK);
    const { columns, scales } = this.#mapping, copies = scales > 0 ? columns : 1;
    for (let k = 0; k < copies; k++) {
      const place = add(mul(row, this.#pitch), mul(blocks, k), block);
      p.store(this.#scales, place, scale);
      if (sum) p.store(this.#sums!, place, sum);
    }
  }

  /** The sums of the columns of a turn. */
  #multiply(from: E): Tile {
    const p = this.#p, { format, rows, terms } = this.#product, { columns, scales } = this.#mapping;
    const first = p.let(add(this.#before, mul(from, this.#step))), chunk = chunkOf(format);
    const decoded = scales > 0 ? this.#decode(first) : null;
    const each = Array.from({ length: columns }, (_, k) => p.let(add(first, mul(this.#step, k))));
    const sums = p.tile(rows * columns);
    const offsets = this.#sums ? Array.from({ length: sums.rows }, () => p.register(float(0))) : [];
    p.loop(p.size(terms / chunk), (at) => {
      const start = mul(at, chunk), vectors = this.#vectors(start, chunk);
      const runs = each.map((column) => this.#runs(start, column, chunk));
      const factors = decoded
        ? this.#decodedFactors(decoded, div(start, BLOCK), runs)
        : this.#factors(div(start, BLOCK), runs);
      p.map(sums, (sum, at) =>
        runs[Math.floor(at / rows)]!.reduce((all, { quants, inputs }, n) => {
          const products = quants.map((q, k) => dot(q, vectors[at % rows]![inputs[k]!]!));
          return fma(factors[at]![n]!.scale, toFloat(add(...products)), all);
        }, sum));
      offsets.forEach((sum, at) =>
        p.set(sum, factors[at]!.reduce((all, { offset }) => fadd(all, offset!), sum))
      );
    });
    const all = p.sum(sums);
    if (this.#sums) p.map(all, (sum, at) => fadd(sum, offsets[at]!));
    return all;
  }

  /** Decodes scales and offsets of a turn's columns, times those of x: they lie side by side. */
  #decode(first: E): Decoded {
    const p = this.#p, { format, rows, terms } = this.#product, { columns, scales } = this.#mapping;
    const row = formatTable[format];
    const decoded = { scales: this.#places(), offsets: this.#sums && this.#places() };
    p.loop(p.size(terms / BLOCK * columns / scales), (at) => {
      const block = mul(at, scales), index = mul(add(block, lanes(scales)), BLOCK);
      const packed = new PackedElement(format, this.#w, this.#blocks, index, first);
      for (let k = 0; k < rows; k++) {
        const place = add(block, k * this.#pitch), neighbours = add(place, lanes(scales));
        const times = (factor: E, x: Place): E => fmul(factor, load(x, neighbours));
        p.store(decoded.scales, place, times(row.scale!(packed), this.#scales));
        if (decoded.offsets) {
          p.store(decoded.offsets, place, times(row.offset!(packed), this.#sums!));
        }
      }
    });
    return decoded;
  }

  /** Vectors of a chunk of each row of x. */
  #vectors(start: E, chunk: number): E[][] {
    const p = this.#p, { room } = this.#mapping, shorts = 2 * this.#width;
    const vector = (row: number, k: number): E =>
      p.let(loadShorts(this.#shorts, int(0), add(start, row * room + k * shorts, lanes(shorts))));
    return Array.from(
      { length: this.#product.rows },
      (_, row) => Array.from({ length: chunk / shorts }, (_, k) => vector(row, k)),
    );
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

  /** Factors of runs, for each sum, as they were decoded before. */
  #decodedFactors({ scales, offsets }: Decoded, start: E, runs: readonly Run[][]): Factor[][] {
    const { rows } = this.#product;
    return Array.from({ length: rows * runs.length }, (_, at) => {
      const column = Math.floor(at / rows);
      const base = add((at % rows) * this.#pitch, mul(this.#step, column));
      return runs[column]!.map(({ block }) => ({
        scale: loadFrom(scales, base, add(start, block)),
        offset: offsets && loadFrom(offsets, base, add(start, block)),
      }));
    });
  }

  /** Factors of runs, for each sum. */
  #factors(start: E, runs: readonly Run[][]): Factor[][] {
    const p = this.#p, { rows, format } = this.#product, blocks = chunkOf(format) / BLOCK;
    const ofRows = (place: Place | null): E[][] =>
      Array.from(
        { length: place ? rows : 0 },
        (_, row) =>
          Array.from({ length: blocks }, (_, k) => {
            const at = add(start, row * this.#pitch + k);
            return p.let(load(place!, at));
          }),
      );
    const scales = ofRows(this.#scales), sums = ofRows(this.#sums);
    return Array.from(
      { length: rows * runs.length },
      (_, at) =>
        runs[Math.floor(at / rows)]!.map(({ scale, offset, block }) => ({
          scale: fmul(scale, scales[at % rows]![block]!),
          offset: offset ? fmul(offset, sums[at % rows]![block]!) : null,
        })),
    );
  }
}
