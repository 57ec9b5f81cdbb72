// Suite: waits; mostly waits for the driver.
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  Buffer,
  DeviceInfo,
  KernelBuildError,
  OpenCLError,
  Program,
  withFaults,
} from "../../../ffi/mod.ts";
import { context, device, queue, testOpenCL } from "../fixture.ts";

testOpenCL("withFaults fails the call that was counted, and no other", () => {
  const fault = { call: "clCreateBuffer", nth: 2, status: -4 } as const;
  withFaults([fault], () => {
    new Buffer(context, 8).release();
    const error = assertThrows(() => new Buffer(context, 8), OpenCLError);
    assertEquals([error.code, error.call], [-4, "clCreateBuffer"]);
    new Buffer(context, 8).release();
  });
  new Buffer(context, 8).release();
});

testOpenCL("withFaults fails nonblocking calls with the function that they are of", async () => {
  await withFaults([{ call: "clFinish", nth: 1, status: -36 }], async () => {
    const error = await assertRejects(() => queue.finish(), OpenCLError);
    assertEquals([error.codeName, error.call], ["CL_INVALID_COMMAND_QUEUE", "clFinish"]);
    await queue.finish();
  });
});

testOpenCL("withFaults can make a program fail to build", () => {
  using program = new Program(context, "kernel void f() {}");
  withFaults([{ call: "clBuildProgram", status: -11 }], () => {
    const error = assertThrows(() => program.build(), KernelBuildError);
    assertEquals(error.call, "clBuildProgram");
  });
  program.build();
});

testOpenCL("withFaults pretends a device with other limits", () => {
  const { LOCAL_MEM_SIZE, NAME, HOST_UNIFIED_MEMORY, MAX_WORK_ITEM_SIZES } = DeviceInfo;
  const truth = [device.localMemSize, device.name];
  withFaults([
    { call: "clGetDeviceInfo", parameter: LOCAL_MEM_SIZE, value: 1024n },
    { call: "clGetDeviceInfo", parameter: NAME, value: "Imaginary" },
    { call: "clGetDeviceInfo", parameter: HOST_UNIFIED_MEMORY, value: 0n },
    {
      call: "clGetDeviceInfo",
      parameter: MAX_WORK_ITEM_SIZES,
      value: new Uint8Array(new BigUint64Array([4n, 2n, 1n]).buffer),
    },
  ], () => {
    assertEquals([device.localMemSize, device.name], [1024, "Imaginary"]);
    assertEquals([device.hostUnifiedMemory, device.maxWorkItemSizes], [false, [4, 2, 1]]);
    assert(device.globalMemSize > 1024);
  });
  assertEquals([device.localMemSize, device.name], truth);
});

testOpenCL("withFaults makes calls late, on the main thread and off it", async () => {
  const timed = async (fn: () => unknown): Promise<number> => {
    const start = performance.now();
    await fn();
    return performance.now() - start;
  };
  await withFaults([{ call: "clFinish", delayMs: 30 }], async () => {
    assert(await timed(() => queue.finishSync()) >= 29);
    assert(await timed(() => queue.finish()) >= 29);
  });
});

testOpenCL("withFaults repairs everything, also where fn throws or overlaps", async () => {
  const fails = () => assertThrows(() => new Buffer(context, 8), OpenCLError);
  assertThrows(
    () =>
      withFaults([{ call: "clCreateBuffer", status: -4 }], () => {
        throw new RangeError("mine");
      }),
    RangeError,
    "mine",
  );
  new Buffer(context, 8).release();

  const gate = Promise.withResolvers<void>();
  const first = withFaults([{ call: "clCreateBuffer", status: -4 }], async () => {
    fails();
    await gate.promise;
  });
  const second = withFaults([{ call: "clFlush", status: -5 }], async () => {
    assertThrows(() => queue.flush(), OpenCLError);
    await gate.promise;
    await first;
    assertThrows(() => queue.flush(), OpenCLError);
    new Buffer(context, 8).release();
  });
  fails();
  gate.resolve();
  await second;
  queue.flush();
});

testOpenCL("a fault that never happens fails the test that relies on it", async () => {
  const never = [{ call: "clCreateBuffer", nth: 2, status: -4 }] as const;
  assertThrows(
    () => withFaults(never, () => new Buffer(context, 8).release()),
    Error,
    "clCreateBuffer never happened, it was called 1 times",
  );
  await assertRejects(() => withFaults(never, () => Promise.resolve()), Error, "called 0 times");
});
