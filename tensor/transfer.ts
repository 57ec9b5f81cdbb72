/** Tensors on their way between devices. */
import { backendOf, type DeviceHandle, Node } from "../backend/engine.ts";
import type { Storage } from "../memory/mod.ts";
import { isGradEnabled } from "./grad_mode.ts";
import { Tensor } from "./tensor.ts";

/** The tensor on `device`: the same object where it is there, else a copy, made once per content. */
export function copyTo(tensor: Tensor, device: DeviceHandle): Tensor {
  if (tensor.device === device) return tensor;
  const [from, to] = [backendOf(tensor.device), backendOf(device)];
  const storage = tensor.realize().node.storage!;
  const copied = storage.copyOn(to.memory, (source: Storage, target: Storage) => {
    const bytes = new Uint8Array(source.nbytes);
    from.readSync(source.handle, bytes);
    to.write(target.handle, bytes);
  });
  const out = new Tensor(Node.stored(copied, tensor.shape, tensor.dtype), device);
  if (tensor.requiresGrad && isGradEnabled()) {
    out.edge = { name: "to", inputs: [tensor], gradient: (g) => [copyTo(g, tensor.device)] };
  }
  return out;
}
