/** Members of modules: properties, and the arrays, Maps, Sets and plain objects in them. */
import type { Tensor } from "../../core/mod.ts";

/** Place of a tensor or module in a module: its name in `stateDict`, and how to replace it. */
export interface NamedMember<T> {
  readonly name: string;
  readonly value: T;
  readonly replace: (value: Tensor) => void;
}

/**
 * The values of one kind in an object's properties, and in the arrays, Maps, Sets and plain objects
 * in them.
 *
 * @param holder Whose properties.
 * @param is Whether a value is of the kind.
 * @param nameOf The name of a property of `holder`; "" for a collection whose entries stand by
 * themselves. Names within collections are those of their keys.
 */
export function namedMembers<T>(
  holder: object,
  is: (value: unknown) => value is T,
  nameOf: (property: string) => string,
): NamedMember<T>[] {
  return Object.keys(holder).flatMap((property) => {
    const name = nameOf(property), entry = propertyOf(holder, property);
    return membersOf({ ...entry, name }, name === "" ? "" : `${name}.`, is, []);
  });
}

/** An entry itself, or those of the collection that it is; a collection within itself ends there. */
function membersOf<T>(
  { name, value, replace }: NamedMember<unknown>,
  prefix: string,
  is: (value: unknown) => value is T,
  outer: readonly unknown[],
): NamedMember<T>[] {
  if (is(value)) return [{ name, value, replace }];
  const entries = outer.includes(value) ? null : entriesOf(value);
  return entries?.flatMap((entry) => {
    const name = prefix + entry.name;
    return membersOf({ ...entry, name }, `${name}.`, is, [...outer, value]);
  }) ?? [];
}

/** Members of a collection; null for other values. */
function entriesOf(value: unknown): NamedMember<unknown>[] | null {
  if (value instanceof Map) {
    return [...value].map(([key, held]) => ({
      name: String(key),
      value: held,
      replace: (other) => void value.set(key, other),
    }));
  }
  if (value instanceof Set) {
    return [...value].map((held, position) => ({
      name: String(position),
      value: held,
      replace: (other) => replaceInSet(value, held, other),
    }));
  }
  if (!Array.isArray(value) && !isPlain(value)) return null;
  return Object.keys(value).map((key) => propertyOf(value, key));
}

function propertyOf(holder: object, name: string): NamedMember<unknown> {
  const properties = holder as Record<string, unknown>;
  return {
    name,
    value: properties[name],
    replace: (other) => void (properties[name] = other),
  };
}

/** Others keep their places, and so their names. */
function replaceInSet(set: Set<unknown>, before: unknown, after: unknown): void {
  const held = [...set].map((value) => value === before ? after : value);
  set.clear();
  for (const value of held) set.add(value);
}

function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null &&
    Object.getPrototypeOf(value) === Object.prototype;
}

/** The names that properties have in `stateDict`. */
export type StateNames = Readonly<Record<string, string>>;

/** The name of a property that a table has. */
export function nameFrom(names: StateNames, property: string): string | undefined {
  return Object.hasOwn(names, property) ? names[property] : undefined;
}
