/**
 * What every tensor is before it can do arithmetic: a shape, an element type, a device, a node of
 * the expression graph, and a place in the graph of gradients.
 */
import {
  type Backend,
  backendOf,
  type DeviceHandle,
  type DType,
  dtypes,
  formatShape,
  fromBfloat16Bits,
  GoneError,
  MOST_ON_HOST,
  Node,
  readNode,
  readNodeSync,
  type Shape,
  type TypedArray,
} from "../../backend/internal.ts";
import { type OperationKind, tellAssigned, tellGradient } from "./calls.ts";
import { nodeOf, provideTensor, type TensorState } from "./tensor_state.ts";
import { ShapeError } from "./errors.ts";
import { explain } from "../execution/explain.ts";
import {
  computeWithNext,
  noteAssignment,
  realizeAll,
  realizeForRead,
} from "../execution/realization.ts";
import type { Tensor } from "../tensor.ts";
import { requireValue, takes } from "./options.ts";

/** Numbers and truth values as nested arrays, one level per axis. */
export type NestedArray = number | boolean | NestedArray[];

/** Memory of the host for a tensor that is read. */
function hostBytes(shape: Shape, nbytes: number): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(nbytes);
  } catch (cause) {
    throw new RangeError(
      `Cannot read a tensor of shape ${formatShape(shape)}: the host has no array of ${nbytes} ` +
        "bytes; read it in slices",
      { cause },
    );
  }
}

/** Lifetime, reading and bookkeeping of a tensor. */
export abstract class TensorBase implements Disposable {
  #state: TensorState;

  static {
    provideTensor({
      stateOf: (tensor) => tensor.#state,
      isTensor: (value): value is Tensor =>
        typeof value === "object" && value !== null && #state in value,
      handleOf: (state) =>
        new (TensorBase.handle as unknown as new (s: TensorState) => Tensor)(state),
      share: (to, from) => void (to.#state = from.#state),
    });
  }

  /** The class of tensors. */
  static handle: unknown = null;

  /**
   * Tensors are made by the static methods of `Tensor`, and by operations.
   *
   * @param state What is kept for it.
   */
  constructor(state: TensorState) {
    this.#state = state;
  }

  #self(): Tensor {
    return this as unknown as Tensor;
  }

  /** The device that it lives on. */
  get device(): DeviceHandle {
    return this.#state.device;
  }

  /** The size of each axis; `[]` for a scalar. */
  get shape(): Shape {
    return this.#state.node.shape;
  }

  /** The element type. */
  get dtype(): DType {
    return this.#state.node.dtype;
  }

  /** The number of elements. */
  get size(): number {
    return this.#state.node.size;
  }

  /** The number of axes. */
  get ndim(): number {
    return this.#state.node.shape.length;
  }

  /** "cl" or "cpu": which backend computes it. */
  get backend(): "cl" | "cpu" {
    return this.device.backend;
  }

  /** True after `dispose()`. */
  get disposed(): boolean {
    return this.#state.lifecycle === "disposed";
  }

  /** True when the value is in memory; false while it is only a promise. */
  get isRealized(): boolean {
    return this.#state.lifecycle !== "disposed" && this.#state.node.isLeaf;
  }

  /** True when `backward` computes a gradient for it, or for something that it was made from. */
  get requiresGrad(): boolean {
    return this.#state.needsGrad;
  }

  /**
   * Whether `backward` adds up a gradient in `grad`; may be set on leaves.
   *
   * @throws {TypeError} On a tensor that was computed from others (detach it first), or one that
   * does not hold floating point numbers.
   */
  set requiresGrad(value: boolean) {
    requireValue("set requiresGrad", "value", value, takes.bool);
    if (value && dtypes[this.dtype].kind !== "float") {
      throw new TypeError(
        `Cannot require a gradient of a tensor of ${this.dtype}: only floating point has one`,
      );
    }
    if (!value && this.#state.gradFn) {
      throw new TypeError("Cannot stop gradients at a computed tensor: use detach()");
    }
    this.#state.requiresGrad = value;
    if (value) this.#state.markVariable();
  }

