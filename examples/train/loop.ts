/** Training a classifier, to be copied: it uses the package alone. `train.ts` shows the steps. */
import { DataLoader, type Dataset, type Field, nn, noGrad, optim, type Tensor } from "@netcl/netcl";

/** Images, each with its label. */
export type Labelled = Dataset<[images: Field, labels: Field]>;

/** The length and the pace of training. */
export interface Settings {
  readonly epochs: number;
  readonly batchSize: number;
  /** The learning rate of the first step; it falls to 0 by a cosine. */
  readonly lr: number;
  readonly seed: number;
  /** A change of the images that makes new ones of them. Default: none. */
  readonly augment?: (images: Tensor) => Tensor;
}

/** Scores of a model for samples that it does not learn from. */
export interface Evaluation {
  /** Counts of each class (a row) that is read as each class (a column). */
  readonly counts: number[][];
  /** The share that is read right. */
  readonly accuracy: number;
  /** The mean cross-entropy. */
  readonly loss: number;
}

/** A step that was made. */
export interface Step {
  readonly loss: number;
  /** The number of samples. */
  readonly count: number;
  /** After the last step of an epoch, the scores for unseen samples. */
  readonly unseen?: Evaluation;
}

/** Trains; gives each step as it is made. Whoever stops asking stops it. */
export async function* train(
  model: nn.Module,
  seen: Labelled,
  unseen: Labelled,
  { epochs, batchSize, lr, seed, augment = (images) => images }: Settings,
): AsyncGenerator<Step> {
  const loader = new DataLoader(seen, { batchSize, shuffle: true, seed });
  const optimizer = new optim.Adam(model.parameters(), { lr });
  // Large steps first; the small last ones settle what those have found.
  const schedule = new optim.CosineAnnealingLR(optimizer, { tMax: epochs * loader.length });
  for (let epoch = 0; epoch < epochs; epoch++) {
    model.train();
    let left = loader.length;
    for await (const [images, labels] of loader) {
      using x = images, y = labels;
      using loss = model.forward(augment(x)).crossEntropy(y);
      optimizer.zeroGrad();
      loss.backward();
      optimizer.step();
      schedule.step();
      const step = { loss: await loss.item(), count: y.size };
      yield --left > 0 ? step : { ...step, unseen: await evaluate(model, unseen) };
    }
  }
}

/** The scores of a model for samples. */
export async function evaluate(model: nn.Module, samples: Labelled): Promise<Evaluation> {
  model.eval();
  const counts = Array.from({ length: 10 }, () => Array<number>(10).fill(0));
  let loss = 0, right = 0;
  for await (const [images, labels] of new DataLoader(samples, { batchSize: 1000 })) {
    using x = images, y = labels;
    using logits = noGrad(() => model.forward(x));
    const readAs = await logits.argmax(1).toNumbers();
    loss += await nn.crossEntropy(logits, y, { reduction: "sum" }).item();
    (await y.toNumbers()).forEach((label, k) => {
      const read = readAs[k] ?? 0, row = counts[label] ?? [];
      row[read] = (row[read] ?? 0) + 1;
      if (label === read) right++;
    });
  }
  return { counts, accuracy: right / samples.length, loss: loss / samples.length };
}
