import { assertEquals, assertMatch } from "@std/assert";
import { testOpenCL } from "../../opencl.ts";
import { inProcess } from "../child.ts";
import { withCacheFolder } from "./fixture.ts";

/** What one start of a program built from source and took from the cache. */
async function start(folder: string, ending = "", ended = /^0: $/): Promise<string> {
  const { out, err, code } = await inProcess(
    `
    import { profiler, Tensor } from "${new URL("../../../mod.ts", import.meta.url)}";
    const values = Tensor.fromHost([1, 2, 3], { device: manager.default("cl") }).mul(2).add(0.5);
    console.log(...await values.toHost());
    const { programsBuilt, cacheHits } = profiler.counters();
    console.log(programsBuilt, cacheHits);
    ${ending}`,
    { NETCL_CACHE_DIR: folder },
  );
  assertMatch(`${code}: ${err}`, ended);
  const [values, counts] = out.split("\n");
  assertEquals(values, "2.5 4.5 6.5");
  return counts!;
}

const built = "1 0", cached = "0 1";

testOpenCL(
  "what one start compiled, the next one takes from the cache",
  () =>
    withCacheFolder(async (folder) => {
      assertEquals([await start(folder), await start(folder)], [built, cached]);
    }),
);

testOpenCL(
  "shutdown keeps what was compiled, and the program ends well",
  () =>
    withCacheFolder(async (folder) => {
      assertEquals(await start(folder, "await shutdown();"), built);
      assertEquals(await start(folder, "await shutdown();"), cached);
    }),
);

const endings: Record<string, [code: string, ended: RegExp]> = {
  "an uncaught error": [`throw new Error("boom");`, /^1: .*boom/s],
  "an error in a timer": [`setTimeout(() => { throw new Error("boom"); }, 1);`, /^1: .*boom/s],
  "an unhandled rejection": [`Promise.reject(new Error("boom"));`, /^1: .*boom/s],
  "Deno.exit": [`Deno.exit(3);`, /^3: $/],
  "Ctrl+C, uncaught": [
    `Deno.kill(Deno.pid, "SIGINT"); for (;;) await values.add(1).toHost();`,
    /^130: $/,
  ],
  "Ctrl+C, caught": [
    `Deno.kill(Deno.pid, "SIGINT");
    try { for (;;) await values.add(1).toHost(); } catch { console.log("saved"); }`,
    /^0: $/,
  ],
};

for (const [name, [code, ended]] of Object.entries(endings)) {
  testOpenCL(
    `what was compiled is kept after ${name}`,
    () =>
      withCacheFolder(async (folder) => {
        assertEquals([await start(folder, code, ended), await start(folder)], [built, cached]);
      }),
  );
}
