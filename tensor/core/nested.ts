/** Tensors within what functions take and return: by themselves, in arrays, in plain objects, as parts. */
import type { Tensor } from "./mod.ts";
import { isTensor } from "./internals.ts";

/** Name of the method of objects that are made of tensors, as complex numbers are. */
export const composed: unique symbol = Symbol("composed");

/** The tensors of an object, and the function that makes it of others: one for all objects of a kind. */
export interface Parts {
  readonly tensors: readonly Tensor[];
  readonly make: (tensors: readonly Tensor[]) => unknown;
}

/** An object that is made of tensors. */
export interface Composed {
  /** Its parts. */
  [composed](): Parts;
}

/** True for objects that are made of tensors. */
export function isComposed(value: unknown): value is Composed {
  return typeof value === "object" && value !== null && composed in value;
}

/** The tensors in a value: itself, its parts, or within arrays and plain objects. */
export function tensorsIn(value: unknown, found: Tensor[] = []): Tensor[] {
  if (isTensor(value)) found.push(value);
  else if (Array.isArray(value)) { for (const item of value) tensorsIn(item, found); }
  else if (isPlain(value)) { for (const item of Object.values(value)) tensorsIn(item, found); }
  else if (isComposed(value)) found.push(...value[composed]().tensors);
  return found;
}

/** True for objects without a class: what is in them counts, not which object it is. */
export function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null &&
    Object.getPrototypeOf(value) === Object.prototype;
}

/** A copy of a value with other tensors, in the order of {@linkcode tensorsIn}. */
export function withTensors(value: unknown, next: () => Tensor): unknown {
  if (isTensor(value)) return next();
  if (Array.isArray(value)) return value.map((item) => withTensors(item, next));
  if (isComposed(value)) {
    const { tensors, make } = value[composed]();
    return make(tensors.map(next));
  }
  if (!isPlain(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([k, item]) => [k, withTensors(item, next)]));
}
