/**
 * Statements of tile programs as WebAssembly: a table of operations, and a few instructions for each
 * statement. A work-item has a group alone; scalars of floats are vectors whose lanes are equal.
 *
 * It is long because it has one table of operations with the few instructions of each.
 *
 * This folder (`tile/`) imports the programs of `backend/tile`, `kernel/`, `blas/`, `script/` and the
 * assembler of `wasm/`. Contractions with packed weights come from `kernel_runners.ts`.
 */
import type { DType } from "../../../graph/dtype.ts";
import type { E, Place } from "../../../tile/language/expression.ts";
import type { Pack, Statement, TileKernel } from "../../../tile/language/statements.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { type ElementBytes, LaneAccess } from "../lanes.ts";
import { VectorMath } from "../math.ts";
import { f32x4, i32, i32x4, v128 } from "../opcodes.ts";
import { type LoadGroup, loadGroups } from "./load_groups.ts";

/** Bytes of an element in memory. */
const elementBytes: Readonly<Record<string, ElementBytes>> = {
  float32: 4,
  float16: 2,
  bfloat16: 2,
  uint8: 1,
  int8: 1,
  uint32: 4,
};

/**
 * Stores a result, whose coordinates are numbers: of a value the first lane, or all of a vector.
 *
 * @param known Those coordinates that are constants; null for others.
 */
export type StoreResult = (
  f: FunctionBuilder,
  at: readonly Local[],
  value: Local,
  known: readonly (number | null)[],
) => void;

/** The argument that is the address of the arrays of all threads. */
export const SCRATCH = "scratch";
/** Bytes behind an array that the last vector of a row may reach. */
const SLACK = 64;

/** Bytes of a thread's arrays, and where each begins. */
export function scratchOf({ arrays }: TileKernel): { bytes: number; begins: Map<string, number> } {
  const begins = new Map<string, number>();
  let bytes = 0;
  for (const { name, size } of arrays) {
    begins.set(name, bytes);
    bytes += Math.ceil((4 * size + SLACK) / SLACK) * SLACK;
  }
  return { bytes, begins };
}

/** The names of a kernel's arguments in their order: addresses of its inputs, then `others`, then sizes. */
export function argumentNames({ inputs, sizes }: TileKernel, others: readonly string[]): string[] {
  return [...inputs.map(({ name }) => name), ...others, ...sizes.map(({ name }) => name)];
}

/**
 * The module of a kernel; it runs a range of groups.
 *
 * @param others Arguments that only `store` reads, by {@linkcode TileModule.argument}.
 * @param relaxed Whether the engine has relaxed SIMD.
 */
export function tileModule(
  kernel: TileKernel,
  others: readonly string[],
  store: (argument: (name: string) => Local) => StoreResult,
  relaxed: boolean,
): Uint8Array<ArrayBuffer> {
  return new TileModule(kernel, argumentNames(kernel, others), store, relaxed).write();
}

class TileModule {
  readonly #f = new FunctionBuilder();
  readonly #math: VectorMath;
  readonly #lanes: LaneAccess;
  readonly #kernel: TileKernel;
  readonly #arguments: readonly string[];
  readonly #store: StoreResult;
  readonly #variables = new Map<string, Local>();
  /** The arrays of this thread. */
  #scratch: Local | null = null;
  /** Values that were computed, in the scopes where they are there. */
  #known: Map<E, Local>[] = [];
  /** Loads that are computed with others. */
  readonly #groups = new Map<E, LoadGroup>();
  readonly #relaxed: boolean;

  constructor(
    kernel: TileKernel,
    names: readonly string[],
    store: (argument: (name: string) => Local) => StoreResult,
    relaxed: boolean,
  ) {
    this.#kernel = kernel;
    this.#relaxed = relaxed;
    this.#arguments = names;
    this.#math = new VectorMath(this.#f, relaxed);
    this.#lanes = new LaneAccess(this.#f, this.#math);
    this.#store = store((name) => this.#argument(name));
  }

