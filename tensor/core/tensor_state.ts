/**
 * State of a tensor in netcl. A `Tensor` is a handle with one private field, its state; other
 * modules reach it by `stateOf`, and make tensors by `makeTensor`, of `internals.ts`.
 *
 * This folder (`core/`) is what all of `tensor/` shares: the state of tensors, results
 * of operations, random numbers; in `rules/` options, element types, errors, in `modes/` what is
 * recorded. It imports `backend/`, types of `memory/` and `ffi/`, the rules of options of
 * `ffi/host/`, and nothing else of `tensor/`.
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
import type { Tensor } from "./mod.ts";
import { DisposedError } from "./rules/errors.ts";
import type { GradientHook, HookHandle } from "./arguments.ts";
import type { GradFn } from "./grad_fn.ts";
import { need, noteTemporary, type Temporary } from "./modes/temporaries.ts";
import { pendingOn } from "./pending_work.ts";

/** Weak side of a tensor: nodes refer to it, and keep no tensor alive. */
class ValueToken implements Token {
  /** The present value; null after `dispose()`. */
  node: Node | null = null;
  /** The value before the last `assign`, kept so that what was computed from it can be read. */
  former: Node | null = null;
  /** Values saved for `backward` on the way to its value. */
  saved: Saved[] | null = null;
  /** See {@linkcode Token}. */
  isVariable = false;
  /** See {@linkcode Token}. */
  isRecorded = false;
}

/** Lets go of what was kept for the backward of tensors that nobody can reach any more. */
const forgotten = finalizer<Saved[]>("values that a forgotten tensor kept", releaseAll);

function releaseAll(values: Saved[]): void {
  for (const saved of values.splice(0)) saved.release();
}

let made = 0, step = 1;
/** Step between the orders of tensors made in the place of one: room for a million. */
const FINE_STEP = 2 ** -20;

/** The `order` of the next tensor: those made before have smaller ones. */
export function nextOrder(): number {
  return made;
}

/** Takes the order of the next tensor for something that is made later, by `inOrder`. */
export function takeOrder(): number {
  const order = made;
  made += step;
  return order;
}

/** Runs `fn`, whose tensors have the orders that they would have had when `order` was taken. */
export function inOrder<T>(order: number, fn: () => T): T {
  const former = [made, step] as const;
  [made, step] = [order, FINE_STEP];
  try {
    return fn();
  } finally {
    [made, step] = former;
  }
}

/** The handle of a hook, which `remove` takes away. */
export function hookHandle(remove: () => void): HookHandle {
  return { remove, [Symbol.dispose]: remove };
}

/** The hooks of a tensor, and of what a checkpoint computes again in its place. */
export class HookList {
  /** Hooks to call, in this order. */
  readonly entries: Set<{ readonly run: GradientHook }> = new Set();
  /** Number of hooks; while `compile` catches up with a call, as many as there were then. */
  count = 0;
  /** Within a compiled function: the tensor that they were registered on. */
  tensor: Tensor | null = null;
}

/** State that netcl keeps for one tensor. */
export class TensorState implements Temporary {
  /** The device that it lives on. */
  readonly device: DeviceHandle;
  /** See {@linkcode Temporary}: its record need not outlive what it was made in. */
  isTemporary = false;
  /** Grows with creation: what a tensor is computed from has a smaller one. */
  readonly order: number = takeOrder();
  /** The present value. {@linkcode nodeOf} checks whether it may be used. */
  node: Node;
  /**
   * `stand-in`: of a tensor that a compiled call has promised and not computed. `inner`: live, made by a
   * compiled call that did not return it, which is told when it is used.
   */
  lifecycle: "live" | "inner" | "disposed" | "stand-in";
  /** True when `backward` adds up its gradient; tensors with a `gradFn` always pass theirs on. */
  requiresGrad = false;
  /** The recorded operation that made it; null for leaves. Set by `record`. */
  gradFn: GradFn | null = null;
  /** Hooks called with its gradient; null before the first. */
  hooks: HookList | null = null;
  /** Sum made by `backward`. */
  grad: Tensor | null = null;
  /** Of a gradient: the program has got the tensor, or gave it, and may read it at any time. */
  isShared = false;
  /** Of a root of `backward`: the nodes of the gradients, as they are now, which are computed with it. */
  coScheduled: (() => Node[]) | null = null;
  /** Its value in memory where the user has got the buffer: it stays there until it is disposed of. */
  exported: { readonly storage: unknown; end(): void } | null = null;
  /** Output behind a stand-in; null for others. */
  standsFor: object | null = null;
  /** Of an `inner` tensor: what compiled calls know it by. */
  madeAs: { isCarried: boolean } | null = null;
  /** The tensor that a stand-in has become, where one has become this. */
  original: Tensor | null = null;
  readonly #token: ValueToken = new ValueToken();

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
    node.bind(this.#token);
    node.exposure = need;
    if (need === NEED.lasting) this.#noteUnread();
    else this.isTemporary = noteTemporary(this);
  }

