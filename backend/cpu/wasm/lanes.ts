/** Layout of elements in vectors of four lanes, and the conversions to it. */
import { type DType, dtypes } from "../../graph/dtype.ts";
import type { FunctionBuilder, Local } from "./assembler.ts";
import type { VectorMath } from "./math.ts";
import { i32, i32x4, narrow, v128 } from "./opcodes.ts";

/** Content of a lane of 32 bits: a float, a number, or all bits of a truth value. */
export type LaneKind = "float" | "int" | "mask";

/** Content of a lane of 64 bits; four of them are a pair of vectors. */
export type WideKind = "double" | "long";

const laneKinds: Readonly<Record<DType, LaneKind | WideKind>> = {
  float32: "float",
  float16: "float",
  bfloat16: "float",
  float64: "double",
  int32: "int",
  int64: "long",
  int16: "int",
  int8: "int",
  // Its bits: it is made an int64 before anything is computed.
  uint32: "int",
  uint8: "int",
  bool: "mask",
};

/** Content of the lanes of a type. */
export const kindOf = (dtype: DType): LaneKind | WideKind => laneKinds[dtype];

/** True for lanes of 64 bits. */
export function isWide(kind: LaneKind | WideKind): kind is WideKind {
  return kind === "double" || kind === "long";
}

/**
 * Content of the 32-bit lanes of a type.
 *
 * @throws {Error} For a type of 64 bits.
 */
export function narrowKindOf(dtype: DType): LaneKind {
  const kind = laneKinds[dtype];
  if (isWide(kind)) throw new Error(`Lanes of ${dtype} are wide`);
  return kind;
}

const loadLane = { 1: v128.load8Lane, 2: v128.load16Lane, 4: v128.load32Lane } as const;
const storeLane = { 1: v128.store8Lane, 2: v128.store16Lane, 4: v128.store32Lane } as const;
/** Stores of four elements side by side: the lowest bytes of a vector. */
const storeFour = { 1: v128.store32Lane, 2: v128.store64Lane, 4: v128.store } as const;

/** Bytes of an element. */
export type ElementBytes = 1 | 2 | 4 | 8;

/** Bytes of an element of a type. */
export const elementBytes = (dtype: DType): ElementBytes => dtypes[dtype].bytes as ElementBytes;

/** The lowest bits of lanes as numbers of a type of 8 or 16 bits. */
export function signExtended(f: FunctionBuilder, bits: Local, dtype: "int8" | "int16"): Local {
  const unused = dtype === "int8" ? 24 : 16;
  return f.shift(i32x4.shrS, f.shift(i32x4.shl, bits, unused), unused);
}

/** Moves elements between memory and lanes. */
export class LaneAccess {
  readonly #f: FunctionBuilder;
  readonly #math: VectorMath;

  constructor(f: FunctionBuilder, math: VectorMath) {
    this.#f = f;
    this.#math = math;
  }

