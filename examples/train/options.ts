import { parseArgs } from "node:util";

/** What the user asked for. */
export interface Options {
  device: string;
  dataset: "digits" | "mnist" | "fashion";
  data: string;
  model: "mlp" | "cnn";
  epochs: number;
  batchSize: number;
  lr: number;
  seed: number;
  out: string;
}

/** A mistake on the command line, for people to read. */
export class UsageError extends Error {
  override name = "UsageError";
}

interface Flag {
  /** The name of the value in the help text. */
  readonly value: string;
  readonly default: string;
  readonly help: string;
  /** What the value must be, in words, and how it is told. */
  readonly takes: string;
  readonly accepts: (text: string) => boolean;
}

const oneOf = (...names: string[]) => ({
  value: names.join("|"),
  takes: names.join(" or "),
  accepts: (text: string) => names.includes(text),
});

const number = (value: string, takes: string, accepts: (n: number) => boolean) => ({
  value,
  takes,
  accepts: (text: string) => text.trim() !== "" && accepts(Number(text)),
});

const anything = (value: string, takes: string) => ({
  value,
  takes,
  accepts: (text: string) => text !== "",
});

const isCount = (n: number) => Number.isSafeInteger(n) && n > 0;

const flags = {
  device: {
    value: "DEVICE",
    takes: "auto, gpu, cl, cpu or cl:PLATFORM:DEVICE",
    accepts: (text: string) => /^(auto|gpu|cl|cpu|cl:\d+:\d+)$/.test(text),
    default: "auto",
    help: "auto, gpu, cl, cpu or cl:PLATFORM:DEVICE",
  },
  dataset: { ...oneOf("digits", "mnist", "fashion"), default: "digits", help: "what to learn" },
  data: {
    ...anything("DIR", "a folder"),
    default: "/usr/share/datasets/fashion-mnist",
    help: "where the IDX files of --dataset fashion are",
  },
  model: { ...oneOf("mlp", "cnn"), default: "mlp", help: "two linear layers, or convolutions" },
  epochs: {
    ...number("N", "a whole number above 0", isCount),
    default: "20",
    help: "how often every sample is seen",
  },
  "batch-size": {
    ...number("N", "a whole number above 0", isCount),
    default: "32",
    help: "samples a step",
  },
  lr: {
    ...number("X", "a number above 0", (n) => n > 0 && n < Infinity),
    default: "0.02",
    help: "the learning rate that Adam begins with",
  },
  seed: {
    ...number("N", "a whole number from 0 on", (n) => Number.isSafeInteger(n) && n >= 0),
    default: "0",
    help: "the same seed gives the same run",
  },
  out: { ...anything("DIR", "a folder"), default: "out", help: "where the results are written" },
} satisfies Record<string, Flag>;

type FlagName = keyof typeof flags;

const names = Object.keys(flags) as FlagName[];
const listed = [...names, "help"].map((name) => `--${name}`).join(", ");

/**
 * Reads the command line.
 *
 * @returns The options, or "help" where the user asked for that.
 * @throws UsageError for an unknown flag or value; it lists the right ones.
 */
export function parseOptions(args: string[]): Options | "help" {
  const { values, positionals } = parseArgs({
    args,
    strict: false,
    allowPositionals: true,
    options: {
      help: { type: "boolean", short: "h" },
      ...Object.fromEntries(names.map((name) => [name, { type: "string" } as const])),
    },
  });
  if (values.help) return "help";
  const unknown = Object.keys(values).find((name) => !Object.hasOwn(flags, name));
  if (unknown !== undefined) {
    throw new UsageError(`Unknown flag ${dashed(unknown)}: the flags are ${listed}`);
  }
  if (positionals.length > 0) {
    throw new UsageError(`"${positionals[0]}" belongs to no flag: the flags are ${listed}`);
  }
  const value = (name: FlagName) => checked(name, values[name]);
  return {
    device: value("device"),
    dataset: value("dataset") as Options["dataset"],
    data: value("data"),
    model: value("model") as Options["model"],
    epochs: Number(value("epochs")),
    batchSize: Number(value("batch-size")),
    lr: Number(value("lr")),
    seed: Number(value("seed")),
    out: value("out"),
  };
}

function checked(name: FlagName, text: unknown): string {
  const flag: Flag = flags[name];
  if (text === undefined) return flag.default;
  if (typeof text === "string" && flag.accepts(text)) return text;
  const got = typeof text === "string" ? `"${text}"` : "nothing";
  throw new UsageError(`--${name} takes ${flag.takes}: got ${got}`);
}

function dashed(name: string): string {
  return name.length === 1 ? `-${name}` : `--${name}`;
}

/** What --help prints. */
export function helpText(): string {
  const lines = names.map((name) => {
    const flag: Flag = flags[name];
    return `  ${`--${name} ${flag.value}`.padEnd(32)} ${flag.help} (${flag.default})`;
  });
  return [
    "Trains a digit classifier and says how well it reads digits that it has not seen.",
    "",
    "  deno run -A examples/train.ts [flags]",
    "",
    ...lines,
    `  ${"--help".padEnd(32)} this text`,
  ].join("\n");
}
