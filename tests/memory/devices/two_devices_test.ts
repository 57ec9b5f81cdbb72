import { assert, assertEquals } from "@std/assert";
import { queue } from "../pools/pools_under_test.ts";
import { runDeno } from "../../run_deno.ts";
import { fileURLToPath } from "node:url";

Deno.test("A value moves between two devices once, by the driver or through mapped memory", {
  ignore: queue === null || !queue.device.platform.name.includes("Portable Computing Language"),
}, async () => {
  const program = fileURLToPath(new URL("two_devices.ts", import.meta.url));
  const { success, out, err } = await runDeno(["run", "-A", program], {
    env: { POCL_DEVICES: "pthread pthread" },
  });
  assert(success, err);
  const { devices, oneContext, twoContexts, left } = JSON.parse(out);
  const fine = { arrived: true, shared: true, renewed: true, kept: true };
  assertEquals(devices, 2);
  assertEquals(oneContext, { paths: ["device", "device"], ...fine });
  assertEquals(twoContexts, { paths: ["mapped", "mapped"], ...fine });
  assertEquals(left, []);
});
