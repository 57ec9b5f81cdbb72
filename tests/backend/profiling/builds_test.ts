import { assertEquals, assertThrows } from "@std/assert";
import { type BuildProgress, manager, profiler, rawKernel, Tensor } from "../../../mod.ts";
import { testOpenCL } from "../../opencl.ts";
import { programsOf } from "../opencl/fixture.ts";

/** Reports to observers while `fn` runs. */
async function toldWhile(fn: () => void | Promise<void>): Promise<BuildProgress[]> {
  const told: BuildProgress[] = [];
  using _ = profiler.onBuild((progress) => void told.push(progress));
  await fn();
  return told;
}

const texts = Array.from({ length: 3 }, (_, k) => ({
  source: `(global float* y) { y[get_global_id(0)] = ${k}.0f; }`,
  label: `fill${k}`,
}));

testOpenCL("who watches is told of kernels before they are compiled and after", async () => {
  using programs = programsOf(null, "at once");
  const build = (): void => programs.build(texts);
  assertEquals(await toldWhile(build), [{ wanted: 3, built: 0 }, { wanted: 3, built: 3 }]);
  assertEquals(await toldWhile(build), [], "what is there is not built again");
});

testOpenCL("where launches compile, a kernel is built when its first launch is done", async () => {
  const { queue } = manager.default("cl");
  using programs = programsOf(null, "at the end");
  const told = await toldWhile(async () => {
    programs.build(texts);
    for (const { source } of texts.slice(0, 2)) {
      programs.kernel(source).launched(queue!);
      programs.kernel(source).launched(queue!); // only the first launch counts
    }
    await queue!.marker().wait();
    for (let turn = 0; turn < 50; turn++) await new Promise((done) => setTimeout(done, 2));
  });
  assertEquals(told.map(({ wanted, built }) => [wanted, built]), [[3, 0], [3, 1], [3, 2]]);
  const atTheEnd = await toldWhile(() => programs.dispose());
  assertEquals(atTheEnd, [{ wanted: 1, built: 1 }], "nobody waits for what is never launched");
});

testOpenCL("kernels that a compiler refuses are not waited for", async () => {
  const device = manager.default("cl");
  const broken = rawKernel("broken", {
    source: "kernel void broken(global const float* x, global float* y) { y[0] = no(; }",
    output: () => ({ shape: [1], dtype: "float32" }),
  });
  const x = Tensor.fromHost([1], { device }).realize(); // without a kernel
  const told = await toldWhile(() => {
    assertThrows(() => broken(x).realize(), Error, "broken");
  });
  assertEquals(told, [{ wanted: 1, built: 0 }, { wanted: 1, built: 1 }]);
});

Deno.test("an observer of builds is a function", () => {
  assertThrows(() => profiler.onBuild("loud" as never), TypeError, "a function");
});
