// Suite: alone; asks what all pinned blocks of the process come to.
/** Promises of `pinMemory` and `persistent`, and that uploads run beside kernels. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { backendOf, manager, profiler, withDevice } from "../../../backend/internal.ts";
import { memory } from "../../../memory/mod.ts";
import { DataLoader, TensorDataset } from "../../../tensor/data/mod.ts";
import { Tensor } from "../../../tensor/mod.ts";
import * as optim from "../../../tensor/optim/mod.ts";
import { testOnBackends, testOpenCL } from "../../opencl.ts";
import { busyDevice } from "../../signals/busy.ts";
import { learn } from "../training.ts";

function ramp(length: number, from = 0): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length }, (_, i) => from + i);
}

testOpenCL("pinMemory makes the content in the pinned pool, and gives it back", async () => {
  const device = manager.default("cl");
  const count = () => memory.stats(device).pinned?.numAllocs ?? 0;
  for (const length of [1, 1000, 100_000]) {
    const before = count(), data = ramp(length);
    using x = Tensor.fromHost(data, { device, pinMemory: true });
    assertEquals(count(), before + 1);
    data.fill(-1); // the caller's own again
    assertEquals(await x.toHost(), ramp(length));
    assertEquals(memory.stats(device).pinned!.requestedBytes, 0);
  }
});

testOpenCL("a loader's batches go through the pinned pool when it says pinMemory", async () => {
  const device = manager.default("cl");
  const data = new TensorDataset({ data: ramp(6 * 70_000), shape: [6, 70_000] });
  for (const pinMemory of [true, false]) {
    const before = memory.stats(device).pinned?.requested.allocated ?? 0;
    const firsts: number[] = [];
    await withDevice(device, async () => {
      for await (const [x] of new DataLoader(data, { batchSize: 2, pinMemory })) {
        firsts.push((await x!.toHost())[0] as number);
        x!.dispose();
      }
    });
    assertEquals(firsts, [0, 140_000, 280_000]);
    const bytes = (memory.stats(device).pinned?.requested.allocated ?? 0) - before;
    if (pinMemory) assertEquals(bytes, 6 * 70_000 * 4);
  }
});

testOnBackends("persistent values are in the persistent pool until disposed", (backend) => {
  const device = manager.default(backend);
  const live = () => memory.stats(device).persistent?.requestedBytes ?? 0;
  const before = live(), all = memory.stats(device).requestedBytes;
  const tensors = [
    Tensor.fromHost(ramp(3), { device, persistent: true }),
    Tensor.fromHost(ramp(50_000), { device, persistent: true, pinMemory: true }),
    Tensor.zeros([7, 11], { device, persistent: true, dtype: "int32" }),
    Tensor.rand([100], { device, persistent: true, requiresGrad: true }),
    Tensor.ones([0], { device, persistent: true }),
  ];
  const bytes = 4 * (3 + 50_000 + 77 + 100);
  assertEquals(live() - before, bytes);
  assertEquals(memory.stats(device).requestedBytes - all, bytes, "the device's sum has them");
  assertEquals([...tensors[0]!.toHostSync()], [0, 1, 2]);
  assertEquals([...tensors[1]!.toHostSync()], [...ramp(50_000)]);
  assertEquals([...tensors[2]!.toHostSync()], Array(77).fill(0));
  assert(tensors[3]!.requiresGrad);
  for (const tensor of tensors) tensor.dispose();
  assertEquals(live(), before);
});

testOnBackends("the limit of a device holds for its pools together", (backend) => {
  const device = manager.default(backend);
  memory.emptyCache(device);
  const { reservedBytes } = memory.stats(device);
  memory.setLimit(reservedBytes + 24 * 2 ** 20, device);
  try {
    const make = () => Tensor.fromHost(new Uint8Array(16 * 2 ** 20), { device, persistent: true });
    using _first = make();
    assertEquals(assertThrows(make, Error).name, "OutOfMemoryError");
    assertEquals(memory.stats(device).limitBytes, reservedBytes + 24 * 2 ** 20);
  } finally {
    memory.setLimit(null, device);
  }
});

testOnBackends("a step trains alike with pinned and persistent memory", async (backend) => {
  const device = manager.default(backend);
  const train = async (pinMemory: boolean, persistent: boolean): Promise<number[]> => {
    const options = { device, persistent, requiresGrad: true };
    const weight = Tensor.fromHost(ramp(64), { shape: [64, 1], ...options });
    const optimizer = new optim.SGD([weight], { lr: 1e-9 });
    const losses: number[] = [];
    for (let step = 0; step < 6; step++) {
      using x = Tensor.fromHost(ramp(2000 * 64, step), { device, shape: [2000, 64], pinMemory });
      const loss = learn(optimizer, x.matmul(weight).square().mean());
      losses.push(await loss.item());
    }
    return losses;
  };
  const plain = await train(false, false);
  assertEquals(await train(true, false), plain);
  assertEquals(await train(true, true), plain);
});

const canOverlap = (manager.list().find(({ backend }) => backend === "cl")?.clDevice
  ?.maxComputeUnits ?? 0) > 1;

/** The number of copies that an upload makes beside a kernel, and the kernel's state after them. */
function uploadBeside(kernelMs: number, pinMemory: boolean): [copies: number, status: string] {
  const device = manager.default("cl");
  const path = Deno.makeTempFileSync({ suffix: ".json" });
  using busy = busyDevice(device);
  backendOf(device).finishSync();
  Tensor.ones([8], { device }).add(1).realize().dispose();
  using slow = busy(kernelMs);
  Tensor.ones([8], { device }).add(1).realize().dispose(); // behind it: the queue is busy
  {
    using _trace = profiler.trace(path);
    using _batch = Tensor.fromHost(ramp(200_000), { device, pinMemory });
  } // waits for the copy, to know its times
  const { status } = slow;
  const { traceEvents } = JSON.parse(Deno.readTextFileSync(path));
  const copies = traceEvents.filter((slice: { name: string; tid: number }) =>
    slice.name === "upload" && slice.tid === 3
  );
  Deno.removeSync(path);
  backendOf(device).finishSync();
  return [copies.length, status];
}

for (const pinMemory of [false, true]) {
  const how = pinMemory ? "pinned" : "not pinned";
  Deno.test(`a batch is copied while a kernel runs, ${how}`, { ignore: !canOverlap }, () => {
    let [copies, status] = uploadBeside(300, pinMemory);
    // A busy machine may take longer to copy: only a copy that waits outlasts every kernel.
    if (status === "complete") [copies, status] = uploadBeside(5000, pinMemory);
    assertEquals(copies, 1);
    assert(status === "running" || status === "submitted", `the kernel is ${status}`); // drivers differ
  });
}
