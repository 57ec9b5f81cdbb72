/** A worker that trains by itself: says so after its first step, and what it came to at the end. */
import { device, nn, optim, Tensor } from "../../../mod.ts";

const self = globalThis as unknown as { readonly name: string; postMessage(value: unknown): void };
/** So many steps; further ones are never reached where the worker is to be terminated. */
const steps = Number(self.name);

using _device = device("cl");
const model = new nn.Linear(16, 4), optimizer = new optim.Adam(model.parameters());
const x = Tensor.ones([64, 16]);
let loss = NaN;
for (let step = 0; step < steps; step++) {
  const target = new Float32Array(64 * 4).fill(step % 3);
  const difference = model.forward(x).sub(Tensor.fromHost(target, { shape: [64, 4] }));
  const mean = difference.square().mean();
  optimizer.zeroGrad();
  mean.backward();
  optimizer.step();
  loss = await mean.item();
  await model.weight.toHost();
  if (step === 0) self.postMessage("training");
}
self.postMessage(loss);
