import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { DisposedError, OpenCLError, SvmBuffer, SvmCapabilities } from "../../../ffi/mod.ts";
import { runProgram } from "../../run_deno.ts";
import { context, device, hasOpenCL, program, queue } from "../fixture.ts";

const [ffi, memory] = ["ffi", "memory"].map((layer) =>
  import.meta.resolve(`../../../${layer}/mod.ts`)
);

const capabilities = hasOpenCL && SvmBuffer.isAvailable(device)
  ? device.query("SVM_CAPABILITIES")
  : 0n;

function test(name: string, capability: bigint, fn: () => void | Promise<void>): void {
  Deno.test(name, { ignore: !(capabilities & capability) }, fn);
}

test("mapped shared memory is the kernel's", SvmCapabilities.COARSE_GRAIN_BUFFER, async () => {
  using memory = new SvmBuffer(context, 64);
  memory.map(queue, { discard: true }).release();
  new Float32Array(memory.bytes.buffer).fill(1);
  memory.unmap(queue).release();
  using kernel = program.kernel("axpy");
  queue.run(kernel, { global: [16], args: [memory, memory, 2, 16] }).release();
  memory.map(queue, { write: false }).release();
  assertEquals([...new Float32Array(memory.bytes.buffer)], Array(16).fill(3));
  await memory.unmap(queue).wait();
});

test("shared memory is filled and copied", SvmCapabilities.COARSE_GRAIN_BUFFER, () => {
  using a = new SvmBuffer(context, 16), b = new SvmBuffer(context, 16, { alignment: 64 });
  assertEquals(b.unsafeHandle % 64n, 0n);
  a.fill(queue, new Uint8Array([1, 2])).release();
  b.fill(queue, new Uint8Array([9])).release();
  a.copyTo(queue, b, 3).release();
  b.map(queue).release();
  assertEquals([...b.bytes.subarray(0, 5)], [1, 2, 1, 9, 9]);
  b.unmap(queue).release();
  queue.finishSync();
  assertThrows(() => a.copyTo(queue, b, 17), RangeError, "17 bytes");
});

test("fine-grained memory needs no mapping", SvmCapabilities.FINE_GRAIN_BUFFER, async () => {
  using memory = new SvmBuffer(context, 16, { fineGrain: true });
  using kernel = program.kernel("put");
  queue.run(kernel, { global: [4], args: [memory, 6] }).release();
  await queue.finish();
  assertEquals([...new Int32Array(memory.bytes.buffer)], [6, 6, 6, 6]);
});

test("shared memory's view is detached at release", SvmCapabilities.COARSE_GRAIN_BUFFER, () => {
  const memory = new SvmBuffer(context, 16);
  const { bytes } = memory;
  memory.release();
  assertEquals(bytes.length, 0);
  assertThrows(() => memory.fill(queue, new Uint8Array(1)), DisposedError);
});

test("shared memory that cannot be made is an error", SvmCapabilities.COARSE_GRAIN_BUFFER, () => {
  const error = assertThrows(() => new SvmBuffer(context, 0), OpenCLError);
  assertEquals(error.call, "clSVMAlloc");
  assert(error.message.includes("0 bytes of shared memory"));
});

Deno.test("SvmBuffer.isAvailable is false where the library lacks what the device offers", {
  ignore: !hasOpenCL,
}, async () => {
  // An OpenCL.dll of OpenCL 1.2 before a newer driver.
  const { success, out, err } = await runProgram(
    `
    const { dlopen } = Deno;
    Deno.dlopen = (path, functions) => {
      const library = dlopen(path, functions);
      const symbols = { ...library.symbols, clSVMAlloc: null };
      return { symbols, close: () => library.close() };
    };
    const { CommandQueue, Context, platforms, SvmBuffer } = await import("${ffi}");
    const { createPool, SvmPool } = await import("${memory}");
    const [device] = platforms()[0].devices();
    using context = new Context(device);
    using queue = new CommandQueue(context, device);
    const said = (fn) => { try { return fn(); } catch (error) { return error.name + error.message; } };
    console.log(SvmBuffer.isAvailable(device), SvmPool.isAvailable(queue));
    console.log(said(() => createPool(queue)));
    console.log(said(() => new SvmBuffer(context, 64)));
  `,
    { env: { NETCL_POOL: "svm" } },
  );
  assert(success, err);
  const [available, pool, made] = out.trim().split("\n");
  assertEquals(available, "false false");
  assertStringIncludes(pool!, "OpenCLUnavailableErrorCannot make an SvmPool");
  assertStringIncludes(made!, "Cannot call clSVMAlloc");
});
