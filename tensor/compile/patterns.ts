/** Inputs and outputs of an operation in a recorded call, to be found again in a later one. */
import { type DeviceHandle, Node, sameShape } from "../../backend/internal.ts";
import type { Operation } from "../core/calls.ts";
import { composed, isComposed, isPlain, type Parts } from "../core/nested.ts";
import { isTensor, stateOf } from "../core/internals.ts";
import type { Tensor } from "../core/mod.ts";

/** Role of a tensor in a call. */
interface Role {
  /** The tensor that has the role in the call that is running; null between calls. */
  tensor: Tensor | null;
}

/** A tensor among the arguments of the call. */
export interface Argument extends Role {
  readonly kind: "argument";
  readonly index: number;
}

/** A tensor that the function has from elsewhere: from a variable, a module, an optimizer. */
export interface Captured extends Role {
  readonly kind: "captured";
  readonly like: Node;
  readonly device: DeviceHandle;
  /** The only tensor that it may be, where it is learned or assigned; else another will do. */
  only: Tensor | null;
}

/** A tensor that an operation gave. */
export interface Output extends Role {
  readonly kind: "output";
  readonly like: Node;
  readonly device: DeviceHandle;
  readonly requiresGrad: boolean;
  /** Its place in the function; null before the end of the call that was recorded. */
  place: Place | null;
}

/** Place of a result in a function, the same in calls that part ways: the n-th call of an operation. */
export interface Place {
  /** Used after a call that made it and did not return it: from then on calls give it its value. */
  isCarried: boolean;
}

/** The places of the results in one compiled function. */
export class Places {
  readonly #known = new Map<Operation, Place[][]>();

  /** The place of a result of the call of an operation that has been called `turn` times before. */
  at(fn: Operation, turn: number, result: number): Place {
    let turns = this.#known.get(fn);
    if (turns === undefined) this.#known.set(fn, turns = []);
    return (turns[turn] ??= [])[result] ??= { isCarried: false };
  }
}

/** Reference to a tensor, in any call. */
export type Ref = Argument | Captured | Output;

/** A value in which tensors are known by their role. */
export type Pattern =
  | { readonly kind: "tensor"; readonly ref: Ref; readonly requiresGrad: boolean }
  | { readonly kind: "array"; readonly items: readonly Pattern[] }
  | {
    readonly kind: "object";
    readonly keys: readonly string[];
    readonly items: readonly Pattern[];
  }
  | {
    readonly kind: "composed";
    readonly make: Parts["make"];
    readonly items: readonly Pattern[];
  }
  | { readonly kind: "value"; readonly value: unknown };

/** The pattern of a value; `refOf` says which tensor is which. */
export function patternOf(value: unknown, refOf: (tensor: Tensor) => Ref): Pattern {
  if (isTensor(value)) {
    return { kind: "tensor", ref: refOf(value), requiresGrad: value.requiresGrad };
  }
  if (Array.isArray(value)) {
    return { kind: "array", items: value.map((item) => patternOf(item, refOf)) };
  }
  if (isComposed(value)) {
    const { tensors, make } = value[composed]();
    return { kind: "composed", make, items: tensors.map((item) => patternOf(item, refOf)) };
  }
  if (!isPlain(value)) return { kind: "value", value };
  const keys = Object.keys(value);
  return { kind: "object", keys, items: keys.map((key) => patternOf(value[key], refOf)) };
}

/** True where a value has the pattern; `isRef` says whether a tensor may have a role. */
export function fits(
  pattern: Pattern,
  value: unknown,
  isRef: (ref: Ref, tensor: Tensor) => boolean,
): boolean {
  switch (pattern.kind) {
    case "tensor":
      return isTensor(value) && stateOf(value).needsGrad === pattern.requiresGrad &&
        isRef(pattern.ref, value);
    case "array":
      return Array.isArray(value) && areFit(pattern.items, value, isRef);
    case "object": {
      if (!isPlain(value)) return false;
      const keys = Object.keys(value);
      return keys.length === pattern.keys.length &&
        pattern.keys.every((key, k) =>
          key === keys[k] && fits(pattern.items[k]!, value[key], isRef)
        );
    }
    case "composed": {
      if (!isComposed(value)) return false;
      const { tensors, make } = value[composed]();
      return make === pattern.make && areFit(pattern.items, tensors, isRef);
    }
    case "value":
      return Object.is(value, pattern.value) && !ArrayBuffer.isView(value);
  }
}

/** True where values have the patterns. */
export function areFit(
  patterns: readonly Pattern[],
  values: readonly unknown[],
  isRef: (ref: Ref, tensor: Tensor) => boolean,
): boolean {
  if (patterns.length !== values.length) return false;
  for (let k = 0; k < values.length; k++) {
    if (!fits(patterns[k]!, values[k], isRef)) return false;
  }
  return true;
}

/** The value that a pattern stands for, with the tensors that have the roles now. */
export function valueOf(pattern: Pattern): unknown {
  switch (pattern.kind) {
    case "tensor":
      return pattern.ref.tensor!;
    case "array":
      return pattern.items.map(valueOf);
    case "object":
      return Object.fromEntries(pattern.keys.map((key, k) => [key, valueOf(pattern.items[k]!)]));
    case "composed":
      return pattern.make(pattern.items.map(valueOf) as Tensor[]);
    case "value":
      return pattern.value;
  }
}

/** The roles in a pattern, in the order in which `tensorsIn` finds their tensors. */
export function refsIn(pattern: Pattern): Ref[] {
  if (pattern.kind === "tensor") return [pattern.ref];
  return pattern.kind === "value" ? [] : pattern.items.flatMap(refsIn);
}

/** Properties of a tensor without its value. */
export function likeness(tensor: Tensor): Node {
  return new Node({ kind: "buffer" }, [], tensor.shape, tensor.dtype);
}

/** True where a tensor has the shape, type and device of another one. */
export function isLike(tensor: Tensor, { like, device }: Captured | Output): boolean {
  return tensor.dtype === like.dtype && tensor.device === device &&
    sameShape(tensor.shape, like.shape);
}
