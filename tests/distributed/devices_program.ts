/** One model on two devices of a process, held against one device; run by devices_test.ts. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { setCommunicationTimeout } from "../../backend/communication/mod.ts";
import { BesideCopies } from "../../backend/opencl/transfers/beside_copies.ts";
import { UserEvent } from "../../ffi/mod.ts";
import {
  compile,
  device,
  type DeviceHandle,
  distributed,
  manager,
  manualSeed,
  memory,
  nn,
  noGrad,
  optim,
  profiler,
  setDeterministic,
  Tensor,
} from "../../mod.ts";
import { callsOfStep } from "./enqueued_calls.ts";

const devices = manager.list().filter(({ backend }) => backend === "cl");
assertEquals(devices.length, 2);
using _dev = device(devices[0]!);

function makeModel(): nn.Sequential {
  manualSeed(3);
  return new nn.Sequential(new nn.Linear(6, 16), new nn.Tanh(), new nn.Linear(16, 3));
}

const x = Tensor.fromHost(Float32Array.from({ length: 60 }, (_, k) => Math.sin(k)), {
  shape: [10, 6],
});
const y = Tensor.fromHost(Int32Array.from({ length: 10 }, (_, k) => k % 3));

async function assertSame(actual: nn.Module, expected: nn.Module, what: string): Promise<void> {
  for (const [k, p] of actual.parameters().entries()) {
    assert(p.device === devices[0]);
    const other = await expected.parameters()[k]!.toNumbers();
    const worst = Math.max(...(await p.toNumbers()).map((v, i) => Math.abs(v - other[i]!)));
    assert(worst < 1e-5, `${what}: off by ${worst}`);
  }
}

type Way = (model: nn.Sequential, optimizer: optim.Optimizer) => void;

/** Six steps on both devices and on one; compiled, from the third on, updates are replayed. */
async function check(
  what: string,
  both: (parallel: distributed.DataParallel, model: nn.Sequential) => Way,
  compilesUpdate = false,
): Promise<void> {
  const model = makeModel(), expected = makeModel();
  using parallel = new distributed.DataParallel(model, devices, { bucketBytes: 200 });
  const way = both(parallel, model);
  const [optimizer, other] = [model, expected].map((m) =>
    new optim.Adam(m.parameters(), { lr: 0.05 })
  );
  const update = (): void => {
    optimizer!.step();
    optimizer!.zeroGrad();
  };
  const learn = compilesUpdate ? compile(update) : update;
  for (let step = 0; step < 6; step++) {
    way(model, optimizer!);
    learn();
    other!.zeroGrad();
    expected.forward(x).crossEntropy(y).backward();
    other!.step();
  }
  await assertSame(model, expected, what);
}

await check("forward and backward", (parallel) => () => {
  parallel.forward(x).crossEntropy(y).backward();
});
await check("gradients are added up", (parallel) => () => {
  for (let k = 0; k < 2; k++) parallel.forward(x).crossEntropy(y).mul(0.5).backward();
});
const batches = devices.map((device, k) => {
  const own = [5 * k, 5 * (k + 1)] as const;
  return [x.slice(own).to(device), y.slice(own).to(device)] as [Tensor, Tensor];
});
await check("a batch for each device", (parallel, model) => () => {
  const losses = parallel.onEachDevice(batches, (x, y) => {
    const loss = model.forward(x).crossEntropy(y);
    loss.backward();
    return loss;
  });
  assertEquals(losses.map((loss) => loss.device), devices);
});
for (const compilesUpdate of [false, true]) {
  await check("a compiled function for each device", (parallel, model) => {
    const gradients = compile((x: Tensor, y: Tensor) => {
      const loss = model.forward(x).crossEntropy(y);
      loss.backward();
      return loss;
    });
    return () => void parallel.onEachDevice(batches, gradients);
  }, compilesUpdate);
}

