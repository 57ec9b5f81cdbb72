import { assert, assertEquals } from "@std/assert";
import { runDeno } from "../run_deno.ts";
import { testOnBackends } from "../opencl.ts";

const path = new URL("../../examples/linear_regression.ts", import.meta.url);

testOnBackends("linear regression finds the line", async (backend) => {
  const args = ["run", "-A", "--no-check", path.href];
  const { code, out, err } = await runDeno(args, { env: { NETCL_DEVICE: backend } });
  assertEquals(code, 0, err);
  assertEquals(out.match(/^step /gm)?.length, 5);
  const [, slope, offset] = /^y = (\S+) x \+ (\S+)$/m.exec(out) ?? [];
  assert(Math.abs(Number(slope) - 3) < 0.1 && Math.abs(Number(offset) - 2) < 0.1, out);
});

Deno.test("linear regression is 20 lines that can be copied: it imports the package alone", async () => {
  const text = await Deno.readTextFile(path);
  assert(text.trimEnd().split("\n").length <= 20);
  const imports = [...text.matchAll(/from "(.*)"/g)].map(([, name]) => name);
  assertEquals(imports, ["@netcl/netcl"]);
});
