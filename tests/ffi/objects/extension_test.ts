import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  bindExtension,
  Buffer,
  CommandBuffer,
  extensionVersion,
  OpenCLUnavailableError,
  unifiedSharedMemoryFunctions,
} from "../../../ffi/mod.ts";
import { bindCommandBufferFunctions } from "../../../ffi/queue/command_buffer.ts";
import type { FunctionTable, Handle } from "../../../ffi/symbols/types.ts";
import { contentOf, context, device, hasOpenCL, program, queue, testOpenCL } from "../fixture.ts";

const hasCommandBuffers = hasOpenCL && device.extensions.includes("cl_khr_command_buffer");

testOpenCL("bindExtension finds functions that the library does not export", () => {
  if (!device.platform.extensions.includes("cl_khr_icd")) return;
  const table = {
    clIcdGetPlatformIDsKHR: { parameters: ["u32", "buffer", "buffer"], result: "i32" },
  } as const;
  // The platform lists it, the device does not; the loader asks the platform's driver.
  const functions = bindExtension(
    { ...bare(), extensions: ["cl_khr_icd"] } as never,
    "cl_khr_icd",
    table,
  );
  const count = new Uint32Array(1);
  assertEquals(functions.clIcdGetPlatformIDsKHR(0, null, count), 0);
  assert(count[0]! >= 1);
});

function bare(): { name: string; platform: typeof device.platform } {
  return { name: device.name, platform: device.platform };
}

testOpenCL("a missing extension, and a missing function of one, are errors that say so", () => {
  const bind = (device: never) =>
    bindExtension(device, "cl_intel_unified_shared_memory", unifiedSharedMemoryFunctions);
  if (device.extensions.includes("cl_intel_unified_shared_memory")) {
    bind(device as never);
    return;
  }
  const lacking = assertThrows(() => bind(device as never), OpenCLUnavailableError);
  assert(lacking.message.includes("cl_intel_unified_shared_memory"), lacking.message);
  const claims = { ...bare(), extensions: ["cl_intel_unified_shared_memory"] };
  const empty = assertThrows(() => bind(claims as never), OpenCLUnavailableError);
  assert(empty.message.includes("clHostMemAllocINTEL"), empty.message);
});

Deno.test("from version 0.9.5 on, recording functions pass a null properties list", () => {
  const calls: unknown[][] = [];
  let table: FunctionTable = {};
  const functions = bindCommandBufferFunctions((given) => {
    table = given;
    return Object.fromEntries(
      Object.keys(given).map((
        name,
      ) => [name, (...args: unknown[]) => void calls.push([name, ...args])]),
    );
  }, true);
  const buffer = 1n as Handle<"CommandBuffer">, queue = 0n as Handle<"CommandQueue">;
  functions.clCommandBarrierWithWaitListKHR(buffer, queue, 0, null, null, null);
  functions.clFinalizeCommandBufferKHR(buffer);
  assertEquals(calls, [
    ["clCommandBarrierWithWaitListKHR", 1n, 0n, null, 0, null, null, null],
    ["clFinalizeCommandBufferKHR", 1n],
  ]);
  const lengths = Object.entries(table).map(([name, { parameters }]) => [name, parameters.length]);
  assertEquals(Object.fromEntries(lengths), {
    clCreateCommandBufferKHR: 4,
    clRetainCommandBufferKHR: 1,
    clReleaseCommandBufferKHR: 1,
    clFinalizeCommandBufferKHR: 1,
    clEnqueueCommandBufferKHR: 6,
    clGetCommandBufferInfoKHR: 5,
    clCommandBarrierWithWaitListKHR: 7,
    clCommandCopyBufferKHR: 12,
    clCommandCopyBufferRectKHR: 16,
    clCommandCopyBufferToImageKHR: 12,
    clCommandCopyImageKHR: 12,
    clCommandCopyImageToBufferKHR: 12,
    clCommandFillBufferKHR: 12,
    clCommandFillImageKHR: 11,
    clCommandNDRangeKernelKHR: 12,
  });
});

Deno.test("CommandBuffer replays what it recorded", { ignore: !hasCommandBuffers }, async () => {
  assert(extensionVersion(device, "cl_khr_command_buffer").some((part) => part > 0));
  using x = new Buffer(context, 16), y = new Buffer(context, 16), z = new Buffer(context, 16);
  using kernel = program.kernel("axpy");
  using commands = new CommandBuffer(queue);
  const filled = commands.fill(x, new Float32Array([2]));
  commands.run(kernel, { global: [4], args: [x, y, 0.5, 4], wait: [filled] });
  commands.barrier();
  commands.copy(y, z);
  assertEquals(commands.state, "recording");
  assertEquals(commands.finalize().state, "executable");
  queue.fill(y, new Float32Array([10])).release();
  for (let run = 0; run < 3; run++) {
    using event = commands.enqueue();
    await event.wait();
  }
  assertEquals(await contentOf(z, new Float32Array(4)), [13, 13, 13, 13]);
});
