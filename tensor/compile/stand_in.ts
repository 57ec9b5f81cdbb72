/**
 * Stand-ins: what an operation gives while a compiled function is followed, tensors with a shape, a type
 * and a device, whose value only the replay knows. Where the call turns out to be another one than any
 * that was recorded, the operations are called after all, and each stand-in becomes its tensor.
 */
import { makeStandIn, originalOf, shareState, stateOf } from "../core/internals.ts";
import type { Tensor } from "../core/mod.ts";
import type { Output } from "./patterns.ts";

/** A tensor that stands for a result. */
export function standInFor(output: Output): Tensor {
  return makeStandIn(output.like, output.device, output);
}

/** Output behind a stand-in while there is no tensor; null for other tensors. */
export function openResult(tensor: Tensor): Output | null {
  return stateOf(tensor).standsFor as Output | null;
}

/** True for what was made as a stand-in, whether it has become a tensor or not. */
export function isStandIn(tensor: Tensor): boolean {
  return openResult(tensor) !== null || realOf(tensor) !== tensor;
}

/** From now on the stand-in has the value of the tensor, its gradient and all. */
export function becomeReal(standIn: Tensor, tensor: Tensor): void {
  shareState(standIn, tensor);
}

/** The tensor that a stand-in has become; any other tensor, and a stand-in before, is itself. */
export function realOf(tensor: Tensor): Tensor {
  return originalOf(tensor);
}