  write(): Uint8Array<ArrayBuffer> {
    const f = this.#f,
      { begin, end } = FunctionBuilder.parameters,
      { bytes } = scratchOf(this.#kernel);
    if (bytes > 0) {
      const before = f.i(i32.mul, FunctionBuilder.parameters.thread, f.integer(bytes));
      this.#scratch = f.i(i32.add, this.#argument(SCRATCH), before);
    }
    f.loop(begin, end, 1, (group) => {
      this.#variables.set("group", group);
      this.#block(this.#kernel.body);
    });
    return f.finish();
  }

  #argument(name: string): Local {
    const at = this.#arguments.indexOf(name);
    if (at < 0) throw new Error(`A tile kernel has no argument ${name}`);
    const f = this.#f;
    return f.once(name, () => f.loadNumber(i32.load, FunctionBuilder.parameters.args, 4 * at));
  }

  #block(body: readonly Statement[]): void {
    this.#known.push(new Map());
    for (const [load, group] of loadGroups(body)) this.#groups.set(load, group);
    for (const s of body) this.#statement(s);
    this.#known.pop();
  }

  #statement(s: Statement): void {
    const f = this.#f;
    switch (s.s) {
      case "let":
        this.#variables.set(s.to.name, this.#value(s.value));
        return;
      case "set": {
        let register = this.#variables.get(s.to.name);
        if (register === undefined) this.#variables.set(s.to.name, register = f.vector());
        return f.assign(register, this.#value(s.value));
      }
      case "store":
        return this.#put(s);
      case "pack":
        return this.#pack(s);
      case "reload":
        return;
      case "result":
        return this.#store(
          f,
          s.at.map((e) => this.#value(e)),
          this.#value(s.value),
          s.at.map((e) => e.op === "const" ? e.value : null),
        );
      case "for": {
        const count = this.#value(s.count);
        return f.loop(f.integer(0), count, 1, (at) => {
          this.#variables.set(s.at.name, at);
          this.#block(s.body);
        });
      }
      case "if":
        return f.branch(this.#value(s.condition), () => this.#block(s.body));
      default:
        throw new Error(`A work-item alone has no ${s.s}`);
    }
  }

  #value(e: E): Local {
    if (e.op === "var" || e.op === "register") return this.#variable(e.name);
    for (const scope of this.#known) {
      const known = scope.get(e);
      if (known !== undefined) return known;
    }
    const value = this.#computed(e);
    // Registers and arrays change.
    const isFixed = e.kind !== "float" || e.op === "load" && e.place!.space === "global";
    if (isFixed) this.#known.at(-1)!.set(e, value);
    return value;
  }

  #variable(name: string): Local {
    return this.#variables.get(name) ?? this.#argument(name);
  }

  #computed(e: E): Local {
    const f = this.#f, arg = (k: number): Local => this.#value(e.args[k]!);
    switch (e.op) {
      case "const":
        return e.kind === "float" ? f.float(e.value) : f.integer(e.value);
      case "load":
      case "element":
        return this.#load(e);
      case "loadPart": {
        const all = this.#lanes.loadFour("float32", 4, ...this.#address(e.place!, e.args[0]!));
        return f.v(v128.and, all, f.v(i32x4.ltS, f.lanes([0, 1, 2, 3]), this.#wide(e.args[1]!)));
      }
      case "lanes":
        return f.lanes([0, 1, 2, 3]);
      case "splat":
        return arg(0);
      case "lanesFrom": {
        const lanes = [0, 1, 2, 3].map((k) => Math.min(k + e.value, 4));
        return f.shuffle32(arg(0), f.splat(0), lanes);
      }
      case "laneSum": {
        const halves = f.v(f32x4.add, arg(0), f.shuffle32(arg(0), arg(0), [2, 3, 0, 1]));
        return f.v(f32x4.add, halves, f.shuffle32(halves, halves, [1, 0, 3, 2]));
      }
      case "within":
        return f.i(i32.ltU, arg(0), arg(1));
      case "and":
        return f.i(i32.and, arg(0), arg(1));
      case "not":
        return f.i(i32.eq, arg(0), f.integer(0));
      case "sum":
        return e.width === 1
          ? e.args.map((a, k) => this.#times(this.#value(a), e.factors[k]!))
            .reduce((a, b) => f.i(i32.add, a, b))
          : e.args.map((a, k) => f.v(i32x4.mul, this.#wide(a), f.splat(e.factors[k]!)))
            .reduce((a, b) => f.v(i32x4.add, a, b));
      case "product":
        return e.args.map((a) => this.#value(a)).reduce((a, b) => f.i(i32.mul, a, b));
      case "+":
        return e.width === 1
          ? f.iWith(i32.add, arg(0), e.args[1]!.value)
          : f.v(i32x4.add, this.#wide(e.args[0]!), this.#wide(e.args[1]!));
      case "/":
        return this.#shifted(e, Math.log2(e.args[1]!.value));
      case "%":
        if (!Number.isInteger(Math.log2(e.args[1]!.value))) return f.i(i32.remU, arg(0), arg(1));
        return e.width === 1
          ? f.iWith(i32.and, arg(0), e.args[1]!.value - 1)
          : f.v(v128.and, arg(0), f.splat(e.args[1]!.value - 1));
      case "words":
        return f.iWith(i32.and, f.i(i32.shrU, arg(0), arg(1)), e.value);
      case ">>":
        return f.i(i32.shrU, arg(0), arg(1));
      case "bit":
        return this.#bit(e);
      case "laneBits": {
        const word = f.v(i32x4.splat, f.i(i32.shrU, arg(0), arg(1)));
        const bits = f.v(v128.and, word, f.lanes([1, 2, 4, 8]));
        return f.v(v128.and, f.v(i32x4.ne, bits, f.splat(0)), f.splat(1));
      }
      case "min":
        return f.smaller(arg(0), arg(1));
      case "<":
        return e.width === 1
          ? f.i(i32.ltS, arg(0), arg(1))
          : f.v(i32x4.ltS, this.#wide(e.args[0]!), this.#wide(e.args[1]!));
      case "?":
        return e.width === 1
          ? f.choose(arg(0), arg(1), arg(2))
          : f.v(v128.bitselect, this.#wide(e.args[1]!), this.#wide(e.args[2]!), arg(0));
      case "signed":
        return f.iWith(i32.shrS, f.iWith(i32.shl, arg(0), 24), 24);
      case "float":
        return f.v(f32x4.convert, this.#wide(e.args[0]!));
      case "fromHalf":
        return this.#math.fromFloat16(this.#wide(e.args[0]!));
      case "fadd":
        return f.v(f32x4.add, arg(0), arg(1));
      case "fmul":
        return f.v(f32x4.mul, arg(0), arg(1));
      case "fma":
        return this.#math.madd(arg(0), arg(1), arg(2));
      case "lane":
        return f.shuffle32(arg(0), arg(0), new Array<number>(4).fill(e.value));
      default:
        throw new Error(`WebAssembly has no instructions for ${e.op}`);
    }
  }

  /** A whole number in all lanes. */
  #wide(e: E): Local {
    const value = this.#value(e);
    if (e.width > 1) return value;
    return e.op === "const" ? this.#f.splat(e.value) : this.#f.v(i32x4.splat, value);
  }

  #times(value: Local, factor: number): Local {
    if (factor === 1) return value;
    const shift = Math.log2(factor);
    return Number.isInteger(shift)
      ? this.#f.iWith(i32.shl, value, shift)
      : this.#f.iWith(i32.mul, value, factor);
  }

  #shifted(e: E, by: number): Local {
    const a = this.#value(e.args[0]!);
    if (!Number.isInteger(by)) return this.#f.i(i32.divU, a, this.#value(e.args[1]!));
    return e.width === 1 ? this.#f.iWith(i32.shrU, a, by) : this.#f.shift(i32x4.shrU, a, by);
  }

  #bit(e: E): Local {
    const f = this.#f, [a, index] = e.args.map((x) => this.#value(x)) as [Local, Local];
    if (e.width === 1) return f.iWith(i32.and, f.i(i32.shrU, a, index), 1);
    const mask = f.v(i32x4.splat, f.i(i32.shl, f.integer(1), index));
    return f.v(v128.and, f.v(i32x4.ne, f.v(v128.and, a, mask), f.splat(0)), f.splat(1));
  }

  /** The address of an element: what is constant of it is part of the instruction. */
  #address(
    { space, buffer, element }: Place,
    ...indices: readonly E[]
  ): readonly [address: Local, offset: number] {
    const f = this.#f, bytes = elementBytes[element]!;
    const isLocal = space === "local" || space === "private";
    let address = isLocal ? this.#scratch! : this.#argument(buffer), offset = 0;
    const move = (index: E): void => {
      if (index.op === "const") return void (offset += bytes * index.value);
      if (index.op === "+") return index.args.forEach(move);
      address = f.i(i32.add, address, this.#times(this.#value(index), bytes));
    };
    indices.forEach(move);
    if (isLocal) offset += scratchOf(this.#kernel).begins.get(buffer)!;
    // A constant is part of the instruction; it is not negative there.
    return offset < 0 ? [f.iWith(i32.add, address, offset), 0] : [address, offset];
  }

  #put({ place, index, value }: Extract<Statement, { s: "store" }>): void {
    const f = this.#f, held = this.#value(value), [address, offset] = this.#address(place, index);
    if (value.width > 1) f.store(v128.store, address, held, offset);
    else f.store(v128.store32Lane, address, held, offset, 0);
  }

  /** A row that may be outside of an image is packed by code of its own for each case: ends are constants then. */
  #pack(s: Pack): void {
    if (s.high.op !== "?") return this.#packRow(s);
    const [condition, inside, outside] = s.high.args;
    const packed = (high: E) => (): void => {
      this.#known.push(new Map());
      this.#packRow({ ...s, high });
      this.#known.pop();
    };
    this.#f.branch(this.#value(condition!), packed(inside!), packed(outside!));
  }

  /** A number from `least` to `most`. */
  #within(e: E, least: number, most: number): Local {
    const f = this.#f;
    if (e.op === "const") return f.integer(Math.max(least, Math.min(e.value, most)));
    return f.larger(f.smaller(this.#value(e), f.integer(most)), f.integer(least));
  }

  /** Zeros, the elements that there are, and zeros over what their last vector has beyond them. */
  #packRow({ place, index, from, at, count, parts, apart, low, high }: Pack): void {
    const isPlain = apart.op === "const" && apart.value === 1;
    if (parts > 2 || !isPlain) throw new Error("WebAssembly packs neighbours in one or two parts");
    const f = this.#f, [start, offset] = this.#address(place, index);
    const to = f.iWith(i32.add, start, offset), bytes = 4 * count;
    const first = this.#within(low, 0, count * parts);
    const end = high === low ? first : f.larger(this.#within(high, 0, count * parts), first);
    const [address, moved] = this.#address(from, at);
    const source = f.i(i32.add, f.iWith(i32.add, address, moved), f.iWith(i32.shl, first, 2));
    // Elements `first` to `end` of every `parts`-th from `part` on.
    const places = Array.from({ length: parts }, (_, part) => {
      const row = f.iWith(i32.add, to, bytes * part);
      const placeOf = (n: Local): Local => {
        const before = parts === 1 ? n : f.iWith(i32.shrU, f.iWith(i32.add, n, 1 - part), 1);
        return f.i(i32.add, row, f.iWith(i32.shl, before, 2));
      };
      return { row, begin: placeOf(first), end: placeOf(end), next: f.iWith(i32.add, row, bytes) };
    });
    for (const { row, begin } of places) {
      this.#vectors(row, begin, (at) => f.store(v128.store, at, f.splat(0)));
    }
    if (parts === 1) this.#copy(source, places[0]!.begin, places[0]!.end);
    else {
      const [even, odd] = places as [typeof places[0], typeof places[0]];
      f.branch(
        f.iWith(i32.and, first, 1),
        () => this.#halve(source, odd.begin, odd.end, even.begin),
        () => this.#halve(source, even.begin, even.end, odd.begin),
      );
    }
    for (const { end, next } of places) this.#clear(end, next);
  }

  #copy(source: Local, begin: Local, end: Local): void {
    const f = this.#f, from = f.copy(source);
    this.#vectors(begin, end, (at) => {
      f.store(v128.store, at, f.load(v128.load, from));
      f.step(from, 16);
    });
  }

  /** Every second element from the first on, and the others. */
  #halve(source: Local, begin: Local, end: Local, others: Local): void {
    const f = this.#f, from = f.copy(source), next = f.copy(others);
    this.#vectors(begin, end, (at) => {
      const [a, b] = [f.load(v128.load, from), f.load(v128.load, from, 16)];
      f.store(v128.store, at, f.shuffle32(a, b, [0, 2, 4, 6]));
      f.store(v128.store, next, f.shuffle32(a, b, [1, 3, 5, 7]));
      f.step(next, 16);
      f.step(from, 32);
    });
  }

  /** Zeros: the last vector ends with them where they fill one, since a row's other part may follow. */
  #clear(begin: Local, end: Local): void {
    const f = this.#f, last = f.iWith(i32.add, end, -16);
    this.#vectors(begin, last, (at) => f.store(v128.store, at, f.splat(0)));
    f.branch(
      f.i(i32.ltU, begin, end),
      () => f.store(v128.store, f.larger(begin, last), f.splat(0)),
    );
  }

  #vectors(begin: Local, end: Local, body: (at: Local) => void): void {
    const f = this.#f, at = f.copy(begin);
    f.whileLess(at, end, () => {
      body(at);
      f.step(at, 16);
    }, i32.ltU);
  }

  #load(e: E): Local {
    const group = this.#groups.get(e);
    if (group?.loads.every(({ args }) => this.#isReady(args[0]!))) {
      this.#loadTogether(group);
      return this.#known.at(-1)!.get(e)!;
    }
    const { place, args, width, kind } = e;
    const f = this.#f, { element } = place!, bytes = elementBytes[element]!;
    const [address, offset] = this.#address(place!, ...args);
    if (kind === "float") {
      return width === 1
        ? this.#lanes.loadAll(element as DType, bytes, address, offset)
        : this.#lanes.loadFour(element as DType, bytes, address, offset);
    }
    if (width === 1) {
      return f.loadNumber(bytes === 1 ? i32.loadByte : i32.load, address, offset);
    }
    const lanes = this.#lanes.loadFour("uint8", bytes, address, offset);
    return element === "int8" ? f.shift(i32x4.shrS, f.shift(i32x4.shl, lanes, 24), 24) : lanes;
  }

  /** True when all variables of an index have values. */
  #isReady(e: E): boolean {
    return e.op === "var"
      ? this.#variables.has(e.name) || this.#arguments.includes(e.name)
      : e.args.every((arg) => this.#isReady(arg));
  }

  /** Loads a group: its members are known from then on. */
  #loadTogether({ kind, loads }: LoadGroup): void {
    const f = this.#f, known = this.#known.at(-1)!, [first] = loads as readonly [E];
    if (kind === "halves") {
      const addresses = loads.map((load) => {
        const [address, offset] = this.#address(load.place!, load.args[0]!);
        return offset ? f.iWith(i32.add, address, offset) : address;
      });
      const all = this.#lanes.loadEach("float16", 2, addresses);
      loads.forEach((load, k) => known.set(load, f.shuffle32(all, all, [k, k, k, k])));
      return;
    }
    const [address, offset] = this.#address(first.place!, first.args[0]!);
    const isSigned = first.place!.element === "int8";
    const all = f.load(v128.load, address, offset);
    const swizzle = this.#relaxed ? v128.relaxedSwizzle : v128.swizzle;
    loads.forEach((load, k) => {
      // Other bytes of a lane are zeros; signed ones come from above.
      const bits = [0, 1, 2, 3].map((lane) =>
        isSigned ? (4 * k + lane) << 24 | 0x808080 : 0x80808000 | 4 * k + lane
      );
      const lanes = f.v(swizzle, all, f.lanes(bits));
      known.set(load, isSigned ? f.shift(i32x4.shrS, lanes, 24) : lanes);
    });
  }
}
