/** Tensors on their way between devices. */
import { backendOf, type DeviceHandle, Node, type NodeStorage } from "../../backend/engine.ts";
import { edgeOf } from "../core/apply.ts";
import { isGradEnabled } from "../core/grad_mode.ts";
import { requireType } from "../core/supported_types.ts";
import { Tensor } from "../tensor.ts";

/** The tensor on `device`: the same object where it is there, else a copy, made once per content. */
export function copyTo(tensor: Tensor, device: DeviceHandle): Tensor {
  if (tensor.device === device) return tensor;
  requireType(device, tensor.dtype);
  const copied: NodeStorage = tensor.realize().node.storage!.copyOn(backendOf(device).memory);
  const out = new Tensor(Node.stored(copied, tensor.shape, tensor.dtype), device);
  if (tensor.requiresGrad && isGradEnabled()) {
    out.edge = edgeOf("to", [tensor], (g) => [copyTo(g, tensor.device)]);
  }
  return out;
}
