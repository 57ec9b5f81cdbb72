/**
 * Learns to draw handwritten digits: a variational autoencoder (D. Kingma, M. Welling, Auto-Encoding
 * Variational Bayes, 2013) on 1,437 digits of 8x8 pixels; then it draws some that nobody wrote.
 *
 *     deno run -A examples/vae.ts --help
 */
import { noGrad, saveFileSync, Tensor } from "@netcl/netcl";
import { makeOut, optionsWith } from "./flags.ts";
import { runExample } from "./run_example.ts";
import { shown } from "./terminal/progress.ts";
import { loadDataset } from "./train/datasets.ts";
import { drawImages } from "./vae/images.ts";
import { Autoencoder, BATCH, LATENT, train } from "./vae/loop.ts";

const about = "Learns to draw digits: a variational autoencoder.";
const flags = optionsWith({ epochs: "40", rows: "8", out: "out" });
await runExample({ about, file: "examples/vae.ts", flags }, async (values, print) => {
  await makeOut(values.out);
  const model = new Autoencoder(), columns = 12, drawn = Number(values.rows) * columns;
  const epochs = Number(values.epochs), seed = Number(values.seed);
  const { train: seen, test } = await loadDataset({ dataset: "digits", data: "", seed });
  const stepsPerRound = Math.floor(seen.length / BATCH);
  const plan = { steps: epochs * stepsPerRound, stepsPerRound, unit: "digits" };
  await Array.fromAsync(shown(train(model, seen, test, { epochs }), plan));
  const digits = noGrad(() => model.decoder.forward(Tensor.randn([drawn, LATENT])).sigmoid());
  const pixels = await digits.toFloat32();
  saveFileSync(`${values.out}/digits.svg`, drawImages(pixels, { size: 8, columns }));
  print(`${drawn} digits: ${values.out}/digits.svg`);
});