{
  // Gradients of several calls are added up, not divided again.
  const model = makeModel(), expected = makeModel();
  using parallel = new distributed.DataParallel(model, devices);
  for (let k = 0; k < 3; k++) {
    parallel.onEachDevice(batches, (x, y) => model.forward(x).crossEntropy(y).backward());
    expected.forward(x).crossEntropy(y).backward();
  }
  for (const [k, { grad }] of model.parameters().entries()) {
    assert(await grad!.allClose(expected.parameters()[k]!.grad!, { atol: 1e-5 }));
  }
}
{
  // Fewer samples than devices; what is not on the first device; a batch of images with BatchNorm.
  const model = new nn.Sequential(new nn.Conv2d(1, 2, 3), new nn.BatchNorm2d(2), new nn.Flatten());
  using parallel = new distributed.DataParallel(model, devices);
  assertEquals(parallel.forward(Tensor.ones([1, 1, 5, 5])).shape, [1, 18]);
  parallel.forward(Tensor.randn([4, 1, 5, 5])).square().sum().backward();
  const norm = model.modules()[2] as nn.BatchNorm2d;
  assertEquals([norm.runningMean!.device, await norm.numBatchesTracked!.item()], [devices[0], 2]);
  assertEquals(norm.weight!.grad!.device, devices[0]);
  model.eval();
  assertEquals(parallel.forward(Tensor.ones([3, 1, 5, 5])).shape, [3, 18]);
}
{
  // What a module keeps of its inputs and outputs, and what its hooks see, can be read afterwards.
  class Keeping extends nn.Module {
    readonly inner = new nn.Linear(2, 1);
    #seen: Tensor[] = [];
    get seen(): readonly Tensor[] {
      return this.#seen;
    }
    forward(x: Tensor): Tensor {
      const y = this.inner.forward(x);
      this.#seen.push(x, y);
      return y;
    }
  }
  const model = new Keeping(), hooked = new nn.Linear(2, 1), shown: Tensor[] = [];
  using _ = hooked.registerForwardHook((_layer, [x], y) => void shown.push(x, y));
  for (const [each, seen] of [[model, model.seen], [hooked, shown]] as const) {
    using parallel = new distributed.DataParallel<[Tensor], Tensor>(each, devices);
    parallel.forward(Tensor.ones([4, 2])).sum().backward();
    assertEquals(seen.map(({ shape }) => shape), [[2, 2], [2, 1], [2, 2], [2, 1]]);
    for (const tensor of seen) assertEquals((await tensor.toNumbers()).length, tensor.size);
  }
}
{
  const model = makeModel(), optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  using parallel = new distributed.DataParallel(model, devices, { bucketBytes: 300 });
  const step = () => {
    optimizer.zeroGrad();
    const losses = parallel.onEachDevice(batches, (x, y) => {
      const loss = model.forward(x).crossEntropy(y);
      loss.backward();
      return loss;
    });
    optimizer.step();
    for (const loss of losses) loss.dispose();
  };
  for (let k = 0; k < 8; k++) step();
  const live = devices.map((device) => memory.stats(device).currentAllocated);
  profiler.reset();
  for (let k = 0; k < 20; k++) step();
  const now = devices.map((device) => memory.stats(device).currentAllocated);
  assertEquals(now, live);
  assertEquals(profiler.counters().nativeAllocs, 0);
}

{
  // One weight with two uses, a layer that the second device leaves out at times, and steps in which it has
  // no batch.
  class Tied extends nn.Module {
    words = new nn.Embedding(12, 8);
    extra = new nn.Linear(8, 8);
    usesExtra = true;
    override forward(x: Tensor): Tensor {
      const h = this.words.forward(x).tanh();
      const inner = this.usesExtra ? this.extra.forward(h).tanh() : h;
      return inner.matmul(this.words.weight.transpose());
    }
  }
  const make = (): Tied => {
    manualSeed(3);
    return new Tied();
  };
  const adam = (model: Tied) => new optim.Adam(model.parameters(), { lr: 0.02 });
  const model = make(), expected = make(), optimizer = adam(model), other = adam(expected);
  using parallel = new distributed.DataParallel(model, devices, { bucketBytes: 300 });
  const words = [5, 7].map((step) =>
    devices.map((device, d) =>
      Tensor.fromHost(Int32Array.from({ length: 6 }, (_, k) => (6 * d + k) * step % 12)).to(device)
    )
  );
  const given = devices.map((_, d) => words.map((each) => each[d]!) as [Tensor, Tensor]);
  const steps = [true, false].map((usesExtra) =>
    compile((x: Tensor, y: Tensor) => {
      model.usesExtra = usesExtra;
      model.forward(x).crossEntropy(y).backward();
    })
  );
  for (let k = 0; k < 12; k++) {
    const count = k % 3 === 2 ? 1 : 2;
    const uses = (d: number): boolean => d === 0 || k % 2 === 0;
    let d = 0;
    parallel.onEachDevice(given.slice(0, count), (x, y) => steps[uses(d++) ? 0 : 1]!(x, y));
    optimizer.step();
    optimizer.zeroGrad();
    for (let d = 0; d < count; d++) {
      const [x, y] = given[d]!.map((tensor) => tensor.to(devices[0]!)) as [Tensor, Tensor];
      expected.usesExtra = uses(d);
      expected.forward(x).crossEntropy(y).div(count).backward();
    }
    other.step();
    other.zeroGrad();
  }
  await assertSame(model, expected, "a tied weight, and a layer left out at times");
}
for (const dtype of ["bfloat16", "float16"] as const) {
  // Gradients of 16 bits are added up in 32, and rounded once.
  const model = new nn.Linear(6, 3, { bias: false });
  model.cast(dtype);
  using parallel = new distributed.DataParallel(model, devices);
  const parts = [1, 2 ** -8].map((value, d) =>
    [Tensor.full([1, 6], value, { dtype, device: devices[d]! })] as [Tensor]
  );
  parallel.onEachDevice(parts, (x) => model.forward(x).sum().backward());
  const { grad } = model.weight;
  const sum = Tensor.fromHost([(1 + 2 ** -8) / 2]).cast(dtype).cast("float32");
  assertEquals([grad!.dtype, await grad!.cast("float32").max().item()], [dtype, await sum.item()]);
}

