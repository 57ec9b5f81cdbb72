/**
 * Values of tile programs as WebAssembly: expressions become locals, each computed once in the scope that needs it,
 * and places become addresses.
 */
import type { DType } from "../../../graph/dtype.ts";
import { elementOf } from "../../../tile/language/elements.ts";
import { type E, kept, type Place } from "../../../tile/language/expression.ts";
import {
  expressionsOf,
  type Statement,
  type TileKernel,
} from "../../../tile/language/statements.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { type ElementBytes, LaneAccess } from "../lanes.ts";
import { VectorMath } from "../math.ts";
import { i32, i32x4, narrow, v128 } from "../opcodes.ts";
import { type LoadGroup, loadGroups } from "./load_groups.ts";
import { isShorts, ShortLanes } from "./short_lanes.ts";
import { operations, type Values } from "./tile_operations.ts";

/** Bytes of an element in memory. */
export const elementBytes: Readonly<Record<string, ElementBytes>> = {
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

/** True for what changes between statements: registers, arrays, and what is made of them. */
const changes: (e: E) => boolean = kept(
  "changes",
  (e: E): boolean =>
    e.op === "register" || e.place !== null && e.place.space !== "global" || e.args.some(changes),
);

/** Writer of the values of a kernel. */
export class TileValues implements Values {
  readonly f: FunctionBuilder;
  readonly math: VectorMath;
  readonly lanes: LaneAccess;
  readonly #shorts: ShortLanes;
  readonly #kernel: TileKernel;
  readonly #arguments: readonly string[];
  readonly #relaxed: boolean;
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

  /**
   * @param names The names of the kernel's arguments in their order.
   * @param relaxed True where the engine has relaxed instructions.
   */
  constructor(f: FunctionBuilder, kernel: TileKernel, names: readonly string[], relaxed: boolean) {
    this.f = f;
    this.#kernel = kernel;
    this.#arguments = names;
    this.#relaxed = relaxed;
    this.math = new VectorMath(f, relaxed);
    this.lanes = new LaneAccess(f, this.math);
    this.#shorts = new ShortLanes(
      f,
      (e) => this.value(e),
      ({ place, args }) => this.address(place!, ...args),
    );
  }

  /** Computes where this thread's arrays begin. */
  placeScratch(): void {
    const { bytes } = scratchOf(this.#kernel), f = this.f;
    if (bytes === 0) return;
    const before = f.i(i32.mul, FunctionBuilder.parameters.thread, f.integer(bytes));
    this.#scratch = f.i(i32.add, this.argument(SCRATCH), before);
  }

  /** An argument of the kernel. */
  argument(name: string): Local {
    const at = this.#arguments.indexOf(name);
    if (at < 0) throw new Error(`A tile kernel has no argument ${name}`);
    const f = this.f;
    return f.once(name, () => f.loadNumber(i32.load, FunctionBuilder.parameters.args, 4 * at));
  }

  /** True for the name of an argument. */
  isArgument(name: string): boolean {
    return this.#arguments.includes(name);
  }

  /** The place of an argument among them all, in bytes. */
  argumentAt({ name }: E): number {
    return 4 * this.#arguments.indexOf(name);
  }

  /** Writes some statements in a scope, in which loads may be joined. */
  block(body: readonly Statement[], write: () => void): void {
    this.scope(() => {
      for (const [load, group] of loadGroups(body)) this.#groups.set(load, group);
      write();
    });
  }

  /** Writes in a scope: values that are computed in it are not there behind it. */
  scope(write: () => void): void {
    this.#known.push(new Map());
    this.#addresses.push(new Map());
    write();
    this.#known.pop();
    this.#addresses.pop();
  }

  /** Names a value. */
  name(to: E, value: E): void {
    if (this.isMask(value)) this.#masks.add(to.name);
    if (value.op === "+" && value.args[0]!.op === "var") this.#moved.set(to, value);
    this.set(to.name, this.#asItIs(value));
  }

  /** The local of a register, which is made where it is set first. */
  register(name: string): Local {
    let register = this.#variables.get(name);
    if (register === undefined) this.set(name, register = this.f.vector());
    return register;
  }

  /** Gives a variable its local. */
  set(name: string, local: Local): void {
    this.#variables.set(name, local);
  }

  /** A value that does not change with the register that it may be. */
  #asItIs(e: E): Local {
    const value = this.value(e), isRegister = e.op === "register" || e.op === "splat";
    return isRegister ? this.f.copyVector(value) : value;
  }

  /** The local of a value: it is computed where it is not known. */
  value(e: E): Local {
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
    if (known !== undefined || kind !== "float") return known ?? this.argument(name);
    const f = this.f, at = 4 * this.#arguments.indexOf(name);
    return f.once(name, () => f.load(v128.loadSplat, FunctionBuilder.parameters.args, at));
  }

  /** True for a condition of lanes, or of floats: all bits of a lane are set where it holds. */
  isMask(e: E): boolean {
    if (e.kind !== "bool" || e.op === "any") return false;
    return e.width > 1 || e.op === "above" || e.op === "same" || this.#masks.has(e.name) ||
      e.args.some((a) => this.isMask(a));
  }

  /** A condition as a mask of lanes. */
  mask(e: E): Local {
    const f = this.f, value = this.value(e);
    if (this.isMask(e) || e.width > 1) return value;
    return f.v(i32x4.ne, f.v(i32x4.splat, value), f.splat(0));
  }

  /** A condition as a number: 0 where it does not hold. */
  flag(e: E): Local {
    return this.isMask(e) ? this.f.anyTrue(this.value(e)) : this.value(e);
  }

  #computed(e: E): Local {
    const together = this.#loadedTogether(e);
    if (together !== null) return together;
    if (isShorts(e)) return this.#shorts.computed(e);
    if (e.op === "load" || e.op === "element") return this.#load(e);
    const operation = operations[e.op];
    if (operation === undefined) throw new Error(`WebAssembly has no instructions for ${e.op}`);
    return operation(this, e);
  }

  /** A number in all lanes. */
  wide(e: E): Local {
    const value = this.value(e);
    if (e.width > 1 || e.kind === "float") return value;
    return e.op === "const" ? this.f.splat(e.value) : this.f.v(i32x4.splat, value);
  }

  /** A number times a constant. */
  times(value: Local, factor: number): Local {
    if (factor === 1) return value;
    const shift = Math.log2(factor);
    return Number.isInteger(shift)
      ? this.f.iWith(i32.shl, value, shift)
      : this.f.iWith(i32.mul, value, factor);
  }

  /** The address of an element: what is constant of it is part of the instruction. */
  address(
    { space, buffer, element }: Place,
    ...indices: readonly E[]
  ): readonly [address: Local, offset: number] {
    const f = this.f, bytes = elementBytes[element]!;
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
    const base = isLocal ? this.#scratch! : this.argument(buffer);
    let key = isLocal ? "local" : buffer;
    const address = parts.reduce((before, index) => {
      key += ` ${index.id}/${bytes}`;
      for (const scope of this.#addresses) {
        const known = scope.get(key);
        if (known !== undefined) return known;
      }
      const moved = f.i(i32.add, before, this.bytesOf(index, bytes));
      this.#addresses.at(-1)!.set(key, moved);
      return moved;
    }, base);
    if (isLocal) offset += scratchOf(this.#kernel).begins.get(buffer)!;
    // A constant is part of the instruction; it is not negative there.
    return offset < 0 ? [f.iWith(i32.add, address, offset), 0] : [address, offset];
  }

  /** An index in bytes. */
  bytesOf(index: E, bytes: number): Local {
    if (index.op === "const") return this.f.integer(bytes * index.value);
    const key = `${index.id}/${bytes}`;
    for (const scope of this.#addresses) {
      const known = scope.get(key);
      if (known !== undefined) return known;
    }
    const value = this.times(this.value(index), bytes);
    this.#addresses.at(-1)!.set(key, value);
    return value;
  }

  /** The address of an element. */
  at(place: Place, ...indices: readonly E[]): Local {
    const [address, offset] = this.address(place, ...indices);
    return offset === 0 ? address : this.f.iWith(i32.add, address, offset);
  }

  /** Computes before a loop where in memory the elements begin that it reads by an offset. */
  placeBefore(body: readonly Statement[]): void {
    const visit = (e: E): void => {
      if (
        (e.op === "element" || e.op === "load") && e.args.length > 1 && this.isReady(e.args[0]!)
      ) {
        this.address(e.place!, e.args[0]!);
      } else e.args.forEach(visit);
    };
    for (const s of body) {
      expressionsOf(s).forEach(visit);
      if ("body" in s) this.placeBefore(s.body);
    }
  }

  /** A load with the others of its group, where there is one whose places are known; or null. */
  #loadedTogether(e: E): Local | null {
    const group = this.#groups.get(e);
    if (!group?.loads.every(({ args }) => args.every((at) => this.isReady(at)))) return null;
    this.#loadTogether(group);
    return this.#known.at(-1)!.get(e)!;
  }

  #load(e: E): Local {
    const { place, args, width, kind } = e;
    const f = this.f, { element } = place!, bytes = elementBytes[element]!;
    const [address, offset] = this.address(place!, ...args);
    if (kind === "float") {
      return width === 1
        ? this.lanes.loadAll(element as DType, bytes, address, offset)
        : this.lanes.loadFour(element as DType, bytes, address, offset);
    }
    if (width === 1) {
      return f.loadNumber(bytes === 1 ? i32.loadByte : i32.load, address, offset);
    }
    const lanes = this.lanes.loadFour("uint8", bytes, address, offset);
    return element === "int8" ? f.shift(i32x4.shrS, f.shift(i32x4.shl, lanes, 24), 24) : lanes;
  }

  /** True when all variables of an index have values. */
  isReady(e: E): boolean {
    return e.op === "var"
      ? this.#variables.has(e.name) || this.#arguments.includes(e.name)
      : e.args.every((arg) => this.isReady(arg));
  }

  /** Loads a group: its members are known from then on. */
  #loadTogether({ kind, loads }: LoadGroup): void {
    const f = this.f, known = this.#known.at(-1)!, [first] = loads as readonly [E];
    if (kind === "halves") {
      const addresses = loads.map((load) => {
        const [address, offset] = this.address(load.place!, ...load.args);
        return offset ? f.iWith(i32.add, address, offset) : address;
      });
      const all = this.lanes.loadEach("float16", 2, addresses);
      loads.forEach((load, k) => known.set(load, f.shuffle32(all, all, [k, k, k, k])));
      return;
    }
    const [address, offset] = this.address(first.place!, ...first.args);
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