  /** Four elements that lie side by side. */
  loadFour(dtype: DType, bytes: ElementBytes, address: Local, offset: number): Local {
    const f = this.#f;
    if (bytes === 8) {
      const [low, high] = [0, 16].map((half) => f.load(v128.load, address, offset + half));
      return f.pair(low!, high!);
    }
    if (bytes === 4) return this.#decode(dtype, f.load(v128.load, address, offset));
    if (bytes === 2) {
      return this.#decode(
        dtype,
        f.v(narrow.shortsToInts, f.load(v128.load64Zero, address, offset)),
      );
    }
    const shorts = f.v(narrow.bytesToShorts, f.load(v128.load32Zero, address, offset));
    return this.#decode(dtype, f.v(narrow.shortsToInts, shorts));
  }

  /** Every second of seven elements of 32 bits; the one behind them is read, and not used. */
  loadEverySecond(dtype: DType, address: Local, offset: number): Local {
    const f = this.#f;
    const [low, high] = [0, 16].map((half) => f.load(v128.load, address, offset + half));
    return this.#decode(dtype, f.shuffle32(low!, high!, [0, 2, 4, 6]));
  }

  /** One element, in all lanes. */
  loadAll(dtype: DType, bytes: ElementBytes, address: Local, offset = 0): Local {
    const f = this.#f;
    if (bytes === 8) {
      const both = f.load(v128.load64Splat, address, offset);
      return f.pair(both, both);
    }
    if (bytes === 4) return this.#decode(dtype, f.load(v128.loadSplat, address, offset));
    const op = bytes === 2 ? i32.loadShort : i32.loadByte;
    return this.#decode(dtype, f.v(i32x4.splat, f.loadNumber(op, address, offset)));
  }

  /** Elements from anywhere, one address each. */
  loadEach(dtype: DType, bytes: ElementBytes, addresses: readonly Local[]): Local {
    const f = this.#f;
    if (bytes === 8) {
      const [low, high] = [0, 2].map((first) => this.#loadTwo(addresses.slice(first, first + 2)));
      return f.pair(low!, high!);
    }
    const lane = bytes === 4 ? 1 : bytes === 2 ? 2 : 4;
    const loaded = addresses.reduce(
      (vector, address, k) => f.loadLane(loadLane[bytes], address, vector, k * lane),
      f.splat(0),
    );
    return this.#decode(dtype, loaded);
  }

  #loadTwo(addresses: readonly Local[]): Local {
    return addresses.reduce(
      (vector, address, k) => this.#f.loadLane(v128.load64Lane, address, vector, k),
      this.#f.splat(0),
    );
  }

  #decode(dtype: DType, bits: Local): Local {
    const f = this.#f;
    switch (dtype) {
      case "float16":
        return this.#math.fromFloat16(bits);
      case "bfloat16":
        return this.#math.fromBfloat16(bits);
      case "bool":
        return f.v(i32x4.ne, bits, f.splat(0));
      case "int16":
      case "int8":
        return signExtended(f, bits, dtype);
      default:
        return bits;
    }
  }

  #encode(dtype: DType, value: Local): Local {
    const f = this.#f;
    switch (dtype) {
      case "float16":
        return this.#math.toFloat16(value);
      case "bfloat16":
        return this.#math.toBfloat16(value);
      case "bool":
        return f.v(v128.and, value, f.splat(1));
      case "uint8":
      case "int8":
        return f.v(v128.and, value, f.splat(255));
      case "int16":
        return f.v(v128.and, value, f.splat(0xffff));
      default:
        return value;
    }
  }

  /** Four elements side by side. */
  storeFour(dtype: DType, bytes: ElementBytes, address: Local, offset: number, value: Local): void {
    const f = this.#f;
    if (bytes === 8) {
      f.halves(value).forEach((half, k) => f.store(v128.store, address, half, offset + 16 * k));
      return;
    }
    let bits = this.#encode(dtype, value);
    if (bytes < 4) bits = f.v(narrow.intsToShorts, bits, bits);
    if (bytes === 1) bits = f.v(narrow.shortsToBytes, bits, bits);
    if (bytes === 4) f.store(v128.store, address, bits, offset);
    else f.store(storeFour[bytes], address, bits, offset, 0);
  }

  /** The lanes one by one, each to its address. */
  storeEach(
    dtype: DType,
    bytes: ElementBytes,
    addresses: readonly Local[],
    value: Local,
  ): void {
    if (bytes === 8) {
      const halves = this.#f.halves(value);
      addresses.forEach((address, k) => {
        this.#f.store(v128.store64Lane, address, halves[k >> 1]!, 0, k & 1);
      });
      return;
    }
    const bits = this.#encode(dtype, value);
    const lane = 4 / bytes;
    addresses.forEach((address, k) => {
      this.#f.store(storeLane[bytes], address, bits, 0, k * lane);
    });
  }
}
