import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { testOnBackends } from "../opencl.ts";
import { runExample } from "./run_example.ts";

testOnBackends("the custom kernel draws, and learns whole numbers", async (backend) => {
  const args = ["--rows", "11", "--device", backend, "--seed", "4"];
  const { code, out, err } = await runExample("custom_kernel.ts", args);
  assertEquals(code, 0, err);
  assert(/^ {3}@{24}\.\s*$/m.test(out), out);
  assertStringIncludes(out, "learned 2,-1,3");
});
