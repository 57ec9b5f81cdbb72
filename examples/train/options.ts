import { common, helpOf, optionsWith, parseFlags } from "../flags.ts";

export { UsageError } from "../flags.ts";

/** The choices of the user. */
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

const { device, seed } = common;

/** Flags of the programs that learn to classify. */
export const flags = {
  device,
  ...optionsWith({
    dataset: "digits",
    data: "/usr/share/datasets/fashion-mnist",
    model: "mlp",
    epochs: "20",
    "batch-size": "32",
    lr: "0.02",
  }),
  seed,
  ...optionsWith({ out: "out" }),
};

/**
 * Reads the command line.
 *
 * @returns The options, or "help" where the user asked for that.
 * @throws UsageError for an unknown flag or value; it lists the right ones.
 */
export function parseOptions(args: string[]): Options | "help" {
  const values = parseFlags(args, flags);
  return values === "help" ? "help" : optionsOf(values);
}

/** The options that the texts of the flags say. */
export function optionsOf(values: { readonly [name in keyof typeof flags]: string }): Options {
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

/** The work of the example. */
export const about =
  "Trains an image classifier and says how well it reads images that it has not seen.";

/** The text that --help prints. */
export function helpText(file = "examples/train.ts", what = about): string {
  return helpOf(what, file, flags);
}
