/**
 * The expression graph. A node says how a value is made; it is scheduled into kernels when somebody
 * asks for the value. Nodes are immutable but for one step: once a value has been stored, its node
 * becomes a `buffer` and lets go of what it was made from.
 */
import type { Storage as StorageOf } from "../../memory/mod.ts";
import type { DType } from "./dtype.ts";
import { type Shape, sizeOf } from "./shape.ts";

/** A value in memory; which kind of memory is its backend's business. */
// deno-lint-ignore no-explicit-any -- graphs are the same on every backend
export type Storage = StorageOf<any>;

/** What a reduction does to the elements that it joins. */
export type ReduceFn = "sum" | "prod" | "max" | "min" | "argmax" | "argmin";

/** How a view maps its coordinates to those of its input. */
export type ViewOp =
  | { readonly kind: "reshape" }
  | { readonly kind: "permute"; readonly axes: readonly number[] }
  | { readonly kind: "expand" }
  /** Coordinate `i` reads `start + i * step`; a step may be negative. */
  | {
    readonly kind: "slice";
    readonly starts: readonly number[];
    readonly steps: readonly number[];
  }
  /** `before` elements of `value` in front of each axis, as many behind as the shape says. */
  | { readonly kind: "pad"; readonly before: readonly number[]; readonly value: number }
  /** The last axes become (positions..., kernel...): position `p`, tap `k` reads `p*stride + k*dilation`. */
  | {
    readonly kind: "window";
    readonly kernel: readonly number[];
    readonly stride: readonly number[];
    readonly dilation: readonly number[];
  };

/** What a node does with its inputs. */
export type Op =
  | { readonly kind: "buffer" }
  /** A few bytes that are on the host: they travel with the kernels that read them. */
  | { readonly kind: "data"; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: "constant"; readonly value: number }
  /** 0, 1, 2, ... in row-major order. */
  | { readonly kind: "iota" }
  /** Philox uniform numbers in [0, 1): the element's index is the counter, `stream` and `seed` the key. */
  | { readonly kind: "random"; readonly seed: number; readonly stream: RandomStream }
  | { readonly kind: "elementwise"; readonly fn: string }
  | { readonly kind: "cast" }
  | ViewOp
  | { readonly kind: "reduce"; readonly fn: ReduceFn; readonly axes: readonly number[] }
  /** Inputs (batch..., m..., k...) and (batch..., k..., n...); result (batch..., m..., n...). */
  | { readonly kind: "contract"; readonly batch: number; readonly m: number; readonly n: number }
  /** `out[..., i, ...] = input[..., indices[..., i, ...], ...]` along `axis`. */
  | { readonly kind: "gather"; readonly axis: number; readonly opName: string }
  /** A copy of the input in which `source` is added (or stored) at `indices` along `axis`, in order. */
  | {
    readonly kind: "scatter";
    readonly axis: number;
    readonly mode: "add" | "set";
    readonly opName: string;
  }
  /** Running sum along the last axis. */
  | { readonly kind: "scan" }
  /** Indices that sort the last axis, stable. */
  | { readonly kind: "argsort"; readonly descending: boolean }
  /** The same value, in memory: readers load it instead of computing it again. */
  | { readonly kind: "copy" }
  /** The adjoint of `window`: sums what every window took from an element. */
  | {
    readonly kind: "fold";
    readonly stride: readonly number[];
    readonly dilation: readonly number[];
  };

/** A number that a replayed schedule draws anew: the position in the sequence of random tensors. */
export interface RandomStream {
  /** How many random tensors were made before. */
  readonly value: number;
}

/**
 * What a finalizer needs of a tensor: the nodes that it holds. A node that has been computed, but is
 * not stored, holds nothing: it leaves, so that the graph behind it can be collected.
 */
export interface Token {
  /** The tensor's present node. */
  node: Node | null;
}

let nextId = 1;

