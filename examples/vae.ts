/**
 * Learns to draw handwritten digits: a variational autoencoder (D. Kingma, M. Welling, Auto-Encoding
 * Variational Bayes, 2013) on 1,437 digits of 8x8 pixels; then it draws some that nobody wrote.
 *
 *     deno run -A examples/vae.ts --help
 */
import { compile, DataLoader, nn, noGrad, optim, saveFileSync, Tensor } from "@netcl/netcl";
import { anything, count } from "./flags.ts";
import { runExample } from "./run_example.ts";
import { loadDataset } from "./train/datasets.ts";
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

const about = "Learns to draw digits: a variational autoencoder.";
const flags = {
  epochs: { ...count, default: "40", help: "how often every digit is seen" },
  rows: { ...count, default: "8", help: "rows of digits that are drawn" },
  out: { ...anything("FILE", "a file"), default: "digits.svg", help: "where they are drawn" },
};
await runExample({ about, file: "examples/vae.ts", flags }, async ({ epochs, rows, out, seed }) => {
  const { train } = await loadDataset({ dataset: "digits", data: "", seed: Number(seed) });
  const model = new Autoencoder(), optimizer = new optim.Adam(model.parameters(), { lr: 2e-3 });
  const correct = compile((x: Tensor): Tensor => {
    const loss = lossOf(model, x);
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    return loss;
  });
  const loader = new DataLoader(train, { batchSize: BATCH, shuffle: true, dropLast: true });
  for (let epoch = 1; epoch <= Number(epochs); epoch++) {
    let sum = 0;
    for await (const [images] of loader) sum += await correct(images!).item();
    console.log(`epoch ${epoch}/${epochs}  loss ${(sum / loader.length).toFixed(2)}`);
  }
  const columns = 12, drawn = Number(rows) * columns;
  const digits = noGrad(() => model.decoder.forward(Tensor.randn([drawn, LATENT])).sigmoid());
  const pixels = await digits.toHost() as Float32Array;
  saveFileSync(out, drawImages(pixels, { size: 8, columns }));
  console.log(`${drawn} digits: ${out}`);
});
