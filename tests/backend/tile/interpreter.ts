/**
 * Runs the statements of a tile kernel on the host: all work-items of a group, statement by statement, with
 * local memory and barriers as they are, for whatever device the kernel was written. It reports what no
 * comparison of values would see: reads of what nobody wrote, of what another item wrote since the last
 * barrier, writes that meet other items' accesses, elements outside, results that are given twice.
 * Instructions of warps are in `warps.ts`.
 *
 * It is long because every operation and statement of the language has its case here.
 */
import { readElement, writeElement } from "../../../backend/cpu/reference/elements.ts";
import {
  applyPrimitive,
  castValue,
  constantValue,
  rounded,
} from "../../../backend/cpu/reference/reference_primitives.ts";
import { philox } from "../../../backend/graph/scalar.ts";
import { type DType, dtypes, type TypedArray } from "../../../backend/graph/dtype.ts";
import type { PrimitiveName } from "../../../backend/graph/primitives.ts";
import { type ArgReduceFn, prefersLarger } from "../../../backend/graph/reductions.ts";
import { nameParts } from "../../../backend/tile/language/elements.ts";
import type { E, Element, Place } from "../../../backend/tile/language/expression.ts";
import {
  type Copy,
  type Fill,
  type Fragment,
  isFragment,
  type Matrices,
  type Multiply,
  type Pack,
  PANEL_ROWS,
  type Statement,
  type Store,
  type Sums,
  type Terms,
  type TileKernel,
  type Transpose,
  type Warpgroup,
} from "../../../backend/tile/language/statements.ts";
import { matrixUnits, WARP } from "../../../backend/tile/matrix_units.ts";
import {
  bitsOf,
  float16Of,
  floatOf,
  halfBits,
  halfNumber,
  multiplied,
  placeOfLeft,
  placeOfSum,
  Ring,
  swizzled,
  toTf32,
} from "./warps.ts";

/** A number; those of 64 bits are big integers, which plain operations never meet. */
// deno-lint-ignore no-explicit-any
type Scalar = any;
type Value = Scalar | readonly Scalar[];
/** An expression, made ready once: its value for a work-item. */
type Code = (item: Item) => Value;

interface Item {
  readonly id: number;
  readonly values: Map<string, Value>;
  /** Its own memory. */
  readonly memory: Map<string, Scalar[]>;
}

/** An element of local memory, who wrote it and who read it, and behind which barrier. */
interface Cell {
  value: Scalar;
  writer: number;
  written: number;
  reader: number;
  read: number;
}

/** Findings of a run: faults by how often they were seen, results by their coordinates. */
export interface Report {
  readonly faults: ReadonlyMap<string, number>;
  readonly results: ReadonlyMap<string, number>;
}

const SEVERAL = -2;
const views: Readonly<Partial<Record<Element, (b: ArrayBuffer) => TypedArray>>> = {
  uint16: (b) => new Uint16Array(b) as unknown as TypedArray,
  int8: (b) => new Int8Array(b) as unknown as TypedArray,
  uint32: (b) => new Uint32Array(b, 0, b.byteLength >> 2) as unknown as TypedArray,
};

/** The elements of a buffer, whatever they are called by a place. */
function elementsOf(buffer: ArrayBuffer, element: Element): TypedArray {
  const view = views[element];
  if (view) return view(buffer);
  const { bytes, view: viewOf } = dtypes[element as keyof typeof dtypes];
  return viewOf(buffer, 0, Math.floor(buffer.byteLength / bytes));
}

/** Operations whose name says what they are of. */
const named: Readonly<Record<string, (names: string[], ...args: Scalar[]) => Scalar>> = {
  value: ([dtype, number]) =>
    dtype === "int64" ? BigInt(number!) : constantValue(Number(number), dtype as DType),
  index: ([dtype], i) => constantValue(i, dtype as DType),
  cast: ([from, to], x) => rounded(castValue(x, from as DType, to as DType), to as DType),
  primitive: ([fn, dtype, result], ...args) =>
    rounded(
      applyPrimitive(fn as PrimitiveName, args, dtype as DType, result as DType),
      result as DType,
    ),
  prefers: ([fn], a, b) =>
    Number(a === a && (b !== b || (prefersLarger(fn as ArgReduceFn) ? b > a : b < a))),
  ties: (_, a, b) => Number(!(a < b) && !(a > b) && (a === a) === (b === b)),
  packed: ([dtype], low, high) =>
    (halfBits(low, dtype as DType) | halfBits(high, dtype as DType) << 16) >>> 0,
  flag: (_, x) => Number(x),
};

