/**
 * Language of tile programs: tiles of values in registers, laid out by a unit; what is done with
 * them becomes statements of a work-item at once. Barriers and shared subexpressions are the passes'.
 *
 * This folder (`tile/`) imports `language/` and `passes/` below it; `programs/` are written with it.
 */
import {
  add,
  div,
  type E,
  type Element,
  int,
  type Kind,
  make,
  mod,
  mul,
  type Place,
  type Range,
  variable,
  type Whole,
} from "./language/expression.ts";
import { placeBarriers } from "./passes/barriers.ts";
import { shareExpressions } from "./passes/sharing.ts";
import { elementOf, held } from "./language/elements.ts";
import type {
  SizeArgument,
  Statement,
  Store,
  TileArray,
  TileKernel,
} from "./language/statements.ts";
import { fadd, float, lane, lt, not, register } from "./language/values.ts";
import type { Unit } from "./units.ts";

/** Rows of sums; each has parts in the lanes and the work-items that share it. */
export interface Tile {
  readonly name: string;
  readonly rows: number;
  readonly width: number;
}

/** The result of two of each number. */
export type Combine = (a: readonly E[], b: readonly E[]) => readonly E[];

/** The largest number that sizes and indices of a kernel reach. */
const MAX_SIZE = 2 ** 31;
/** Work-items that read each other's registers. */
const WARP = 32;
/** So many numbers in local memory are joined by each work-item itself. */
const IN_ORDER = 8;

const constants = new Set(["const", "value", "var"]);

/** Writes one program for one unit. */
export class Program {
  readonly unit: Unit;
  readonly #inputs: { name: string; element: Element }[] = [];
  readonly #sizes: SizeArgument[] = [];
  readonly #arrays: TileArray[] = [];
  readonly #body: Statement[] = [];
  #into = this.#body;
  #names = 0;

  readonly #nameOf: (value: number) => string;

  /**
   * @param unit What multiplies.
   * @param nameOf The name of an argument that hands over a number.
   */
  constructor(unit: Unit, nameOf: (value: number) => string) {
    this.unit = unit;
    this.#nameOf = nameOf;
  }

  /** The number of the group. */
  readonly group: E = variable("group", [0, MAX_SIZE]);

  /** A buffer that is read. */
  input(name: string, element: Element): Place {
    this.#inputs.push({ name, element });
    return { space: "global", buffer: name, element };
  }

  /** A number of a launch that is known to be a multiple. Kernels of all such numbers are one. */
  size(value: number, multiple = 1): E {
    return this.#number(value, multiple, [0, MAX_SIZE / multiple]);
  }

  /** The same for a number that may be negative. */
  step(value: number, multiple = 1): E {
    return this.#number(value, multiple, [-MAX_SIZE / multiple, MAX_SIZE / multiple]);
  }

