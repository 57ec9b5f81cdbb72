/**
 * Arithmetic of floating point values of a matrix program: vectors of floats or of doubles, and several of
 * them side by side, whose instructions need not wait for each other.
 */
import { functions } from "../../../codegen/functions/functions.ts";
import type { FunctionBuilder, Local } from "../assembler.ts";
import { expWide, logWide } from "../functions/doubles.ts";
import type { VectorMath } from "../math.ts";
import { f32x4, f64x2, i32, i32x4, v128 } from "../opcodes.ts";

/** Values of a type; a single number is a vector whose lanes are equal, several vectors are a number below 0. */
export class RealVectors {
  /** Numbers of a vector. */
  readonly lanes: 2 | 4;
  /** Vectors that what differs from lane to lane is made of. */
  vectors = 1;
  readonly #several: (readonly Local[])[] = [];
  readonly bytes: 4 | 8;
  readonly #f: FunctionBuilder;
  readonly #math: VectorMath;
  readonly #relaxed: boolean;
  readonly #ops: typeof f32x4 | typeof f64x2;

  constructor(f: FunctionBuilder, math: VectorMath, isDouble: boolean, relaxed: boolean) {
    this.#f = f;
    this.#math = math;
    this.#relaxed = relaxed;
    this.#ops = isDouble ? f64x2 : f32x4;
    this.lanes = isDouble ? 2 : 4;
    this.bytes = isDouble ? 8 : 4;
  }

