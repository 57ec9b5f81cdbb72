import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { device, withDevice } from "../../../backend/devices/device_stack.ts";
import { DeviceHandle } from "../../../backend/devices/device_handle.ts";
import { manager } from "../../../backend/devices/devices.ts";

/** A second device that needs no driver. */
const other = new DeviceHandle(
  { platformName: "test", deviceName: "other", backend: "cpu", deviceType: "cpu" },
  "other",
  null,
);
const cpu = manager.default("cpu");

function nap(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

Deno.test("using device() sets the active device for the block and restores the former", () => {
  using outer = device("cpu");
  assertStrictEquals(outer, cpu);
  {
    using inner = device(other);
    assertStrictEquals(inner, other);
    assertStrictEquals(manager.active, other);
  }
  assertStrictEquals(manager.active, cpu);
});

Deno.test("a block that throws restores the former device", () => {
  using _ = device("cpu");
  assertThrows(
    () => {
      using _inner = device(other);
      throw new Error("inside");
    },
    Error,
    "inside",
  );
  assertStrictEquals(manager.active, cpu);
});

Deno.test("the same device may be opened inside itself", () => {
  using _outer = device(other);
  {
    using _inner = device(other);
  }
  assertStrictEquals(manager.active, other);
});

Deno.test("closing out of order is an error that names both, and leaves the later block alone", () => {
  using first = device("cpu");
  const second = device(other);
  assertThrows(() => first[Symbol.dispose](), Error, 'before "other"');
  assertStrictEquals(manager.active, other);
  second[Symbol.dispose]();
  assertThrows(() => second[Symbol.dispose](), Error, "not open here");
  device("cpu"); // for the end of the block
});

Deno.test("closing a device that no block opened is an error", () => {
  assertThrows(() => other[Symbol.dispose](), Error, 'Cannot close device "other"');
});

Deno.test("withDevice keeps one device for each task across await", async () => {
  const names = await Promise.all(
    [cpu, other, cpu, other].map((handle, task) =>
      withDevice(handle, async (given) => {
        for (let step = 0; step < 4; step++) {
          await nap((task * 3 + step) % 4);
          assertStrictEquals(manager.active, handle);
        }
        return given.selector;
      })
    ),
  );
  assertEquals(names, ["cpu", "other", "cpu", "other"]);
});

Deno.test("withDevice returns what the function returns and restores when it throws", () => {
  using _ = device("cpu");
  assertEquals(withDevice(other, (dev) => dev.selector), "other");
  assertThrows(() =>
    withDevice(other, () => {
      throw new RangeError("inside");
    }), RangeError);
  assertStrictEquals(manager.active, cpu);
});

Deno.test("blocks opened inside withDevice stay inside it", async () => {
  using _ = device("cpu");
  const task = withDevice(other, async () => {
    using _inner = device("cpu");
    await nap(1);
    return manager.active.selector;
  });
  assertStrictEquals(manager.active, cpu);
  assertEquals(await task, "cpu");
  await withDevice(other, async () => {
    {
      using _inner = device("cpu");
    }
    await nap(1);
    assertStrictEquals(manager.active, other);
  });
});

Deno.test("the base of withDevice cannot be closed by hand", () => {
  withDevice(other, (dev) => {
    assertThrows(() => dev[Symbol.dispose](), Error, "not open here");
    assertStrictEquals(manager.active, other);
  });
});

Deno.test("a device opened by async code before its first await does not outlive its block", async () => {
  using _ = device("cpu");
  async function work(): Promise<void> {
    using _inner = device(other);
    await nap(1);
  }
  await work();
  assertStrictEquals(manager.active, cpu);
});
