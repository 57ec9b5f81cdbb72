import { assertEquals } from "@std/assert";
import { queue } from "../pools/pools_under_test.ts";
import { plain } from "../../plain.ts";
import { fileURLToPath } from "node:url";

Deno.test("A value moves between two devices once, by the driver or through mapped memory", {
  ignore: queue === null || !queue.device.platform.name.includes("Portable Computing Language"),
}, async () => {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", fileURLToPath(new URL("two_devices.ts", import.meta.url))],
    env: { ...plain, POCL_DEVICES: "pthread pthread" },
  }).output();
  const decoder = new TextDecoder();
  assertEquals(success, true, decoder.decode(stderr));
  const { devices, oneContext, twoContexts, left } = JSON.parse(decoder.decode(stdout));
  const fine = { arrived: true, shared: true, renewed: true, kept: true };
  assertEquals(devices, 2);
  assertEquals(oneContext, { paths: ["device", "device"], ...fine });
  assertEquals(twoContexts, { paths: ["mapped", "mapped"], ...fine });
  assertEquals(left, []);
});
