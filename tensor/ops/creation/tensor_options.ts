/**
 * What may be said about a new tensor: its shape, its type, where it is.
 *
 * This folder (`creation/`) makes tensors without inputs: of host data, numbers, chance. It imports
 * `elementwise/`, `shaping/`, `indexing/` and `core/`.
 */
import {
  type BackendName,
  backendNames,
  backendOf,
  type DeviceHandle,
  type DType,
  dtypes,
  manager,
  Node,
  type Shape,
} from "../../../backend/internal.ts";
import { Storage } from "../../../memory/mod.ts";
import { ShapeError } from "../../core/errors.ts";
import { deviceChoice, type Rules, shown, takes } from "../../core/options.ts";
import { requireType } from "../../core/supported_types.ts";
import { makeTensor, nodeOf } from "../../core/tensor_state.ts";
import type { Tensor } from "../../tensor.ts";

/** What may be said about a new tensor. */
export interface TensorOptions {
  /** Its shape; default: that of nested arrays, or one axis. */
  shape?: Shape;
  /** Its element type; default: that of the typed array, bool for booleans, else float32. */
  dtype?: DType;
  /** A selection string or handle; default: the active device. */
  device?: string | DeviceHandle;
  /** The same, by backend alone. */
  backend?: BackendName;
  /** Whether `backward` computes its gradient. */
  requiresGrad?: boolean;
  /**
   * Makes the content in page-locked host memory first, which a device copies from by itself while
   * it computes. For data from the host; `memory.stats().pinned` counts it.
   */
  pinMemory?: boolean;
  /**
   * Keeps the value in the device's persistent pool, apart from what comes and goes with each step:
   * for weights. `memory.stats().persistent` counts it.
   */
  persistent?: boolean;
}

/** What {@linkcode TensorOptions} may hold; types and shapes are checked where they are used. */
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
  return Node.stored(new Storage(backend.memory, block), node.shape, node.dtype);
}

/** A shape that was checked to be one. */
export function checkedShape(op: string, shape: Shape): Shape {
  if (Array.isArray(shape) && shape.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    return [...shape];
  }
  throw new ShapeError(
    `Cannot ${op} a tensor of shape ${shown(shape)}: pass an array of whole numbers of at least 0`,
  );
}

/** The tensor, with the gradient that the options ask for. */
export function required(tensor: Tensor, options?: TensorOptions): Tensor {
  if (options?.requiresGrad) tensor.requiresGrad = true;
  return tensor;
}
