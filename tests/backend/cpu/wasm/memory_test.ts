/** The memory that WebAssembly's instances share. */
import { assertEquals } from "@std/assert";
import { makeWasmMemory } from "../../../../backend/cpu/wasm/memory.ts";

Deno.test("WasmMemory refuses what it cannot hold, of any size, and goes on", () => {
  const memory = makeWasmMemory()!;
  for (const nbytes of [2 ** 33, 2 ** 48, 2 ** 60]) assertEquals(memory.tryAllocate(nbytes), null);
  assertEquals(memory.tryAllocate(16), 0);
});
