/** The process that compiles: what it leaves on disk, and how it ends. */
import { assert, assertEquals } from "@std/assert";
import { helperArguments } from "../../../../backend/opencl/building/helper_process.ts";
import type { CompileJob } from "../../../../backend/opencl/tiers/compile_job.ts";
import { libraryPath } from "../../../../ffi/mod.ts";
import { manager } from "../../../../backend/mod.ts";
import { isPoCL } from "../../../opencl.ts";

const module = import.meta.resolve("../../../../backend/opencl/tiers/compile_process.ts");

/** Names of the files in a folder and those below it. */
function filesOf(folder: string): string[] {
  return [...Deno.readDirSync(folder)].flatMap(({ name, isDirectory }) =>
    isDirectory ? filesOf(`${folder}/${name}`) : [name]
  );
}

Deno.test("compile_process answers, keeps kernels, and ends", { ignore: !isPoCL }, async () => {
  const folder = await Deno.makeTempDir({ prefix: "netcl" });
  try {
    const child = new Deno.Command(Deno.execPath(), {
      args: helperArguments(module, manager.default("cl").clDevice!, libraryPath!),
      env: { POCL_CACHE_DIR: folder },
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const job = (text: string): CompileJob => ({
      text,
      options: "-cl-std=CL1.2",
      launches: [{ name: "twice", global: [4], local: [4], args: [16, [2, 0, 0, 0]] }],
    });
    const twice = "kernel void twice(global int* a, int f) { a[get_global_id(0)] *= f; }";
    const writer = child.stdin.getWriter(), reader = child.stdout.getReader();
    for (const text of ["kernel void twice(", twice]) {
      await writer.write(new TextEncoder().encode(`${JSON.stringify(job(text))}\n`));
      assertEquals((await reader.read()).value, new TextEncoder().encode("\n"));
    }
    await writer.close();
    assertEquals((await reader.read()).done, true);
    assertEquals((await child.status).code, 0);
    assert(filesOf(folder).some((name) => name.endsWith(".so")));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
