import { parseArgs } from "node:util";
import { EnvironmentError } from "@netcl/netcl/ffi";
import { OutOfMemoryError } from "@netcl/netcl/memory";
import { FileFormatError } from "@netcl/netcl/tensor";
import { didYouMean } from "../ffi/host/wording.ts";

/** A mistake on the command line, for people to read. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** The value that a flag takes. */
export interface Flag {
  /** The name of the value in the help text. */
  readonly value: string;
  readonly default: string;
  readonly help: string;
  /** The rule of a value: in words, and as a test. */
  readonly takes: string;
  readonly accepts: (text: string) => boolean;
  /** It stands alone: "true" where it is given, else "false". */
  readonly isSwitch?: true;
}

/** Flags by their names, without the dashes. */
export type Flags = Readonly<Record<string, Flag>>;

type Kind = Pick<Flag, "value" | "takes" | "accepts">;

/** One of a few words. */
const oneOf = (...names: string[]): Kind => ({
  value: names.join("|"),
  takes: names.join(" or "),
  accepts: (text) => names.includes(text),
});

/** A number that fits. */
const number = (value: string, takes: string, fits: (n: number) => boolean): Kind => ({
  value,
  takes,
  accepts: (text) => text.trim() !== "" && fits(Number(text)),
});

/** Any text that is not empty. */
const anything = (value: string, takes: string): Kind => ({
  value,
  takes,
  accepts: (text) => text !== "",
});

const isWhole = Number.isSafeInteger;

/** A flag that takes a count. */
const count: Kind = number("N", "a whole number above 0", (n) => isWhole(n) && n > 0);

/** Above 0, such as a learning rate. */
const positive: Kind = number("X", "a number above 0", (n) => n > 0 && n < Infinity);

/** A flag that is on or off. */
export const onOff: Omit<Flag, "help"> = {
  value: "",
  default: "false",
  takes: "no value",
  accepts: (text) => text === "true",
  isSwitch: true,
};

/** An option, but for its default, which each example has of its own. */
type Option = Omit<Flag, "default">;

/** The options of all examples: one word means one thing. */
const options = {
  device: {
    value: "DEVICE",
    takes: "auto, gpu, cl, cpu or cl:PLATFORM:DEVICE",
    accepts: (text: string) => /^(auto|gpu|cl|cpu|cl:\d+:\d+)$/.test(text),
    help: "auto, gpu, cl, cpu or cl:PLATFORM:DEVICE",
  },
  seed: {
    ...number("N", "a whole number from 0 on", (n) => isWhole(n) && n >= 0),
    help: "the same seed gives the same run",
  },
  dataset: { ...oneOf("digits", "mnist", "fashion"), help: "what to learn" },
  data: { ...anything("DIR", "a folder"), help: "where the IDX files of --dataset fashion are" },
  model: { ...oneOf("mlp", "cnn"), help: "two linear layers, or convolutions" },
  weights: {
    ...anything("FILE", "a safetensors file"),
    help: "a digit CNN that train.ts has saved; without one, one is trained now",
  },
  epochs: { ...count, help: "how often every sample is seen" },
  steps: { ...count, help: "how often the model is corrected" },
  "batch-size": { ...count, help: "samples a step" },
  lr: { ...positive, help: "the learning rate to begin with" },
  length: { ...count, help: "how many characters are written in the end" },
  temperature: {
    ...number("X", "a number from 0 on", (n) => n >= 0 && n < Infinity),
    help: "how bold the writing is; 0 takes the likeliest each time",
  },
  points: { ...count, help: "how many there are" },
  groups: { ...count, help: "how many groups they lie in" },
  rows: { ...count, help: "the height of the picture" },
  port: {
    ...number("N", "a port from 0 to 65535", (n) => isWhole(n) && n >= 0 && n < 65536),
    help: "where the page is; 0 takes any that is free",
  },
  texts: { ...count, help: "how many are written at once; others wait" },
  only: { ...anything("FILE", "an example, such as vae.ts"), help: "runs this one only" },
  out: { ...anything("DIR", "a folder"), help: "where the results are written" },
} satisfies Record<string, Option>;

/** Options by their names, each with what it is where the user does not say. */
export function optionsWith<N extends keyof typeof options>(
  defaults: Readonly<Record<N, string>>,
): { readonly [name in N]: Flag } {
  const chosen = Object.entries<string>(defaults).map(([name, text]) => [
    name,
    { ...options[name as N], default: text },
  ]);
  return Object.fromEntries(chosen);
}

/** Flags of every example that computes. */
export const common: { readonly device: Flag; readonly seed: Flag } = optionsWith({
  device: "auto",
  seed: "0",
});

