/**
 * The table of values once more with NETCL_EAGER=1, in a process of its own: a process decides once.
 * On OpenCL every operation is a kernel of its own then, which takes minutes to compile, so that
 * runs with NETCL_CONFORMANCE=all only.
 */
import { assertEquals, assertMatch } from "@std/assert";

const everything = Deno.env.get("NETCL_CONFORMANCE") === "all";

Deno.test("the table's values come out of operations that run one by one", async () => {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "test",
      "--allow-all",
      "--no-check",
      ...(everything ? [] : ["--filter=/cpu/"]),
      new URL("values_test.ts", import.meta.url).pathname,
    ],
    env: { NETCL_EAGER: "1", NO_COLOR: "1" },
  }).output();
  const text = new TextDecoder().decode(stdout);
  assertEquals(code, 0, text + new TextDecoder().decode(stderr));
  assertMatch(text, /ok \| \d{2,} passed/);
});