  #noteUnread(): void {
    const { node } = this;
    if (!node.isLeaf && node.inputs.length > 0) pendingOn(this.device).addUnread(node);
  }

  /** True where `backward` computes a gradient for it, or for something that it was made from. */
  get needsGrad(): boolean {
    return this.requiresGrad || this.gradFn !== null;
  }

  /** The nodes that are computed in one schedule with this one. */
  coScheduledNodes(): Node[] {
    return this.coScheduled?.() ?? [];
  }

  /** True for a tensor that `backward` would go on from. */
  get isRecorded(): boolean {
    return this.gradFn !== null && !this.gradFn.isFreed;
  }

  /** Says that it is a gradient: `backward` may add to it, and a step asks for it. */
  markGradient(): void {
    this.#token.isRecorded = true;
  }

  /** Says that its value is learned: it will be replaced. */
  markVariable(): void {
    this.#token.isVariable = true;
    if (this.#token.node !== null) this.node.bind(this.#token);
  }

  /** Says that it was made by a compiled call that did not return it. */
  markInner(madeAs: { isCarried: boolean }): void {
    if (this.lifecycle !== "live") return;
    this.lifecycle = "inner";
    this.madeAs = madeAs;
  }

  /** Says that an `inner` tensor is used after the call. */
  markCarried(): void {
    if (this.lifecycle !== "inner") return;
    this.lifecycle = "live";
    this.madeAs!.isCarried = true;
    this.madeAs = null;
  }

  /** Says that a temporary has left what it was made in: the user may read it at any time. */
  expose(): void {
    this.leave();
    if (this.gradFn?.isFreed) return;
    this.node.exposure = NEED.lasting;
    this.#noteUnread();
  }

  /** Says that a temporary does not end with what it was made in. */
  leave(): void {
    if (!this.isTemporary) return;
    this.isTemporary = false;
    this.gradFn?.retain?.();
  }

  /** See {@linkcode Temporary}. */
  endTemporary(): void {
    if (!this.isTemporary) return;
    if (this.isShared) this.leave();
    else this.dispose();
  }

  /** Says which operation made it, for `backward`; null ends the record. */
  record(gradFn: GradFn | null): void {
    const former = this.gradFn, isCounted = !this.isTemporary && this.lifecycle !== "disposed";
    this.gradFn = gradFn;
    this.#token.isRecorded = gradFn !== null;
    if (isCounted) {
      gradFn?.retain?.();
      former?.letGo?.();
    }
    if (gradFn?.isFreed) this.node.exposure = NEED.transient;
  }

  /** Transfers values saved for `backward` to the caller, when it is through. */
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
  replaceStored(
    storage: NodeStorage,
    ended: (former: NodeStorage) => void = (former) => former.release(),
  ): void {
    const { former, isVariable } = this.#token, { shape, dtype } = this.node;
    // It was changed where it is.
    if (this.node.storage === storage) {
      this.dropFormer();
      return storage.release();
    }
    if (former === null && isVariable && this.node.exchange(storage, ended)) return;
    this.replace(Node.stored(storage, shape, dtype));
  }

  #bind(node: Node): void {
    node.exposure = NEED.lasting;
    node.bind(this.#token);
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
    if (this.lifecycle === "stand-in" || this.lifecycle === "disposed") return;
    this.lifecycle = "disposed";
    this.exported?.end();
    this.dropFormer();
    this.coScheduled = null;
    if (this.#token.saved !== null) releaseAll(this.#token.saved);
    this.#token.node = null;
    this.node.unbind();
    this.node.drop();
    if (!this.isTemporary) this.gradFn?.letGo?.();
    this.isTemporary = false;
  }

  /** The error of using a tensor that is gone, or is computed from one that is. */
  goneError(what: string): DisposedError {
    return new DisposedError(
      `Cannot use the tensor of shape ${formatShape(this.node.shape)}: ${what} was disposed; ` +
        `call realize() on what is needed later, or dispose later`,
    );
  }
}