  /** The gradient that `backward` has added up, null before. */
  get grad(): Tensor | null {
    tellGradient(this.#self(), this.#state.grad);
    return this.#state.grad;
  }

  /** Replaces the gradient; the former one is the caller's to dispose of. */
  set grad(gradient: Tensor | null) {
    tellGradient(this.#self(), this.#state.grad, gradient);
    this.#state.grad = gradient;
  }

  get #engine(): Backend {
    return backendOf(this.device);
  }

  /**
   * Computes the value and keeps it in memory; nothing happens if it is there already.
   *
   * @returns This tensor.
   * @throws {DisposedError} When something that it is computed from was disposed.
   * @throws {OutOfMemoryError} When its memory does not fit.
   */
  realize(): this {
    realizeAll([this.#self()]);
    return this;
  }

  #guard<T>(fn: () => T): T {
    try {
      return fn();
    } catch (error) {
      throw error instanceof GoneError ? this.#state.goneError("what it is computed from") : error;
    }
  }

  /** Memory for the elements: the caller's, where it has the size and the type. */
  #bytes(into: TypedArray | undefined): Uint8Array<ArrayBuffer> {
    const { bytes, view } = dtypes[this.dtype];
    if (into === undefined) return hostBytes(this.shape, this.size * bytes);
    const type = view(new ArrayBuffer(0), 0, 0).constructor;
    if (into.constructor !== type || into.length !== this.size || this.dtype === "bfloat16") {
      throw new TypeError(
        `Cannot read ${this} into a ${into.constructor.name} of ${into.length}: ` +
          (this.dtype === "bfloat16"
            ? "bfloat16 is converted and needs an array of its own"
            : `pass a ${type.name} of ${this.size}`),
      );
    }
    return new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
  }

  /**
   * The elements, row-major, in a new typed array: Float32Array for float32 and bfloat16,
   * Float16Array, Float64Array, Int32Array, BigInt64Array for int64, Uint8Array for uint8 and bool.
   * What was read is kept: reading it again, or a view of it, computes nothing.
   *
   * @param into An array of that kind to read into instead: a new one costs more than the transfer
   * when it is large.
   * @throws {DisposedError} When it was disposed of, or is a result on the way of a former step.
   * @throws {RangeError} When an index that was used on the way is out of range.
   * @throws {InterruptedError} When Ctrl+C arrives while it waits.
   * @throws {TypeError} When `into` has another type or size.
   */
  async toHost(into?: TypedArray): Promise<TypedArray> {
    const bytes = this.#bytes(into);
    const { node, isAsked } = this.#readable();
    await readNode(this.#engine, node, bytes);
    if (isAsked) this.#keepOnHost(node, bytes);
    return into ?? hostView(bytes, this.dtype);
  }

  /** The same, blocking the event loop. */
  toHostSync(into?: TypedArray): TypedArray {
    const bytes = this.#bytes(into);
    const { node, isAsked } = this.#readable();
    readNodeSync(this.#engine, node, bytes);
    if (isAsked) this.#keepOnHost(node, bytes);
    return into ?? hostView(bytes, this.dtype);
  }

  /** The node, computed and stored unless it is a view of what is; whether the read alone asked. */
  #readable(): { node: Node; isAsked: boolean } {
    const node = nodeOf(this.#self());
    return { node, isAsked: this.#guard(() => realizeForRead(this.#self())) };
  }

  /** A few bytes that were computed to be read need no memory on the device any more. */
  #keepOnHost(node: Node, bytes: Uint8Array): void {
    if (bytes.length <= MOST_ON_HOST && !this.requiresGrad) node.keepOnHost(bytes.slice());
  }

  #onlyElement(): void {
    if (this.size === 1) return;
    throw new ShapeError(
      `Cannot take the item of a tensor of shape ${
        formatShape(this.shape)
      }: it has ${this.size} elements; pick one with slice(), reduce it, or read all with toHost()`,
    );
  }

  /**
   * The one element as a number; an int64 beyond 2 ** 53 is rounded, `toHost` gives it whole.
   *
   * @throws {ShapeError} When there is not exactly one.
   * @throws {DisposedError} When it, or what it is computed from, was disposed.
   * @throws {RangeError} When an index that was used on the way is out of range.
   * @throws {InterruptedError} When Ctrl+C arrives while it waits.
   */
  async item(): Promise<number> {
    this.#onlyElement();
    return Number((await this.toHost())[0]);
  }

  /** The same, blocking the event loop. */
  itemSync(): number {
    this.#onlyElement();
    return Number(this.toHostSync()[0]);
  }

  /**
   * The elements as nested arrays, one level per axis; truth values as booleans, int64 as numbers. Throws
   * as {@linkcode TensorBase.toHost} does.
   */
  async toArray(): Promise<NestedArray> {
    const flat = await this.toHost();
    const isBool = this.dtype === "bool";
    let at = 0;
    const nest = (axis: number): NestedArray => {
      if (axis === this.shape.length) {
        const value = Number(flat[at++]);
        return isBool ? value !== 0 : value;
      }
      return Array.from({ length: this.shape[axis]! }, () => nest(axis + 1));
    };
    return nest(0);
  }

  /**
   * Gives this tensor another value of the same shape; others that were computed from the former
   * value keep it. Not recorded for `backward`. A value that is not computed yet is, with whatever is
   * computed next on the device.
   *
   * One limit keeps training steps free of copies: a result on the way of a graph that `backward` went
   * through can be read until the second assignment after it. Read it, or `realize()` it, before.
   *
   * @param value The new value; it is cast to this tensor's type.
   * @returns This tensor.
   * @throws {ShapeError} When the shapes differ.
   * @throws {TypeError} On a tensor that was computed from others and is recorded for `backward`.
   */
  assign(value: Tensor): this {
    if (this.#state.gradFn) {
      throw new TypeError(
        `Cannot assign to a tensor of shape ${formatShape(this.shape)} that was computed from ` +
          `others: backward goes through its value; make a new tensor, or detach() it first`,
      );
    }
    if (!(value instanceof TensorBase)) {
      throw new TypeError(`Cannot assign ${typeof value} "${value}": pass a tensor`);
    }
    if (formatShape(value.shape) !== formatShape(this.shape)) {
      throw new ShapeError(
        `Cannot assign a tensor of shape ${formatShape(value.shape)} to one of shape ${
          formatShape(this.shape)
        }`,
      );
    }
    if (value.device !== this.device) {
      throw new TypeError(
        `Cannot assign a tensor on ${value.device} to one on ${this.device}: move it with to()`,
      );
    }
    nodeOf(this.#self());
    const op = { kind: value.dtype === this.dtype ? "reshape" : "cast" } as const;
    this.#state.assign(new Node(op, [nodeOf(value)], this.shape, this.dtype));
    tellAssigned(this.#self());
    noteAssignment(this.device);
    computeWithNext(this.#self());
    return this;
  }

  /**
   * Ends this tensor: its further use is a {@linkcode DisposedError}. Idempotent. Its memory comes back at
   * once, unless something else needs the value: a view, a tensor that was computed from it and may be
   * read yet, a pending read, a `backward` that has not run.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const a = Tensor.full([3], 2).realize();
   * const b = a.mul(3);
   * a.dispose();
   * assertEquals(await b.toArray(), [6, 6, 6]);
   * ```
   */
  dispose(): void {
    this.#state.dispose();
  }

  /** {@linkcode TensorBase.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /**
   * How it would be computed now: the kernels with what they read, write and run, as text.
   *
   * @example
   * ```ts
   * import { Tensor } from "@netcl/netcl";
   *
   * console.log(Tensor.ones([8]).add(1).relu().explain());
   * ```
   */
  explain(): string {
    return explain(this.#self());
  }

  /** `Tensor([2, 3], float32, cl)`. */
  toString(): string {
    return `Tensor(${formatShape(this.shape)}, ${this.dtype}, ${this.backend})`;
  }

  /** What `JSON.stringify` writes, without the elements: those are in `await tensor.toArray()`. */
  toJSON(): string {
    return this.toString();
  }
}

/** What `compile` is told of: see `observeMethods`. */
export const observedBookkeeping: Readonly<Record<string, OperationKind>> = {
  requiresGrad: "set",
  assign: "assign",
  realize: "realize",
  dispose: "dispose",
  toHost: "read",
  toHostSync: "read",
  item: "read",
  itemSync: "read",
  toArray: "read",
};

/** Bytes as the typed array that users get. */
export function hostView(bytes: Uint8Array<ArrayBuffer>, dtype: DType): TypedArray {
  const { view, bytes: size } = dtypes[dtype];
  const raw = view(bytes.buffer, 0, bytes.byteLength / size);
  return dtype === "bfloat16" ? Float32Array.from(raw as Uint16Array, fromBfloat16Bits) : raw;
}
