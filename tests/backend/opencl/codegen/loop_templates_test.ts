/** The template that takes a loop on a GPU, found without one. */
import { assertEquals } from "@std/assert";
import { planKernel } from "../../../../backend/opencl/templates/generate.ts";
import type { Generated } from "../../../../backend/opencl/codegen/generated.ts";
import { launchSteps } from "../../../../backend/opencl/templates/launch_steps.ts";
import { Tensor } from "../../../../mod.ts";
import "../../../opencl.ts"; // starts what listens to signals before any test
import { gpuTarget } from "../templates/chosen_template.ts";
import { kernelsOf, loopKernelsOf } from "../../loop_kernels.ts";

const device = { target: gpuTarget, planKernel };

/** The templates of a tensor's kernels, in order. */
function templatesOf(make: () => Tensor): string[] {
  return kernelsOf(make, device).map((kernel) =>
    kernel.kind === "loop" ? planKernel(kernel, gpuTarget).name : kernel.kind
  );
}

/** The first launch of a tensor's first loop. */
function launchOf(make: () => Tensor): Generated {
  return launchSteps(loopKernelsOf(make, device)[0]!, gpuTarget)[0]!.generated;
}

const zeros = (...shape: number[]): Tensor => Tensor.zeros(shape).realize();

Deno.test("large maps are computed by neighbours, where neighbours are read and stored", () => {
  const vectors = ["neighbours an item"], single = ["one item a row"];
  assertEquals(templatesOf(() => zeros(1 << 20).gelu()), vectors);
  assertEquals(templatesOf(() => zeros(1024, 512).add(zeros(512)).mul(zeros(1024, 1))), vectors);
  const ids = (): Tensor => Tensor.zeros([4096], { dtype: "int32" }).realize();
  assertEquals(templatesOf(() => zeros(100, 128).indexSelect(0, ids()).add(1)), vectors);
  const halves = (at: number): Tensor => {
    const x = zeros(1024, 512).tanh();
    const parts = [x.slice(null, [at, 512]).neg(), x.slice(null, [0, at])];
    return Tensor.concat(parts, 1).mul(2);
  };
  assertEquals(templatesOf(() => halves(256)), vectors);
  assertEquals(templatesOf(() => halves(255)), single);
  assertEquals(templatesOf(() => zeros(1000).gelu()), single);
  assertEquals(templatesOf(() => zeros(1 << 20).slice([1, 1 << 20]).gelu()), single);
  assertEquals(templatesOf(() => zeros(1024, 1026).slice(null, [0, 1024]).gelu()), single);
  assertEquals(templatesOf(() => zeros(1024, 512).transpose(0, 1).gelu()), ["transposed tiles"]);
});

Deno.test("maps of elements of 16 bits are computed eight neighbours an item, where little is computed", () => {
  const lanesOf = (make: () => Tensor): number => (1 << 20) / launchOf(make).global[0]!;
  const halves = (...shape: number[]): Tensor => zeros(...shape).cast("bfloat16").realize();
  assertEquals(lanesOf(() => halves(1024, 1024).gelu()), 8);
  assertEquals(lanesOf(() => halves(1024, 1024).add(zeros(1024).cast("bfloat16")).gelu()), 8);
  assertEquals(lanesOf(() => halves(1024, 1024).cast("float32").gelu()), 4);
  assertEquals(lanesOf(() => zeros(1024, 1024).gelu()), 4);
  assertEquals(lanesOf(() => halves(8 * 1024, 132).slice(null, [0, 128]).gelu()), 4);
});

Deno.test("what is larger than caches, and read once, does not stay in them", () => {
  const large = launchOf(() => zeros(8192, 1024).add(zeros(1024))).source;
  assertEquals(large.match(/STREAM_\w+/g), ["STREAM_READ", "STREAM_WRITE"]);
  const small = launchOf(() => zeros(1024, 1024).add(zeros(1024))).source;
  assertEquals(small.match(/STREAM_/), null);
});

Deno.test("rows are held in registers by as few work-items as hold them", () => {
  for (const length of [64, 65, 384, 1024, 5000, 16_384, 32_000]) {
    const softmax = () => zeros(2000, length).softmax(1);
    assertEquals(templatesOf(softmax), ["rows in registers"], `${length}`);
  }
  assertEquals(templatesOf(() => zeros(2000, 40_000).softmax(1)), ["group reduction"]);
  assertEquals(templatesOf(() => zeros(2000, 512).argmax(1)), ["group reduction"]);
  assertEquals(templatesOf(() => zeros(2000, 10).softmax(1)), ["one item a row"]);
});

Deno.test("short rows share a group, long ones have their own", () => {
  const groups = (rows: number, length: number): number => {
    const { global, local } = launchOf(() => zeros(rows, length).softmax(1));
    return global[0]! / local[0]!;
  };
  assertEquals(groups(6000, 64), 6000 / 8);
  assertEquals(groups(6000, 384), 6000 / 4);
  assertEquals(groups(6000, 4096), 6000);
});
