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
  finalizer,
  formatShape,
  fromBfloat16Bits,
  GoneError,
  MOST_ON_HOST,
  NEED,
  Node,
  readNode,
  readNodeSync,
  type Saved,
  type Shape,
  type Token,
  type TypedArray,
} from "../../backend/engine.ts";
import { look, type OperationKind } from "./calls.ts";
import { DisposedError, ShapeError } from "./errors.ts";
import type { Edge } from "../autograd/autograd.ts";
import { explain } from "../execution/explain.ts";
import { endLoan } from "../execution/native_access.ts";
import {
  computeWithNext,
  noteAssignment,
  realizeAll,
  realizeForRead,
} from "../execution/realization.ts";
import { presentNeed } from "../execution/temporaries.ts";
import type { Tensor } from "../tensor.ts";
import { requireValue, takes } from "./options.ts";
import { noteUnread } from "../execution/unread.ts";

/** Numbers and truth values as nested arrays, one level per axis. */
export type NestedArray = number | boolean | NestedArray[];

/** Saved values of tensors that `backward` has gone through. */
const spentValues: Saved[] = [];

/** Backward has made all that reads saved values: each of them goes with its last reader. */
export function useSavedValues(): void {
  for (const saved of spentValues.splice(0)) saved.use();
}

let made = 0;

/** The `order` of the next tensor: those made before have smaller ones. */
export function nextOrder(): number {
  return made;
}

let assignmentObserver: ((tensor: Tensor) => void) | null = null;

/** Tensors that must not be read, because a recorded operation used another value of them. */
let guarded: { readonly tensors: ReadonlySet<TensorBase>; readonly op: string } | null = null;

/** Runs `fn` while reading any of `tensors` is an error that names the operation. */
export function guardValues<T>(tensors: ReadonlySet<TensorBase>, op: string, fn: () => T): T {
  const former = guarded;
  guarded = { tensors, op };
  try {
    return fn();
  } finally {
    guarded = former;
  }
}

let isGoingBackward = false;

/**
 * Runs `fn`, which goes backward: it may read tensors that were disposed of meanwhile, for they are
 * part of the graph all the same. Their values are there, or computed again, or an error says so.
 */
export function goingBackward<T>(fn: () => T): T {
  const former = isGoingBackward;
  isGoingBackward = true;
  try {
    return fn();
  } finally {
    isGoingBackward = former;
  }
}

function changedError(tensor: TensorBase, op: string): Error {
  return new Error(
    `Cannot go backward through ${op}: its input of shape ${
      formatShape(tensor.shape)
    } was assigned ` +
      `another value since; go backward before assign() or step(), or compute it again`,
  );
}

/** Tells `observer` of every `assign` while `fn` runs. */
export function observeAssignments<T>(observer: (tensor: Tensor) => void, fn: () => T): T {
  const former = assignmentObserver;
  assignmentObserver = observer;
  try {
    return fn();
  } finally {
    assignmentObserver = former;
  }
}

/** Gets a tensor with its gradient and, where that is replaced, the next one. */
type GradientObserver = (tensor: Tensor, now: Tensor | null, next?: Tensor | null) => void;

let gradientObserver: GradientObserver | null = null;

/** Tells `observer` of every look at a tensor's gradient, and every change, while `fn` runs. */
export function observeGradients<T>(observer: GradientObserver, fn: () => T): T {
  const former = gradientObserver;
  gradientObserver = observer;
  try {
    return fn();
  } finally {
    gradientObserver = former;
  }
}

/** What belongs to a tensor and does not refer to it. */
interface Held extends Token {
  /** The value before the last `assign`, kept so that what was computed from it can be read. */
  former: Node | null;
  /** What was kept on the way to its value, for `backward`. */
  saved: Saved[] | null;
}

/** Lets go of what was kept for the backward of tensors that nobody can reach any more. */
const forgotten = finalizer<Saved[]>("values that a forgotten tensor kept", releaseAll);