/**
 * Reads the command line.
 *
 * @returns The text of every flag, or "help" where the user asked for that.
 * @throws UsageError for an unknown flag or value; it lists the right ones.
 */
export function parseFlags<F extends Flags>(
  args: string[],
  flags: F,
): { [name in keyof F]: string } | "help" {
  const names = Object.keys(flags);
  const { values, positionals } = parseArgs({
    args,
    strict: false,
    allowPositionals: true,
    options: {
      help: { type: "boolean", short: "h" },
      ...Object.fromEntries(names.map((name) => [name, typeOf(flags[name]!)])),
    },
  });
  if (values.help) return "help";
  const known = [...names, "help"];
  const unknown = Object.keys(values).find((name) => !Object.hasOwn(flags, name));
  if (unknown !== undefined) throw unknownFlag(unknown, known);
  if (positionals.length > 0) {
    throw new UsageError(`"${positionals[0]}" belongs to no flag: the flags are ${listed(known)}`);
  }
  const texts = names.map((name) => [name, checked(name, flags[name]!, values[name])]);
  return Object.fromEntries(texts);
}

function checked(name: string, flag: Flag, text: unknown): string {
  if (text === undefined) return flag.default;
  if (typeof text === "string" && flag.accepts(text)) return text;
  if (text === true && flag.isSwitch) return "true";
  const got = typeof text === "string" ? `"${text}"` : "nothing";
  throw new UsageError(`--${name} takes ${flag.takes}: got ${got}`);
}

function typeOf({ isSwitch }: Flag): { readonly type: "boolean" | "string" } {
  return { type: isSwitch ? "boolean" : "string" };
}

/** A flag that names a file, and may be left out. */
export function file(help: string): Flag {
  return { ...anything("FILE", "a path"), default: "", help };
}

/**
 * The command line of a program that looks at a picture: its path, then flags.
 *
 * @throws {UsageError} As `parseFlags`, and where there is no picture.
 */
export function parsePicture<F extends Flags>(
  args: readonly string[],
  flags: F,
): [path: string, values: { [name in keyof F]: string } | "help"] {
  const isFirst = args.length > 0 && !args[0]!.startsWith("-");
  const values = parseFlags(isFirst ? args.slice(1) : [...args], flags);
  if (!isFirst && values !== "help") throw new UsageError("Which picture? Give its path first");
  return [isFirst ? args[0]! : "", values];
}

/** The mistake that names what was probably meant, and every flag that there is. */
export function unknownFlag(name: string, known: readonly string[]): UsageError {
  const hint = didYouMean(name, known, dashed);
  return new UsageError(`Unknown flag ${dashed(name)}${hint}: the flags are ${listed(known)}`);
}

function listed(names: readonly string[]): string {
  return names.map((name) => `--${name}`).join(", ");
}

function dashed(name: string): string {
  return name.length === 1 ? `-${name}` : `--${name}`;
}

/**
 * The text that --help prints.
 *
 * @param about What the program does.
 * @param file The program, as seen from the package.
 */
export function helpOf(about: string, file: string, flags: Flags): string {
  const lines = Object.entries(flags).map(([name, flag]) =>
    `  ${`--${name} ${flag.value}`.padEnd(32)} ${flag.help}${byDefault(flag)}`
  );
  return [
    about,
    "",
    `  deno run -A ${file} [flags]`,
    "",
    ...lines,
    `  ${"--help".padEnd(32)} this text`,
  ].join("\n");
}

function byDefault(flag: Flag): string {
  return flag.isSwitch || flag.default === "" ? "" : ` (${flag.default})`;
}

/** Mistakes that a user can mend: their messages name the file, the folder, the port or the size. */
const mendable = [
  UsageError,
  FileFormatError,
  EnvironmentError,
  OutOfMemoryError,
  ...Object.values(Deno.errors),
] as const;

/**
 * Runs a program; a mistake on its command line or in its environment, a file or port that cannot be used, or
 * too little memory is said without a stack, and the program then ends with status 2.
 */
export async function reportUsage(main: () => void | Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    const mistake = mendable.find((kind) => error instanceof kind);
    if (mistake === undefined) throw error;
    console.error((error as Error).message);
    Deno.exitCode = 2;
  }
}

/**
 * Makes the folder that results go to, before the work begins.
 *
 * @throws UsageError when it cannot be.
 */
export async function makeOut(path: string): Promise<void> {
  try {
    await Deno.mkdir(path, { recursive: true });
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error;
    const reason = error.message.replace(/ \(os error \d+\).*$/, "").toLowerCase();
    throw new UsageError(`--out cannot be the folder "${path}" (${reason}): name another`);
  }
}
