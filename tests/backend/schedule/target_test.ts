import { assert, assertEquals } from "@std/assert";
import { amp, manager, nn, noGrad, Tensor, withDevice } from "../../../mod.ts";
import { backendOf } from "../../../backend/internal.ts";
import { coefficient } from "../../../backend/kernel/affine.ts";
import { extent, type LoopKernel } from "../../../backend/kernel/kernel.ts";
import { hostTarget } from "../../../backend/kernel/target.ts";
import type { PlanningDevice } from "../../../backend/kernel/template.ts";
import { scriptStrategy } from "../../../backend/cpu/strategy/strategy.ts";
import { schedule } from "../../../backend/schedule/schedule.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { hasOpenCL, testOnCPU } from "../../opencl.ts";
import { backendWith } from "../cpu/strategies.ts";
import { bytesOn } from "../evaluate.ts";
import { cpu, gpu } from "./nodes.ts";
import { assertNear, scaleOf } from "../near.ts";

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
  "a normalization that is used before and after products": (wave) => {
    const x = wave(300, 64).matmul(wave(64, 96)).add(wave(300, 96));
    const normed = new nn.LayerNorm(96).forward(x);
    const y = normed.matmul(wave(96, 96)).mul(0.1);
    return y.mul(normed).sum(1, { keepDims: true }).mul(normed).add(x);
  },
  "a half that is summed in single precision, and used again": (wave) => {
    const x = wave(6, 3, 40, 40).cast("float16").relu().add(wave(6, 3, 40, 40).cast("float16"));
    const wide = x.cast("float32");
    return wide.sub(wide.mean([0, 2, 3], { keepDims: true })).mul(wide.square().mean());
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
        for (const device of [gpu, cpu]) {
          assertNear(valuesBy(device), wanted, 1e-5 * scaleOf(wanted), name);
        }
      })));
}

/** Results of the kernel that normalizes the rows of a layer that is trained. */
function normalizes(device: PlanningDevice): void {
  withDevice("cpu", () => {
    const rows = 4096,
      width = 384,
      norm = new nn.LayerNorm(width),
      up = new nn.Linear(width, width);
    const x = Tensor.ones([rows, width]).realize();
    const y = x.add(up.forward(norm.forward(up.forward(x))));
    y.square().sum().backward();
    const parameters = [...norm.parameters(), ...up.parameters()];
    const { kernels } = schedule(parameters.map((p) => nodeOf(p.grad!)), { device });
    const found = kernels.map(({ kernel }) => kernel).filter((kernel) =>
      kernel.kind === "loop" && kernel.reductions.length >= 2 && kernel.outputs.length > 1 &&
      !kernel.chunk && extent(kernel, kernel.inner) === width
    );
    // The mean, the variance, and the normalized row times the weight: what the product reads.
    const [forward] = found as LoopKernel[];
    assert(forward !== undefined, "no kernel has the sums of a row and the row");
    const large = forward.outputs.filter(({ size }) => size === rows * width);
    assertEquals(large.length, 1, "outputs of whole rows");
    assertEquals(forward.loads.filter(({ index }) => index.terms.length === 2).length, 1);
  });
}

for (const [name, device] of [["a GPU", gpu], ["a CPU", cpu]] as const) {
  Deno.test(`${name} reads a row once to normalize it, and stores no normalized row for its gradient`, () =>
    normalizes(device));
}

testOnCPU("a GPU stores a half as such where several kernels read it as float32", () => {
  const shape = [64, 64, 32, 32];
  const x = Tensor.ones(shape, { dtype: "float16" }).realize();
  const other = Tensor.ones(shape, { dtype: "float16" }).realize();
  const wide = x.tanh().add(other.tanh()).cast("float32");
  const centred = wide.sub(wide.mean([0, 2, 3], { keepDims: true }));
  const scaled = centred.mul(centred.square().mean([0, 2, 3], { keepDims: true }));
  const { kernels, order, temporaries } = schedule([nodeOf(scaled.cast("float16"))], {
    device: gpu,
  });
  const buffers = [...order, ...temporaries], size = shape.reduce((n, m) => n * m, 1);
  const stored = kernels.flatMap(({ outputs }) => outputs).map((at) => buffers[at]!)
    .filter((buffer) => buffer.size === size);
  assertEquals(stored.map(({ dtype }) => dtype), ["float16", "float16"]);
});

testOnCPU("weights are cast as they lie, and their gradients computed so, on matrix units", () => {
  const device = { ...gpu, target: { ...gpu.target, matrixUnits: "mma" as const } };
  const layer = new nn.Linear(128, 192, { bias: false }), { weight } = layer;
  const x = Tensor.ones([512, 128]).realize(), w = nodeOf(weight.realize());
  const y = amp.autocast("bfloat16", () => layer.forward(x));
  y.cast("float32").square().sum().backward();
  const { kernels, order } = schedule([nodeOf(weight.grad!)], { device });
  const cast = kernels.find(({ inputs }) => inputs.some((at) => order[at] === w))!;
  const members = cast.kernel.kind === "horizontal" ? cast.kernel.members : [cast.kernel];
  for (const member of members) {
    assert(member.kind === "loop" && member.outer.length === 1, "the weight is transposed");
  }
  for (const { kernel } of kernels) {
    if (kernel.kind !== "loop" || kernel.contraction === null) continue;
    const { outputs, contraction: { n } } = kernel;
    for (const { index } of outputs) assertEquals(coefficient(index, n.at(-1)!), 1);
  }
});

testOnCPU("nothing behind a product on a GPU reads by indices from memory", () =>
  noGrad(() => {
    const table = Tensor.ones([100, 128]).realize(), w = Tensor.ones([128, 128]).realize();
    const ids = Tensor.zeros([512], { dtype: "int32" }).realize();
    const x = table.indexSelect(0, ids), y = x.mul(2).matmul(w).add(x);
    const { kernels } = schedule([nodeOf(y)], { device: gpu });
    const products = kernels.map(({ kernel }) => kernel).filter((kernel) =>
      kernel.kind === "loop" && kernel.contraction !== null
    ) as LoopKernel[];
    assertEquals(products.map(({ indirect }) => indirect.length), [0]);
  }));

testOnCPU("a network is planned for a GPU: split sums, shared launches, no padding", () => {
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
});