/** One value of the expression graph. */
export class Node {
  /** Grows with creation, so inputs have smaller ids than their users. */
  readonly id: number = nextId++;
  /** The size of each axis. */
  readonly shape: Shape;
  /** The element type. */
  readonly dtype: DType;
  /** The number of elements. */
  readonly size: number;
  /** How the value is made; `buffer` once it has been stored. */
  op: Op;
  /** What it is made from; empty once it has been stored. */
  inputs: readonly Node[];
  /** The stored value, row-major and contiguous; null while it is only a promise. */
  storage: Storage | null = null;
  /** The token of the one tensor whose present value this is. */
  token: Token | null = null;
  /** The token of the tensor that it was made for, also after that got another value. */
  owner: Token | null = null;
  /** The collection that it was put in last, and its place there. */
  pass = 0;
  /** See `pass`. */
  position = 0;
  /** Tensors and pending nodes that will or may ask for this value. */
  #holders = 0;
  /** How many of the holders are pending nodes. */
  #users = 0;
  /** Values that were computed, but not stored: they could be computed again from this one. */
  #readers = 0;
  /** Its tensor was disposed: what merely could need it does not keep it. */
  #disposed = false;
  /** How it keeps its inputs: as their holder, as their reader, or not at all. */
  #bond: "holder" | "reader" | "none";

  /**
   * Nodes are made by operations on tensors.
   *
   * @param op How the value is made.
   * @param inputs What it is made from.
   * @param shape Its shape.
   * @param dtype Its element type.
   */
  constructor(op: Op, inputs: readonly Node[], shape: Shape, dtype: DType) {
    this.op = op;
    this.inputs = inputs;
    this.shape = shape;
    this.dtype = dtype;
    this.size = sizeOf(shape);
    this.#bond = op.kind !== "buffer" && inputs.length > 0 ? "holder" : "none";
    if (this.#bond === "holder") { for (const input of inputs) input.#addUser(); }
  }

  /** A node for a value that is in memory; takes over one reference on `storage`. */
  static stored(storage: Storage, shape: Shape, dtype: DType): Node {
    const node = new Node({ kind: "buffer" }, [], shape, dtype);
    node.storage = storage;
    return node;
  }

  /** True when nothing has to be computed: the value is in memory, on the device or on the host. */
  get isLeaf(): boolean {
    return this.storage !== null || this.op.kind === "data";
  }

  /** How many tensors and pending nodes may still ask for this value. */
  get holders(): number {
    return this.#holders;
  }

  /** Registers one more that may ask for this value. */
  hold(): void {
    this.#holders++;
  }

  #addUser(): void {
    this.#holders++;
    this.#users++;
  }

  /**
   * Takes back one `hold`. The last one frees the stored value and lets go of the inputs; where the
   * garbage collector found the holder, only once nothing could be computed from it any more.
   *
   * @param isLeak The garbage collector found the holder: what it frees counts as a leak.
   */
  drop(isLeak = false): void {
    this.#holders--;
    if (!isLeak) this.#disposed = true;
    Node.free(this, isLeak);
  }

  /** True when nobody asks for the value any more, and nobody who matters could. */
  get #isFree(): boolean {
    return this.#holders === 0 && (this.#readers === 0 || this.#disposed);
  }

  /** Gives back the value; returns the inputs that it no longer keeps. */
  #free(isLeak: boolean): readonly Node[] {
    if (isLeak) this.storage?.reclaim();
    else this.storage?.release();
    this.storage = null;
    return this.#unbind();
  }

  /** Lets go of the inputs; some may be free then. */
  #unbind(): readonly Node[] {
    const bond = this.#bond;
    this.#bond = "none";
    if (bond === "none") return [];
    for (const input of this.inputs) {
      if (bond === "reader") input.#readers--;
      else input.#holders--, input.#users--;
    }
    return this.inputs;
  }

  /**
   * A schedule has computed this value on the way: unless somebody still waits for it, it no longer
   * holds what it was made from, and is computed again from that where it is asked for after all.
   */
  settle(): void {
    if (this.#bond !== "holder" || this.#users > 0) return;
    this.#bond = "reader";
    for (const input of this.inputs) {
      input.#holders--;
      input.#users--;
      input.#readers++;
    }
    for (const input of this.inputs) Node.free(input, false);
  }

  /** The value is in memory now: takes over one reference on `storage`, cuts the history. */
  store(storage: Storage): void {
    this.storage = storage;
    this.op = { kind: "buffer" };
    const inputs = this.#unbind();
    this.inputs = [];
    for (const input of inputs) Node.free(input, false);
  }

  /** Frees the node if nobody needs it, and what it alone kept. */
  static free(node: Node, isLeak: boolean): void {
    const stack: Node[] = [node];
    for (let next = stack.pop(); next; next = stack.pop()) {
      if (next.#isFree) stack.push(...next.#free(isLeak));
    }
  }
}
