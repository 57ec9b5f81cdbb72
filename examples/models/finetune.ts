/**
 * Fine-tunes a language model on a text, by adapters of a few numbers beside its frozen weights: shows the
 * loss fall and the text change, and saves the adapters as PEFT has them.
 *
 *     deno run -A examples/models/finetune.ts --help
 */
import { compile, optim, Tensor } from "@netcl/netcl";
import { type Adapters, LanguageModel, lora } from "@netcl/netcl/models";
import { optionsWith } from "../flags.ts";
import { modelFlag, modelPath } from "./model_path.ts";
import { runExample } from "../run_example.ts";
import { Progress } from "../terminal/progress.ts";

/** The lesson where no file is given: a way to answer that no model has by itself. */
const pairs = [
  [
    "What is a tensor?",
    "Arr, a tensor be a chest o' numbers, stacked along as many axes as ye please!",
  ],
  ["How are you?", "Arr, I be fine as a fair wind, matey!"],
  ["What is the capital of France?", "Arr, that be Paris, a fine port without a sea!"],
  ["Who are you?", "Arr, I be Captain Kernel, the terror o' the seven queues!"],
  ["What is two plus two?", "Arr, four doubloons, matey, and not a coin more!"],
  ["Tell me a joke.", "Arr, why be pirates poor at sorting? They get lost at C, matey!"],
] as const;

/** The texts to learn: those of a file, cut at empty lines, or the pairs above as chats. */
async function textsOf(lm: LanguageModel, file: string): Promise<number[][]> {
  if (file !== "") {
    const text = await Deno.readTextFile(file);
    return text.split(/\n\s*\n/).map((part) => lm.tokenizer.encode(part.trim()))
      .filter((ids) => ids.length > 1);
  }
  const end = lm.tokenizer.idOf("<|im_end|>");
  return pairs.map(([content, answer]) => {
    const prompt = lm.encode([{ role: "user", content }]);
    return [...prompt, ...lm.tokenizer.encode(answer), ...end === null ? [] : [end]];
  });
}

/** Texts of one length side by side; padding is no label. */
function batchOf(texts: readonly (readonly number[])[], length: number): [Tensor, Tensor, Tensor] {
  const count = texts.length, ids = new Int32Array(count * length);
  const labels = new Int32Array(count * length), weights = new Float32Array(count * length);
  texts.forEach((text, row) => {
    const cut = text.slice(0, length + 1);
    cut.slice(0, -1).forEach((id, k) => ids[row * length + k] = id);
    cut.slice(1).forEach((id, k) => {
      labels[row * length + k] = id;
      weights[row * length + k] = 1;
    });
  });
  const shape = [count, length];
  return [
    Tensor.fromHost(ids, { shape }),
    Tensor.fromHost(labels, { shape: [count * length] }),
    Tensor.fromHost(weights, { shape: [count * length] }),
  ];
}

/** Trains; gives back the first loss and the last. */
async function train(
  lm: LanguageModel,
  adapters: Adapters,
  texts: number[][],
  { steps, lr }: { steps: number; lr: number },
): Promise<[first: number, last: number]> {
  const optimizer = new optim.AdamW(adapters.parameters(), { lr });
  const length = Math.min(128, Math.max(...texts.map((ids) => ids.length)) - 1);
  const step = compile((ids: Tensor, labels: Tensor, weights: Tensor) => {
    const logits = lm.forward(ids), classes = logits.shape[2]!;
    const losses = logits.reshape([labels.size, classes]).crossEntropy(labels, {
      reduction: "none",
    });
    const loss = losses.mul(weights).sum().div(weights.sum());
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    return loss.detach();
  });
  const progress = new Progress({ steps, stepsPerRound: steps, unit: "texts" });
  const size = Math.min(2, texts.length), losses: number[] = [];
  for (let k = 0; k < steps; k++) {
    const rows = Array.from({ length: size }, (_, j) => texts[(k * size + j) % texts.length]!);
    const batch = batchOf(rows, length);
    using loss = step(...batch);
    for (const tensor of batch) tensor.dispose();
    losses.push(await loss.item());
    progress.step(losses.at(-1)!, size);
  }
  progress.end();
  return [losses[0]!, losses.at(-1)!];
}

await runExample({
  about: "Fine-tunes a language model on a text, and shows how its answers change.",
  file: "examples/models/finetune.ts",
  flags: {
    model: modelFlag("language"),
    text: {
      value: "FILE",
      default: "",
      takes: "a file of text",
      accepts: (text) => text !== "",
      help: "what is learned, paragraph by paragraph; without one, to talk like a pirate",
    },
    ...optionsWith({ steps: "60", lr: "1e-3", length: "40", out: "out" }),
  },
}, async ({ model, text, steps, lr, length, out }, print) => {
  // A step multiplies many rows: decoded weights are faster in that than blocks.
  using lm = await LanguageModel.load(await modelPath(model, "language"), { dtype: "float32" });
  const texts = await textsOf(lm, text);
  const ask = async (when: string) => {
    const question = [{ role: "user", content: "What is a tensor?" }];
    const answer = await lm.generateText(question, { maxTokens: Number(length) });
    print(`${when}: ${answer.trim().replaceAll("\n", " ")}`);
  };
  await ask("before");
  using adapters = lora(lm.model, { rank: 8, alpha: 16, targets: ["q_proj", "v_proj"] });
  const numbers = adapters.parameters().reduce((sum, { size }) => sum + size, 0);
  print(`${texts.length} texts, ${numbers} numbers that learn`);
  const losses = await train(lm, adapters, texts, { steps: Number(steps), lr: Number(lr) });
  print(`loss: ${losses.map((loss) => loss.toFixed(3)).join(" to ")}`);
  await ask("after");
  await adapters.save(`${out}/adapter`);
  print(`saved ${out}/adapter`);
});
