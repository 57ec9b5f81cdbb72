/**
 * Statements of tile programs as WebAssembly: a table of operations, and a few instructions for each
 * statement. A work-item has a group alone; scalars of floats are vectors whose lanes are equal.
 *
 * It is long because it has one table of operations with the few instructions of each.
 *
 * This folder (`tile/`) imports the programs of `backend/tile`, `kernel/`, `blas/`, `script/`, `loops/`
 * and the assembler of `wasm/`. Attention and contractions with packed weights come from `kernel_runners.ts`.
 */
import type { DType } from "../../../graph/dtype.ts";
import type { PrimitiveName } from "../../../graph/primitives.ts";
import { elementOf, nameParts } from "../../../tile/language/elements.ts";
import {
  type E,
  int,
  kept,
  type Place,
  sub,
  withExpressions,
} from "../../../tile/language/expression.ts";
import {
  expressionsOf,
  type Fill,
  type Pack,
  PANEL_ROWS,
  type Statement,
  type Sums,
  type Terms,
  type TileKernel,
  type Transpose,
} from "../../../tile/language/statements.ts";
import { splitVectors } from "../../../tile/passes/splitting.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { randomKey, uniform } from "../functions/random.ts";
import { type ElementBytes, LaneAccess } from "../lanes.ts";
import { writeCast, writePrimitive } from "../loops/primitives.ts";
import { VectorMath } from "../math.ts";
import { f32x4, i32, i32x4, narrow, v128 } from "../opcodes.ts";
import type { EngineFeatures } from "../runtime.ts";
import { BlockWriter } from "./block_writer.ts";
import { type LoadGroup, loadGroups } from "./load_groups.ts";
import { PanelWriter, type TermSteps } from "./panel_writer.ts";
import { isShorts, ShortLanes } from "./short_lanes.ts";

