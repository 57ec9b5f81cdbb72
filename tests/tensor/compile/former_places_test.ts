import { assert, assertEquals } from "@std/assert";
import { backendOf } from "../../../backend/internal.ts";
import {
  DeviceHandle,
  manager,
  manualSeed,
  memory,
  nn,
  optim,
  Tensor,
  withDevice,
} from "../../../mod.ts";
import { compileRepeatable } from "../../../tensor/compile/compile.ts";
import { countingCalls } from "../../ffi/counting_calls.ts";
import { testOpenCL } from "../../opencl.ts";
import { learn } from "../training.ts";

/** `testOpenCL` on a device that counts as a GPU. */
function testAsGPU(name: string, fn: () => void): void {
  testOpenCL(name, () => {
    const { platformName, deviceName, clDevice } = manager.default("cl");
    const names = { platformName, deviceName, deviceType: "gpu", backend: "cl" } as const;
    const handle = new DeviceHandle(names, "cl", clDevice);
    try {
      withDevice(handle, fn);
    } finally {
      backendOf(handle).dispose();
      handle.close();
    }
  });
}

/** A model of layers that differ in size, its step with Adam, and a batch. */
function training(isCompiled: boolean) {
  manualSeed(7);
  const sizes = [12, 33, 20, 57, 4];
  const layers = sizes.slice(1).map((size, k) => new nn.Linear(sizes[k]!, size));
  const model = new nn.Sequential(...layers);
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.01 });
  const step = (x: Tensor): Tensor => learn(optimizer, model.forward(x).square().mean());
  const compiled = compileRepeatable(step), x = Tensor.rand([8, 12]).realize();
  const end = (): void => compiled[Symbol.dispose]();
  return { model, call: isCompiled ? compiled.call : step, x, [Symbol.dispose]: end };
}

testAsGPU("FormerPlaces: a compiled step on a GPU sets no argument", () => {
  using trained = training(true);
  const { call, x } = trained;
  const others: Tensor[] = [];
  for (let k = 0; k < 6; k++) call(x).realize().dispose();
  {
    using calls = countingCalls();
    for (let k = 0; k < 4; k++) {
      call(x).realize().dispose();
      others.push(Tensor.zeros([660 * (k + 1)]).realize());
    }
    // The kernel of the other numbers has some.
    const set = calls.counts.get("clSetKernelArg") ?? 0;
    assert(set < 30, `${set} arguments`);
  }
  for (const other of others) other.dispose();
});

testAsGPU("FormerPlaces: a compiled step on a GPU learns what the step learns", () => {
  const learned = [false, true].map((isCompiled) => {
    using trained = training(isCompiled);
    const { model, call, x } = trained;
    for (let k = 0; k < 7; k++) call(x).realize().dispose();
    return [...model.parameters()].map((p) => [...p.toHostSync("float32")]);
  });
  assertEquals(learned[1], learned[0]);
});

testAsGPU("FormerPlaces: compiled gradients and compiled updates set no argument", () => {
  manualSeed(7);
  const model = new nn.Sequential(...[12, 33, 20].flatMap((size, k, sizes) => [
    new nn.Linear(sizes[k - 1] ?? 8, size),
    new nn.BatchNorm1d(size),
  ]));
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.01 });
  using gradients = compileRepeatable((x: Tensor) => model.forward(x).square().mean().backward());
  using update = compileRepeatable(() => {
    optimizer.step();
    optimizer.zeroGrad();
  });
  const x = Tensor.rand([8, 8]).realize();
  const step = (): void => {
    gradients.call(x);
    update.call();
  };
  for (let k = 0; k < 8; k++) step();
  using calls = countingCalls();
  for (let k = 0; k < 4; k++) step();
  const set = calls.counts.get("clSetKernelArg") ?? 0;
  assert(set < 30, `${set} arguments`);
});

testAsGPU("FormerPlaces: of several programs the four that ran last keep places", () => {
  using ends = new DisposableStack();
  // An element's next value is made of another one: it cannot lie where the former one does.
  const all = Array.from({ length: 5 }, () => {
    const state = ends.use(Tensor.rand([64, 64]).realize());
    return ends.use(compileRepeatable(() => {
      state.assign(state.transpose().mul(0.5));
    }));
  });
  const held = all.map(({ call }) => {
    const before = memory.stats().requestedBytes;
    for (let k = 0; k < 5; k++) call();
    return memory.stats().requestedBytes - before;
  });
  const bytes = 4 * 64 * 64;
  assertEquals(held.map((own) => own - held[0]!), [0, 0, 0, 0, -bytes]);
});
