import { type Block, type DeviceHandle, unrecorded } from "../../backend/internal.ts";
import { nextOrder } from "../core/tensor_state.ts";
import { nodeOf, stateOf } from "../core/internals.ts";
import { observeCalls } from "../core/calls.ts";
import { isGradEnabled } from "../core/modes/grad_mode.ts";
import { realizeAlone } from "../execution/realization.ts";
import type { Tensor } from "../core/mod.ts";
import {
  type Argument,
  type Captured,
  isLike,
  likeness,
  type Output,
  type Ref,
} from "./patterns.ts";
import { isGiven } from "./given_values.ts";
import { openResult, realOf, standInFor } from "./stand_in.ts";

/** Role of each tensor in one call of a compiled function. */
export class Roles {
  /** The `order` of the first tensor that the call makes. */
  readonly start: number = nextOrder();
  /** The memory that tensors from outside had at first, with their roles. */
  readonly blocks: Map<Block, Ref[]> = new Map();
  readonly #device: DeviceHandle | null;
  /** The roles that tensors have been given. */
  readonly #given: Ref[] = [];
  /** The roles of tensors; those of stand-ins know them themselves. */
  readonly #refs = new Map<Tensor, Ref>();
  /** The roles of tensors that were made of host data. */
  readonly #leaves = new Set<Ref>();
  /** Roles that the step in question gave to tensors. */
  readonly #tried: Captured[] = [];
  readonly #giveUp: (reason: string) => void;

  /** Roles of the tensors among the arguments; `giveUp` is told of what cannot be replayed. */
  constructor(
    roles: readonly Argument[],
    given: readonly Tensor[],
    giveUp: (reason: string) => void,
  ) {
    this.#giveUp = giveUp;
    this.#device = given[0]?.device ?? null;
    for (let k = 0; k < given.length; k++) this.bind(roles[k]!, given[k]!);
  }

  /** The call is over: roles keep no tensor. */
  end(): void {
    for (const ref of this.#given) ref.tensor = null;
  }

  /** The role of a tensor; it may be a stand-in of a former call, which has become one. */
  refOf(tensor: Tensor): Ref | undefined {
    return this.#refs.get(realOf(tensor));
  }

  /** True for the role of a tensor of host data. */
  isLeaf(ref: Ref | undefined): boolean {
    return ref !== undefined && this.#leaves.has(ref);
  }

  /** True for a tensor that an operation of this call computed. */
  isMade(tensor: Tensor): boolean {
    const ref = this.refOf(tensor);
    return ref !== undefined && ref.kind === "output" && !this.#leaves.has(ref);
  }

  /** Gives a tensor a role. */
  bind(ref: Ref, tensor: Tensor): void {
    this.#give(ref, tensor);
    if (!this.#refs.has(tensor)) this.#refs.set(tensor, ref);
  }

  #give(ref: Ref, tensor: Tensor): void {
    if (ref.tensor === null) this.#given.push(ref);
    ref.tensor = tensor;
  }

  /** Gives a role to a stand-in, which knows it itself. */
  bindStandIn(ref: Output): void {
    this.#give(ref, standInFor(ref));
  }

  /** Gives a tensor of host data a role. */
  bindLeaf(ref: Ref, tensor: Tensor): void {
    this.#leaves.add(ref);
    this.bind(ref, tensor);
  }

  // ---- in a call that is followed

  /** True where a tensor has a role, or may have it. */
  readonly has = (ref: Ref, given: Tensor): boolean => {
    // It may be a stand-in of a former call.
    const tensor = realOf(given);
    if (ref.tensor !== null) return ref.tensor === tensor;
    if (ref.kind !== "captured" || openResult(tensor) !== null || this.#refs.has(tensor)) {
      return false;
    }
    const isFit = ref.only !== null ? ref.only === tensor : isLike(tensor, ref);
    if (!isFit || tensor.disposed || isComputed(tensor) && isGradEnabled()) return false;
    stateOf(tensor).markCarried();
    this.#give(ref, tensor);
    this.#refs.set(tensor, ref);
    this.#tried.push(ref);
    return true;
  };

  /** From here on roles are given on trial. */
  try(): void {
    if (this.#tried.length > 0) this.#tried.length = 0;
  }

  /** Takes the roles back that were given since `try`. */
  takeBack(): void {
    for (const ref of this.#tried) {
      this.#refs.delete(ref.tensor!);
      ref.tensor = null;
    }
  }

  // ---- in a call that is recorded

  /** The role of a tensor that is used. */
  readonly roleOf = (given: Tensor): Ref => {
    const tensor = realOf(given), known = this.#refs.get(tensor);
    if (known) return known;
    stateOf(tensor).markCarried();
    if (stateOf(tensor).order >= this.start) {
      this.#giveUp("it uses a tensor that was made in a way that compile() does not know");
    }
    if (isGradEnabled() && isComputed(tensor)) {
      this.#giveUp("gradients flow through it to what was computed outside");
    }
    const { device } = tensor;
    this.#requireDevice(device);
    const like = likeness(tensor);
    const ref: Captured = { kind: "captured", tensor: null, like, device, only: null };
    this.bind(ref, tensor);
    this.noteBlock(ref, tensor);
    if (tensor.requiresGrad && stateOf(tensor).gradFn === null) ref.only = tensor;
    return ref;
  };

  /** The role of a tensor that an operation gave which began at the order `from`. */
  resultOf(tensor: Tensor, from: number, outputs: Output[]): Ref {
    const known = this.refOf(tensor);
    if (known) return known;
    if (stateOf(tensor).order < from) return this.roleOf(tensor);
    const { device, requiresGrad } = tensor;
    this.#requireDevice(device);
    const like = likeness(tensor);
    const role = { kind: "output", tensor: null, like, device, requiresGrad } as const;
    const ref: Output = { ...role, place: null };
    outputs.push(ref);
    this.bind(ref, tensor);
    return ref;
  }

  /** From now on the role of a tensor is its alone: it is learned or assigned. */
  fix(tensor: Tensor): void {
    const ref = this.#refs.get(tensor);
    if (ref?.kind === "captured") ref.only = tensor;
  }

  /**
   * Notes where a tensor from outside is in memory; computing it is no part of the call. What the call
   * has assigned so far is, and must not be computed with it.
   */
  noteBlock(ref: Ref, tensor: Tensor): void {
    if (!isGiven(tensor)) observeCalls(null, () => unrecorded(() => realizeAlone(tensor)));
    const block = nodeOf(tensor).storage!.handle, known = this.blocks.get(block);
    if (known) known.push(ref);
    else this.blocks.set(block, [ref]);
  }

  /** Notes it for all that were given a role while the call was followed. */
  noteBlocks(): void {
    for (const ref of this.#given) {
      const { kind, tensor } = ref;
      if (tensor !== null && (kind !== "output" || this.#leaves.has(ref))) {
        this.noteBlock(ref, tensor);
      }
    }
  }

  #requireDevice(device: DeviceHandle): void {
    if (this.#device !== null && this.#device !== device) this.#giveUp("it uses several devices");
  }
}

/** True for a tensor that `backward` would go on from. */
export function isComputed(tensor: Tensor): boolean {
  return stateOf(tensor).isRecorded;
}
