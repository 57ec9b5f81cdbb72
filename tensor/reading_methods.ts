/** Reading and comparing whole tensors, and what a tensor looks like on a console. */
import { backendOf, dtypes, formatShape, peekNode, sameShape } from "../backend/internal.ts";
import { hostView, TensorBase } from "./core/base.ts";
import { requireTensor, sameDevice } from "./core/apply.ts";
import type { OperationKind } from "./core/calls.ts";
import { formatTensor, MOST_PRINTED, printedPositions, shortened } from "./execution/formatting.ts";
import { noGrad } from "./core/grad_mode.ts";
import { checkOptions, type Rules, takes } from "./core/options.ts";
import { promote } from "./core/promotion.ts";
import type { Tensor } from "./tensor.ts";
import { nodeOf } from "./core/tensor_state.ts";

/** What `print` may be told. */
export interface PrintOptions {
  /** What gets the text; `console.log` by default. */
  log?: (text: string) => void;
}

/** How far apart elements may be that count as equal: `|a - b| <= atol + rtol * |b|`. */
export interface CloseOptions {
  /** The share of `|b|`; 1e-5 by default. */
  rtol?: number;
  /** The absolute part; 1e-8 by default. */
  atol?: number;
  /** NaN counts as equal to NaN; not by default. */
  equalNan?: boolean;
}

const printRules: Rules<PrintOptions> = { log: takes.callback };
const closeRules: Rules<CloseOptions> = {
  rtol: takes.nonNegative,
  atol: takes.nonNegative,
  equalNan: takes.bool,
};

/** Values as numbers and as text, and whether two tensors have the same ones. */
export abstract class ReadingMethods extends TensorBase {
  #self(): Tensor {
    return this as unknown as Tensor;
  }

  /**
   * The elements, row-major, as plain numbers: of every type, int64 beyond 2 ** 53 rounded, truth
   * values as 0 and 1. Throws as {@linkcode TensorBase.toHost} does.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * assertEquals(await Tensor.eye(2, { dtype: "int64" }).toNumbers(), [1, 0, 0, 1]);
   * ```
   */
  async toNumbers(): Promise<number[]> {
    return Array.from(await this.toHost() as ArrayLike<number | bigint>, Number);
  }

  /**
   * Prints values, shape, type and backend as NumPy does; of more than 1000 elements the ends of each
   * axis. Throws as {@linkcode TensorBase.toHost} does.
   *
   * @param options What gets the text, by default `console.log`.
   * @returns The text.
   *
   * @example
   * ```ts
   * import { Tensor, withDevice } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const x = Tensor.fromHost([[1, 2.5], [-3, 4]], { device: "cpu" });
   * const text = await x.print({ log: () => {} });
   * assertEquals(text, "Tensor([[ 1.0,  2.5],\n        [-3.0,  4.0]], shape [2, 2], float32, cpu)");
   * ```
   */
  async print(options: PrintOptions = {}): Promise<string> {
    checkOptions("print", options, printRules);
    const { shape, dtype, backend } = this;
    const elements = await this.#ends().toHost();
    const text = formatTensor({ shape, dtype, backend, elements });
    (options.log ?? console.log)(text);
    return text;
  }

  /** What is printed: both ends of long axes. */
  #ends(): Tensor {
    const self = this.#self();
    return noGrad(() =>
      shortened(this.shape).reduce((x, isShort, axis) => {
        if (!isShort) return x;
        const positions = Int32Array.from(printedPositions(x.shape[axis]!, true));
        const { fromHost } = self.constructor as typeof Tensor;
        return x.indexSelect(axis, fromHost(positions, { device: this.device }));
      }, self)
    );
  }

  /**
   * True for each element that is as near to that of `b` as the options say; infinite ones are where
   * they are equal. Shapes broadcast, types meet.
   */
  isClose(b: Tensor, options: CloseOptions = {}): Tensor {
    checkOptions("isClose", options, closeRules);
    requireTensor("isClose", b);
    const { rtol = 1e-5, atol = 1e-8, equalNan = false } = options;
    const common = promote(this.dtype, b.dtype);
    // The difference of integers is exact where it is computed in int64.
    const dtype = dtypes[common].kind === "float" ? common : "int64";
    const x = this.#self().cast(dtype), y = b.cast(dtype);
    const bound = y.abs().cast(dtypes[dtype].kind === "float" ? dtype : "float32").mul(rtol);
    const isNear = x.sub(y).abs().le(bound.add(atol)).logicalAnd(y.isFinite());
    const close = isNear.logicalOr(x.eq(y));
    return equalNan ? close.logicalOr(x.isNaN().logicalAnd(y.isNaN())) : close;
  }

  /**
   * True when all elements are as near to those of `b` as the options say; shapes broadcast. Reads
   * one truth value; `isClose(b).all()` is the tensor of it.
   *
   * @throws {ShapeError} When the shapes do not broadcast.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assert } from "@std/assert";
   *
   * const x = Tensor.fromHost([1, 2, 3]);
   * assert(await x.allClose(x.add(1e-7)));
   * assert(!await x.allClose(x.add(1e-3)));
   * assert(await x.allClose(x.add(1e-3), { atol: 0.01 }));
   * ```
   */
  async allClose(b: Tensor, options?: CloseOptions): Promise<boolean> {
    return await noGrad(() => this.isClose(b, options).all()).item() !== 0;
  }

  /**
   * True when `b` has the same shape and equal elements; NaN equals nothing. The types may differ.
   *
   * @throws {TypeError} When `b` is on another device.
   */
  async equal(b: Tensor): Promise<boolean> {
    requireTensor("compare", b);
    sameDevice("compare", [this.#self(), b]);
    if (!sameShape(this.shape, b.shape)) return false;
    return await noGrad(() => this.#self().eq(b).all()).item() !== 0;
  }

  /**
   * Text where a string is wanted; a number never: JavaScript's operators do not reach tensors.
   *
   * @throws {TypeError} In arithmetic and comparisons.
   */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === "string") return this.toString();
    throw new TypeError(
      `Cannot use an operator on ${this.toString()}: write a.add(b), a.sub(b), a.lt(b), ... for ` +
        `operations, \`\${a}\` for text, and await a.item() for the number of a single element`,
    );
  }

  /** What `console.log` prints: values where the host has them; it computes and waits for nothing. */
  [Symbol.for("Deno.customInspect")](): string {
    const { shape, dtype, backend } = this;
    const head = `Tensor(${formatShape(shape)}, ${dtype}, ${backend}`;
    if (this.disposed) return `${head}, disposed)`;
    if (!this.isRealized) return `${head}, lazy)`;
    const bytes = this.size > MOST_PRINTED
      ? null
      : peekNode(backendOf(this.device), nodeOf(this.#self()));
    if (bytes === null) return `${head}, in memory: await print() shows it)`;
    return formatTensor({ shape, dtype, backend, elements: hostView(bytes, dtype) });
  }
}

/** What `compile` is told of: see `observeMethods`. */
export const observedReading: Readonly<Record<string, OperationKind>> = {
  toNumbers: "read",
  print: "read",
  isClose: "compute",
  allClose: "read",
  equal: "read",
};
