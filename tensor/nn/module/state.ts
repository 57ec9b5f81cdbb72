/** States by name: which names belong to which tensors, and what of a state fits them. */
import { formatShape } from "../../../backend/internal.ts";
import { requireState } from "../../core/apply.ts";
import { realizeAll } from "../../execution/realization.ts";
import { noGrad } from "../../core/modes/grad_mode.ts";
import { ShapeError } from "../../core/rules/errors.ts";
import { nodeOf, stateOf } from "../../core/internals.ts";
import type { Tensor } from "../../core/mod.ts";

/** A tensor of a state. A tied one has a name at every place; it is saved under the first. */
export interface StateEntry {
  readonly names: readonly string[];
  readonly tensor: Tensor;
}

/** Names that did not fit when a state was loaded, as PyTorch gives them. */
export interface LoadReport {
  /** Names that the module has and the state has not; of a tied tensor the first, if it has none. */
  readonly missingKeys: readonly string[];
  /** Names that the state has and the module has not. */
  readonly unexpectedKeys: readonly string[];
}

/**
 * Each tensor once, with all its names.
 *
 * @throws {TypeError} When two have the same name: one of them would be lost.
 */
export function stateEntries(named: Iterable<readonly [string, Tensor]>): StateEntry[] {
  const namesOf = new Map<Tensor, string[]>(), known = new Map<string, Tensor>();
  for (const [name, tensor] of named) {
    const other = known.get(name);
    if (other && other !== tensor) {
      throw new TypeError(
        `Cannot list a module's state: two tensors are called "${name}"; give one of their ` +
          `properties or keys another name`,
      );
    }
    known.set(name, tensor);
    namesOf.set(tensor, [...namesOf.get(tensor) ?? [], name]);
  }
  return [...namesOf].map(([tensor, names]) => ({ names, tensor }));
}

/**
 * Gives tensors the values of a state, converted to their types and devices. Where a state has several
 * names of a tied tensor, their values are the same; where names that do not fit are left alone, the last
 * one counts, as in PyTorch.
 *
 * @param owner What is loaded, in messages.
 * @param remedy What to do about names that do not fit; null where they are left alone.
 * @throws {RangeError} With a remedy, when names are missing or not known, or a tied tensor has two values;
 * nothing is changed then.
 * @throws {ShapeError} When a shape differs; nothing is changed then.
 */
export function loadState(
  owner: string,
  entries: readonly StateEntry[],
  state: Readonly<Record<string, Tensor>>,
  remedy: string | null,
): LoadReport {
  requireState(`load the state of ${owner}`, state);
  const has = (name: string): boolean => Object.hasOwn(state, name);
  const known = new Set(entries.flatMap(({ names }) => names));
  const missingKeys = entries.filter(({ names }) => !names.some(has)).map(({ names }) => names[0]!);
  const unexpectedKeys = Object.keys(state).filter((name) => !known.has(name));
  if (remedy !== null && missingKeys.length + unexpectedKeys.length > 0) {
    throw new RangeError(`${misfit(owner, missingKeys, unexpectedKeys)}. ${remedy}`);
  }
  const pairs = entries.flatMap(({ names, tensor }) =>
    names.filter(has).map((name) => ({ name, tensor, value: state[name]! }))
  );
  const wrong = pairs.filter(({ tensor, value }) => `${tensor.shape}` !== `${value.shape}`);
  if (wrong.length > 0) throw mismatch(owner, wrong);
  const last = new Map(pairs.map((pair) => [pair.tensor, pair]));
  if (remedy !== null) {
    const other = pairs.find((pair) => !areSame(pair.value, last.get(pair.tensor)!.value));
    if (other) throw new RangeError(twoValues(owner, other.name, last.get(other.tensor)!.name));
  }
  noGrad(() => {
    for (const { tensor, value } of last.values()) {
      tensor.assign(value.to(tensor.device));
    }
  });
  realizeAll(pairs.map(({ tensor }) => tensor));
  for (const { tensor } of pairs) stateOf(tensor).dropFormer();
  return { missingKeys, unexpectedKeys };
}

/** True for values that nobody can tell apart, NaN included. */
function areSame(a: Tensor, b: Tensor): boolean {
  if (a === b || nodeOf(a) === nodeOf(b)) return true;
  return noGrad(() => {
    const there = b.to(a.device);
    const differs = a.ne(there).logicalAnd(a.eq(a).logicalOr(there.eq(there)));
    return differs.any().itemSync() === 0;
  });
}

function twoValues(owner: string, name: string, other: string): string {
  return `Cannot load the state of ${owner}: "${name}" and "${other}" are one tied tensor here and have ` +
    `other values in the state; leave one of them out, untie the module's weights, or pass ` +
    `{ strict: false }, which takes the last`;
}

function misfit(owner: string, missing: readonly string[], unexpected: readonly string[]): string {
  const parts = [
    missing.length > 0 ? `missing are ${missing.join(", ")}` : "",
    unexpected.length > 0 ? `not known are ${unexpected.join(", ")}` : "",
  ].filter((part) => part !== "");
  const written = missing.find((name) => unexpected.includes(snakeCase(name)));
  return `Cannot load the state of ${owner}: ${parts.join("; ")}` +
    (written
      ? `. Names are those of properties as they are written: write "${snakeCase(written)}" for ` +
        `"${written}", or override stateName`
      : "");
}

/** Name in Python. */
function snakeCase(name: string): string {
  return name.replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function mismatch(
  owner: string,
  wrong: readonly { name: string; tensor: Tensor; value: Tensor }[],
): ShapeError {
  const list = wrong.map(({ name, tensor, value }) =>
    `${name} is ${formatShape(tensor.shape)} and got ${formatShape(value.shape)}`
  );
  return new ShapeError(`Cannot load the state of ${owner}: ${list.join("; ")}`, {
    operation: "loadStateDict",
    shapes: wrong.flatMap(({ tensor, value }) => [tensor.shape, value.shape]),
    axis: undefined,
  });
}
