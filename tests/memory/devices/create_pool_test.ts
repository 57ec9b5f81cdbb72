import { assertEquals, assertThrows } from "@std/assert";
import { createPool, DeviceMemory, HostPool, SvmPool } from "../../../memory/mod.ts";
import { queue } from "../pools/pools_under_test.ts";

function withVariables(variables: Record<string, string>, fn: () => void): void {
  const former = Object.keys(variables).map((name) => [name, Deno.env.get(name)] as const);
  for (const [name, value] of Object.entries(variables)) Deno.env.set(name, value);
  try {
    fn();
  } finally {
    for (const [name, value] of former) {
      if (value === undefined) Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
  }
}

const cl = { ignore: queue === null };

Deno.test("createPool makes the pool that NETCL_POOL names", { ...cl }, () => {
  const names: Record<string, string> = {
    slab: "SlabPool",
    persistent: "PersistentBufferPool",
    buffer: "BufferPool",
  };
  if (SvmPool.isAvailable(queue!)) names.svm = "SvmPool";
  for (const [value, name] of Object.entries(names)) {
    withVariables({ NETCL_POOL: value }, () => {
      const pool = createPool(queue!);
      assertEquals(pool.constructor.name, name);
      pool.allocate(1000).release();
      pool.destroy();
    });
  }
  assertEquals(createPool(queue!).constructor.name, "SlabPool");
});

Deno.test(
  "createPool refuses a pool that does not exist and lists those that do",
  { ...cl },
  () => {
    withVariables({ NETCL_POOL: "pond" }, () => {
      assertThrows(() => createPool(queue!), RangeError, '"pond": one of slab, persistent');
    });
  },
);

Deno.test("createPool watches over the pool with NETCL_DEBUG=1", { ...cl }, () => {
  withVariables({ NETCL_DEBUG: "1" }, () => {
    const pool = createPool(queue!);
    const handle = pool.allocate(100);
    handle.release();
    assertThrows(() => handle.release(), ReferenceError, "create_pool_test.ts");
    pool.destroy();
  });
});

Deno.test("createPool: NETCL_MEMORY_LIMIT is the default limit: bytes, units or a share", () => {
  const limit = (text: string, totalBytes = 1000) => {
    let bytes = 0;
    withVariables({ NETCL_MEMORY_LIMIT: text }, () => {
      const memory = new DeviceMemory(new HostPool(), { name: "host", totalBytes });
      memory.setLimit(1);
      memory.setLimit(null);
      bytes = memory.stats.limitBytes;
    });
    return bytes;
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
