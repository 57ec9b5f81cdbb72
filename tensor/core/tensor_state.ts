/**
 * What netcl keeps for a tensor. A `Tensor` is a handle with one private field, its state; other
 * modules know the class as a type only, reach the state by {@linkcode stateOf} and make
 * tensors by {@linkcode makeTensor}. `tensor.ts` provides both when it is evaluated, which importing
 * `tensor/mod.ts` does first.
 *
 * This folder (`core/`) is what all of `tensor/` shares: the class and the state of tensors, results
 * of operations, random numbers; in `rules/` options, element types, errors, in `modes/` what is
 * recorded. It imports `backend/`, types of `memory/` and `ffi/`, and nothing else of `tensor/`.
 */
import {
  type DeviceHandle,
  finalizer,
  formatShape,
  NEED,
  Node,
  type NodeStorage,
  type Saved,
  type Token,
} from "../../backend/internal.ts";
import type { Tensor } from "./tensor.ts";
import { look } from "./calls.ts";
import { DisposedError } from "./rules/errors.ts";
import type { GradFn } from "./grad_fn.ts";
import { need } from "./modes/temporaries.ts";
import { pendingOn } from "./pending_work.ts";

/** What belongs to a tensor and does not refer to it: nodes refer to it, and keep no tensor alive. */
interface ValueToken extends Token {
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

let made = 0;

/** The `order` of the next tensor: those made before have smaller ones. */
export function nextOrder(): number {
  return made;
}

/** What netcl keeps for one tensor. */
export class TensorState {
  /** The device that it lives on. */
  readonly device: DeviceHandle;
  /** Grows with creation: what a tensor is computed from has a smaller one. */
  readonly order: number = made++;
  /** The present value. {@linkcode nodeOf} checks whether it may be used. */
  node: Node;
  /** `stand-in`: of a tensor that a compiled call has promised and not computed. */
  lifecycle: "live" | "disposed" | "stand-in";
  /** Whether `backward` adds up its gradient; tensors with a `gradFn` pass theirs on in any case. */
  requiresGrad = false;
  /** The recorded operation that made it; null for leaves. Set by `record`. */
  gradFn: GradFn | null = null;
  /** What `backward` has added up. */
  grad: Tensor | null = null;
  /** Leaves whose gradients are computed in one schedule with this root of `backward`. */
  coScheduled: readonly Tensor[] | null = null;
  /** The memory that the user has of it, which stays where it is until then. */
  loan: { readonly storage: unknown; end(): void } | null = null;
  /** What a stand-in stands for; null for others. */
  standsFor: object | null = null;
  /** The tensor that a stand-in has become, where one has become this. */
  original: Tensor | null = null;
  readonly #token: ValueToken = { node: null, former: null, saved: null, isVariable: false };

  /**
   * The state of a new tensor.
   *
   * @param node How the value is made.
   * @param device Where.
   * @param lifecycle A stand-in holds nothing.
   */
  constructor(node: Node, device: DeviceHandle, lifecycle: "live" | "stand-in" = "live") {
    this.device = device;
    this.node = node;
    this.lifecycle = lifecycle;
    if (lifecycle === "stand-in") return;
    node.hold();
    this.#token.node = node;
    node.token = node.owner = this.#token;
    node.exposure = need;
    if (need === NEED.lasting) this.#noteUnread();
  }

  #noteUnread(): void {
    const { node } = this;
    if (!node.isLeaf && node.inputs.length > 0) pendingOn(this.device).addUnread(node);
  }

  /** True where `backward` computes a gradient for it, or for something that it was made from. */
  get needsGrad(): boolean {
    return this.requiresGrad || this.gradFn !== null;
  }

  /** The nodes that are computed in one schedule with this one: gradients, as they are now. */
  coScheduledNodes(): Node[] {
    const nodes: Node[] = [];
    for (const leaf of this.coScheduled ?? []) {
      const { grad } = stateOf(leaf);
      if (grad !== null && !grad.disposed) nodes.push(nodeOf(grad));
    }
    return nodes;
  }

  /** True for a tensor that `backward` would go on from. */
  get isRecorded(): boolean {
    return this.gradFn !== null && !this.gradFn.isFreed;
  }

  /** Says that its value is learned: it will be replaced. */
  markVariable(): void {
    this.#token.isVariable = true;
  }

  /** Says that a temporary has left what it was made in: the user may read it at any time. */
  expose(): void {
    if (this.gradFn?.isFreed) return;
    this.node.exposure = NEED.lasting;
    this.#noteUnread();
  }

  /** Says which operation made it, for `backward`; null ends the record. */
  record(gradFn: GradFn | null): void {
    this.gradFn = gradFn;
    if (gradFn?.isFreed) this.node.exposure = NEED.transient;
  }

  /** What was saved on the way to it for `backward`, which is through with it: the caller's from now on. */
  takeSaved(): readonly Saved[] {
    return this.#token.saved?.splice(0) ?? [];
  }

  /** Keeps values on the way to this one until `backward` has used them, or the tensor is gone. */
  addSaved(saved: Saved): void {
    if (this.#token.saved === null) forgotten.register(this, this.#token.saved = []);
    this.#token.saved.push(saved);
  }

  // ---- assignment

  /** Gives it another value; the former one stays until the next assignment, or `dropFormer`. */
  assign(next: Node): void {
    const former = this.node;
    next.hold();
    this.dropFormer();
    this.#token.former = former;
    this.#token.isVariable = true;
    this.#bind(next);
    former.unbind();
  }

  /**
   * Replaces the node by one with the same shape and type; the former value is let go at once.
   *
   * @throws {DisposedError} After `dispose()`.
   */
  replace(next: Node): void {
    if (this.lifecycle === "disposed") throw this.goneError("it");
    const former = this.node;
    next.hold();
    this.#token.isVariable = true;
    this.#bind(next);
    this.dropFormer();
    former.unbind();
    former.drop();
  }

  /** Gets a value of the same shape and type that was computed; takes over a reference on `storage`. */
  replaceStored(storage: NodeStorage): void {
    const { former, isVariable } = this.#token, { shape, dtype } = this.node;
    if (former === null && isVariable && this.node.exchange(storage)) return;
    this.replace(Node.stored(storage, shape, dtype));
  }

  #bind(node: Node): void {
    node.exposure = NEED.lasting;
    node.token = node.owner = this.#token;
    this.node = this.#token.node = node;
  }

