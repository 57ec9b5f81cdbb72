import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { amp, DTypeError, manualSeed, nn, optim, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

testOnBackends("GradScaler: a run that overflows recovers", async () => {
  manualSeed(6);
  const model = new nn.Sequential(new nn.Linear(4, 16), new nn.Tanh(), new nn.Linear(16, 1));
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.02 });
  const scaler = new amp.GradScaler({ initScale: 2 ** 24 });
  const x = Tensor.randn([32, 4]).realize(), y = x.sum(1, { keepDims: true }).mul(0.3).realize();
  const before = await model.parameters()[0]!.toArray();
  const losses: number[] = [], scales: number[] = [];
  for (let step = 0; step < 60; step++) {
    using loss = amp.autocast("float16", () => nn.mse(model.forward(x), y));
    optimizer.zeroGrad();
    using scaled = scaler.scale(loss);
    scaled.backward();
    scaler.step(optimizer);
    scaler.update();
    losses.push(await loss.item());
    scales.push(await scaler.currentScale());
    if (step === 0) assertEquals(await model.parameters()[0]!.toArray(), before, "left out");
  }
  assertEquals(scales[0], 2 ** 23);
  assert(scales.at(-1)! < 2 ** 23 && scales.at(-1)! > 1, `scale ${scales.at(-1)}`);
  assertEquals(losses[1], losses[0]);
  assert(losses.at(-1)! < 0.2 * losses[0]!, `from ${losses[0]} to ${losses.at(-1)}`);
  for (const loss of losses) assert(Number.isFinite(loss), "a loss is not finite");
});

testOnBackends("GradScaler grows after good steps, and backs off after a bad one", async () => {
  const w = Tensor.ones([2], { requiresGrad: true });
  const optimizer = new optim.SGD([w], { lr: 0.5 });
  const factors = { growthFactor: 4, backoffFactor: 0.125 };
  const scaler = new amp.GradScaler({ initScale: 8, growthInterval: 2, ...factors });
  const scales: number[] = [];
  const step = async (factor: number): Promise<void> => {
    optimizer.zeroGrad();
    using loss = w.mul(factor).sum();
    using scaled = scaler.scale(loss);
    scaled.backward();
    scaler.step(optimizer);
    scaler.update();
    scales.push(await scaler.currentScale());
  };
  for (const factor of [1, 1, 1, Infinity, NaN, 1, 1]) await step(factor);
  assertEquals(scales, [8, 32, 32, 4, 0.5, 0.5, 2]);
  assertEquals(await w.toArray(), [-1.5, -1.5]);

  const resumed = new amp.GradScaler();
  resumed.loadStateDict(scaler.stateDict());
  assertEquals(await resumed.currentScale(), 2);
});

testOnBackends("GradScaler: gradients can be clipped between unscale and step", async () => {
  const w = Tensor.fromHost([3, 4], { requiresGrad: true });
  const optimizer = new optim.SGD([w], { lr: 1 });
  const scaler = new amp.GradScaler();
  scaler.scale(w.square().sum().mul(0.5)).backward();
  scaler.unscale(optimizer);
  assertAlmostEquals(await optim.clipGradNorm([w], 1).item(), 5, 1e-4);
  scaler.step(optimizer);
  scaler.update();
  const [a, b] = [...await w.toHost()].map(Number);
  assertAlmostEquals(a!, 2.4, 1e-5);
  assertAlmostEquals(b!, 3.2, 1e-5);
});

testOnBackends("GradScaler refuses what makes no sense, and does nothing if off", async () => {
  assertThrows(() => new amp.GradScaler({ growthFactor: 1 }), RangeError, "growing by 1");
  const scaler = new amp.GradScaler();
  assertThrows(() => scaler.update(), Error, "call step()");
  const half = Tensor.ones([2], { dtype: "float16", requiresGrad: true });
  half.sum().backward();
  const optimizer = new optim.SGD([half], { lr: 1 });
  assertThrows(() => scaler.unscale(optimizer), DTypeError, "float16");
  const w = Tensor.ones([2], { requiresGrad: true });
  const other = new optim.SGD([w], { lr: 1 });
  scaler.scale(w.sum()).backward();
  scaler.unscale(other);
  assertThrows(() => scaler.unscale(other), Error, "twice");
  const off = new amp.GradScaler({ enabled: false });
  const loss = w.sum();
  assertEquals(off.scale(loss), loss);
  assertEquals(await off.currentScale(), 1);
});
