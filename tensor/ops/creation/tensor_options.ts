/**
 * Options of a new tensor: its shape, its type, where it is.
 *
 * This folder (`creation/`) makes tensors without inputs: of host data, numbers, chance. It imports
 * `elementwise/`, `shaping/`, `indexing/` and `core/`.
 */
import {
  backendNames,
  backendOf,
  type DeviceHandle,
  dtypes,
  manager,
  Node,
  type Shape,
} from "../../../backend/internal.ts";
import { Storage } from "../../../memory/mod.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { deviceChoice, phraseOf, type Rules, shown, takes } from "../../core/rules/options.ts";
import { requireType } from "../../core/rules/supported_types.ts";
import { makeTensor, nodeOf } from "../../core/internals.ts";
import type { Tensor } from "../../core/mod.ts";
import type { TensorOptions } from "../../core/arguments.ts";

/** Rules for {@linkcode TensorOptions}; types and shapes are checked where they are used. */
export const tensorRules: Rules<TensorOptions> = {
  shape: takes.anything,
  dtype: takes.text,
  device: deviceChoice,
  backend: takes.oneOf(...backendNames),
  requiresGrad: takes.bool,
  pinMemory: takes.bool,
  persistent: takes.bool,
};

/** The device that options name. */
export function deviceOf(options: TensorOptions = {}): DeviceHandle {
  if (options.device !== undefined) return manager.resolve(options.device);
  if (options.backend === undefined || manager.active.backend === options.backend) {
    return manager.active;
  }
  return manager.default(options.backend);
}

/** A tensor of a node, with what the options say beyond its value. */
export function made(node: Node, options: TensorOptions = {}): Tensor {
  const device = deviceOf(options);
  requireType(device, node.dtype);
  const tensor = makeTensor(options.persistent ? persisted(node, device) : node, device);
  if (options.requiresGrad) tensor.requiresGrad = true;
  return tensor;
}

/** The same value in the device's persistent pool. */
function persisted(node: Node, device: DeviceHandle): Node {
  const backend = backendOf(device);
  const nbytes = node.size * dtypes[node.dtype].bytes;
  const block = backend.memory.allocate(nbytes, { persistent: true });
  using computed = makeTensor(node, device).realize();
  backend.copy(nodeOf(computed).storage!.handle, block, nbytes);
  return Node.uploaded(new Storage(backend.memory, block), node.shape, node.dtype, true);
}

/** A shape that was checked to be one. */
export function checkedShape(op: string, shape: Shape): Shape {
  if (Array.isArray(shape) && shape.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    return [...shape];
  }
  const phrase = phraseOf(op) === op ? `${op} a tensor` : `make ${op}`;
  throw shapeError(op)`
    Cannot ${phrase} of shape ${shown(shape)}: pass an array of whole numbers of at least 0`;
}

/** The tensor, with the gradient that the options ask for. */
export function required(tensor: Tensor, options?: TensorOptions): Tensor {
  if (options?.requiresGrad) tensor.requiresGrad = true;
  return tensor;
}