{
  // The host waits for copies where devices cannot: the first device has its work by then.
  const own = Object.getOwnPropertyDescriptor(BesideCopies.prototype, "hasGates")!;
  Object.defineProperty(BesideCopies.prototype, "hasGates", {
    get: () => false,
    configurable: true,
  });
  setCommunicationTimeout(3000);
  setDeterministic(true);
  const model = makeModel(), optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  using parallel = new distributed.DataParallel(model, devices);
  const expected = makeModel(), other = new optim.SGD(expected.parameters(), { lr: 0.1 });
  for (let k = 0; k < 3; k++) {
    const held = new UserEvent(devices[0]!.context!);
    devices[0]!.queue!.barrier([held]).release();
    let calls = 0;
    parallel.onEachDevice(batches, (x, y) => {
      model.forward(x).crossEntropy(y).backward();
      if (calls++ === 0) held.complete();
    });
    held.release();
    optimizer.step();
    optimizer.zeroGrad();
    expected.forward(x).crossEntropy(y).backward();
    other.step();
    other.zeroGrad();
  }
  await assertSame(model, expected, "devices whose host waits for copies");
  setDeterministic(false);
  setCommunicationTimeout();
  Object.defineProperty(BesideCopies.prototype, "hasGates", own);
}

{
  // A hook gets the gradient of all parts, once.
  const gradientsOf = (
    isParallel: boolean,
  ): { calls: number; model: ReturnType<typeof makeModel> } => {
    const model = makeModel(), parameters = model.parameters();
    let calls = 0;
    for (const p of parameters) p.registerHook((g) => (calls++, g.clamp(-0.01, 0.01)));
    using parallel = isParallel ? new distributed.DataParallel(model, devices) : null;
    (parallel ?? model).forward(x).crossEntropy(y).backward();
    // What is compared are parameters.
    noGrad(() => parameters.forEach((p) => p.assign(p.grad!)));
    return { calls, model };
  };
  const alone = gradientsOf(false), together = gradientsOf(true);
  assertEquals(together.calls, alone.calls);
  await assertSame(together.model, alone.model, "gradients with hooks");
}

for (const compiles of [false, true]) {
  // On each device a hook gets what that device found.
  const model = makeModel(), weight = model.parameters()[0]!;
  const seen: DeviceHandle[] = [];
  weight.registerHook((g) => {
    if (!compiles) seen.push(g.device);
    return g.mul(0).add(2);
  });
  using parallel = new distributed.DataParallel(model, devices);
  const learn = (x: Tensor, y: Tensor): void => model.forward(x).crossEntropy(y).backward();
  const run = compiles ? compile(learn) : learn;
  for (let k = 0; k < 4; k++) {
    for (const p of model.parameters()) p.grad = null;
    parallel.onEachDevice(batches, run);
    assert([...weight.grad!.toHostSync()].every((v) => v === 2), "the mean of hooked gradients");
  }
  if (!compiles) assert(devices.every((device) => seen.includes(device)));
}

/** Calls of the driver in one step besides launches, of a model with so many layers. */
function callsOf(layers: number): Record<string, number> {
  return callsOfStep(layers, (model) => new distributed.DataParallel(model, devices), batches);
}

{
  // Gradients, and parameters with buffers, travel as one copy each, however many there are.
  // (Kernels that are not compiled yet read their inputs from the device.)
  setDeterministic(true);
  const few = callsOf(2), many = callsOf(24);
  setDeterministic(false);
  for (const [name, calls] of Object.entries(few)) {
    assert(Math.abs(many[name]! - calls) <= 2, `${name}: ${calls} and ${many[name]}`);
    assert(calls <= 8, `${name}: ${calls}`);
  }
}
const model = new nn.Linear(2, 2);
assertThrows(() => new distributed.DataParallel(model, [devices[1]!]), TypeError, "to()");
assertThrows(() => new distributed.DataParallel(model, []), RangeError, "array of devices");
using parallel = new distributed.DataParallel(model, devices);
assertThrows(() => parallel.forward(Tensor.fromHost(1)), RangeError, "axis 0");
assertThrows(() => parallel.onEachDevice([], () => 1), RangeError, "1 to 2");
console.log(": good");
