/**
 * Operations without a tensor in front, as users call them by `Tensor.zeros`, `Tensor.concat` and so on.
 * `nn`, `optim`, `data` and `io` call them here: they know the class `Tensor` as a type only.
 *
 * This folder (`ops/`) has what tensors can be asked to compute, each operation with its gradient;
 * folders below are kinds of operations. It imports `core/` and nodes of `backend/`.
 * `tensor/methods.ts` gives its functions to the methods of `Tensor`; lazy tensors go out.
 */
import type { DeviceHandle, DType, Shape } from "../../backend/internal.ts";
import type { Buffer } from "../../ffi/mod.ts";
import { compute, observedCall } from "../core/operations.ts";
import type { Tensor } from "../core/tensor.ts";
import * as hostData from "./creation/host_data.ts";
import type { HostData, MeshOptions, TensorLike, TensorOptions } from "../core/arguments.ts";
import * as random from "./creation/random.ts";
import * as sequences from "./creation/sequences.ts";
import { binary, select } from "./elementwise/elementwise.ts";
import * as joining from "./shaping/joining.ts";

/** See `Tensor.fromHost`. */
export function fromHost(data: HostData, options?: TensorOptions): Tensor {
  return observedCall("leaf", hostData.fromHost, undefined, [data, options]) as Tensor;
}

/** See `Tensor.fromBuffer`. */
export function fromBuffer(
  buffer: Buffer,
  options: { shape: Shape; dtype?: DType; device?: string | DeviceHandle },
): Tensor {
  return observedCall("leaf", hostData.fromBuffer, undefined, [buffer, options]) as Tensor;
}

/** See `Tensor.zeros`. */
export function zeros(shape: Shape, options?: TensorOptions): Tensor {
  return compute(sequences.full, "make", shape, 0, options);
}

/** See `Tensor.ones`. */
export function ones(shape: Shape, options?: TensorOptions): Tensor {
  return compute(sequences.full, "make", shape, 1, options);
}

/** See `Tensor.full`. */
export function full(shape: Shape, value: number, options?: TensorOptions): Tensor {
  return compute(sequences.full, "fill", shape, value, options);
}

/** See `Tensor.arange`. */
export function arange(
  start: number,
  stop?: number,
  step?: number,
  options?: TensorOptions,
): Tensor {
  return compute(sequences.arange, start, stop, step, options);
}

/** See `Tensor.linspace`. */
export function linspace(
  start: number,
  stop: number,
  count: number,
  options?: TensorOptions,
): Tensor {
  return compute(sequences.linspace, start, stop, count, options);
}

/** See `Tensor.eye`. */
export function eye(n: number, options?: TensorOptions): Tensor {
  return compute(sequences.eye, n, options);
}

/** See `Tensor.meshgrid`. */
export function meshgrid(tensors: readonly Tensor[], options?: MeshOptions): Tensor[] {
  return compute(joining.meshgrid, tensors, options);
}

/** See `Tensor.rand`. */
export function rand(shape: Shape, options?: TensorOptions): Tensor {
  return compute(random.rand, shape, options);
}

/** See `Tensor.randn`. */
export function randn(shape: Shape, options?: TensorOptions): Tensor {
  return compute(random.randn, shape, options);
}

/** See `Tensor.randint`. */
export function randint(
  low: number,
  high: number,
  shape: Shape,
  options?: TensorOptions,
): Tensor {
  return compute(random.integers, low, high, shape, options);
}

/** See `Tensor.randperm`. */
export function randperm(n: number, options?: TensorOptions): Tensor {
  return compute(random.randperm, n, options);
}

/** See `Tensor.normal`. */
export function normal(
  mean: TensorLike,
  std: TensorLike,
  shape?: Shape,
  options?: TensorOptions,
): Tensor {
  return compute(random.normal, mean, std, shape, options);
}

/** See `Tensor.permutation`. */
export function permutation(x: TensorLike, axis?: number): Tensor {
  return compute(random.permutation, x, axis);
}

/** See `Tensor.concat`. */
export function concat(tensors: readonly Tensor[], axis?: number): Tensor {
  return compute(joining.concat, tensors, axis);
}

/** See `Tensor.stack`. */
export function stack(tensors: readonly Tensor[], axis?: number): Tensor {
  return compute(joining.stack, tensors, axis);
}

/** See `Tensor.where`. */
export function where(condition: Tensor, a: TensorLike, b: TensorLike): Tensor {
  return compute(select, condition, a, b);
}

/** See `Tensor.sub`. */
export function sub(a: TensorLike, b: TensorLike): Tensor {
  return compute(binary, "sub", a, b);
}

/** See `Tensor.div`. */
export function div(a: TensorLike, b: TensorLike): Tensor {
  return compute(binary, "div", a, b);
}

/** See `Tensor.pow`. */
export function pow(a: TensorLike, b: TensorLike): Tensor {
  return compute(binary, "pow", a, b);
}

/** See `Tensor.remainder`. */
export function remainder(a: TensorLike, b: TensorLike): Tensor {
  return compute(binary, "remainder", a, b);
}

/** See `Tensor.floorDivide`. */
export function floorDivide(a: TensorLike, b: TensorLike): Tensor {
  return compute(binary, "floorDivide", a, b);
}

/** See `Tensor.atan2`. */
export function atan2(a: TensorLike, b: TensorLike): Tensor {
  return compute(binary, "atan2", a, b);
}
