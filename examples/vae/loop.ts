/** A variational autoencoder and its training, to be copied: they use the package alone. */
import {
  compile,
  DataLoader,
  type Dataset,
  type Field,
  nn,
  noGrad,
  optim,
  Tensor,
} from "@netcl/netcl";

const PIXELS = 64;
/** Numbers that describe an image. */
export const LATENT = 8;
/** Images of a step. */
export const BATCH = 32;

/** Images, with labels that nobody looks at. */
type Images = Dataset<[images: Field, labels: Field]>;

/** An image is described by a few numbers that are normally distributed. */
export class Autoencoder
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

/** The cost of an image beyond what is expected: reconstruction, and distance from the normal. */
function lossOf(model: Autoencoder, x: Tensor): Tensor {
  const { image, mean, logVariance } = model.forward(x);
  const wrong = nn.bceWithLogits(image, x.flatten(1), { reduction: "sum" });
  const divergence = logVariance.add(1).sub(mean.square()).sub(logVariance.exp()).sum().mul(-0.5);
  return wrong.add(divergence).div(image.shape[0] ?? 1);
}

/** The mean loss of images that it does not learn from. */
async function lossOnUnseen(model: Autoencoder, unseen: Images): Promise<number> {
  let sum = 0;
  for await (const [images, labels] of new DataLoader(unseen, { batchSize: 180 })) {
    sum += labels.size * await noGrad(() => lossOf(model, images)).item();
  }
  return sum / unseen.length;
}

/** A step that was made; after the last one of an epoch with the loss of unseen images. */
export interface Step {
  readonly loss: number;
  readonly count: number;
  readonly unseen?: { readonly loss: number };
}

/** Trains; gives each step as it is made. */
export async function* train(
  model: Autoencoder,
  seen: Images,
  unseen: Images,
  { epochs }: { readonly epochs: number },
): AsyncGenerator<Step> {
  const optimizer = new optim.Adam(model.parameters(), { lr: 2e-3 });
  // The whole step as its launches: recorded once, then replayed.
  const correct = compile((x: Tensor): Tensor => {
    const loss = lossOf(model, x);
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    return loss;
  });
  const loader = new DataLoader(seen, { batchSize: BATCH, shuffle: true, dropLast: true });
  for (let epoch = 0; epoch < epochs; epoch++) {
    let left = loader.length;
    for await (const [images] of loader) {
      const step = { loss: await correct(images).item(), count: BATCH };
      yield --left > 0 ? step : { ...step, unseen: { loss: await lossOnUnseen(model, unseen) } };
    }
  }
}
