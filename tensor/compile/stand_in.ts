import type { Node } from "../../backend/engine.ts";
import type { Edge } from "../autograd/autograd.ts";
import { look } from "../core/calls.ts";
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
  /** The tensor, once there is one. */
  real: Tensor | null = null;

  /** Stands for a result. */
  constructor(of: Output) {
    super(of.like, of.device);
    this.of = of;
  }

  /** The node of the tensor: who asks has the operations called. */
  override get node(): Node {
    if (this.real === null) look(this);
    if (this.real !== null) return this.real.node;
    throw new Error(
      `Cannot use ${this}: a compiled function made it and did not return it; return it from the ` +
        `function, or make it outside and pass it`,
    );
  }

  /** How it was computed: unknown, until there is a tensor. */
  override get edge(): Edge | null {
    return this.real === null ? null : this.real.edge;
  }

  override set edge(edge: Edge | null) {
    this.node;
    this.real!.edge = edge;
  }

  /** What is known of the result; a leaf may be told otherwise. */
  override get requiresGrad(): boolean {
    return this.of.requiresGrad || super.requiresGrad;
  }

  override set requiresGrad(value: boolean) {
    super.requiresGrad = value;
  }

  /** The gradient: the tensor's, once there is one. */
  override get grad(): Tensor | null {
    return this.real === null ? super.grad : this.real.grad;
  }

  override set grad(gradient: Tensor | null) {
    if (this.real === null) super.grad = gradient;
    else this.real.grad = gradient;
  }

  /** Leaves nothing to give back, unless there is a tensor. */
  override dispose(): void {
    this.real?.dispose();
  }
}
