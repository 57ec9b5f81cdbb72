/**
 * The expression graph. A node says how a value is made; it is scheduled into kernels when somebody
 * asks for the value. Nodes are immutable but for one step: once a value has been stored, its node
 * becomes a `buffer` and lets go of what it was made from.
 */
import type { Storage as StorageOf } from "../../memory/mod.ts";
import { type Owned, watch } from "./abandoned.ts";
import type { DType } from "./dtype.ts";
import { type Shape, sizeOf } from "./shape.ts";

/** A value in memory; which kind of memory is its backend's business. */
// deno-lint-ignore no-explicit-any -- graphs are the same on every backend
export type Storage = StorageOf<any>;

/**
 * How products of float32 may be computed: "highest" keeps float32's accuracy; "high" and "medium" may
 * round their operands to TF32's 11 significant bits where a device multiplies those faster.
 */
export type Float32Precision = "highest" | "high" | "medium";

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
  | {
    readonly kind: "contract";
    readonly batch: number;
    readonly m: number;
    readonly n: number;
    /** How products of float32 may be computed; "highest" where nothing is said. */
    readonly precision?: Float32Precision;
  }
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

/** Stands for a tensor where the tensor itself must stay collectable. */
export interface Token {
  /** The tensor's present node. */
  node: Node | null;
}

/** Why a computed value is in memory although its node still knows how it was made. */
export interface Saved {
  /** Only the pending computations that read the value want it. */
  readonly isUsed: boolean;
  /** Backward has been called: each value goes when its last reader has been computed. */
  use(): void;
  /** Lets the values go, unless a schedule is about to read them. */
  release(): void;
  /** Keeps it while a schedule runs that reads it. */
  pin(): void;
  /** Takes a `pin` back. */
  unpin(): void;
}

let nextId = 1;

/** The `id` of the next node: those made before have smaller ones. */
export function nextNodeId(): number {
  return nextId;
}

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
  /** Set while the stored value is one that can be let go and computed again. */
  saved: Saved | null = null;
  /** The collection that it was put in last, and its place there. */
  pass = 0;
  /** See `pass`. */
  position = 0;
  /** Tensors and pending nodes that may still ask for this value. */
  #holders = 0;
  /** Those of them that are pending nodes. */
  #users = 0;
  /** True while no schedule has computed it: until then it holds its inputs. */
  #pending: boolean;
  #owned: Owned | null = null;

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
    this.#pending = op.kind !== "buffer" && inputs.length > 0;
    if (!this.#pending) return;
    for (const input of inputs) {
      input.#holders++;
      input.#users++;
    }
  }

  /** A node for a value that is in memory; takes over one reference on `storage`. */
  static stored(storage: Storage, shape: Shape, dtype: DType): Node {
    const node = new Node({ kind: "buffer" }, [], shape, dtype);
    node.#own(storage, false);
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

  /** How many pending nodes read this value. */
  get users(): number {
    return this.#users;
  }

  /** Registers one more that may ask for this value. */
  hold(): void {
    this.#holders++;
  }

  /** Takes back one `hold`; the last one frees the stored value and lets go of the inputs. */
  drop(): void {
    if (--this.#holders <= 0) this.#end();
  }

  /** Nobody can ask for the value any more, nor for what only it was made from. */
  #end(): void {
    const ended: Node[] = [this];
    for (let node = ended.pop(); node; node = ended.pop()) {
      node.saved = null;
      node.#disown();
      if (!node.#pending) continue;
      node.#pending = false;
      for (const input of node.inputs) if (input.#leave()) ended.push(input);
    }
  }

  /** One pending node less reads this value; true when that was the last that could ask for it. */
  #leave(): boolean {
    this.#users--;
    if (--this.#holders <= 0) return true;
    if (this.#users === 0 && this.saved?.isUsed) this.forget();
    return false;
  }

  #letGo(): void {
    if (!this.#pending) return;
    this.#pending = false;
    for (const input of this.inputs) if (input.#leave()) input.#end();
  }

  /**
   * A schedule has computed this value on the way: unless another computation waits for it, it no
   * longer holds what it was made from. Where it is asked for after all it is computed again.
   */
  settle(): void {
    if (this.#users === 0) this.#letGo();
  }

  /** The value is in memory now: takes over one reference on `storage`, cuts the history. */
  store(storage: Storage): void {
    this.#letGo();
    this.#own(storage, false);
    this.#cut();
  }

  /** The value is in memory for as long as somebody may soon ask for it. */
  save(storage: Storage, saved: Saved): void {
    this.#letGo();
    this.#own(storage, true);
    this.saved = saved;
  }

  /** A saved value stays from now on, as if it had been stored. */
  keep(): void {
    if (!this.saved) return;
    this.saved = null;
    this.#owned!.isSaved = false;
    this.#cut();
  }

  /** Lets a saved value go: it can be computed again. */
  forget(): void {
    if (!this.saved) return;
    this.saved = null;
    this.#disown();
  }

  #cut(): void {
    this.op = { kind: "buffer" };
    this.inputs = [];
  }

  #own(storage: Storage, isSaved: boolean): void {
    this.storage = storage;
    this.#owned ??= { storage, isSaved, isWatched: false };
    this.#owned.storage = storage;
    this.#owned.isSaved = isSaved;
    watch(this, this.#owned);
  }

  #disown(): void {
    this.storage?.release();
    this.storage = null;
    if (this.#owned) this.#owned.storage = null;
  }
}
