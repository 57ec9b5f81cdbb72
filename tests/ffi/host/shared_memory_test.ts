import { assertEquals } from "@std/assert";
import {
  createSharedMemory,
  openSharedMemory,
  unlinkSharedMemory,
} from "../../../ffi/host/shared_memory.ts";

const ignore = Deno.build.os !== "linux";

Deno.test({
  name: "shared memory is the same for all who map it, also when its name is gone",
  ignore,
  fn: () => {
    const name = `netcl-${crypto.randomUUID()}`;
    using mine = createSharedMemory(name, 5000)!;
    assertEquals(createSharedMemory(name, 5000), null, "a name is taken once");
    using other = openSharedMemory(name, 5000)!;
    unlinkSharedMemory(name);
    mine.bytes[4999] = 7;
    assertEquals([other.bytes.length, other.bytes[4999]], [5000, 7]);
    assertEquals(openSharedMemory(name, 5000), null);
  },
});

Deno.test({
  name: "shared memory that does not fit is refused, and leaves no name",
  ignore,
  fn: () => {
    const name = `netcl-${crypto.randomUUID()}`;
    assertEquals(createSharedMemory(name, 2 ** 50), null);
    assertEquals(openSharedMemory(name, 1), null);
  },
});
