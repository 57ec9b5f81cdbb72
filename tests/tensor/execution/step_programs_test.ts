/**
 * Loops that train hold after 200 steps what they held at most in the first ones, whatever is in a step, also
 * where nothing is disposed of, nobody awaits, and no finalizer ever runs. `deno task fuzz` tries more.
 */
import { assertEquals } from "@std/assert";
import { hasOpenCL } from "../../opencl.ts";
import { runDeno } from "../../run_deno.ts";
import { program } from "./step_programs.ts";

async function tried(...args: string[]): Promise<string> {
  // Eager steps keep every value until the collector comes.
  const env = { NETCL_EAGER: "0", NETCL_DETERMINISTIC: "1" };
  const { out, err } = await runDeno(["run", "-A", "--no-check", program, ...args], { env });
  return out.trim() || err;
}

Deno.test("loops of random steps hold no more after 200 steps (cpu)", async () => {
  const said = await tried("--device", "cpu", "--seed", "3", "--count", "10", "--loader");
  assertEquals(said, "10 loops tried, 0 grow");
});

Deno.test("loops of random steps hold no more after 200 steps (cl)", {
  ignore: !hasOpenCL,
}, async () => {
  const said = await tried("--device", "cl", "--seed", "3", "--count", "1");
  assertEquals(said, "1 loops tried, 0 grow");
});
