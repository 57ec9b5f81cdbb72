/** What modules hold: their properties, and the arrays, Maps and plain objects in them. */
import type { Tensor } from "../../core/tensor.ts";

/** Where a module holds a tensor or another module: its name in `stateDict`, and how to replace it. */
export interface NamedMember<T> {
  readonly name: string;
  readonly value: T;
  readonly replace: (value: Tensor) => void;
}

/** The values of one kind in an object's properties, and in the arrays, Maps and plain objects in them. */
export function* namedMembers<T>(
  holder: Collection,
  prefix: string,
  is: (value: unknown) => value is T,
): Generator<NamedMember<T>> {
  for (const { key, value, replace } of entriesOf(holder)) {
    const name = prefix + key;
    if (is(value)) yield { name, value, replace };
    else if (isCollection(value)) yield* namedMembers(value, `${name}.`, is);
  }
}

type Collection = Record<string, unknown> | Map<unknown, unknown>;

interface Member {
  readonly key: string;
  readonly value: unknown;
  readonly replace: (value: Tensor) => void;
}

/** What a collection holds; the keys of Maps are names of the user's own, and stay as they are. */
function entriesOf(holder: Collection): Member[] {
  if (holder instanceof Map) {
    return [...holder].map(([key, value]) => ({
      key: String(key),
      value,
      replace: (other) => void holder.set(key, other),
    }));
  }
  return Object.entries(holder).map(([key, value]) => ({
    key: snakeCase(key),
    value,
    replace: (other) => void (holder[key] = other),
  }));
}

function isCollection(value: unknown): value is Collection {
  return Array.isArray(value) || value instanceof Map ||
    typeof value === "object" && value !== null &&
      Object.getPrototypeOf(value) === Object.prototype;
}

function snakeCase(name: string): string {
  return name.replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
