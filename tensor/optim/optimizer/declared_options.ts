/** The options that a class of optimizers declares: what each is by default, and what it may be. */
import type { Rule } from "../../../ffi/host/option_rules.ts";
import { type Rules, takes, withDefaults } from "../../core/rules/options.ts";

/** Every option by its name: its value where it is left out, and what may be passed. */
export type OptionTable<Options> = {
  readonly [Name in keyof Options]-?: readonly [value: Required<Options>[Name], rule: Rule];
};

interface Declared {
  readonly defaults: object;
  readonly rules: Readonly<Record<string, Rule>>;
}

const declared = new WeakMap<object, Declared>();

/**
 * Declares the options of a class, and that its updates depend on them, on its state, the parameters and
 * the gradients alone. Classes that extend it inherit the options, not the promise.
 */
export function declareOptions<Options>(optimizer: object, table: OptionTable<Options>): void {
  declared.set(optimizer, {
    defaults: mapped(table, ([value]) => value),
    rules: mapped(table, ([, rule]) => rule),
  });
}

/** True when this very class, not one that it extends, has declared its options. */
export function isDeterminedByOptions(optimizer: object): boolean {
  return declared.has(optimizer);
}

/**
 * Options with defaults for those that are left out.
 *
 * @param optimizer The class; one that inherits no declared options passes all of them itself.
 * @param options What the caller passed.
 * @param defaults Those of an optimizer for its groups; without them the declared ones.
 * @throws {TypeError} When an option is not known, or its value has another type.
 * @throws {RangeError} When a number is out of range.
 */
export function completed<Options extends object>(
  optimizer: { readonly name: string },
  options: Options,
  defaults?: Required<Options>,
): Required<Options> {
  const known = inherited(optimizer);
  const values = (defaults ?? known?.defaults ?? options) as Required<Options>;
  if (values === options) return values;
  const rules = (known?.rules ?? mapped(values, ruleLike)) as Rules<Options>;
  return withDefaults(`make ${optimizer.name}`, options, rules, values);
}

/** Options declared by the class, or the next one that it extends. */
function inherited(optimizer: object): Declared | undefined {
  let type: object | null = optimizer;
  while (type !== null && !declared.has(type)) type = Object.getPrototypeOf(type);
  return type === null ? undefined : declared.get(type);
}

function mapped<T extends object, V>(
  table: T,
  change: (value: T[keyof T]) => V,
): Record<string, V> {
  return Object.fromEntries(Object.entries(table).map(([name, value]) => [name, change(value)]));
}

/** Rule for a default's kind. */
function ruleLike(value: unknown): Rule {
  if (typeof value === "number") return takes.nonNegative;
  return typeof value === "boolean" ? takes.bool : takes.anything;
}
