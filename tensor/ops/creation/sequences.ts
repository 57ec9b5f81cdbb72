/** Tensors that are computed from numbers alone: full of one, counting, at equal distances. */
import { type DType, Node, type Shape, sizeOf } from "../../../backend/internal.ts";
import {
  checkOptions,
  checkValue,
  requireValue,
  type Rules,
  takes,
} from "../../core/rules/options.ts";
import { positionType } from "../../core/rules/promotion.ts";
import { requireType, supportsType } from "../../core/rules/supported_types.ts";
import { elementOf } from "../elementwise/elements.ts";
import { fromHost } from "./host_data.ts";
import { checkedShape, deviceOf, made, required, tensorRules } from "./tensor_options.ts";
import type { ArangeOptions, TensorOptions } from "../../core/arguments.ts";
import type { Tensor } from "../../core/mod.ts";

/** A tensor full of one number. */
export function full(op: string, shape: Shape, value: number, options?: TensorOptions): Tensor {
  const checked = checkedShape(op, shape);
  checkOptions("make a tensor", options, tensorRules);
  return filled(op, checked, value, options);
}

function filled(op: string, shape: Shape, value: number, options: TensorOptions = {}): Tensor {
  const dtype = options.dtype ?? "float32";
  requireType(deviceOf(options), dtype);
  const node = new Node(
    { kind: "constant", value: elementOf(op, value, dtype) },
    [],
    shape,
    dtype,
  );
  return made(node, options);
}

/** A tensor of the same device and type as another one, full of one number. */
export function fullLike(x: Tensor, value: number, shape: Shape = x.shape): Tensor {
  const { device, dtype } = x;
  return filled("fill", checkedShape("fill", shape), value, { device, dtype });
}

/** Zeros like another tensor. */
export function zerosLike(x: Tensor, shape?: Shape): Tensor {
  return fullLike(x, 0, shape);
}

/** Ones like another tensor. */
export function onesLike(x: Tensor, shape?: Shape): Tensor {
  return fullLike(x, 1, shape);
}

/** 0, 1, 2, ... on the device of another tensor, as int32, or int64 where that is too small. */
export function indexLike(x: Tensor, shape: Shape): Tensor {
  const checked = checkedShape("count in", shape);
  return iota(checked, positionType(sizeOf(checked)), { device: x.device });
}

/** 0, 1, 2, ... in the given shape. */
export function iota(shape: Shape, dtype: DType, options: TensorOptions = {}): Tensor {
  requireType(deviceOf(options), dtype);
  return made(new Node({ kind: "iota" }, [], shape, dtype), options);
}

/**
 * `count` numbers of a formula, computed in doubles and rounded once: on the device, or on the host
 * where the device has no doubles.
 */
export function sequence(
  count: number,
  formula: { onDevice(index: Tensor): Tensor; onHost(index: number): number },
  options: TensorOptions = {},
): Tensor {
  const own = { ...options, requiresGrad: false };
  const values = supportsType(deviceOf(options), "float64")
    ? formula.onDevice(iota([count], "float64", own))
    : fromHost(Float32Array.from({ length: count }, (_, k) => formula.onHost(k)), {
      ...own,
      dtype: "float32",
    });
  return values.cast(options.dtype ?? "float32");
}

/** int32 where it holds both ends of a range of whole numbers, else int64. */
function wholeType(...ends: readonly number[]): DType {
  return ends.every((end) => Math.abs(end) < 2 ** 31) ? "int32" : "int64";
}

const arangeRules: Rules<ArangeOptions> = { ...tensorRules, step: takes.number };

/** `start, start + step, ...` before `stop`; with one number, 0 to before it. Options follow the numbers. */
export function arange(
  start: number,
  stop?: number | ArangeOptions,
  step?: number | ArangeOptions,
  options?: TensorOptions,
): Tensor {
  if (isObject(stop)) return counted([start], stop);
  if (isObject(step)) return counted([start, stop], step);
  return counted([start, stop, step], options);
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

function counted(
  [start, stop, placed]: readonly (number | undefined)[],
  given: ArangeOptions = {},
): Tensor {
  requireValue("arange", "start", start, takes.number);
  checkValue("arange", "stop", stop, takes.number);
  checkValue("arange", "step", placed, takes.number);
  checkOptions("arange", given, arangeRules);
  const { step = placed ?? 1, ...options } = given;
  const [from, to] = stop === undefined ? [0, start!] : [start!, stop];
  if (!Number.isFinite(step) || step === 0 || !Number.isFinite(from) || !Number.isFinite(to)) {
    throw new RangeError(
      `Cannot compute arange from ${from} to ${to} by ${step}: the step must lead there`,
    );
  }
  const count = Math.max(0, Math.ceil((to - from) / step));
  const isWhole = Number.isInteger(step) && Number.isInteger(from);
  const dtype = options.dtype ?? (isWhole ? wholeType(from, from + step * count) : "float32");
  const onDevice = (index: Tensor): Tensor => {
    const scaled = step === 1 ? index : index.mul(step);
    return from === 0 ? scaled : scaled.add(from);
  };
  const values = isWhole
    ? onDevice(iota([count], dtype, { ...options, requiresGrad: false }))
    : sequence(count, { onDevice, onHost: (k) => k * step + from }, { ...options, dtype });
  return required(values, options);
}

/** `count` numbers from `start` to `stop`, both included, at equal distances. */
export function linspace(
  start: number,
  stop: number,
  count: number,
  options?: TensorOptions,
): Tensor {
  requireValue("linspace", "start", start, takes.finite);
  requireValue("linspace", "stop", stop, takes.finite);
  checkOptions("linspace", options, tensorRules);
  checkedShape("linspace", [count]);
  const step = count > 1 ? (stop - start) / (count - 1) : 0;
  // From the nearer end, so that both are exact.
  const formula = {
    onDevice: (index: Tensor) =>
      index.lt(count / 2).where(
        index.mul(step).add(start),
        index.sub(count - 1).mul(step).add(stop),
      ),
    onHost: (k: number) => k < count / 2 ? k * step + start : (k - count + 1) * step + stop,
  };
  return required(sequence(count, formula, options), options);
}

/** The identity matrix (n, n). */
export function eye(n: number, options?: TensorOptions): Tensor {
  checkOptions("eye", options, tensorRules);
  const index = iota(checkedShape("eye", [n]), "int32", { ...options, requiresGrad: false });
  return required(index.unsqueeze(1).eq(index).cast(options?.dtype ?? "float32"), options);
}