/** Bytes of an element in memory. */
const elementBytes: Readonly<Record<string, ElementBytes>> = {
  float32: 4,
  float16: 2,
  bfloat16: 2,
  uint8: 1,
  int8: 1,
  int16: 2,
  uint32: 4,
  int32: 4,
  bool: 1,
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
  for (const { name, size, kind } of arrays) {
    begins.set(name, bytes);
    bytes += Math.ceil((elementBytes[elementOf(kind)]! * size + SLACK) / SLACK) * SLACK;
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
 * @param features What the engine has.
 */
export function tileModule(
  kernel: TileKernel,
  others: readonly string[],
  store: (argument: (name: string) => Local) => StoreResult,
  features: EngineFeatures,
): Uint8Array<ArrayBuffer> {
  return new TileModule(kernel, argumentNames(kernel, others), store, features).write();
}

/** Floats of a vector. */
const LANES = 4;

/** True for what changes between statements: registers, arrays, and what is made of them. */
const changes: (e: E) => boolean = kept(
  "changes",
  (e: E): boolean =>
    e.op === "register" || e.place !== null && e.place.space !== "global" || e.args.some(changes),
);

/** The body of a statement that runs where what `s` names does not hold. */
const otherwise = (s: Statement, next?: Statement): readonly Statement[] | undefined =>
  s.s === "if" && s.condition.op === "var" && next?.s === "if" && next.condition.op === "not" &&
    next.condition.args[0] === s.condition
    ? next.body
    : undefined;

class TileModule {
  readonly #f = new FunctionBuilder();
  readonly #math: VectorMath;
  readonly #lanes: LaneAccess;
  readonly #blocks: BlockWriter;
  readonly #shorts: ShortLanes;
  readonly #kernel: TileKernel;
  readonly #arguments: readonly string[];
  readonly #store: StoreResult;
  readonly #variables = new Map<string, Local>();
  /** Names of others and a constant, which addresses have in their instructions. */
  readonly #moved = new Map<E, E>();
  /** Names of conditions that are masks of lanes. */
  readonly #masks = new Set<string>();
  /** Addresses that were computed, in the scopes where they are there. */
  #addresses: Map<string, Local>[] = [];
  /** The arrays of this thread. */
  #scratch: Local | null = null;
  /** Values that were computed, in the scopes where they are there. */
  #known: Map<E, Local>[] = [];
  /** Loads that are computed with others. */
  readonly #groups = new Map<E, LoadGroup>();
  readonly #relaxed: boolean;
  readonly #hasPrivatePage: boolean;
  #needsPage = false;

  constructor(
    kernel: TileKernel,
    names: readonly string[],
    store: (argument: (name: string) => Local) => StoreResult,
    { relaxed, hasPrivatePages }: EngineFeatures,
  ) {
    this.#hasPrivatePage = hasPrivatePages;
    this.#kernel = kernel;
    this.#relaxed = relaxed;
    this.#arguments = names;
    this.#math = new VectorMath(this.#f, relaxed);
    this.#lanes = new LaneAccess(this.#f, this.#math);
    this.#blocks = new BlockWriter(this.#f);
    this.#shorts = new ShortLanes(
      this.#f,
      (e) => this.#value(e),
      ({ place, args }) => this.#address(place!, ...args),
    );
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
      withExpressions(() => this.#block(splitVectors(this.#kernel.body, LANES)));
    });
    return f.finish(this.#needsPage);
  }

  #argument(name: string): Local {
    const at = this.#arguments.indexOf(name);
    if (at < 0) throw new Error(`A tile kernel has no argument ${name}`);
    const f = this.#f;
    return f.once(name, () => f.loadNumber(i32.load, FunctionBuilder.parameters.args, 4 * at));
  }

  #block(body: readonly Statement[]): void {
    this.#scope(() => {
      for (const [load, group] of loadGroups(body)) this.#groups.set(load, group);
      for (let k = 0; k < body.length; k++) {
        const s = body[k]!, other = otherwise(s, body[k + 1]);
        this.#statement(s, other);
        if (other !== undefined) k++;
      }
    });
  }

  /** Values that are computed in it are not there behind it. */
  #scope(write: () => void): void {
    this.#known.push(new Map());
    this.#addresses.push(new Map());
    write();
    this.#known.pop();
    this.#addresses.pop();
  }

  #statement(s: Statement, otherwise?: readonly Statement[]): void {
    const f = this.#f;
    switch (s.s) {
      case "let":
        if (this.#isMask(s.value)) this.#masks.add(s.to.name);
        if (s.value.op === "+" && s.value.args[0]!.op === "var") this.#moved.set(s.to, s.value);
        this.#variables.set(s.to.name, this.#asItIs(s.value));
        return;
      case "set": {
        let register = this.#variables.get(s.to.name);
        if (register === undefined) this.#variables.set(s.to.name, register = f.vector());
        return f.assign(register, this.#value(s.value));
      }
      case "transpose":
        return this.#transpose(s);
      case "fill":
        return this.#fill(s);
      case "sums":
        return this.#sums(s);
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
        this.#placeBefore(s.body);
        return f.loop(f.integer(0), count, 1, (at) => {
          this.#variables.set(s.at.name, at);
          this.#block(s.body);
        });
      }
      case "if":
        return f.branch(
          this.#flag(s.condition),
          () => this.#block(s.body),
          otherwise && (() => this.#block(otherwise)),
        );
      default:
        throw new Error(`A work-item alone has no ${s.s}`);
    }
  }

  /** A value that does not change with the register that it may be. */
  #asItIs(e: E): Local {
    const value = this.#value(e), isRegister = e.op === "register" || e.op === "splat";
    return isRegister ? this.#f.copyVector(value) : value;
  }

  #value(e: E): Local {
    if (e.op === "var" || e.op === "register") return this.#variable(e);
    for (const scope of this.#known) {
      const known = scope.get(e);
      if (known !== undefined) return known;
    }
    const value = this.#computed(e);
    // Other floats are short-lived: naming them would cost more than it saves.
    const isKept = e.kind !== "float" || e.op === "load";
    if (isKept && !changes(e)) this.#known.at(-1)!.set(e, value);
    return value;
  }

  #variable({ name, kind }: E): Local {
    const known = this.#variables.get(name);
    if (known !== undefined || kind !== "float") return known ?? this.#argument(name);
    const f = this.#f, at = 4 * this.#arguments.indexOf(name);
    return f.once(name, () => f.load(v128.loadSplat, FunctionBuilder.parameters.args, at));
  }

  /** True for a condition of lanes, or of floats: all bits of a lane are set where it holds. */
  #isMask(e: E): boolean {
    if (e.kind !== "bool" || e.op === "any") return false;
    return e.width > 1 || e.op === "above" || e.op === "same" || this.#masks.has(e.name) ||
      e.args.some((a) => this.#isMask(a));
  }

  /** A condition as a mask of lanes. */
  #mask(e: E): Local {
    const f = this.#f, value = this.#value(e);
    if (this.#isMask(e) || e.width > 1) return value;
    return f.v(i32x4.ne, f.v(i32x4.splat, value), f.splat(0));
  }

  /** A condition as a number: 0 where it does not hold. */
  #flag(e: E): Local {
    return this.#isMask(e) ? this.#f.anyTrue(this.#value(e)) : this.#value(e);
  }

  #computed(e: E): Local {
    const together = this.#loadedTogether(e);
    if (together !== null) return together;
    if (isShorts(e)) return this.#shorts.computed(e);
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
      case "everySecond":
        return f.shuffle32(arg(0), arg(1), [0, 2, 4, 6].map((lane) => lane + e.value));
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
      case "or": {
        const { op } = e as { readonly op: "and" | "or" };
        if (!this.#isMask(e)) return f.i(i32[op], arg(0), arg(1));
        return f.v(v128[op], ...e.args.map((a) => this.#mask(a)));
      }
      case "not":
        return this.#isMask(e) ? f.v(v128.not, arg(0)) : f.i(i32.eq, arg(0), f.integer(0));
      case "any":
        return f.anyTrue(arg(0));
      case "above":
        return f.v(f32x4.gt, arg(0), arg(1));
      case "same":
        return f.v(f32x4.eq, arg(0), arg(1));
      case "larger":
        return f.v(f32x4.pmax, arg(0), arg(1));
      case "primitive": {
        const [fn, from, to] = nameParts(e) as [PrimitiveName, DType, DType];
        return writePrimitive(f, this.#math, fn, e.args.map((a) => this.#wide(a)), from, to);
      }
      case "cast": {
        const [from, to] = nameParts(e) as [DType, DType];
        return writeCast(f, this.#math, this.#wide(e.args[0]!), from, to);
      }
      case "random":
        return this.#random(e);
      case "quotient":
        return f.i(i32.divU, arg(0), arg(1));
      case "remainder":
        return f.i(i32.remU, arg(0), arg(1));
      case "sum":
        return e.width === 1
          ? this.#sum(e)
          : e.args.map((a, k) => this.#timesWide(this.#wide(a), e.factors[k]!))
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
          ? this.#less(e)
          : f.v(i32x4.ltS, this.#wide(e.args[0]!), this.#wide(e.args[1]!));
      case "?": {
        const [condition] = e.args as [E];
        if (e.width === 1 && e.kind !== "float") return f.choose(arg(0), arg(1), arg(2));
        const values = [1, 2].map((k) => this.#wide(e.args[k]!)) as [Local, Local];
        return f.v(v128.bitselect, ...values, this.#mask(condition));
      }
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
      case "dot":
        return f.v(i32x4.dot, arg(0), arg(1));
      case "nearest":
        return f.v(i32x4.truncate, f.v(f32x4.nearest, arg(0)));
      case "lane":
        if (e.kind !== "float") return f.laneOf(arg(0), e.value);
        return f.shuffle32(arg(0), arg(0), new Array<number>(4).fill(e.value));
      default:
        throw new Error(`WebAssembly has no instructions for ${e.op}`);
    }
  }

  /** A number in all lanes. */
  #wide(e: E): Local {
    const value = this.#value(e);
    if (e.width > 1 || e.kind === "float") return value;
    return e.op === "const" ? this.#f.splat(e.value) : this.#f.v(i32x4.splat, value);
  }

  /** A sum: what is taken away comes last. */
  #sum({ args, factors }: E): Local {
    const f = this.#f, order = [...args.keys()].sort((a, b) => factors[b]! - factors[a]!);
    return order.map((k) => ({ factor: factors[k]!, value: this.#value(args[k]!) }))
      .reduce<Local | null>((sum, { value, factor }) => {
        if (sum === null) return this.#times(value, factor);
        return f.i(factor < 0 ? i32.sub : i32.add, sum, this.#times(value, Math.abs(factor)));
      }, null)!;
  }

  #less({ args: [left, right] }: E): Local {
    const f = this.#f, [core, offset] = partsOf(left!);
    const isTaken = core.op === "sum" && core.factors.length === 1 && core.factors[0] === -1;
    return isTaken && isNumber(right!, 0)
      ? f.i(i32.ltS, f.integer(offset), this.#value(core.args[0]!))
      : f.i(i32.ltS, this.#value(left!), this.#value(right!));
  }

  #times(value: Local, factor: number): Local {
    if (factor === 1) return value;
    const shift = Math.log2(factor);
    return Number.isInteger(shift)
      ? this.#f.iWith(i32.shl, value, shift)
      : this.#f.iWith(i32.mul, value, factor);
  }

  #timesWide(value: Local, factor: number): Local {
    return factor === 1 ? value : this.#f.v(i32x4.mul, value, this.#f.splat(factor));
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
    const parts: E[] = [];
    let offset = 0;
    const move = (given: E): void => {
      const index = this.#moved.get(given) ?? given;
      if (index.op === "const") offset += bytes * index.value;
      else if (index.op === "+") index.args.forEach(move);
      else parts.push(index);
    };
    indices.forEach(move);
    const base = isLocal ? this.#scratch! : this.#argument(buffer);
    let key = isLocal ? "local" : buffer;
    const address = parts.reduce((before, index) => {
      key += ` ${index.id}/${bytes}`;
      for (const scope of this.#addresses) {
        const known = scope.get(key);
        if (known !== undefined) return known;
      }
      const moved = f.i(i32.add, before, this.#bytesOf(index, bytes));
      this.#addresses.at(-1)!.set(key, moved);
      return moved;
    }, base);
    if (isLocal) offset += scratchOf(this.#kernel).begins.get(buffer)!;
    // A constant is part of the instruction; it is not negative there.
    return offset < 0 ? [f.iWith(i32.add, address, offset), 0] : [address, offset];
  }

  /** An index in bytes. */
  #bytesOf(index: E, bytes: number): Local {
    if (index.op === "const") return this.#f.integer(bytes * index.value);
    const key = `${index.id}/${bytes}`;
    for (const scope of this.#addresses) {
      const known = scope.get(key);
      if (known !== undefined) return known;
    }
    const value = this.#times(this.#value(index), bytes);
    this.#addresses.at(-1)!.set(key, value);
    return value;
  }

  #put({ place, index, value }: Extract<Statement, { s: "store" }>): void {
    const f = this.#f, held = this.#value(value), [address, offset] = this.#address(place, index);
    const dtype = place.element as DType, bytes = elementBytes[dtype]!;
    if (isShorts(value)) f.store(v128.store64Lane, address, held, offset, 0);
    else if (value.width > 1) this.#lanes.storeFour(dtype, bytes, address, offset, held);
    else if (bytes === 4) f.store(v128.store32Lane, address, held, offset, 0);
    else this.#lanes.storeEach(dtype, bytes, [f.iWith(i32.add, address, offset)], held);
  }

  /** Computes before a loop where in memory the elements begin that it reads by an offset. */
  #placeBefore(body: readonly Statement[]): void {
    const visit = (e: E): void => {
      if (
        (e.op === "element" || e.op === "load") && e.args.length > 1 && this.#isReady(e.args[0]!)
      ) {
        this.#address(e.place!, e.args[0]!);
      } else e.args.forEach(visit);
    };
    for (const s of body) {
      expressionsOf(s).forEach(visit);
      if ("body" in s) this.#placeBefore(s.body);
    }
  }

  /** The address of an element. */
  #at(place: Place, ...indices: readonly E[]): Local {
    const [address, offset] = this.#address(place, ...indices);
    return offset === 0 ? address : this.#f.iWith(i32.add, address, offset);
  }

  /** The writer of a panel: those of a work-item are in the private page, where there is one. */
  #panelAt(panel: Place, index: E): PanelWriter {
    const isPrivate = panel.space !== "global" && this.#hasPrivatePage;
    this.#needsPage ||= isPrivate;
    return new PanelWriter(this.#f, this.#math, isPrivate ? null : this.#at(panel, index));
  }

  #terms(terms: Terms): TermSteps {
    if ("table" in terms) return { table: this.#at(terms.table, terms.at) };
    const f = this.#f, { step } = terms;
    if (step.op === "const") return { step: this.#bytesOf(step, 4) };
    // Four times a step, by what engines do not join with an addition: one that shifts, too, takes a sixth more time.
    const bytes = (): Local => f.iWith(i32.and, f.iWith(i32.rotl, this.#value(step), 2), -4);
    const isArgument = step.op === "var" && this.#arguments.includes(step.name);
    return { step: isArgument ? f.once(`bytes of ${step.name}`, bytes) : bytes() };
  }

  #fill({ panel, index, from, rows, terms, count }: Fill): void {
    const apart = (r: number): E => sub(rows[r]!, rows[0]!);
    const areSideBySide = rows.every((_, r) => isNumber(apart(r), r));
    const hasStep = (step: number): boolean => "step" in terms && isNumber(terms.step, step);
    this.#panelAt(panel, index).fill({
      rows: rows.map((row) => this.#at(from, row)),
      areSideBySide,
      terms: this.#terms(terms),
      areInFours: hasStep(1) || "table" in terms && terms.areInFours === true,
      isPanel: areSideBySide && hasStep(PANEL_ROWS),
      count: this.#value(count),
    });
  }

  #sums({ to, panel, right, at, terms, count, unrolled }: Sums): void {
    const sums = to.map((row) => row.map((sum) => this.#value(sum)));
    const columns = { at: this.#at(right, at), terms: this.#terms(terms) };
    this.#panelAt(panel, int(0)).multiply(sums, columns, this.#value(count), unrolled);
  }

  #transpose({ from, at, step, to, index, pitch, there }: Transpose): void {
    if (there) throw new Error("WebAssembly transposes whole squares");
    const [rowBytes, columnBytes] = [step, pitch].map((e) => this.#bytesOf(e, 4));
    const [source, target] = [this.#at(from, at), this.#at(to, index)];
    const apart = { rowBytes: rowBytes!, columnBytes: columnBytes! };
    this.#blocks.transpose({ from: source, to: target, ...apart });
  }

  /** Random numbers: of the lanes of an index, or the same in all lanes. */
  #random({ args: [index, seed, stream, step], width }: E): Local {
    const f = this.#f, first = this.#wide(index!);
    const key = randomKey(
      f,
      ...[seed!, stream!].map(({ name }) => 4 * this.#arguments.indexOf(name)) as [number, number],
    );
    if (width === 1) return uniform(f, first, key);
    const apart = f.v(i32x4.mul, f.lanes([0, 1, 2, 3]), this.#wide(step!));
    return uniform(f, f.v(i32x4.add, first, apart), key);
  }

  /** A row that may be outside of an image is packed by code of its own for each case: ends are constants then. */
  #pack(s: Pack): void {
    if (s.high.op !== "?") return this.#packRow(s);
    const [condition, inside, outside] = s.high.args;
    const packed = (high: E) => (): void => this.#scope(() => this.#packRow({ ...s, high }));
    this.#f.branch(this.#value(condition!), packed(inside!), packed(outside!));
  }

  /** A number from `least` to `most`. */
  #within(e: E, least: number, most: number): Local {
    const f = this.#f;
    if (e.op === "const") return f.integer(Math.max(least, Math.min(e.value, most)));
    return f.larger(f.smaller(this.#value(e), f.integer(most)), f.integer(least));
  }

  #packRow({ place, index, from, at, count, parts, apart, low, high }: Pack): void {
    const isPlain = isNumber(apart, 1);
    if (parts > 2 || !isPlain) throw new Error("WebAssembly packs neighbours in one or two parts");
    const f = this.#f, to = this.#at(place, index), first = this.#within(low, 0, count * parts);
    const end = high === low ? first : f.larger(this.#within(high, 0, count * parts), first);
    const source = f.i(i32.add, this.#at(from, at), f.iWith(i32.shl, first, 2));
    this.#blocks.pack({ to, source, first, end, count, parts });
  }

  /** A load with the others of its group, where there is one whose places are known; or null. */
  #loadedTogether(e: E): Local | null {
    const group = this.#groups.get(e);
    if (!group?.loads.every(({ args }) => args.every((at) => this.#isReady(at)))) return null;
    this.#loadTogether(group);
    return this.#known.at(-1)!.get(e)!;
  }

  #load(e: E): Local {
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
        const [address, offset] = this.#address(load.place!, ...load.args);
        return offset ? f.iWith(i32.add, address, offset) : address;
      });
      const all = this.#lanes.loadEach("float16", 2, addresses);
      loads.forEach((load, k) => known.set(load, f.shuffle32(all, all, [k, k, k, k])));
      return;
    }
    const [address, offset] = this.#address(first.place!, ...first.args);
    const isSigned = first.place!.element === "int8";
    const all = f.load(v128.load, address, offset);
    if (kind === "shorts") {
      const halves = isSigned ? signedHalves : halvesOfBytes;
      return loads.forEach((load, k) => known.set(load, f.v(halves[k]!, all)));
    }
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

/** The first and the last eight bytes of a vector as numbers of 16 bits. */
const halvesOfBytes = [narrow.bytesToShorts, narrow.lastBytesToShorts];
const signedHalves = [narrow.signedToShorts, narrow.lastSignedToShorts];

/** A number without a constant, and that. */
const partsOf = (e: E): readonly [core: E, offset: number] =>
  e.op === "+" ? [e.args[0]!, e.args[1]!.value] : [e, 0];

const isNumber = ({ op, value }: E, number: number): boolean => op === "const" && value === number;
