/**
 * Loops that train hold after 200 steps what they held at most in the first three, whatever is in a step, also
 * where nothing is disposed of, nobody awaits, and no finalizer ever runs. `deno task fuzz` tries more.
 */
import { assertEquals } from "@std/assert";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { runDeno } from "../../run_deno.ts";
import { program } from "./step_programs.ts";

async function tried(...args: string[]): Promise<string> {
  // Eager steps keep every value until the collector comes.
  const env = { NETCL_EAGER: "0", NETCL_DETERMINISTIC: "1" };
  const { out, err } = await runDeno(["run", "-A", "--no-check", program, ...args], { env });
  return out.trim() || err;
}

/** Each seed's loop has a process of its own. */
const seeds = { cpu: [1, 2, 4, 5, 12, 26], cl: [3] };

testOnBackends("loops of random steps hold no more after 200 steps than 3", async (backend) => {
  for (const seed of seeds[backend]) {
    const said = await tried("--device", backend, "--seed", `${seed}`, "--count", "1");
    assertEquals(said, "1 loops tried, 0 grow", `seed ${seed}`);
  }
});

testOnCPU("loops of random steps behind each other, and of a loader, hold no more", async () => {
  const said = await tried("--device", "cpu", "--seed", "3", "--count", "5", "--loader");
  assertEquals(said, "5 loops tried, 0 grow");
});
