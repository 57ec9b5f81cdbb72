import { assert, assertEquals } from "@std/assert";
import { manualSeed, type Tensor, withDevice } from "../../../mod.ts";
import type { CPUBackend } from "../../../backend/cpu/cpu_backend.ts";
import { strategyWith } from "../../../backend/cpu/strategy/strategy.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { bytesOn } from "../evaluate.ts";
import { cpu } from "../schedule/nodes.ts";
import { backendWith, learned, normal, numbersOf, wasmBackend } from "./strategies.ts";
import { testOnCPU } from "../../opencl.ts";
import { assertNear, scaleOf } from "../near.ts";
import { contractionsOf, kernelsOf } from "../loop_kernels.ts";

/** The kernels of an OpenCL device of a CPU, where convolutions pad as they read, on the host. */
function servedBackend(): CPUBackend {
  const backend = backendWith(strategyWith(null));
  const { target, planKernel } = cpu;
  return Object.defineProperties(backend, {
    target: { value: target },
    planKernel: { value: planKernel },
  });
}

/** A convolution, and its gradients by image and kernels. */
function convolved(
  image: number[],
  kernels: number[],
  convolve: (x: Tensor, k: Tensor) => Tensor,
): Tensor[] {
  manualSeed(3);
  const x = learned(normal(image)), k = learned(normal(kernels)), y = convolve(x, k);
  y.mul(normal(y.shape)).sum().backward();
  return [y.detach(), x.grad!, k.grad!];
}

const works: Record<string, () => Tensor[]> = {
  "by 3x3": () => convolved([3, 16, 13, 14], [16, 16, 3, 3], (x, k) => x.conv2d(k, { padding: 1 })),
  "in steps": () =>
    convolved([2, 5, 13, 14], [7, 5, 3, 3], (x, k) => x.conv2d(k, { padding: 1, stride: 2 })),
  "in steps that leave much out": () =>
    convolved([2, 5, 40, 40], [7, 5, 1, 1], (x, k) => x.conv2d(k, { padding: 2, stride: 9 })),
  "of kernels with holes": () =>
    convolved([2, 5, 17, 12], [4, 5, 3, 2], (x, k) => x.conv2d(k, { padding: 3, dilation: 2 })),
  "padded along one axis, in groups": () =>
    convolved([2, 6, 9, 8], [8, 3, 3, 3], (x, k) => x.conv2d(k, { padding: [0, 3], groups: 2 })),
  "the other way": () =>
    convolved(
      [2, 6, 7, 8],
      [6, 5, 3, 3],
      (x, k) => x.convTranspose2d(k, { stride: 2, padding: 1 }),
    ),
};

for (const [name, work] of Object.entries(works)) {
  Deno.test(`operands that are padded as they are read: convolutions ${name}`, () =>
    withDevice("cpu", () => {
      const served = servedBackend();
      try {
        for (const tensor of work()) {
          const wanted = numbersOf(tensor);
          const found = new Float32Array(bytesOn(served, nodeOf(tensor)).buffer);
          assertNear(found, wanted, 1e-5 * scaleOf(wanted), name);
        }
      } finally {
        served.dispose();
      }
    }));
}

testOnCPU("a padded image is copied once, not by windows: the ways for images serve it", () => {
  const work = convolved([4, 32, 32, 32], [32, 32, 3, 3], (x, k) => x.conv2d(k, { padding: 1 }));
  const minimal = work.map((tensor) => {
    const pads = contractionsOf(() => tensor, cpu).some(({ contraction }) =>
      contraction!.a.bounds.length > 0 || contraction!.b.bounds.length > 0
    );
    assert(pads, "planned to pad as it reads");
    const launches = wasmBackend.prepare(kernelsOf(() => tensor, cpu));
    return launches.some(({ source }) => source.includes("minimal filtering"));
  });
  // The gradient of the kernels is summed in parts there.
  assertEquals(minimal.slice(0, 2), [true, true]);
});
