/**
 * Rules for the values of options: `{ offset: takes.whole, wait: takes.list }`.
 *
 * @module
 */

/** A rule for the value of an option. */
export interface Rule {
  /** In words: "pass ..." is said where the value is not. */
  readonly takes: string;
  /** True when the value keeps to it. */
  readonly accepts: (value: unknown) => boolean;
}

/** A rule for numbers. */
function numeric(takes: string, fits: (value: number) => boolean): Rule {
  return { takes, accepts: (value) => typeof value === "number" && fits(value) };
}

/** True or false, nothing that is merely truthy. */
export const bool: Rule = {
  takes: "true or false",
  accepts: (value) => typeof value === "boolean",
};

/** Any number, NaN too. */
export const number: Rule = numeric("a number", () => true);

/** Any number but NaN and the infinite ones. */
export const finite: Rule = numeric("a finite number", Number.isFinite);

/** 0 or more, finite. */
export const nonNegative: Rule = numeric(
  "a number of at least 0",
  (value) => value >= 0 && value < Infinity,
);

/** Above 0, finite. */
export const positive: Rule = numeric(
  "a positive number",
  (value) => value > 0 && value < Infinity,
);

/** From 0 to 1, both included. */
export const share: Rule = numeric("a number from 0 to 1", (value) => value >= 0 && value <= 1);

/** From 0, included, to 1, excluded: what is kept of an average from step to step. */
export const belowOne: Rule = numeric(
  "a number of at least 0 and below 1",
  (value) => value >= 0 && value < 1,
);

/** 0, 1, 2, ... */
export const whole: Rule = numeric(
  "a whole number of at least 0",
  (value) => Number.isSafeInteger(value) && value >= 0,
);

/** 1, 2, 3, ... */
export const count: Rule = numeric(
  "a whole number of at least 1",
  (value) => Number.isSafeInteger(value) && value >= 1,
);

/** A bound in bytes, where Infinity is none. */
export const byteLimit: Rule = numeric(
  "a whole number of bytes of at least 0, or Infinity for no limit",
  (value) => value === Infinity || Number.isSafeInteger(value) && value >= 0,
);

/** A combination of OpenCL's flags. */
export const flags: Rule = {
  takes: "a bigint, such as MemFlags.READ_WRITE",
  accepts: (value) => typeof value === "bigint" && value >= 0n,
};

/** Any whole number. */
export const integer: Rule = numeric("a whole number", Number.isSafeInteger);

/** A path of a file. */
export const path: Rule = {
  takes: "a path, or a URL that begins with file:",
  accepts: (value) =>
    value instanceof URL
      ? value.protocol === "file:"
      : typeof value === "string" && value !== "" && !value.includes("\0"),
};

/** Text. */
export const text: Rule = { takes: "a string", accepts: (value) => typeof value === "string" };

/** A function. */
export const callback: Rule = {
  takes: "a function",
  accepts: (value) => typeof value === "function",
};

/** Whole numbers of at least 0, such as a shape. */
export const wholeNumbers: Rule = {
  takes: "an array of whole numbers of at least 0",
  accepts: (value) => Array.isArray(value) && value.every(whole.accepts),
};

/** Texts. */
export const texts: Rule = {
  takes: "an array of strings",
  accepts: (value) => Array.isArray(value) && value.every(text.accepts),
};

/** Anything: its reader checks it, with the shapes at hand. */
export const anything: Rule = { takes: "a value", accepts: () => true };

/** A positive number, or Infinity. */
export const positiveOrInfinite: Rule = numeric("a positive number", (value) => value > 0);

/** An array, of whatever. */
export const list: Rule = { takes: "an array", accepts: (value) => Array.isArray(value) };

/** An array with a type of its own, or a DataView. */
export const arrayView: Rule = {
  takes: "a typed array",
  accepts: (value) => ArrayBuffer.isView(value),
};

/** An object of a kind that the reader of the option looks into; a Promise of one is none yet. */
export function object(takes: string): Rule {
  return {
    takes,
    accepts: (value) => typeof value === "object" && value !== null && !(value instanceof Promise),
  };
}

/** One of a few words. */
export function oneOf(...words: string[]): Rule {
  const quoted = words.map((word) => `"${word}"`);
  return {
    takes: [quoted.slice(0, -1).join(", "), quoted.at(-1)].filter(Boolean).join(" or "),
    accepts: (value) => typeof value === "string" && words.includes(value),
  };
}

/** The words of a rule, or null. */
export function orNull(rule: Rule): Rule {
  return {
    takes: `${rule.takes}, or null`,
    accepts: (value) => value === null || rule.accepts(value),
  };
}
