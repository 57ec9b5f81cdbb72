/** Tensors on their way between devices. */
import {
  backendOf,
  type Block,
  type DeviceHandle,
  manager,
  Node,
  type NodeStorage,
} from "../../backend/internal.ts";
import { newGradFn } from "../core/apply.ts";
import { isGradEnabled } from "../core/modes/grad_mode.ts";
import { isTypeTarget, requireType } from "../core/rules/supported_types.ts";
import { makeTensor, nodeOf, stateOf } from "../core/internals.ts";
import { compute } from "../core/operations.ts";
import type { Tensor } from "../core/mod.ts";

/** The tensor on a device, or in an element type: the same object where it is there already. */
export function to(tensor: Tensor, target: string | DeviceHandle): Tensor {
  if (isTypeTarget(target)) return tensor.cast(target);
  const device = manager.resolve(target);
  return tensor.device === device ? tensor : compute(copyTo, tensor, device);
}

/** A copy of the tensor on another device, made once per content. */
function copyTo(tensor: Tensor, device: DeviceHandle): Tensor {
  requireType(device, tensor.dtype);
  const { storage } = nodeOf(tensor.realize());
  // An index out of range is an error of the device that met it: a read of the copy would not see it.
  backendOf(tensor.device).readSync(storage!.handle as Block, new Uint8Array(0));
  const copied: NodeStorage = storage!.copyOn(backendOf(device).memory);
  const out = makeTensor(Node.stored(copied, tensor.shape, tensor.dtype), device);
  if (tensor.requiresGrad && isGradEnabled()) {
    stateOf(out).record(newGradFn("to", [tensor], (g) => [copyTo(g, tensor.device)]));
  }
  return out;
}