function releaseAll(values: Saved[]): void {
  for (const saved of values.splice(0)) saved.release();
}

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
  /** The device that it lives on. */
  readonly device: DeviceHandle;
  /** Grows with creation: what a tensor is computed from has a smaller one. */
  readonly order: number = made++;
  #node: Node;
  readonly #held: Held;
  #disposed = false;
  #requiresGrad = false;
  #edge: Edge | null = null;
  #companions: (() => Node[]) | null = null;

  #grad: Tensor | null = null;

  /**
   * Tensors are made by the static methods of `Tensor`, and by operations.
   *
   * @param node How the value is made.
   * @param device Where.
   */
  constructor(node: Node, device: DeviceHandle) {
    node.hold();
    this.#node = node;
    this.#held = { node, former: null, saved: null, isVariable: false };
    node.token = node.owner = this.#held;
    this.device = device;
    const need = node.exposure = presentNeed();
    if (need === NEED.lasting && !node.isLeaf && node.inputs.length > 0) noteUnread(node, device);
  }

  /** Says that a temporary has left what it was made in: the user may read it at any time. */
  expose(): Tensor {
    const node = this.#node;
    if (this.#edge?.isSpent) return this.#self();
    node.exposure = NEED.lasting;
    if (!node.isLeaf && node.inputs.length > 0) noteUnread(node, this.device);
    return this.#self();
  }

  #self(): Tensor {
    return this as unknown as Tensor;
  }

  /**
   * The node of the expression graph behind this tensor.
   *
   * @throws {DisposedError} After `dispose()`.
   */
  get node(): Node {
    look(this);
    if (this.#disposed && !isGoingBackward) throw this.#gone("it");
    if (guarded?.tensors.has(this)) throw changedError(this, guarded.op);
    return this.#node;
  }

  /** True while this tensor has the value of that node. */
  holds(node: Node): boolean {
    return this.#node === node;
  }

  #gone(what: string): DisposedError {
    return new DisposedError(
      `Cannot use the tensor of shape ${formatShape(this.shape)}: ${what} was disposed; ` +
        `call realize() on what is needed later, or dispose later`,
    );
  }

  /** The size of each axis; `[]` for a scalar. */
  get shape(): Shape {
    return this.#node.shape;
  }

  /** The element type. */
  get dtype(): DType {
    return this.#node.dtype;
  }

  /** The number of elements. */
  get size(): number {
    return this.#node.size;
  }

  /** The number of axes. */
  get ndim(): number {
    return this.#node.shape.length;
  }

  /** "cl" or "cpu": which backend computes it. */
  get backend(): "cl" | "cpu" {
    return this.device.backend;
  }

  /** True after `dispose()`. */
  get disposed(): boolean {
    return this.#disposed;
  }

  /** True when the value is in memory; false while it is only a promise. */
  get isRealized(): boolean {
    return !this.#disposed && this.#node.isLeaf;
  }

  /** The computation that made it, for `backward`; null for leaves. */
  get edge(): Edge | null {
    return this.#edge;
  }

  /** Set by operations that are recorded, cleared by `backward`. */
  set edge(edge: Edge | null) {
    this.#edge = edge;
    if (edge?.isSpent) this.#node.exposure = NEED.brief;
    if (this.#held.saved) spentValues.push(...this.#held.saved.splice(0));
  }

  /** True when `backward` computes a gradient for it, or for something that it was made from. */
  get requiresGrad(): boolean {
    return this.#requiresGrad || this.#edge !== null;
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
    if (!value && this.#edge) {
      throw new TypeError("Cannot stop gradients at a computed tensor: use detach()");
    }
    this.#requiresGrad = value;
    if (value) this.#held.isVariable = true;
  }

  /** The gradient that `backward` has added up, null before. */
  get grad(): Tensor | null {
    gradientObserver?.(this.#self(), this.#grad);
    return this.#grad;
  }

  /** Replaces the gradient; the former one is the caller's to dispose of. */
  set grad(gradient: Tensor | null) {
    gradientObserver?.(this.#self(), this.#grad, gradient);
    this.#grad = gradient;
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

  /** The gradients that are computed together with this root of `backward`. */
  companions(): Node[] {
    return this.#companions?.() ?? [];
  }

  /** Says which gradients belong to this root. */
  setCompanions(nodes: () => Node[]): void {
    this.#companions = nodes;
  }

  #guard<T>(fn: () => T): T {
    try {
      return fn();
    } catch (error) {
      throw error instanceof GoneError ? this.#gone("what it is computed from") : error;
    }
  }

  /** Has values on the way to this one kept until `backward` has used them, or this is gone. */
  addSaved(saved: Saved): void {
    if (this.#held.saved === null) forgotten.register(this, this.#held.saved = []);
    this.#held.saved.push(saved);
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
    const { node } = this;
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
    if (this.#edge) {
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
    const former = this.node;
    const op = { kind: value.dtype === this.dtype ? "reshape" : "cast" } as const;
    const next = new Node(op, [value.node], this.shape, this.dtype);
    next.hold();
    this.dropFormer();
    this.#held.former = former;
    this.#held.isVariable = true;
    this.#bind(next);
    former.unbind();
    assignmentObserver?.(this.#self());
    noteAssignment(this.device);
    computeWithNext(this.#self());
    return this;
  }

  /** Replaces the node by one with the same shape and type; the former value is let go at once. */
  replaceNode(node: Node): void {
    const former = this.node;
    node.hold();
    this.#held.isVariable = true;
    this.#bind(node);
    this.dropFormer();
    former.unbind();
    former.drop();
  }

  #bind(node: Node): void {
    node.exposure = NEED.lasting;
    node.token = node.owner = this.#held;
    this.#node = this.#held.node = node;
  }

  /** Takes the last `assign` back, where its value could not be computed. */
  restoreFormer(): void {
    const { former } = this.#held;
    if (!former) return;
    const failed = this.#node;
    this.#bind(former);
    this.#held.former = null;
    failed.owner = null;
    failed.unbind();
    failed.drop();
  }

  /** Gives back the value that `assign` replaced, which is otherwise kept until the next one. */
  dropFormer(): void {
    this.#held.former?.drop();
    this.#held.former = null;
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
    if (this.#disposed) return;
    this.#disposed = true;
    endLoan(this);
    this.dropFormer();
    this.#companions = null;
    if (this.#held.saved) releaseAll(this.#held.saved);
    this.#held.node = null;
    this.#node.unbind();
    this.#node.drop();
  }

  /** `dispose`, also where activations of a graph that `backward` went through may be read yet. */
  disposeForGood(): void {
    this.dispose();
    this.#node.releaseBrief();
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
    return explain(this);
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
