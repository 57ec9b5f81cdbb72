/**
 * Learns to draw handwritten digits: a variational autoencoder (D. Kingma, M. Welling, Auto-Encoding
 * Variational Bayes, 2013) on 1,437 digits of 8x8 pixels; then it draws some that nobody wrote.
 *
 *     deno run -A examples/vae.ts --help
 */
import {
  compile,
  DataLoader,
  type Dataset,
  nn,
  noGrad,
  optim,
  saveFileSync,
  Tensor,
} from "@netcl/netcl";
import { optionsWith } from "./flags.ts";
import { runExample } from "./run_example.ts";
import { loadDataset } from "./train/datasets.ts";
import { Progress } from "./terminal/progress.ts";
import { drawImages } from "./vae/images.ts";

const PIXELS = 64, LATENT = 8, BATCH = 32;

/** What is drawn is described by a few numbers that are normally distributed. */
class Autoencoder
  extends nn.Module<[Tensor], { image: Tensor; mean: Tensor; logVariance: Tensor }> {
  encoder = new nn.Sequential(
    new nn.Flatten(),
    new nn.Linear(PIXELS, 128),
    new nn.ReLU(),
    new nn.Linear(128, 2 * LATENT),
  );
  decoder = new nn.Sequential(
    new nn.Linear(LATENT, 128),
    new nn.ReLU(),
    new nn.Linear(128, PIXELS),
  );

  forward(x: Tensor): { image: Tensor; mean: Tensor; logVariance: Tensor } {
    const code = this.encoder.forward(x);
    const mean = code.slice(null, [0, LATENT]), logVariance = code.slice(null, [LATENT, null]);
    const noise = Tensor.randn(mean.shape);
    const drawn = mean.add(noise.mul(logVariance.mul(0.5).exp()));
    return { image: this.decoder.forward(drawn), mean, logVariance };
  }
}

/** What the image costs beyond what is expected: reconstruction, and distance from the normal. */
function lossOf(model: Autoencoder, x: Tensor): Tensor {
  const { image, mean, logVariance } = model.forward(x);
  const wrong = nn.bceWithLogits(image, x.flatten(1), { reduction: "sum" });
  const divergence = logVariance.add(1).sub(mean.square()).sub(logVariance.exp()).sum().mul(-0.5);
  return wrong.add(divergence).div(x.shape[0]!);
}

/** The mean loss of images that it does not learn from. */
async function lossOnUnseen(model: Autoencoder, unseen: Dataset): Promise<number> {
  let sum = 0;
  for await (const [images] of new DataLoader(unseen, { batchSize: 180 })) {
    sum += await noGrad(() => lossOf(model, images!)).mul(images!.shape[0]!).item();
  }
  return sum / unseen.length;
}

async function train(model: Autoencoder, epochs: number, seed: number): Promise<void> {
  const { train, test } = await loadDataset({ dataset: "digits", data: "", seed });
  const optimizer = new optim.Adam(model.parameters(), { lr: 2e-3 });
  const correct = compile((x: Tensor): Tensor => {
    const loss = lossOf(model, x);
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    return loss;
  });
  const loader = new DataLoader(train, { batchSize: BATCH, shuffle: true, dropLast: true });
  const progress = new Progress({
    steps: epochs * loader.length,
    stepsPerRound: loader.length,
    unit: "digits",
  });
  for (let epoch = 1; epoch <= epochs; epoch++) {
    for await (const [images] of loader) progress.step(await correct(images!).item(), BATCH);
    progress.endRound({ loss: await lossOnUnseen(model, test) });
  }
  progress.end();
}

const about = "Learns to draw digits: a variational autoencoder.";
const flags = optionsWith({ epochs: "40", rows: "8", out: "out" });
await runExample({ about, file: "examples/vae.ts", flags }, async (values, print) => {
  await Deno.mkdir(values.out, { recursive: true });
  const model = new Autoencoder(), columns = 12, drawn = Number(values.rows) * columns;
  await train(model, Number(values.epochs), Number(values.seed));
  const digits = noGrad(() => model.decoder.forward(Tensor.randn([drawn, LATENT])).sigmoid());
  const pixels = await digits.toHost() as Float32Array;
  saveFileSync(`${values.out}/digits.svg`, drawImages(pixels, { size: 8, columns }));
  print(`${drawn} digits: ${values.out}/digits.svg`);
});