const fround = Math.fround;
const operations: Readonly<Record<string, (x: Scalar, y: Scalar, z: Scalar) => Scalar>> = {
  quotient: (x, y) => Math.trunc(x / y),
  remainder: (x, y) => x % y,
  and: (x, y) => x & y,
  or: (x, y) => x | y,
  "+": (x, y) => x + y,
  "/": (x, y) => Math.trunc(x / y),
  "%": (x, y) => x % y,
  ">>": (x, y) => x >>> y,
  bit: (x, y) => x >>> y & 1,
  "^": (x, y) => x ^ y,
  pair: (low, high) => (low | high << 16) >>> 0,
  min: (x, y) => Math.min(x, y),
  "<": (x, y) => Number(x < y),
  within: (x, y) => Number(x >= 0 && x < y),
  "?": (c, x, y) => c ? x : y,
  signed: (x) => x << 24 >> 24,
  float: fround,
  fromHalf: float16Of,
  fadd: (x, y) => fround(x + y),
  fmul: (x, y) => fround(x * y),
  fma: (x, y, z) => fround(x * y + z),
  exp2: (x) => fround(2 ** x),
  larger: (x, y) => y > x ? y : x,
  above: (x, y) => Number(x > y),
  same: (x, y) => Number(x === y),
  not: (x) => Number(!x),
  nearest: (x) => Math.round(x) - x === 0.5 ? 2 * Math.round(x / 2) : Math.round(x),
  short: (x) => x << 16 >> 16,
};

class Interpreter {
  readonly faults = new Map<string, number>();
  readonly results = new Map<string, number>();
  readonly #kernel: TileKernel;
  /** Work-items of a warp. */
  readonly #lanes: number;
  readonly #buffers: Readonly<Record<string, ArrayBuffer>>;
  #group = 0;
  #epoch = 0;
  readonly #codes = new Map<E, Code>();
  readonly #views = new Map<Place, TypedArray>();
  readonly #stored = new Set<string>();
  #locals = new Map<string, Cell[]>();
  #ring: Ring | null = null;

  constructor(kernel: TileKernel, buffers: Readonly<Record<string, ArrayBuffer>>) {
    this.#kernel = kernel;
    this.#lanes = lanesOf(kernel.body) || WARP;
    this.#buffers = buffers;
  }

