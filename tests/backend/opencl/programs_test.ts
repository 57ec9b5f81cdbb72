import { assertEquals } from "@std/assert";
import { schedule } from "../../../backend/engine.ts";
import type { Launchable } from "../../../backend/graph/kernel.ts";
import { profiler, Tensor } from "../../../mod.ts";
import { testOpenCL } from "../../opencl.ts";
import { withCacheFolder, withFreshBackend } from "./fixture.ts";

testOpenCL(
  "an engine that ends keeps what it compiled, and the next one finds it",
  () =>
    withCacheFolder(async (folder) => {
      const { kernels } = schedule([Tensor.arange(5).mul(3).sin().node]);
      const built = (): Promise<void> =>
        withFreshBackend((backend) => {
          backend.prepare(kernels.map(({ kernel }): Launchable => kernel));
        });
      profiler.reset();
      await built();
      assertEquals(profiler.counters().cacheHits, 0);
      assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name.slice(-4)), [".bin"]);
      await built();
      assertEquals(profiler.counters().cacheHits, 1);
    }),
);
