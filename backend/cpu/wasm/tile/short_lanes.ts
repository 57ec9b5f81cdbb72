/** Vectors of eight numbers of 16 bits in WebAssembly: a few instructions for each operation of the language. */
import type { E, Element } from "../../../tile/language/expression.ts";
import type { FunctionBuilder, Local } from "../assembler.ts";
import { i16x8, i32, narrow, v128 } from "../opcodes.ts";

/** A pair of numbers of 16 bits is in all pairs of lanes. */
const PAIR = 2;

/** Loads of eight elements. */
const loads: Readonly<Partial<Record<Element, number>>> = {
  int16: v128.load,
  int8: v128.loadBytesS,
  uint8: v128.loadBytesU,
};

/** True for an expression that is such a vector. */
export const isShorts = ({ kind, width }: E): boolean => kind === "int16" && width > 1;

/** Writes them. */
export class ShortLanes {
  readonly #f: FunctionBuilder;
  readonly #value: (e: E) => Local;
  readonly #address: (load: E) => readonly [address: Local, offset: number];

  /**
   * @param value Any expression.
   * @param address The place of a load.
   */
  constructor(
    f: FunctionBuilder,
    value: (e: E) => Local,
    address: (load: E) => readonly [address: Local, offset: number],
  ) {
    this.#f = f;
    this.#value = value;
    this.#address = address;
  }

  /** An operation. */
  computed(e: E): Local {
    const f = this.#f, [a, b] = e.args as readonly [E, E];
    switch (e.op) {
      case "load": {
        const load = e.width === PAIR ? v128.loadSplat : loads[e.place!.element]!;
        return f.load(load, ...this.#address(e));
      }
      case "repeated":
        return this.#value(a);
      case "%":
        return f.v(v128.and, this.#value(a), this.#splat(b.value - 1));
      case ">>":
        return f.v(i16x8.shrU, this.#value(a), this.#value(b));
      case "sum":
        return e.args.map((x, k) => this.#times(x, e.factors[k]!))
          .reduce((x, y) => f.v(i16x8.add, x, y));
      case "laneBits":
        return this.#times(e, 1);
      case "short": {
        const ints = this.#value(a);
        return f.v(narrow.intsToSigned, ints, ints);
      }
      default:
        throw new Error(`WebAssembly has no instructions for ${e.op} of 16 bits`);
    }
  }

  /** A number in all lanes. */
  #splat(value: number): Local {
    const both = value & 0xffff | value << 16;
    return this.#f.splat(both);
  }

  #times(e: E, factor: number): Local {
    const f = this.#f;
    if (e.op === "const") return this.#splat(e.value * factor);
    // Lanes of a comparison have all bits.
    if (e.op === "laneBits") return f.v(v128.and, this.#bits(e), this.#splat(factor));
    const value = this.#value(e);
    return factor === 1 ? value : f.shift(i16x8.shl, value, Math.log2(factor));
  }

  /** All bits of the lanes whose bit is set. */
  #bits({ args: [word, first] }: E): Local {
    const f = this.#f;
    const all = f.v(i16x8.splat, f.i(i32.shrU, this.#value(word!), this.#value(first!)));
    const own = f.lanes([0, 2, 4, 6].map((k) => 1 << k | 2 << k + 16));
    return f.v(i16x8.eq, f.v(v128.and, all, own), own);
  }
}