  run(): void {
    const { groups, items, arrays, sizes, body } = this.#kernel;
    const locals = arrays.filter(({ space }) => space === "local");
    for (this.#group = 0; this.#group < groups; this.#group++) {
      this.#epoch = 0;
      this.#locals = new Map(locals.map(({ name, size }) => [
        name,
        Array.from(
          { length: size },
          () => ({ value: NaN, writer: -1, written: -1, reader: -1, read: -1 }),
        ),
      ]));
      const ring = arrays.find(({ space }) => space === "ring");
      this.#ring = ring
        ? new Ring(ring.size, (text) => this.#fault(text), () => this.#epoch)
        : null;
      const all = Array.from({ length: items }, (_, id) => ({
        id,
        values: new Map<string, Value>(sizes.map(({ name, value }) => [name, value])),
        memory: new Map(
          arrays.filter(({ space }) => space === "private").map(({ name, size }) => [
            name,
            new Array<Scalar>(size).fill(undefined),
          ]),
        ),
      }));
      this.#block(body, all);
    }
  }

  #fault(text: string): void {
    this.faults.set(text, (this.faults.get(text) ?? 0) + 1);
  }

  #block(body: readonly Statement[], items: readonly Item[]): void {
    if (items.length === 0) return;
    for (const s of body) this.#step(s, items);
  }

  #step(s: Statement, items: readonly Item[]): void {
    const all = (what: string): void => {
      if (items.length !== this.#kernel.items) this.#fault(`${what} not reached by all`);
    };
    switch (s.s) {
      case "let":
      case "set":
        for (const item of items) {
          item.values.set(s.to.name, spread(this.#value(item, s.value), s.to.width));
        }
        return;
      case "store":
        for (const item of items) this.#store(item, s);
        return;
      case "result":
        for (const item of items) {
          const at = s.at.map((e) => this.#number(item, e)), last = at.pop()!;
          const lanes = [this.#value(item, s.value)].flat() as readonly number[];
          lanes.forEach((value, k) => {
            const key = [...at, last + k].join();
            if (this.results.has(key)) this.#fault("result given twice");
            this.results.set(key, value);
          });
        }
        return;
      case "barrier":
        all("barrier");
        this.#epoch++;
        return;
      case "copy":
        for (const item of items) this.#copy(item, s);
        return;
      case "fence":
        return all("fence");
      case "warpgroup":
        all("warpgroup");
        return this.#warpgroup(items, s);
      case "transpose":
        for (const item of items) this.#transpose(item, s);
        return;
      case "fill":
        for (const item of items) this.#fill(item, s);
        return;
      case "sums":
        for (const item of items) this.#sums(item, s);
        return;
      case "pack":
        for (const item of items) this.#pack(item, s);
        return;
      case "prefetch":
      case "expect":
      case "reload":
        return;
      case "commit":
        for (const { id } of items) this.#ring!.commit(id);
        return;
      case "wait":
        for (const { id } of items) this.#ring!.wait(id, s.left);
        return;
      case "put":
        for (const item of items) {
          const byte = this.#number(item, s.index);
          s.words.forEach((word, k) =>
            this.#ring!.writeWord(item.id, byte + 4 * k, this.#number(item, word))
          );
        }
        return;
      case "matrices":
        all("matrices");
        return this.#warps(items, (warp) => this.#matrices(warp, s));
      case "multiply":
        all("multiply");
        return this.#warps(items, (warp) => this.#multiply(warp, s));
      case "round":
        for (const item of items) this.#round(item, s.at, s.rest);
        return;
      case "shuffle": {
        all("shuffle");
        const values = items.map((item) => this.#value(item, s.from));
        items.forEach((item, n) => item.values.set(s.to.name, values[n ^ s.mask]!));
        return;
      }
      case "if":
        return this.#block(s.body, items.filter((item) => this.#number(item, s.condition) !== 0));
      case "for": {
        // Those that are done wait: a barrier or a shuffle inside is not reached by all.
        const counts = items.map((item) => this.#number(item, s.count));
        for (let n = 0; n < Math.max(...counts); n++) {
          const still = items.filter((_, k) => n < counts[k]!);
          for (const item of still) item.values.set(s.at.name, n);
          this.#block(s.body, still);
        }
      }
    }
  }

  #warps(items: readonly Item[], body: (warp: readonly Item[]) => void): void {
    const lanes = this.#lanes;
    for (let at = 0; at < items.length; at += lanes) body(items.slice(at, at + lanes));
  }

  /** Elements that exist, by halves, and zeros behind them. */
  #copy(item: Item, { index, from, at, bytes, count }: Copy): void {
    const size = dtypes[from.element as DType].bytes, first = this.#number(item, at) * size;
    const there = this.#number(item, count), buffer = this.#buffers[from.buffer]!;
    if (first < 0 || first + there > buffer.byteLength) this.#fault(`read outside ${from.buffer}`);
    const all = new Uint16Array(buffer),
      halves = Array.from(
        { length: bytes / 2 },
        (_, k) => 2 * k < there ? all[first / 2 + k] ?? 0 : 0,
      );
    this.#ring!.copy(item.id, this.#number(item, index), halves);
  }

  #register(item: Item, { place, index }: Fragment): { all: Scalar[]; at: number } {
    return { all: item.memory.get(place.buffer)!, at: this.#number(item, index) };
  }

  #words(item: Item, fragment: Fragment, count: number): number[] {
    const { all, at } = this.#register(item, fragment), words = all.slice(at, at + count);
    if (words.includes(undefined)) this.#fault(`read before write: ${fragment.place.buffer}`);
    return words;
  }

  #matrices(warp: readonly Item[], { to, index, how }: Matrices): void {
    const bytes = warp.map((item) => this.#number(item, index));
    const words = this.#ring!.matrices(warp[0]!.id, bytes, to.length, how);
    warp.forEach((item, lane) =>
      to.forEach((fragment, k) => {
        const { all, at } = this.#register(item, fragment);
        all[at] = words[lane]![k];
      })
    );
  }

  /** Elements of a row that exist, and zeros around them. */
  #pack(item: Item, { place, index, from, at, count, parts, apart, low, high }: Pack): void {
    const [to, first, step, begin, end] = [index, at, apart, low, high].map((e) =>
      this.#number(item, e)
    ) as [number, number, number, number, number];
    for (let part = 0; part < parts; part++) {
      for (let k = 0; k < count; k++) {
        const q = k * parts + part, isThere = q >= begin && q < end;
        const value = isThere ? this.#read(item, from, first + q * step) : 0;
        this.#write(item, place, to + part * count + k, value);
      }
    }
  }

  #transpose(item: Item, { from, at, step, to, index, pitch, there }: Transpose): void {
    const rows = there ? this.#number(item, there.rows) : 16;
    const columns = there ? Math.min(16, this.#number(item, there.columns)) : 16;
    const [first, apart, into, between] = [at, step, index, pitch].map((e) =>
      this.#number(item, e)
    ) as [number, number, number, number];
    for (let r = 0; r < 16; r++) {
      for (let c = 0; c < columns; c++) {
        const row = first + Math.min(r, rows - 1) * apart;
        this.#write(item, to, into + c * between + r, this.#read(item, from, row + c));
      }
    }
  }

  /** Place of a term from that of the first element of a row. */
  #term(item: Item, terms: Terms): (k: number) => number {
    const first = this.#number(item, "step" in terms ? terms.step : terms.at);
    return (k) => "step" in terms ? k * first : this.#read(item, terms.table, first + k);
  }

  #fill(item: Item, { panel, index, from, rows, terms, count }: Fill): void {
    const to = this.#number(item, index), length = this.#number(item, count);
    const term = this.#term(item, terms), begins = rows.map((row) => this.#number(item, row));
    if ("table" in terms && terms.areInFours) {
      for (let k = 0; k < length; k++) {
        if (term(k) !== term(k - k % 4) + k % 4) this.#fault("terms are not in fours");
      }
    }
    for (let k = 0; k < length; k++) {
      begins.forEach((begin, r) =>
        this.#write(item, panel, to + PANEL_ROWS * k + r, this.#read(item, from, begin + term(k)))
      );
    }
  }

  #sums(item: Item, { to, panel, right, at, terms, count }: Sums): void {
    const first = this.#number(item, at), length = this.#number(item, count);
    const term = this.#term(item, terms);
    to.forEach((row, r) =>
      row.forEach(({ name, width }, v) => {
        const sums = item.values.get(name) as readonly number[] | undefined;
        if (!Array.isArray(sums)) return this.#fault(`read before write: ${name}`);
        item.values.set(
          name,
          vector(width, (lane) => {
            let sum = sums[lane]!;
            for (let k = 0; k < length; k++) {
              const x = this.#read(item, panel, PANEL_ROWS * k + r);
              sum = fround(sum + x * this.#read(item, right, first + term(k) + v * width + lane));
            }
            return sum;
          }),
        );
      })
    );
  }

  /** Products of 64 rows, columns and terms; all of a group are one warpgroup. */
  #warpgroup(items: readonly Item[], { dtype, products }: Warpgroup): void {
    const number = (bits: number): number => halfNumber(bits, dtype);
    const [lead] = items as [Item];
    for (const { sums, left, right } of products) {
      const isAdded = isFragment(left), tile = this.#number(lead, right);
      const words = isAdded ? items.map((item) => this.#words(item, left, 16)) : [];
      const bytes = isAdded ? 0 : this.#number(lead, left);
      const half = (item: Item, at: number, row: number, column: number): number =>
        number(this.#ring!.read(item.id, at + swizzled(row * 128 + column * 2)));
      for (const item of items) {
        const { all, at } = this.#register(item, sums);
        for (let k = 0; k < 32; k++) {
          const [row, column] = placeOfSum(item.id, k);
          let sum = isAdded ? all[at + k] : 0;
          for (let term = 0; term < 64; term++) {
            const [owner, word, high] = placeOfLeft(row, term);
            sum = fround(
              sum + (isAdded
                ? number(words[owner]![word]! >>> (high ? 16 : 0) & 0xffff) *
                  half(item, tile, term, column)
                : half(item, bytes, row, term) * half(item, tile, column, term)),
            );
          }
          all[at + k] = sum;
        }
      }
    }
  }

  #multiply(warp: readonly Item[], { unit, sums, left, right }: Multiply): void {
    const of = (fragment: Fragment, count: number): number[][] =>
      warp.map((item) => this.#words(item, fragment, count));
    const row = matrixUnits[unit], words = [of(left, row.left.words), of(right, row.right.words)];
    const results = multiplied(unit, words[0]!, words[1]!, of(sums, row.sums));
    warp.forEach((item, lane) => {
      const { all, at } = this.#register(item, sums);
      all.splice(at, row.sums, ...results[lane]!);
    });
  }

  #round(item: Item, fragment: Fragment, rest: Fragment | null): void {
    const { all, at } = this.#register(item, fragment), [word] = this.#words(item, fragment, 1);
    const high = all[at] = toTf32(word!);
    if (rest === null) return;
    const left = this.#register(item, rest);
    left.all[left.at] = toTf32(bitsOf(floatOf(word!) - floatOf(high)));
  }

  #number(item: Item, e: E): number {
    return this.#value(item, e) as number;
  }

  #value(item: Item, e: E): Value {
    return this.#code(e)(item);
  }

  /** Equal expressions are one object. */
  #code(e: E): Code {
    let code = this.#codes.get(e);
    if (!code) this.#codes.set(e, code = this.#codeOf(e));
    return code;
  }

  #codeOf(e: E): Code {
    const { value, width, name } = e, args = e.args.map((a) => this.#code(a));
    const [a, b, c] = args as [Code, Code, Code];
    switch (e.op) {
      case "const":
        return () => value;
      case "lanes":
        return () => vector(width, (k) => k);
      case "var":
      case "register":
        if (name === "item") return (item) => item.id;
        if (name === "group") return () => this.#group;
        return (item) => {
          const value = item.values.get(name);
          if (value === undefined) this.#fault(`unset ${name}`);
          return value ?? NaN;
        };
      case "lane":
      case "neighbour":
        return (item) => (a(item) as readonly Scalar[])[value];
      case "load":
      case "element":
      case "neighbours":
        return this.#load(e, args);
      case "lanesFrom":
        return (item) => {
          const all = a(item) as readonly number[];
          return all.map((_, k) => all[k + value] ?? 0);
        };
      case "interleaved": {
        const first = value * width / 2;
        return (item) => {
          const [x, y] = [a(item), b(item)] as [number[], number[]];
          return vector(width, (k) => (k % 2 ? y : x)[first + (k >> 1)]!);
        };
      }
      case "laneSum":
        return (item) => (a(item) as readonly number[]).reduce((x, y) => fround(x + y));
      case "everySecond":
        return (item) => {
          const both = args.flatMap((x) => x(item) as number[]);
          return vector(width, (k) => both[2 * k + value]!);
        };
      case "loadBetween":
        return (item) => {
          const first = a(item), low = b(item), high = c(item);
          const isThere = (k: number): boolean => k >= low && k < high;
          return vector(
            width,
            (k) => isThere(k) ? this.#read(item, e.place!, first + k) : 0,
          );
        };
      case "loadPart":
        return (item) => {
          const first = a(item), count = b(item);
          const at = (k: number): number => first + k * value;
          const read = (k: number) => k < count ? this.#read(item, e.place!, at(k)) : 0;
          return vector(width, (k) => read(k));
        };
      case "words":
        return (item) => {
          const x = a(item), y = b?.(item);
          const all = { mask: x >>> y & value, flip: x ^ value, left: x << value, join: x | y };
          const bits = { ...all, spread: Math.imul(x, 0x204081) & 0x1010101 };
          return bits[name as keyof typeof bits] >>> 0;
        };
      case "unpacked":
        if (name === "uint8") return (item) => a(item) >>> 8 * value & 255;
        return (item) => halfNumber(a(item) >>> 16 * value & 0xffff, name as DType);
      case "sideBySide":
        return (item) => args.map((x) => x(item));
      case "checked":
        return (item) => {
          const at = Number(a(item)), size = Number(b(item));
          if (at >= 0 && at < size) return at;
          this.#fault("index out of range");
          return 0;
        };
      case "any":
        return (item) => Number([a(item)].flat().some((x) => x !== 0));
      case "splat":
        return (item) => spread(a(item), width);
      case "repeated":
        return (item) => vector(width, (k) => (a(item) as unknown as number[])[k % 2]!);
      case "dot":
        return (item) => {
          const [x, y] = [a(item), b(item)] as [number[], number[]];
          const times = (k: number): number => x[k]! * y[k]!;
          return vector(width, (k) => times(2 * k) + times(2 * k + 1) | 0);
        };
      case "laneBits":
        return (item) => {
          const word = a(item), first = b(item);
          return vector(width, (k) => word >>> first + k & 1);
        };
      // A value that is not chosen may lie outside.
      case "?":
        if (e.args[0]!.width > 1) break;
        return (item) => a(item) ? b(item) : c(item);
      case "sum":
        return (item) => {
          let sums: number | number[] = width === 1 ? 0 : new Array(width).fill(0);
          args.forEach((arg, n) => {
            const term = arg(item), factor = e.factors[n]!;
            if (typeof sums === "number") sums += factor * laneOf(term, 0);
            else sums = sums.map((sum, k) => sum + factor * laneOf(term, k));
          });
          return sums;
        };
      case "random":
        return (item) => {
          const [index, seed, stream, step = 0] = args.map((x) => x(item)) as number[];
          return eachLane(e, (k) => philox(index! + k * step, seed!, stream!));
        };
      case "product":
        return (item) => args.reduce((all, x) => all * x(item), 1);
    }
    const byName = named[e.op], operation = byName?.bind(null, nameParts(e)) ?? operations[e.op];
    if (!operation) throw new Error(`The interpreter has no ${e.op}`);
    if (e.op === "fma" && e.kind === "float64") return (item) => a(item) * b(item) + c(item);
    if (byName || [e, ...e.args].some(({ width }) => width > 1)) {
      return (item) => {
        const all = args.map((x) => x(item));
        return eachLane(e, (k) => operation(...all.map((x) => laneOf(x, k)) as [Scalar]));
      };
    }
    return (item) => operation(a(item), b?.(item), c?.(item));
  }

  #load({ op, place, width, value }: E, args: readonly Code[]): Code {
    const isAligned = value === 1 || op === "neighbours";
    return (item) => {
      let first = 0;
      for (const a of args) first += a(item);
      if (isAligned && first % width !== 0) this.#fault(`${place!.buffer} read unaligned`);
      if (width === 1) return this.#read(item, place!, first);
      return vector(width, (k) => this.#read(item, place!, first + k));
    };
  }

  #store(item: Item, { place, index, value }: Store): void {
    const first = this.#number(item, index), { width } = value;
    // Vectors of floats are stored by functions that take any place.
    if (width > 1 && value.kind !== "float" && first % width !== 0) {
      this.#fault(`${place.buffer} written unaligned`);
    }
    const values = [this.#value(item, value)].flat() as readonly Scalar[];
    values.forEach((each, k) => this.#write(item, place, first + k, each));
  }

  #elements(place: Place): TypedArray {
    let view = this.#views.get(place);
    if (!view) {
      this.#views.set(place, view = elementsOf(this.#buffers[place.buffer]!, place.element));
    }
    return view;
  }

  #read(item: Item, place: Place, index: number): Scalar {
    const { space, buffer, element } = place;
    if (space === "global") {
      const all = this.#elements(place);
      if (!(index >= 0 && index < all.length)) {
        this.#fault(`read outside ${buffer}`);
        return NaN;
      }
      return readElement(all, element as DType, index);
    }
    if (space === "ring" && element === "uint16") return this.#ring!.read(item.id, 2 * index);
    if (space === "ring") return floatOf(this.#ring!.word(item.id, 4 * index));
    if (space === "private") {
      const value = item.memory.get(buffer)![index];
      if (value === undefined) this.#fault(`read before write: ${buffer}`);
      return value;
    }
    const cell = this.#locals.get(buffer)?.[index];
    if (!cell) {
      this.#fault(`read outside ${buffer}`);
      return NaN;
    }
    if (cell.written < 0) this.#fault(`read before write: ${buffer}`);
    if (cell.written === this.#epoch && cell.writer !== item.id) {
      this.#fault(`no barrier between write and read: ${buffer}`);
    }
    cell.reader = cell.read === this.#epoch && cell.reader !== item.id ? SEVERAL : item.id;
    cell.read = this.#epoch;
    return cell.value;
  }

  #write(item: Item, place: Place, index: number, value: Scalar): void {
    const { space, buffer, element } = place;
    if (space === "private") {
      const memory = item.memory.get(buffer)!;
      if (!(index >= 0 && index < memory.length)) this.#fault(`write outside ${buffer}`);
      memory[index] = value;
      return;
    }
    if (space === "ring") return this.#ring!.writeWord(item.id, 4 * index, bitsOf(value));
    if (space === "global" && element === "uint32") return this.#halves(buffer, index, value);
    if (space === "global") return this.#output(place, index, value);
    const cell = this.#locals.get(buffer)?.[index];
    if (!cell) return this.#fault(`write outside ${buffer}`);
    if (cell.written === this.#epoch && cell.writer !== item.id) {
      this.#fault(`double write: ${buffer}`);
    }
    if (cell.read === this.#epoch && cell.reader !== item.id) {
      this.#fault(`no barrier between read and write: ${buffer}`);
    }
    const kept = element === "float32" ? fround(value) : value;
    cell.value = kept;
    cell.writer = item.id;
    cell.written = this.#epoch;
  }

  /** Two elements of a half type, as a word. */
  #halves(buffer: string, index: number, word: number): void {
    const all = new Uint16Array(this.#buffers[buffer]!);
    for (const k of [0, 1]) {
      const at = 2 * index + k, key = `${buffer} ${at}`;
      if (!(at >= 0 && at < all.length)) return this.#fault(`write outside ${buffer}`);
      if (this.#stored.has(key)) this.#fault("result given twice");
      this.#stored.add(key);
      all[at] = word >>> 16 * k & 0xffff;
    }
  }

  #output(place: Place, index: number, value: Scalar): void {
    const { buffer, element } = place, all = this.#elements(place), key = `${buffer} ${index}`;
    if (!(index >= 0 && index < all.length)) return this.#fault(`write outside ${buffer}`);
    if (this.#stored.has(key)) this.#fault("result given twice");
    this.#stored.add(key);
    writeElement(all, element as DType, index, value);
  }
}

