// Suite: first; takes long.
/**
 * The table of values, and some tests of tensors, once more with NETCL_EAGER=1, in a process of its own: a process decides once.
 * On OpenCL every operation is a kernel of its own then, which takes minutes to compile, so that
 * runs with NETCL_CONFORMANCE=all only.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { testOnCPU } from "../opencl.ts";
import { runDeno } from "../run_deno.ts";
import { fileURLToPath } from "node:url";

const everything = Deno.env.get("NETCL_CONFORMANCE") === "all";

async function testEagerly(file: string, ...options: string[]): Promise<void> {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const args = ["test", "--allow-all", "--no-check", ...options, path];
  const { code, out, err } = await runDeno(args, { env: { NETCL_EAGER: "1" } });
  assertEquals(code, 0, out + err);
  assertMatch(out, /ok \| \d{2,} passed/);
}

testOnCPU("the table's values come out of operations that run one by one", (backend) => {
  return testEagerly("values_test.ts", ...(everything ? [] : [`--filter=/${backend}/`]));
});

const files = [
  "tensor/autograd/autograd_test.ts",
  "tensor/compile/compile_test.ts",
  "laws/distinct_test.ts",
];
for (const file of files) {
  testOnCPU(`what ${file} says holds where operations run one by one`, (backend) => {
    return testEagerly(`../${file}`, `--filter=/${backend}/`);
  });
}
