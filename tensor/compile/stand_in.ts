import { shareState, TensorState } from "../core/tensor_state.ts";
import { Tensor } from "../tensor.ts";
import type { Output } from "./patterns.ts";

/**
 * What an operation gives while a compiled function is followed: a tensor with a shape, a type and a
 * device, whose value only the replay knows. Where the call turns out to be another one than any that
 * was recorded, the operations are called after all, and each stand-in gets its tensor.
 */
export class StandIn extends Tensor {
  /** What it stands for. */
  readonly of: Output;
  #real: Tensor | null = null;

  /** Stands for a result. */
  constructor(of: Output) {
    const state = new TensorState(of.like, of.device, "stand-in");
    state.requiresGrad = of.requiresGrad;
    super(state);
    this.of = of;
  }

  /** The tensor, once there is one: from then on the stand-in has its value, its gradient and all. */
  get real(): Tensor | null {
    return this.#real;
  }

  set real(tensor: Tensor) {
    this.#real = tensor;
    shareState(this, tensor);
  }

  /** Leaves nothing to give back, unless there is a tensor. */
  override dispose(): void {
    this.#real?.dispose();
  }
}
