/** Training a transformer, and writing with it, to be copied: they use the package alone. */
import { compile, noGrad, optim, Tensor } from "@netcl/netcl";
import type { Corpus } from "./corpus.ts";
import type { Transformer } from "./model.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** After so many steps it is tried on what it does not learn from. */
export const ROUND = 50;
/** Passages that it is tried with. */
const TRIAL = 32;

/** The length and the pace of training. */
export interface Settings {
  readonly steps: number;
  readonly batchSize: number;
  readonly lr: number;
}

/** A step that was made; after the last one of a round with the loss of unseen text. */
export interface Step {
  readonly loss: number;
  /** The number of tokens. */
  readonly count: number;
  readonly unseen?: { readonly loss: number };
}

/** The mean loss of saying at every position of passages what comes next. */
function lossOn(model: Transformer, passages: Tensor): Tensor {
  const { context, tokens } = model.size;
  const logits = model.forward(passages.slice(null, [0, context]));
  const next = passages.slice(null, [1, context + 1]).flatten();
  return logits.reshape([-1, tokens]).crossEntropy(next);
}

/** Trains; gives each step as it is made, with the loss of the part of the text that it does not see. */
export async function* train(
  model: Transformer,
  text: Corpus,
  { steps, batchSize, lr }: Settings,
): AsyncGenerator<Step> {
  const { context } = model.size, [seen, unseen] = text.split(0.9);
  const optimizer = new optim.AdamW(model.parameters(), { lr, weightDecay: 0.1 });
  const schedule = new optim.CosineAnnealingLR(optimizer, { tMax: steps });
  // One graph for the whole step, passages drawn on the device: recorded once, then replayed.
  const correct = compile((): Tensor => {
    const loss = lossOn(model, seen.draw(batchSize, context + 1));
    optimizer.zeroGrad();
    loss.backward();
    optim.clipGradNorm(model.parameters(), 1);
    optimizer.step();
    return loss;
  });
  const trial = unseen.draw(TRIAL, context + 1).realize(); // the same passages each time
  for (let k = 1; k <= steps; k++) {
    using loss = correct();
    schedule.step();
    const step = { loss: await loss.item(), count: batchSize * context }; // Ctrl+C ends this wait
    if (k % ROUND !== 0 && k !== steps) yield step;
    else {
      model.eval();
      yield { ...step, unseen: { loss: await noGrad(() => lossOn(model, trial)).item() } };
      model.train();
    }
  }
}

/** Writes on from a beginning, token by token, and gives each as soon as it is there; greedily at 0. */
export async function* write(
  model: Transformer,
  vocabulary: Vocabulary,
  beginning: string,
  length: number,
  temperature: number,
): AsyncGenerator<string> {
  model.eval();
  const { context } = model.size;
  // Adding Gumbel noise before argmax draws from the softmax of the logits.
  const pick = compile((ids: Tensor, last: Tensor): Tensor => {
    const logits = model.forward(ids).indexSelect(1, last).flatten();
    if (temperature === 0) return logits.argmax(0);
    const noise = Tensor.rand([logits.size]).log().neg().log().neg();
    return logits.div(temperature).add(noise).argmax(0);
  });
  const window = new Int32Array(context); // what comes after the last token is not looked at
  const written = vocabulary.encode(beginning);
  for (let k = 0; k < length; k++) {
    const seen = written.slice(-context);
    window.set(seen);
    using ids = Tensor.fromHost(window, { shape: [1, context] });
    using last = Tensor.fromHost(Int32Array.of(seen.length - 1));
    using id = noGrad(() => pick(ids, last));
    written.push(Number(await id.item()));
    yield vocabulary.tokens[written.at(-1)!]!;
  }
}
