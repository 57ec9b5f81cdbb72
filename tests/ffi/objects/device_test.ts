import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  Context,
  type Device,
  deviceProperties,
  type DevicePropertyName,
  OpenCLError,
  Platform,
  platforms,
  Program,
} from "../../../ffi/mod.ts";
import { device, leftBehind, testOpenCL } from "../fixture.ts";

testOpenCL("Platform and Device are one object each", () => {
  const { platform } = device;
  assert(platforms().includes(platform));
  assert(platform.devices().includes(device));
  assert(Platform.of(platform.unsafeHandle) === platform);
  assert(device.platform === platform);
});

testOpenCL("Platform tells its name, vendor, version and extensions", () => {
  const { platform } = device;
  assert(platform.name.length > 0 && platform.vendor.length > 0);
  assert(/^OpenCL \d+\.\d+/.test(platform.version));
  assert(platform.extensions.every((name) => /^cl_\w+$/.test(name)));
  assert(["FULL_PROFILE", "EMBEDDED_PROFILE"].includes(platform.profile));
  platform.unloadCompiler();
});

testOpenCL("Platform.devices of a type that it lacks is an empty list", () => {
  const types = ["gpu", "cpu", "accelerator"] as const;
  const found: Device[] = types.flatMap((type) => device.platform.devices(type));
  assertEquals(found.includes(device), device.type !== "other");
  assertEquals(types.some((type) => device.platform.devices(type).length === 0), true);
});

testOpenCL("Device's getters are plain values in their range", () => {
  assert(device.name.length > 0 && device.vendor.length > 0 && device.driverVersion.length > 0);
  assert(device.globalMemSize >= device.maxMemAllocSize && device.maxMemAllocSize > 2 ** 20);
  assert(device.maxComputeUnits >= 1 && device.maxWorkGroupSize >= 1);
  assertEquals(device.maxWorkItemSizes.length, device.query("MAX_WORK_ITEM_DIMENSIONS"));
  assert(device.localMemSize > 0 && device.memBaseAddrAlign >= 8);
  assert(device.versionNumbers[0] >= 1);
  assertEquals(typeof device.hostUnifiedMemory, "boolean");
});

testOpenCL("Device answers every property of its version, with the type of the table", () => {
  const refused: string[] = [];
  for (const name of Object.keys(deviceProperties) as DevicePropertyName[]) {
    try {
      assert(device.query(name) !== undefined, name);
    } catch (error) {
      if (!(error instanceof OpenCLError)) throw error;
      assertEquals([error.codeName, error.call], ["CL_INVALID_VALUE", "clGetDeviceInfo"], name);
      refused.push(name);
    }
  }
  // What newer versions or extensions brought may be missing; what 1.0 has may not.
  assert(refused.length < 20, refused.join());
  assert(!refused.includes("LOCAL_MEM_SIZE"));
});

testOpenCL("Device divides into sub-devices, or says that it cannot", async () => {
  const units = device.maxComputeUnits;
  const left = await leftBehind(() => {
    if (units < 2 || device.query("PARTITION_MAX_SUB_DEVICES") < 2) return;
    const parts = device.partition({ equally: 1 });
    assertEquals(parts.map(({ maxComputeUnits }) => maxComputeUnits), Array(units).fill(1));
    for (const part of parts) part.release();
    const [one] = device.partition({ counts: [1] });
    using part = one!;
    assertEquals(part.maxComputeUnits, 1);
    using context = new Context(part);
    using program = new Program(context, "kernel void f(global int* x) { x[0] = 1; }").build();
    assert(program.devices[0] === part);
    assert(program.binary(part).length > 0);
  });
  assertEquals(left, {});
  assertThrows(() => device.partition({ equally: 1_000_000 }), OpenCLError);
});
