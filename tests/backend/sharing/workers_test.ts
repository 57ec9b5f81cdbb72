// Suite: first, quick kernels; takes long, and waits for its workers.
/**
 * Several workers of one process on one driver. In processes of their own: what goes wrong here ends
 * the process.
 */
import { assertEquals } from "@std/assert";
import { testOpenCL } from "../../opencl.ts";
import { runDeno } from "../../run_deno.ts";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("./workers_program.ts", import.meta.url));

async function run(...args: string[]): Promise<void> {
  const { code, out, err } = await runDeno(["run", "-A", "--no-check", program, ...args]);
  assertEquals([code, out, err], [0, "done\n", ""]);
}

testOpenCL("workers that train at once come to their results, beside the main thread", async () => {
  await run("end", "2", "4");
});

testOpenCL("terminating workers that train leaves the process whole", async () => {
  await run("terminate", "3", "4");
});
