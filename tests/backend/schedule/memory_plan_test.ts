import { assert, assertEquals } from "@std/assert";
import { type BackendName, manager, noGrad, rawKernel, Tensor, withDevice } from "../../../mod.ts";
import { backendOf } from "../../../backend/internal.ts";
import { type Schedule, schedule } from "../../../backend/schedule/schedule.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { hasOpenCL } from "../../opencl.ts";
import { gpu, leaf, map, product, sum } from "./nodes.ts";
import { dtypes } from "../../../backend/graph/dtype.ts";

/** The most bytes that are held at a time when a plan runs, counted one block after the other. */
function heldBytes({ kernels, order, temporaries }: Schedule): number {
  const bytesAt = (at: number): number => {
    const { size, dtype } = order[at] ?? temporaries[at - order.length]!;
    return size * dtypes[dtype].bytes;
  };
  const blocks = new Set<number>();
  let held = 0, peak = 0;
  for (const { inputs, outputs, dying } of kernels) {
    for (const at of [...inputs, ...outputs]) {
      if (blocks.has(at) || order[at]?.storage) continue;
      blocks.add(at);
      peak = Math.max(peak, held += bytesAt(at));
    }
    for (const at of dying) {
      assert(blocks.delete(at), "what dies was there");
      held -= bytesAt(at);
    }
  }
  return peak;
}

Deno.test("the plan's peak is what its blocks add up to, temporaries of split sums among them", () => {
  const x = leaf([1 << 20]), hidden = map("exp", x);
  const rows = sum(map("mul", hidden, hidden), 0);
  const plan = schedule([rows, product(leaf([16, 1 << 14]), leaf([1 << 14, 16]))], { device: gpu });
  assertEquals(plan.temporaries.length, 2);
  assertEquals(plan.peakBytes, heldBytes(plan));
});

/** Runs what is pending, and holds what it held against the plan. */
function assertExact(name: BackendName, make: () => Tensor): Schedule {
  const backend = backendOf(manager.default(name)), { memory } = backend;
  make().realize().dispose();
  const pending = make();
  const plan = schedule([nodeOf(pending)], { device: backend });
  const before = memory.stats;
  memory.resetPeakStats();
  pending.realize();
  const after = memory.stats;
  pending.dispose();
  assertEquals(after.peakRequestedBytes - before.requestedBytes, plan.peakBytes);
  assertEquals(after.nativeAllocs, before.nativeAllocs);
  return plan;
}

/** Two outputs of any size. */
const both = rawKernel("half_and_double", {
  source: `kernel void half_and_double(global const float* x, global float* h, global float* d) {
  const size_t i = get_global_id(0);
  h[i] = x[i] * 0.5f; d[i] = x[i] * 2;
}`,
  output: (x) => [x, x].map(({ shape, dtype }) => ({ shape, dtype })),
  cpu: ([x], [h, d]) => {
    for (let i = 0; i < h!.length; i++) h![i] = Number(x![i]) / 2, d![i] = Number(x![i]) * 2;
  },
});

for (const name of ["cpu", "cl"] as const) {
  const onDevice = (title: string, fn: () => void): void =>
    Deno.test(
      `${title} on ${name}`,
      { ignore: name === "cl" && !hasOpenCL },
      () => withDevice(name, () => noGrad(fn)),
    );

  onDevice("a run holds exactly what was planned, and takes no native memory,", () => {
    const a = Tensor.rand([60_000, 4]).realize(), b = Tensor.rand([60_000, 20]).realize();
    // The built-in backend's products have copies of their own, which no plan knows.
    const products = (): Tensor =>
      name === "cl" ? a.transpose().matmul(b) : b.sum(0).expand([4, 20]);
    assertExact(
      name,
      () => products().add(a.exp().mul(2).sum(0).reshape([4, 1])).softmax(1).cumsum(0),
    );
    for (const tensor of [a, b]) tensor.dispose();
  });

  onDevice("outputs of a user's kernel that nobody reads are planned", () => {
    const x = Tensor.rand([5000]).realize();
    const plan = assertExact(name, () => (both(x) as Tensor[])[1]!.add(1));
    assertEquals(plan.temporaries, [{ dtype: "float32", size: 5000 }]);
    x.dispose();
  });
}
