/** The number of calls of the driver by a step besides launches. */
import { countingCalls } from "../ffi/counting_calls.ts";
import { compile, type distributed, nn, optim, type Tensor } from "../../mod.ts";

const NAMES = [
  "clEnqueueReadBuffer",
  "clEnqueueWriteBuffer",
  "clEnqueueCopyBuffer",
  "clEnqueueMarkerWithWaitList",
  "clEnqueueBarrierWithWaitList",
];

/** A step backward from a batch's loss, or what is made of it. */
export function backwardOf(
  model: nn.Module,
  made: (loss: Tensor) => Tensor = (loss) => loss,
): (x: Tensor, y: Tensor) => void {
  return (x, y) => {
    using loss = made(model.forward(x).crossEntropy(y));
    loss.backward();
  };
}

/** The calls of one more step of a model with so many layers, by their names; the first ones are recorded. */
export function callsOfStep(
  layers: number,
  parallelOf: (model: nn.Module) => distributed.DataParallel,
  batches: readonly [x: Tensor, y: Tensor][],
): Record<string, number> {
  const model = layersOf(layers);
  using parallel = parallelOf(model);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const gradients = compile(backwardOf(model));
  const update = compile(() => {
    optimizer.step();
    optimizer.zeroGrad();
  });
  const step = (): void => {
    parallel.onEachDevice(batches, gradients);
    update();
  };
  for (let k = 0; k < 6; k++) step();
  using counting = countingCalls();
  step();
  return Object.fromEntries(NAMES.map((name) => [name, counting.counts.get(name) ?? 0]));
}

/** A model of 6 inputs with four parameters and three buffers a layer. */
function layersOf(count: number): nn.Sequential {
  const layers = Array.from({ length: count }, () => [new nn.Linear(6, 6), new nn.BatchNorm1d(6)]);
  return new nn.Sequential(...layers.flat());
}