  #number(value: number, multiple: number, range: Range): E {
    if (value % multiple !== 0) throw new Error(`${value} is no multiple of ${multiple}`);
    const count = value / multiple, name = this.#nameOf(count);
    this.#sizes.push({ name, value: count });
    return mul(variable(name, range), multiple);
  }

  /** A number of a launch of another kind than indices. */
  argument(name: string, value: number, kind: Kind): E {
    this.#sizes.push({ name, value });
    return make("var", kind, [], { name });
  }

  /** Work-items of a group, and the number of this one among them. */
  get items(): number {
    return this.unit.across * this.unit.down;
  }

  get item(): E {
    return this.#item((item) => item);
  }

  /** The work-item's number among those that share its rows, and that of its rows in the group. */
  get across(): E {
    const { across, down, neighbours } = this.unit;
    return this.#item((item) => neighbours === "across" ? mod(item, across) : div(item, down));
  }

  get down(): E {
    const { across, down, neighbours } = this.unit;
    return this.#item((item) => neighbours === "across" ? div(item, across) : mod(item, down));
  }

  #item(of: (item: E) => E): E {
    return this.items === 1 ? int(0) : of(variable("item", [0, this.items - 1]));
  }

  /** Appends statements as they are. */
  emit(...statements: readonly Statement[]): void {
    this.#into.push(...statements);
  }

  #inside(write: () => void): Statement[] {
    const outer = this.#into, inner: Statement[] = this.#into = [];
    write();
    this.#into = outer;
    return inner;
  }

  /** Runs the body for the numbers from 0 to before `count`. */
  loop(count: E, body: (at: E) => void, unroll = this.unit.unroll): void {
    if (count.op === "const" && count.value <= 1) {
      return count.value === 1 ? body(int(0)) : undefined;
    }
    const at = variable(`i${this.#names++}`, [0, Math.max(0, count.range[1] - 1)]);
    this.emit({ s: "for", at, count, body: this.#inside(() => body(at)), unroll });
  }

  /** Runs the body where a condition holds, which may be known. */
  when(condition: E, body: () => void): void {
    if (condition.op !== "const") this.emit({ s: "if", condition, body: this.#inside(body) });
    else if (condition.value) body();
  }

  /** Runs one of two bodies. */
  either(condition: E, then: () => void, otherwise: () => void): void {
    const holds = this.let(condition);
    this.when(holds, then);
    this.when(not(holds), otherwise);
  }

  /** A name for a value as it is now. */
  let(value: E): E {
    if (constants.has(value.op)) return value;
    const { kind, width, range } = value;
    const to = make("var", kind, [], { name: `u${this.#names++}`, width, range });
    this.emit({ s: "let", to, value });
    return to;
  }

  /** A register that is set before it is read. */
  unset(kind: Kind): E {
    return register(`t${this.#names++}`, 0, 1, kind);
  }

  /** A register with a first value. */
  register(value: E): E {
    const to = register(`t${this.#names++}`, 0, value.width, value.kind);
    this.set(to, value);
    return to;
  }

  set(to: E, value: E): void {
    if (value !== to) this.emit({ s: "set", to, value });
  }

  store(place: Place, index: E, value: E, streams = false): void {
    const store: Store = { s: "store", place, index, value };
    this.emit(streams ? { ...store, streams } : store);
  }

  /** Memory of a group, or of a work-item. */
  array(space: "local" | "private", size: number, kind: Kind): Place {
    const name = `${space === "local" ? "l" : "h"}${this.#names++}`;
    this.#arrays.push({ space, name, size, kind });
    return { space, buffer: name, element: elementOf(kind) };
  }

  /** Local memory that stages of operands go through; programs have one. */
  ring(bytes: number): Place {
    this.#arrays.push({ space: "ring", name: "sm", size: bytes, kind: "uint8" });
    return { space: "ring", buffer: "sm", element: "uint8" };
  }

  /** Rows of sums, all 0. */
  tile(rows: number): Tile {
    const tile = { name: `t${this.#names++}`, rows, width: this.unit.width };
    this.map(tile, () => float(0));
    return tile;
  }

  /** Gives each row what `f` makes of it. */
  map(tile: Tile, f: (value: E, row: number) => E): void {
    registersOf(tile).forEach((to, row) => this.set(to, f(to, row)));
  }

  /** The sum of each row, of all lanes and work-items that share it; the first of these has it. */
  sum(tile: Tile): Tile {
    const sums: Tile = { name: `t${this.#names++}`, rows: tile.rows, width: 1 };
    this.map(sums, (_, row) => total(lanesOf(register(tile.name, row, tile.width))));
    this.join(registersOf(sums), (a, b) => a.map((value, k) => fadd(value, b[k]!)), {
      who: "first",
    });
    return sums;
  }

  /**
   * Joins what work-items that share a row have of it in registers: neighbours up to number `to`, of which each
   * `from` have the same already.
   *
   * @param who Which of them have the result; others may have it too.
   */
  join(
    parts: readonly E[],
    combine: Combine,
    { who = "all", from = 1, to = this.unit.across }: {
      readonly who?: "all" | "first";
      readonly from?: number;
      readonly to?: number;
    } = {},
  ): void {
    const { crossing, neighbours } = this.unit;
    const isShuffled = crossing === "shuffle" && neighbours === "across" &&
      parts.every(({ kind }) => kind === "float" || kind === "int32");
    const joined = isShuffled ? Math.min(to, WARP) : 1;
    for (let mask = joined / 2; mask >= from; mask /= 2) {
      const others = parts.map((part) => {
        const other = register(`t${this.#names++}`, 0, 1, part.kind);
        this.emit({ s: "shuffle", to: other, from: part, mask });
        return other;
      });
      this.#assign(parts, combine(parts, others));
    }
    if (joined < to) this.#joinLocally(parts, combine, joined, who);
  }

  #assign(parts: readonly E[], values: readonly E[]): void {
    parts.forEach((to, k) => this.set(to, values[k]!));
  }

  /** Joins the numbers of every `joined` work-items by way of local memory. */
  #joinLocally(
    parts: readonly E[],
    combine: Combine,
    joined: number,
    who: "all" | "first",
  ): void {
    const { across, down, neighbours } = this.unit, count = across / joined;
    const places = parts.map(({ kind }) => this.array("local", count * down, kind));
    const at = (part: Whole): E =>
      neighbours === "across" ? add(mul(this.down, count), part) : add(mul(part, down), this.down);
    const own = div(this.across, joined);
    const write = (): void => places.forEach((place, k) => this.store(place, at(own), parts[k]!));
    const read = (part: Whole): E[] =>
      places.map((place, k) => held(place, at(part), parts[k]!.kind));
    this.when(lt(mod(this.across, joined), 1), write);
    if (joined > 1 || count <= IN_ORDER) {
      this.#assign(parts, read(0));
      for (let k = 1; k < count; k++) this.#assign(parts, combine(parts, read(k)));
      return;
    }
    // Halves of what is left are added to the other half, until one number a row is.
    for (let half = count / 2; half >= 1; half /= 2) {
      this.when(lt(own, half), () => {
        this.#assign(parts, combine(parts, read(add(own, half))));
        if (half > 1 || who === "all") write();
      });
    }
    if (who === "all") this.#assign(parts, read(0));
  }

  /** Hands out the values of a joined tile, by their coordinates, as far as they are inside. */
  results(sums: Tile, at: (row: number) => { coordinates: readonly E[]; inside: E }): void {
    this.when(lt(this.across, 1), () => {
      for (let row = 0; row < sums.rows; row++) {
        const { coordinates, inside } = at(row);
        this.when(inside, () => this.give(coordinates, register(sums.name, row)));
      }
    });
  }

  /** Hands out a value by its coordinates; those of a vector are its first lane's, others follow. */
  give(at: readonly E[], value: E): void {
    this.emit({ s: "result", at, value });
  }

  /** The kernel, through all passes. */
  finish(name: string, groups: number): TileKernel {
    return {
      name,
      inputs: this.#inputs,
      sizes: this.#sizes,
      arrays: this.#arrays,
      groups,
      items: this.items,
      body: shareExpressions(this.items === 1 ? this.#body : placeBarriers(this.#body)),
    };
  }
}

const registersOf = ({ name, rows, width }: Tile): E[] =>
  Array.from({ length: rows }, (_, row) => register(name, row, width));

const lanesOf = (value: E): E[] => Array.from({ length: value.width }, (_, k) => lane(value, k));

/** The sum of a power of two of values, pair by pair. */
function total(values: readonly E[]): E {
  if (values.length === 1) return values[0]!;
  const half = values.length / 2;
  return total(values.slice(0, half).map((value, k) => fadd(value, values[k + half]!)));
}
