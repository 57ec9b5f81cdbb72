/**
 * Statements of tile programs as WebAssembly: a table of operations, and a few instructions for each
 * statement. A work-item has a group alone; scalars of floats are vectors whose lanes are equal.
 *
 * This folder (`tile/`) imports the programs of `backend/tile`, `kernel/`, `blas/`, `script/` and the
 * assembler of `wasm/`. Contractions with packed weights come from `kernel_runners.ts`.
 */
import type { DType } from "../../../graph/dtype.ts";
import type { E } from "../../../tile/language/expression.ts";
import type { Statement, TileKernel } from "../../../tile/language/statements.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { type ElementBytes, LaneAccess } from "../lanes.ts";
import { VectorMath } from "../math.ts";
import { f32x4, i32, i32x4, v128 } from "../opcodes.ts";

/** Bytes of an element in memory. */
const elementBytes: Readonly<Record<string, ElementBytes>> = {
  float32: 4,
  float16: 2,
  bfloat16: 2,
  uint8: 1,
  int8: 1,
  uint32: 4,
};

/** Stores a result, whose coordinates are numbers: of a value the first lane, or all of a vector. */
export type StoreResult = (f: FunctionBuilder, at: readonly Local[], value: Local) => void;

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
  /** Values that were computed, in the scopes where they are there. */
  #known: Map<E, Local>[] = [];

  constructor(
    kernel: TileKernel,
    names: readonly string[],
    store: (argument: (name: string) => Local) => StoreResult,
    relaxed: boolean,
  ) {
    this.#kernel = kernel;
    this.#arguments = names;
    this.#math = new VectorMath(this.#f, relaxed);
    this.#lanes = new LaneAccess(this.#f, this.#math);
    this.#store = store((name) => this.#argument(name));
  }

  write(): Uint8Array<ArrayBuffer> {
    const f = this.#f, { begin, end } = FunctionBuilder.parameters;
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
      case "result":
        return this.#store(f, s.at.map((e) => this.#value(e)), this.#value(s.value));
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
    // Registers change.
    if (e.kind !== "float" || e.op === "load") this.#known.at(-1)!.set(e, value);
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
        return this.#load(e);
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
    if (!Number.isInteger(by)) throw new Error("WebAssembly divides by powers of two alone");
    const a = this.#value(e.args[0]!);
    return e.width === 1 ? this.#f.iWith(i32.shrU, a, by) : this.#f.shift(i32x4.shrU, a, by);
  }

  #bit(e: E): Local {
    const f = this.#f, [a, index] = e.args.map((x) => this.#value(x)) as [Local, Local];
    if (e.width === 1) return f.iWith(i32.and, f.i(i32.shrU, a, index), 1);
    const mask = f.v(i32x4.splat, f.i(i32.shl, f.integer(1), index));
    return f.v(v128.and, f.v(i32x4.ne, f.v(v128.and, a, mask), f.splat(0)), f.splat(1));
  }

  #load({ place, args, width, kind }: E): Local {
    const f = this.#f, { buffer, element } = place!, bytes = elementBytes[element]!;
    // A constant is part of the instruction; it is not negative there.
    const [index] = args as [E], isMoved = index.op === "+" && index.args[1]!.value > 0;
    const at = this.#value(isMoved ? index.args[0]! : index);
    const offset = isMoved ? bytes * index.args[1]!.value : 0;
    const address = f.i(i32.add, this.#argument(buffer), this.#times(at, bytes));
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
}
