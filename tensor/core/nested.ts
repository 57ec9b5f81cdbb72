/** Tensors within what functions take and return: by themselves, in arrays, in plain objects. */
import type { Tensor } from "./tensor.ts";
import { isTensor } from "./internals.ts";

/** The tensors in a value: itself, or within arrays and plain objects. */
export function tensorsIn(value: unknown, found: Tensor[] = []): Tensor[] {
  if (isTensor(value)) found.push(value);
  else if (Array.isArray(value)) { for (const item of value) tensorsIn(item, found); }
  else if (isPlain(value)) { for (const item of Object.values(value)) tensorsIn(item, found); }
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
  if (!isPlain(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([k, item]) => [k, withTensors(item, next)]));
}
