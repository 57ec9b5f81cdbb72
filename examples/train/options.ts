import {
  anything,
  count,
  device,
  type Flags,
  helpOf,
  oneOf,
  parseFlags,
  positive,
  seed,
} from "../flags.ts";

export { UsageError } from "../flags.ts";

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

const flags = {
  device,
  dataset: { ...oneOf("digits", "mnist", "fashion"), default: "digits", help: "what to learn" },
  data: {
    ...anything("DIR", "a folder"),
    default: "/usr/share/datasets/fashion-mnist",
    help: "where the IDX files of --dataset fashion are",
  },
  model: { ...oneOf("mlp", "cnn"), default: "mlp", help: "two linear layers, or convolutions" },
  epochs: { ...count, default: "20", help: "how often every sample is seen" },
  "batch-size": { ...count, default: "32", help: "samples a step" },
  lr: { ...positive, default: "0.02", help: "the learning rate that Adam begins with" },
  seed,
  out: { ...anything("DIR", "a folder"), default: "out", help: "where the results are written" },
} satisfies Flags;

/**
 * Reads the command line.
 *
 * @returns The options, or "help" where the user asked for that.
 * @throws UsageError for an unknown flag or value; it lists the right ones.
 */
export function parseOptions(args: string[]): Options | "help" {
  const values = parseFlags(args, flags);
  if (values === "help") return "help";
  return {
    device: values.device,
    dataset: values.dataset as Options["dataset"],
    data: values.data,
    model: values.model as Options["model"],
    epochs: Number(values.epochs),
    batchSize: Number(values["batch-size"]),
    lr: Number(values.lr),
    seed: Number(values.seed),
    out: values.out,
  };
}

/** What --help prints. */
export function helpText(
  file = "examples/train.ts",
  about = "Trains a digit classifier and says how well it reads digits that it has not seen.",
): string {
  return helpOf(about, file, flags);
}
