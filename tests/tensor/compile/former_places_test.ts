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

/** Calls a function on the OpenCL device, which counts as a GPU. */
function asGPU(fn: () => void): void {
  const { platformName, deviceName, clDevice } = manager.default("cl");
  const names = { platformName, deviceName, deviceType: "gpu", backend: "cl" } as const;
  const handle = new DeviceHandle(names, "cl", clDevice);
  withDevice(handle, () => {
    try {
      fn();
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
  const model = new nn.Sequential(
    ...sizes.slice(1).map((size, k) => new nn.Linear(sizes[k]!, size)),
  );
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.01 });
  const step = (x: Tensor): Tensor => {
    const loss = (model.forward(x) as Tensor).square().mean();
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    return loss;
  };
  const compiled = compileRepeatable(step), x = Tensor.rand([8, 12]).realize();
  const end = (): void => compiled[Symbol.dispose]();
  return { model, call: isCompiled ? compiled.call : step, x, [Symbol.dispose]: end };
}

testOpenCL(
  "FormerPlaces: a compiled step on a GPU sets no argument, whatever other memory comes and goes",
  () =>
    asGPU(() => {
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
    }),
);

testOpenCL(
  "FormerPlaces: a compiled step on a GPU learns what the step learns",
  () =>
    asGPU(() => {
      const learned = [false, true].map((isCompiled) => {
        using trained = training(isCompiled);
        const { model, call, x } = trained;
        for (let k = 0; k < 7; k++) call(x).realize().dispose();
        return [...model.parameters()].map((p) => [...p.toHostSync("float32")]);
      });
      assertEquals(learned[1], learned[0]);
    }),
);

testOpenCL(
  "FormerPlaces: of several programs the one that ran last keeps places",
  () =>
    asGPU(() => {
      using one = training(true), two = training(true);
      const { device } = one.x;
      const run = ({ call, x }: typeof one): number => {
        for (let k = 0; k < 5; k++) call(x).realize().dispose();
        return memory.stats(device).requestedBytes;
      };
      const before = memory.stats(device).requestedBytes, first = run(one), second = run(two);
      // Places of weights and of their two moments.
      const parameters = [...two.model.parameters()].reduce((sum, { size }) => sum + 4 * size, 0);
      assert(first - before > 3 * parameters, `${first - before} bytes for ${parameters}`);
      assert(second - first < 2 * parameters, `${second - first} bytes for ${parameters}`);
      assertEquals([run(one), run(two)], [second, second]);
    }),
);