  /** Takes the last `assign` back, where its value could not be computed. */
  restoreFormer(): void {
    const { former } = this.#token;
    if (former === null) return;
    const failed = this.node;
    this.#bind(former);
    this.#token.former = null;
    failed.owner = null;
    failed.unbind();
    failed.drop();
  }

  /** Gives back the value that `assign` replaced, which is otherwise kept until the next one. */
  dropFormer(): void {
    this.#token.former?.drop();
    this.#token.former = null;
  }

  /** Lets go of all that the tensor holds. Idempotent. */
  dispose(): void {
    // A stand-in has nothing to give back.
    if (this.lifecycle !== "live") return;
    this.lifecycle = "disposed";
    this.loan?.end();
    this.dropFormer();
    this.coScheduled = null;
    if (this.#token.saved !== null) releaseAll(this.#token.saved);
    this.#token.node = null;
    this.node.unbind();
    this.node.drop();
  }

  /** The error of using a tensor that is gone, or is computed from one that is. */
  goneError(what: string): DisposedError {
    return new DisposedError(
      `Cannot use the tensor of shape ${formatShape(this.node.shape)}: ${what} was disposed; ` +
        `call realize() on what is needed later, or dispose later`,
    );
  }
}

// ---- the class, which `tensor.ts` provides

function unprovided(): never {
  throw new Error("Cannot make a tensor yet: import tensor/mod.ts first");
}

/** The state of a tensor. As cheap as a field. */
export let stateOf: (tensor: Tensor) => TensorState = unprovided;

/** True for tensors. */
export let isTensor: (value: unknown) => value is Tensor = (_): _ is Tensor => false;

let setState: (tensor: Tensor, state: TensorState) => void = unprovided;

let handleOf: (state: TensorState) => Tensor = unprovided;

/** Says how states and tensors belong together. */
export function provideTensor(
  provided: {
    readonly stateOf: (tensor: Tensor) => TensorState;
    readonly isTensor: (value: unknown) => value is Tensor;
    readonly handleOf: (state: TensorState) => Tensor;
    readonly setState: (tensor: Tensor, state: TensorState) => void;
  },
): void {
  ({ stateOf, isTensor, handleOf, setState } = provided);
}

/** A tensor of a node: holds the node until it is disposed of or collected. */
export function makeTensor(node: Node, device: DeviceHandle): Tensor {
  return handleOf(new TensorState(node, device));
}

/** A tensor without a value, which stands for a result that is known later. */
export function makeStandIn(
  like: Node,
  device: DeviceHandle,
  standsFor: { readonly requiresGrad: boolean },
): Tensor {
  const state = new TensorState(like, device, "stand-in");
  state.standsFor = standsFor;
  state.requiresGrad = standsFor.requiresGrad;
  return handleOf(state);
}

/** Has a stand-in be what a tensor is. */
export function shareState(standIn: Tensor, tensor: Tensor): void {
  const state = stateOf(tensor);
  state.original ??= tensor;
  setState(standIn, state);
}

// ---- the value, where it may be used

/** Tensors that must not be read, because a recorded operation used another value of them. */
let guarded: { readonly tensors: ReadonlySet<Tensor>; readonly op: string } | null = null;

/** Runs `fn` while reading any of `tensors` is an error that names the operation. */
export function guardValues<T>(tensors: ReadonlySet<Tensor>, op: string, fn: () => T): T {
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

/**
 * The node of the expression graph behind a tensor.
 *
 * @throws {DisposedError} After `dispose()`.
 */
export function nodeOf(tensor: Tensor): Node {
  // It may give a stand-in the state of its tensor.
  look(tensor);
  const state = stateOf(tensor);
  if (state.lifecycle !== "live") requireUsable(tensor, state);
  if (guarded !== null && guarded.tensors.has(tensor)) throw changedError(state, guarded.op);
  return state.node;
}

function requireUsable(tensor: Tensor, state: TensorState): void {
  if (state.lifecycle === "stand-in") {
    throw new Error(
      `Cannot use ${tensor}: a compiled function made it and did not return it; return it from the ` +
        `function, or make it outside and pass it`,
    );
  }
  if (!isGoingBackward) throw state.goneError("it");
}

function changedError({ node }: TensorState, op: string): Error {
  return new Error(
    `Cannot go backward through ${op}: its input of shape ${
      formatShape(node.shape)
    } was assigned ` +
      `another value since; go backward before assign() or step(), or compute it again`,
  );
}

/** True while a tensor has the value of that node. */
export function holdsNode(tensor: Tensor, node: Node): boolean {
  return stateOf(tensor).node === node;
}

/** Has the user read a temporary at any time from now on; returns it. */
export function exposed(tensor: Tensor): Tensor {
  stateOf(tensor).expose();
  return tensor;
}

/** `dispose`, also where activations of a graph that `backward` went through may be read yet. */
export function disposeForGood(tensor: Tensor): void {
  tensor.dispose();
  stateOf(tensor).node.releaseTransient();
}
