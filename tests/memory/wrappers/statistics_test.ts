import { assertEquals } from "@std/assert";
import { DeviceInfo, withFaults } from "../../../ffi/mod.ts";
import {
  DeviceMemory,
  HostPool,
  memory,
  registerDeviceMemory,
  SlabPool,
  StatisticsScope,
  unregisterDeviceMemory,
} from "../../../memory/mod.ts";
import { queue } from "../pools/pools_under_test.ts";
import { testOpenCL } from "../../opencl.ts";

Deno.test("A scope counts what happens while it is open, and scopes nest", () => {
  const pool = new HostPool();
  const older = pool.allocate(500);
  const outer = new StatisticsScope(pool);
  pool.allocate(1000);
  const inner = new StatisticsScope(pool);
  pool.allocate(2000).release();
  older.release();
  inner[Symbol.dispose]();
  pool.allocate(4000);
  outer[Symbol.dispose]();
  pool.allocate(8000);
  assertEquals([inner.numAllocs, inner.numFrees], [1, 2]);
  assertEquals(
    [inner.requested.peak, inner.requested.current, inner.nativeAllocs],
    [2000, -500, 0],
  );
  assertEquals([outer.numAllocs, outer.numFrees], [3, 2]);
  assertEquals([outer.requested.peak, outer.requested.current], [4500, 4500]);
});

Deno.test("memory.scope counts on a device", () => {
  const device = {}, card = new DeviceMemory(new HostPool(), { name: "card" });
  registerDeviceMemory(device, card);
  using scope = memory.scope(device);
  card.allocate(1000);
  assertEquals([scope.nativeAllocs, scope.reserved.current, scope.numOoms], [1, 2 ** 26, 0]);
  unregisterDeviceMemory(device);
});

Deno.test("The host says nothing about free memory", () => {
  const card = new DeviceMemory(new HostPool(), { name: "card" });
  assertEquals(card.stats.driverFreeBytes, null);
});

testOpenCL("Free memory is what the driver says, where it says something", () => {
  const card = new DeviceMemory(new SlabPool(queue!), { name: "card", queue: queue! });
  const kibibytes = new Uint8Array(new BigUint64Array([5_000_000n, 4_000_000n]).buffer);
  const amd = [
    {
      call: "clGetDeviceInfo",
      parameter: DeviceInfo.EXTENSIONS,
      value: "cl_khr_fp64 cl_amd_device_attribute_query",
    },
    { call: "clGetDeviceInfo", parameter: 0x4039, value: kibibytes },
  ] as const;
  assertEquals(withFaults(amd, () => card.stats.driverFreeBytes), 5_000_000 * 1024);
  assertEquals(card.stats.driverFreeBytes, null);
  card.destroy();
});
