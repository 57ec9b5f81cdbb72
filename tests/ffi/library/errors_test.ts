import { assert, assertEquals, assertThrows } from "@std/assert";
import { check, KernelBuildError, OpenCLError, Status, statusName } from "../../../ffi/mod.ts";

Deno.test("check lets success and positive values pass", () => {
  check(0, "clFinish");
  check(3, "clGetEventInfo");
});

Deno.test("check throws the code, its name, the call, the detail and the remedy", () => {
  const error = assertThrows(() => check(-4, "clCreateBuffer", "a buffer of 8 bytes"), OpenCLError);
  assertEquals([error.code, error.codeName, error.call, error.name, error.outOfMemory], [
    -4,
    "CL_MEM_OBJECT_ALLOCATION_FAILURE",
    "clCreateBuffer",
    "OpenCLError",
    true,
  ]);
  assertEquals(
    error.message,
    "clCreateBuffer failed with CL_MEM_OBJECT_ALLOCATION_FAILURE (-4) for a buffer of 8 bytes: " +
      "the device has no memory left for this object: release buffers or use smaller ones",
  );
});

Deno.test("statusName knows every code once, and says so of others", () => {
  const codes = Object.values(Status);
  assertEquals(new Set(codes).size, codes.length);
  for (const [name, code] of Object.entries(Status)) assertEquals(statusName(code), name);
  assertEquals(statusName(-9999), "unknown status -9999");
});

Deno.test("only shortage counts as out of memory", () => {
  const short = Object.values(Status).filter((code) => new OpenCLError(code, "f").outOfMemory);
  assertEquals(short, [-4, -5, -6]);
});

Deno.test("KernelBuildError carries the log and the excerpt", () => {
  const error = new KernelBuildError(-11, "clBuildProgram", "bad\n", "> 1 | x");
  assert(error instanceof OpenCLError);
  assertEquals([error.log, error.name], ["bad\n", "KernelBuildError"]);
  assert(error.message.endsWith("\nbad\n> 1 | x"), error.message);
  assert(new KernelBuildError(-11, "clBuildProgram", "").message.includes("left no log"));
});
