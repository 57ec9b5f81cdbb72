/**
 * Checks of this layer's options, and rules for its own values.
 *
 * This folder (`rules/`) is what arguments are held against: options, element types, and the errors
 * for those that do not fit. It imports `backend/` and the rules of options of `ffi/host/`.
 */
import { DeviceHandle, dtypes } from "../../../backend/internal.ts";
import type { Rule } from "../../../ffi/host/option_rules.ts";

export {
  checkOptions,
  checkValue,
  requireValue,
  type Rules,
  shown,
  withDefaults,
} from "../../../ffi/host/options.ts";
export { phraseOf } from "../../../ffi/host/wording.ts";
export * as takes from "../../../ffi/host/option_rules.ts";

/** An element type. */
export const elementType: Rule = {
  takes: `one of the types ${Object.keys(dtypes).join(", ")}`,
  accepts: (value) => typeof value === "string" && Object.hasOwn(dtypes, value),
};

/** Selection of a device. */
export const deviceChoice: Rule = {
  takes: 'a selection string such as "cpu", "cl" or "gpu", or a handle of the manager',
  accepts: (value) => typeof value === "string" || value instanceof DeviceHandle,
};

/** One whole number for height and width, or one for each. */
export function pairFrom(least: number): Rule {
  return {
    ...tupleFrom(least, 2),
    takes: `a whole number of at least ${least}, or two for height and width`,
  };
}

/** One whole number for all of `count` axes, or one for each. */
export function tupleFrom(least: number, count: number): Rule {
  const fits = (value: unknown): boolean => Number.isSafeInteger(value) && value as number >= least;
  const bound = least === -Infinity ? "" : ` of at least ${least}`;
  return {
    takes: `a whole number${bound}, or an array of ${count}`,
    accepts: (value) =>
      fits(value) || Array.isArray(value) && value.length === count && value.every(fits),
  };
}
