import { assertEquals, assertThrows } from "@std/assert";
import { createPool, DeviceMemory, HostPool, SvmPool } from "../../../memory/mod.ts";
import { queue } from "../pools/pools_under_test.ts";
import { testOpenCL } from "../../opencl.ts";
import { setVariables } from "../../variables.ts";

testOpenCL("createPool makes the pool that NETCL_POOL names", () => {
  const names = [["slab", "SlabPool"], ["persistent", "PersistentBufferPool"], [
    "buffer",
    "BufferPool",
  ]];
  if (SvmPool.isAvailable(queue!)) names.push(["svm", "SvmPool"]);
  for (const [value, name] of names) {
    using _variables = setVariables({ NETCL_POOL: value });
    const pool = createPool(queue!);
    assertEquals(pool.constructor.name, name);
    pool.allocate(1000).release();
    pool.destroy();
  }
  assertEquals(createPool(queue!).constructor.name, "SlabPool");
});

testOpenCL("createPool refuses a pool that does not exist and lists those that do", () => {
  using _variables = setVariables({ NETCL_POOL: "pond" });
  assertThrows(() => createPool(queue!), RangeError, '"pond": one of slab, persistent');
});

testOpenCL("createPool watches over the pool with NETCL_DEBUG=1", () => {
  using _variables = setVariables({ NETCL_DEBUG: "1" });
  const pool = createPool(queue!);
  const handle = pool.allocate(100);
  handle.release();
  assertThrows(() => handle.release(), ReferenceError, "create_pool_test.");
  pool.destroy();
});

Deno.test("createPool: NETCL_MEMORY_LIMIT is the default limit: bytes, units or a share", () => {
  const limit = (text: string): number => {
    using _variables = setVariables({ NETCL_MEMORY_LIMIT: text });
    const memory = new DeviceMemory(new HostPool(), { name: "host", totalBytes: 1000 });
    memory.setLimit(1);
    memory.setLimit(null);
    return memory.stats.limitBytes;
  };
  assertEquals(limit("4096"), 4096);
  assertEquals(limit("1.5 KiB"), 1536);
  assertEquals(limit("2mib"), 2 ** 21);
  assertEquals(limit("1 GiB"), 2 ** 30);
  assertEquals(limit("25%"), 250);
  for (const bad of ["much", "-1", "5 apples"]) {
    assertThrows(() => limit(bad), RangeError, `NETCL_MEMORY_LIMIT is "${bad}"`);
  }
});
