/** Values that move to the host in the midst of a loop, and what that costs. */
import { assert } from "@std/assert";
import { runProgram } from "../../run_deno.ts";

/** Values that nobody reads again, 25 MB on a device that has 1 GB. */
const program = `
  import { device, memory, Tensor } from "${new URL("../../../mod.ts", import.meta.url)}";
  using _ = device("cpu");
  memory.setLimit(1e9);
  const kept = [Tensor.zeros([64, 1024]).realize()];
  for (let k = 0; k < 100; k++) kept.push(kept[k].add(1).realize());
  const values = kept.map((value) => value.max().itemSync());
  if (!values.every((value, k) => value === k)) throw new Error(values.join());
`;

Deno.test("looking for idle values runs no collector while the host has room", async () => {
  const { code, out, err } = await runProgram(program, { flags: ["--v8-flags=--trace-gc"] });
  assert(code === 0, err);
  const collections = out.split("\n").filter((line) => line.includes("Mark-Compact"));
  assert(collections.length < 10, `${collections.length} full collections`);
});
