/** Maps of short lines, such as enlarged pieces side by side: a work-item of a CPU walks many of them. */
import { assert, assertEquals } from "@std/assert";
import { schedule } from "../../../../../backend/internal.ts";
import type { LoopKernel } from "../../../../../backend/kernel/kernel.ts";
import { generateKernel, planKernel } from "../../../../../backend/opencl/templates/generate.ts";
import { Tensor, withDevice } from "../../../../../mod.ts";
import { nodeOf } from "../../../../../tensor/core/internals.ts";
import { testOpenCL } from "../../../../opencl.ts";
import { wideTarget } from "../chosen_template.ts";

/** Maps of `n` x `n` positions, from images of fewer positions, joined along their channels. */
function joined(n: number, channels = 3): Tensor {
  const pieces = [1, 2, 4].map((times) => {
    const shape = [2, channels, n / times, n / times], size = 2 * channels * (n / times) ** 2;
    const image = Tensor.arange(size).remainder(97).cast("float32").reshape(shape).realize();
    return image.interpolate({ scaleFactor: times }).add(1);
  });
  return Tensor.concat(pieces, 1);
}

Deno.test("itemRows walks lines of less than a vector in one work-item", () => {
  const sources = withDevice("cpu", () => {
    const device = { target: wideTarget, planKernel };
    const { kernels } = schedule([nodeOf(joined(24))], { device });
    return kernels.flatMap(({ kernel }) => generateKernel(kernel as LoopKernel, wideTarget))
      .map(({ source }) => source);
  });
  assertEquals(sources.length, 1);
  assert(!sources[0]!.includes("get_global_id(1)"), sources[0]!);
});

for (const [n, channels] of [[4, 1], [24, 3], [80, 5]] as const) {
  testOpenCL(`itemRows has the built-in backend's values: ${n} x ${n}`, async () => {
    const wanted = await withDevice("cpu", () => joined(n, channels).toHost());
    await withDevice("cl", async () => assertEquals(await joined(n, channels).toHost(), wanted));
  });
}