  /** The vectors of a value. */
  #partsOf(value: Local): readonly Local[] {
    return value < 0 ? this.#several[-1 - value]! : [value];
  }

  #joined(parts: readonly Local[]): Local {
    return parts.length === 1 ? parts[0]! : -this.#several.push(parts);
  }

  /** The result of each of the vectors. */
  #map(values: readonly Local[], make: (...vectors: Local[]) => Local): Local {
    const parts = values.map((value) => this.#partsOf(value));
    const count = Math.max(...parts.map(({ length }) => length));
    return this.#joined(
      Array.from({ length: count }, (_, k) => make(...parts.map((part) => part[k] ?? part[0]!))),
    );
  }

  #op(op: number, ...values: readonly Local[]): Local {
    return this.#map(values, (...vectors) => this.#f.v(op, ...vectors));
  }

  /** A variable; `isWide`: it differs from lane to lane. */
  variable(isWide: boolean): Local {
    const count = isWide ? this.vectors : 1;
    return this.#joined(Array.from({ length: count }, () => this.#f.vector()));
  }

  assign(target: Local, value: Local): void {
    const from = this.#partsOf(value);
    this.#partsOf(target).forEach((part, k) => this.#f.assign(part, from[k] ?? from[0]!));
  }

  get #isDouble(): boolean {
    return this.bytes === 8;
  }

  constant(value: number): Local {
    return this.#isDouble ? this.#f.double(value) : this.#f.float(value);
  }

  readonly add = (a: Local, b: Local): Local => this.#op(this.#ops.add, a, b);
  readonly sub = (a: Local, b: Local): Local => this.#op(this.#ops.sub, a, b);
  readonly mul = (a: Local, b: Local): Local => this.#op(this.#ops.mul, a, b);
  readonly div = (a: Local, b: Local): Local => this.#op(this.#ops.div, a, b);
  readonly neg = (a: Local): Local => this.#op(this.#ops.neg, a);

  /** `a + x * y` or `a - x * y`, rounded once where the engine can. */
  accumulate(a: Local, x: Local, y: Local, isMinus: boolean): Local {
    const { relaxedMadd, relaxedNmadd } = this.#ops;
    if (this.#relaxed) return this.#op(isMinus ? relaxedNmadd : relaxedMadd, x, y, a);
    return isMinus ? this.sub(a, this.mul(x, y)) : this.add(a, this.mul(x, y));
  }

  /** All bits of the lanes where it holds. */
  compare(op: "<" | ">" | "<=" | ">=" | "==" | "!=", a: Local, b: Local): Local {
    const { lt, gt, le, ge, eq, ne } = this.#ops;
    const code = { "<": lt, ">": gt, "<=": le, ">=": ge, "==": eq, "!=": ne }[op];
    return this.#op(code, a, b);
  }

  select(mask: Local, a: Local, b: Local): Local {
    return this.#op(v128.bitselect, a, b, mask);
  }

  /** A whole number in all lanes. */
  fromInteger(value: Local): Local {
    const wide = this.#f.v(i32x4.splat, value);
    return this.#f.v(this.#isDouble ? f64x2.convertS : f32x4.convert, wide);
  }

  /** Whole numbers `start + lane * step`. */
  fromLanes(start: Local, step: Local): Local {
    const f = this.#f, wide = [start, step].map((value) => f.v(i32x4.splat, value));
    return this.#joined(Array.from({ length: this.vectors }, (_, k) => {
      const places = f.v(i32x4.mul, wide[1]!, f.lanes([0, 1, 2, 3].map((n) => n + k * this.lanes)));
      const whole = f.v(i32x4.add, wide[0]!, places);
      return f.v(this.#isDouble ? f64x2.convertS : f32x4.convert, whole);
    }));
  }

  /** The whole part of the first lane, as a number. */
  toInteger(value: Local): Local {
    const f = this.#f;
    return f.laneOf(f.v(this.#isDouble ? f64x2.truncate : i32x4.truncate, value), 0);
  }

  /** A function by its name in C; null for one that there is not. */
  call(name: string, args: readonly Local[]): Local | null {
    const f = this.#f, math = this.#math, [a, b] = args as [Local, Local];
    const { sqrt, abs, floor, pmin, pmax } = this.#ops;
    switch (name) {
      case "sqrt":
        return this.#op(sqrt, a);
      case "fabs":
        return this.#op(abs, a);
      case "floor":
        return this.#op(floor, a);
      case "fmax":
        return this.#op(pmax, b, a);
      case "fmin":
        return this.#op(pmin, b, a);
      case "exp":
        return this.#map([a], (x) => this.#isDouble ? expWide(f, math, x) : functions.exp(math, x));
      case "log":
        return this.#map([a], (x) => this.#isDouble ? logWide(f, math, x) : functions.log(math, x));
      default:
        return null;
    }
  }

  /** The sum, or an extreme, of all lanes, in each. */
  across(how: "+" | "fmax" | "fmin", value: Local): Local {
    const f = this.#f;
    const join = (a: Local, b: Local) => how === "+" ? this.add(a, b) : this.call(how, [a, b])!;
    const one = this.#partsOf(value).reduce(join);
    const half = join(one, f.shuffle32(one, one, [2, 3, 0, 1]));
    return this.#isDouble ? half : join(half, f.shuffle32(half, half, [1, 0, 3, 2]));
  }

  /** One number, in all lanes. */
  loadOne(address: Local, offset: number): Local {
    return this.#f.load(this.#isDouble ? v128.load64Splat : v128.loadSplat, address, offset);
  }

  /** Neighbours. */
  loadRow(address: Local, offset: number): Local {
    return this.#joined(
      Array.from(
        { length: this.vectors },
        (_, k) => this.#f.load(v128.load, address, offset + 16 * k),
      ),
    );
  }

  /** Numbers `step` bytes from each other. */
  loadEach(address: Local, offset: number, step: Local): Local {
    const f = this.#f, op = this.#isDouble ? v128.load64Lane : v128.load32Lane;
    const zero = f.splat(0), next = this.#stepping(address, step);
    return this.#joined(Array.from({ length: this.vectors }, () => {
      let found = zero;
      for (let lane = 0; lane < this.lanes; lane++) {
        found = f.loadLane(op, next(), found, lane, offset);
      }
      return found;
    }));
  }

  /** Gives one address after the other. */
  #stepping(start: Local, step: Local): () => Local {
    let at: Local | null = null;
    return () => at = at === null ? start : this.#f.i(i32.add, at, step);
  }

  storeOne(address: Local, offset: number, value: Local): void {
    const op = this.#isDouble ? v128.store64Lane : v128.store32Lane;
    this.#f.store(op, address, value, offset, 0);
  }

  storeRow(address: Local, offset: number, value: Local): void {
    const parts = this.#partsOf(value);
    for (let k = 0; k < this.vectors; k++) {
      this.#f.store(v128.store, address, parts[k] ?? parts[0]!, offset + 16 * k);
    }
  }

  storeEach(address: Local, offset: number, step: Local, value: Local): void {
    const f = this.#f, op = this.#isDouble ? v128.store64Lane : v128.store32Lane;
    const parts = this.#partsOf(value), next = this.#stepping(address, step);
    for (let k = 0; k < this.vectors; k++) {
      for (let lane = 0; lane < this.lanes; lane++) {
        f.store(op, next(), parts[k] ?? parts[0]!, offset, lane);
      }
    }
  }
}
