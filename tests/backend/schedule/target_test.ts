import { assert, assertEquals } from "@std/assert";
import { manager, nn, noGrad, Tensor, withDevice } from "../../../mod.ts";
import { backendOf } from "../../../backend/internal.ts";
import { hostTarget } from "../../../backend/kernel/target.ts";
import type { PlanningDevice } from "../../../backend/kernel/template.ts";
import { scriptStrategy } from "../../../backend/cpu/strategy/strategy.ts";
import { schedule } from "../../../backend/schedule/schedule.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { hasOpenCL } from "../../opencl.ts";
import { backendWith } from "../cpu/strategies.ts";
import { bytesOn } from "../evaluate.ts";
import { cpu, gpu } from "./nodes.ts";

Deno.test("what planning knows of a device is plain data", () => {
  const targets = [hostTarget, cpu.target, gpu.target];
  if (hasOpenCL) targets.push(backendOf(manager.default("cl")).target);
  for (const target of targets) assertEquals(structuredClone(target), target);
});

/** Computations with products, sums of few rows and kernels that are alike. */
const programs: Readonly<Record<string, (wave: (...shape: number[]) => Tensor) => Tensor>> = {
  "a sum of few long rows": (wave) => wave(3, 40_000).mul(2).sum(1).tanh(),
  "a sum down long columns": (wave) => wave(30_000, 5).exp().sum(0),
  "a variance and a maximum": (wave) => wave(2, 50_000).variance(1).add(wave(2, 50_000).max(1)),
  "a product with a long sum": (wave) => wave(8, 4096).matmul(wave(4096, 8)).add(wave(8)).relu(),
  "a product of half types with a long sum": (wave) =>
    wave(8, 4096).cast("float16").matmul(wave(4096, 8).cast("float16")).cast("float32"),
  "a sum down columns of a value that is kept": (wave) => {
    const x = wave(20_000, 7).mul(2).tanh();
    return x.sum(0).expand([20_000, 7]).add(x);
  },
  "sums over channels of a value that is kept": (wave) => {
    const x = wave(6, 3, 50, 50).mul(2).relu();
    const mean = x.sum([0, 2, 3], { keepDims: true }).add(
      x.mul(x).sum([0, 2, 3], { keepDims: true }),
    );
    return x.sub(mean);
  },
  "the mean of logarithms": (wave) => wave(70_000).abs().add(1).log().mean(),
};

for (const [name, program] of Object.entries(programs)) {
  Deno.test(`${name}, planned for a GPU, has the values of a plan for the host`, () =>
    withDevice("cpu", () =>
      noGrad(() => {
        const wave = (...shape: number[]): Tensor => {
          const size = shape.reduce((n, m) => n * m, 1);
          return Tensor.arange(size).mul(0.37).sin().reshape(shape).realize();
        };
        const node = nodeOf(program(wave));
        const valuesBy = (device: PlanningDevice): Float32Array => {
          const backend = backendWith(scriptStrategy);
          try {
            Object.defineProperties(backend, {
              target: { value: device.target },
              planKernel: { value: device.planKernel },
            });
            return new Float32Array(bytesOn(backend, node).buffer);
          } finally {
            backend.dispose();
          }
        };
        const wanted = valuesBy({ target: hostTarget, planKernel: null });
        const scale = wanted.reduce((most, v) => Math.max(most, Math.abs(v)), 1);
        for (const device of [gpu, cpu]) {
          valuesBy(device).forEach((value, k) => {
            const difference = Math.abs(value - wanted[k]!);
            assert(difference <= 1e-5 * scale, `element ${k} is ${value}, not ${wanted[k]}`);
          });
        }
      })));
}

Deno.test("a network is planned for a GPU without one: split sums, shared launches, no padding", () =>
  withDevice("cpu", () => {
    const model = new nn.Sequential(
      new nn.Conv2d(3, 8, 3, { padding: 1 }),
      new nn.ReLU(),
      new nn.Flatten(),
      new nn.Linear(8 * 16 * 16, 10),
    );
    const x = Tensor.ones([4, 3, 16, 16]).realize();
    model.forward(x).square().sum().backward();
    const parameters = [...model.parameters()];
    const wanted = parameters.flatMap((p) => [nodeOf(p.grad!), nodeOf(p.detach().mul(0.9))]);
    const { kernels, temporaries, order } = schedule(wanted, { device: gpu });

    assert(temporaries.length > 0);
    assert(kernels.some(({ kernel }) => kernel.kind === "horizontal"));
    assert(!kernels.some(({ kernel }) => kernel.label.includes("pad")));
    // Every buffer is written before it is read, and dies after its last reader.
    const live = new Set<number>();
    for (const { inputs, outputs, dying } of kernels) {
      for (const at of inputs) assert(live.has(at) || order[at]!.isLeaf);
      for (const at of outputs) live.add(at);
      for (const at of dying) live.delete(at);
    }
    assertEquals(live.size, wanted.length);
  }));