/** Number of work-items that multiply together: as the unit of the first product says. */
function lanesOf(body: readonly Statement[]): number {
  for (const s of body) {
    const lanes = s.s === "multiply"
      ? matrixUnits[s.unit].lanes
      : "body" in s
      ? lanesOf(s.body)
      : 0;
    if (lanes > 0) return lanes;
  }
  return 0;
}

const laneOf = (value: Value, k: number): Scalar => Array.isArray(value) ? value[k] : value;

/** A vector of so many lanes. */
function vector<T>(width: number, of: (k: number) => T): T[] {
  const all = new Array<T>(width);
  for (let k = 0; k < width; k++) all[k] = of(k);
  return all;
}

/** Results of an operation, of a lane each. */
const eachLane = ({ width }: E, of: (k: number) => Scalar): Value =>
  width === 1 ? of(0) : vector(width, of);

function spread(value: Value, width: number): Value {
  return !Array.isArray(value) && width > 1 ? new Array<Scalar>(width).fill(value) : value;
}

/**
 * Runs a kernel.
 *
 * @param buffers What its inputs hold, and where its outputs go, by name.
 */
export function interpret(
  kernel: TileKernel,
  buffers: Readonly<Record<string, ArrayBuffer>>,
): Report {
  const run = new Interpreter(kernel, buffers);
  run.run();
  return run;
}
