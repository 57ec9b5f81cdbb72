import { assert, assertEquals, assertThrows } from "@std/assert";
import { runCollector as gc } from "../../../memory/core/garbage.ts";
import {
  Buffer,
  CommandQueue,
  Context,
  DisposedError,
  leakedObjects,
  liveObjects,
  Program,
  Sampler,
  SvmBuffer,
  UserEvent,
} from "../../../ffi/mod.ts";
import { contentOf, context, device, leftBehind, program, queue, testOpenCL } from "../fixture.ts";
import { hasOpenCL } from "../../opencl.ts";
import { runProgram } from "../../run_deno.ts";

const hasSvm = hasOpenCL && SvmBuffer.isAvailable(device);

testOpenCL("every owner releases once, refuses use after it, leaves nothing behind", async () => {
  const makers: {
    [kind: string]: () => Disposable & { readonly unsafeHandle: bigint; release(): void };
  } = {
    Context: () => new Context(device),
    CommandQueue: () => new CommandQueue(context),
    Buffer: () => new Buffer(context, 64),
    Program: () => new Program(context, "kernel void f() {}"),
    Kernel: () => program.kernel("put"),
    Event: () => new UserEvent(context),
    Sampler: () => new Sampler(context),
    ...(hasSvm ? { SvmBuffer: () => new SvmBuffer(context, 64) } : {}),
  };
  for (const [kind, make] of Object.entries(makers)) {
    const left = await leftBehind(() => {
      const before: Record<string, number> = liveObjects();
      const object = make();
      assertEquals(liveObjects()[kind as "Buffer"], before[kind]! + 1, kind);
      object.release();
      object.release();
      object[Symbol.dispose]();
      const error = assertThrows(() => object.unsafeHandle, DisposedError);
      assertEquals(error.message, `Cannot use this ${kind}: it was released`);
    });
    assertEquals(left, {}, kind);
  }
});

testOpenCL("an object that is forgotten is released by the collector, and counted", async () => {
  const before = leakedObjects().Buffer, live = liveObjects().Buffer;
  (() => {
    for (let i = 0; i < 10; i++) new Buffer(context, 64);
  })();
  for (let turn = 0; turn < 50 && leakedObjects().Buffer < before + 10; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    gc();
  }
  assertEquals([leakedObjects().Buffer - before, liveObjects().Buffer - live], [10, 0]);
});

testOpenCL("a forgotten object that cannot be released costs a line, not the program", async () => {
  const module = (name: string) =>
    JSON.stringify(new URL(`../../../${name}`, import.meta.url).href);
  const program = `
    import { Buffer, Context, platforms, withFaults } from ${module("ffi/mod.ts")};
    const context = new Context(platforms()[0].devices()[0]);
    await withFaults([{ call: "clReleaseMemObject", status: -36 }], async () => {
      (() => { for (let i = 0; i < 5; i++) new Buffer(context, 64); })();
      for (let i = 0; i < 20; i++) { await new Promise((r) => setTimeout(r, 2)); gc(); }
    });
    console.log("goes on");`;
  const { code, out, err } = await runProgram(program, { flags: ["--v8-flags=--expose-gc"] });
  assertEquals([code, out, err], [
    0,
    "goes on\n",
    "netcl: cannot give back a forgotten Buffer: clReleaseMemObject failed with " +
    "CL_INVALID_COMMAND_QUEUE (-36)\n",
  ]);
});

testOpenCL("a view of mapped memory keeps the mapping alive", async () => {
  const view = (() => {
    const buffer = new Buffer(context, 1 << 16, { data: new Uint8Array(1 << 16).fill(7) });
    return queue.map(buffer).bytes;
  })();
  for (let turn = 0; turn < 5; turn++) {
    gc();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assert(view.every((value) => value === 7));
});

testOpenCL("a buffer outlives its release while a part of it is in use", async () => {
  const whole = new Buffer(context, 8192, { data: new Uint8Array(8192).fill(5) });
  using part = whole.subBuffer(4096, 16);
  assertEquals([part.parent, part.offset, part.nbytes], [whole, 4096, 16]);
  whole.release();
  assert((await contentOf(part, new Uint8Array(16))).every((value) => value === 5));
});
