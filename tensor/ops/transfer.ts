/** Tensors on their way between devices. */
import {
  backendOf,
  type DeviceHandle,
  manager,
  Node,
  type NodeStorage,
} from "../../backend/internal.ts";
import { newGradFn } from "../core/apply.ts";
import { isGradEnabled } from "../core/modes/grad_mode.ts";
import { requireType } from "../core/rules/supported_types.ts";
import { makeTensor, nodeOf, stateOf } from "../core/internals.ts";
import type { Tensor } from "../core/tensor.ts";

/** The tensor on `device`: the same object where it is there, else a copy, made once per content. */
export function copyTo(tensor: Tensor, target: string | DeviceHandle): Tensor {
  const device = manager.resolve(target);
  if (tensor.device === device) return tensor;
  requireType(device, tensor.dtype);
  const copied: NodeStorage = nodeOf(tensor.realize()).storage!.copyOn(backendOf(device).memory);
  const out = makeTensor(Node.stored(copied, tensor.shape, tensor.dtype), device);
  if (tensor.requiresGrad && isGradEnabled()) {
    stateOf(out).gradFn = newGradFn("to", [tensor], (g) => [copyTo(g, tensor.device)]);
  }
  return out;
}
