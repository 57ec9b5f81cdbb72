/**
 * Options are checked: JavaScript would ignore a name that is written wrongly, and turn a value of
 * another type into the one that is due.
 *
 * This folder (`host/`) is what has nothing to do with OpenCL: checks of options and sizes, the
 * environment, files that are written whole or not at all, the C library. It imports nothing but
 * itself; every layer uses it.
 *
 * @module
 */
import type { Rule } from "./option_rules.ts";
import { didYouMean, phraseOf } from "./wording.ts";

/** The rules of an options type: one for each of its names, and for no other. */
export type Rules<Options> = { readonly [Name in keyof Options]-?: Rule };

const none: readonly never[] = [];

/**
 * Checks the options of a call. Costs nothing where there are none.
 *
 * @param action What the call does, for messages: "sum", "make a Conv2d".
 * @param options What the caller passed; a value of undefined is one left out.
 * @param rules What may be passed.
 * @param needed What must be.
 * @throws {TypeError} When there is no such option, one is missing, or its value has another type.
 * @throws {RangeError} When its value is a number out of range, or holds one.
 */
export function checkOptions<Options extends object>(
  action: string,
  options: Options | undefined,
  rules: Rules<Options>,
  needed: readonly (keyof Options & string)[] = none,
): void {
  if (options !== undefined) {
    if (!isOptions(options, rules)) throw notOptions(action, options, rules);
    for (const name in options) {
      const rule: Rule | undefined = Object.hasOwn(rules, name) ? rules[name] : undefined;
      if (rule === undefined) throw unknownOption(action, name, rules);
      checkValue(action, name, options[name], rule);
    }
  }
  for (const name of needed) {
    if (options?.[name] === undefined) throw missingOption(action, name, rules[name]);
  }
}

/**
 * Checks one value, undefined where it was left out.
 *
 * @throws {TypeError} When it has another type.
 * @throws {RangeError} When it is a number out of range.
 */
export function checkValue(action: string, name: string, value: unknown, rule: Rule): void {
  if (value !== undefined && !rule.accepts(value)) throw wrongValue(action, name, value, rule);
}

/**
 * Checks an argument that must be there.
 *
 * @throws {TypeError} When it is missing or has another type.
 * @throws {RangeError} When it is a number out of range.
 */
export function requireValue(action: string, name: string, value: unknown, rule: Rule): void {
  if (!rule.accepts(value)) throw wrongValue(action, name, value, rule);
}

/**
 * The options, and the defaults of those that are left out.
 *
 * @throws As {@linkcode checkOptions}.
 */
export function withDefaults<Options extends object>(
  action: string,
  options: Options,
  rules: Rules<Options>,
  defaults: Required<Options>,
): Required<Options> {
  checkOptions(action, options, rules);
  const all = { ...defaults };
  for (const name in options) {
    const value = options[name];
    if (value !== undefined) all[name] = value as Required<Options>[typeof name];
  }
  return all;
}

/** An object that was written as options: an array, a tensor or a null is none. */
function isOptions(options: unknown, rules: object): boolean {
  if (typeof options !== "object" || options === null || Array.isArray(options)) return false;
  const prototype = Object.getPrototypeOf(options);
  if (prototype === Object.prototype || prototype === null) return true;
  return Object.keys(options).some((name) => Object.hasOwn(rules, name));
}

function notOptions(action: string, value: unknown, rules: object): TypeError {
  return new TypeError(
    `Cannot ${phraseOf(action)} with ${
      shown(value)
    } as options: pass an object of named options, such as ` +
      `{ ${Object.keys(rules)[0]} }; the options are ${Object.keys(rules).join(", ")}`,
  );
}

function unknownOption(action: string, name: string, rules: object): TypeError {
  const names = Object.keys(rules);
  return new TypeError(
    `Cannot ${phraseOf(action)} with the option "${name}"${
      didYouMean(name, names)
    }: the options are ${names.join(", ")}`,
  );
}

function missingOption(action: string, name: string, { takes }: Rule): TypeError {
  return new TypeError(`Cannot ${phraseOf(action)} without the option "${name}": pass ${takes}`);
}

function wrongValue(action: string, name: string, value: unknown, rule: Rule): Error {
  const isNumeric = [value].flat().every((part) => typeof part === "number");
  const type = isNumeric ? RangeError : TypeError;
  return new type(`Cannot ${phraseOf(action)} with ${name} ${shown(value)}: pass ${rule.takes}`);
}

/** A value as a message shows it, in few letters. */
export function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return "a function";
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) return `[${value.map(shown).join(", ")}]`.slice(0, 80);
  if (value instanceof Promise) return "a Promise (await it)";
  const { name } = value.constructor ?? {};
  if (name === undefined || name === "Object") return `{ ${Object.keys(value).join(", ")} }`;
  return `a ${name}`;
}
