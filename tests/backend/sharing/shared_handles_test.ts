import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { DeviceManager, manager } from "../../../backend/devices/devices.ts";
import { attach } from "../../../backend/sharing/attached_handles.ts";
import { revokeHandles, snapshotHandles } from "../../../backend/sharing/shared_handles.ts";
import { Buffer, type Kernel, liveObjects, OpenCLError, Program } from "../../../ffi/mod.ts";
import { hasOpenCL, testOpenCL } from "../../opencl.ts";
import type { Task } from "./worker.ts";

// Outside of the tests: the first queue starts the signal handling, which stays.
const device = manager.default(hasOpenCL ? "cl" : "cpu");
device.queue?.finishSync();

const source = "kernel void add(global int* sum, int n) { *sum += n; }";

function startWorker(): Worker {
  return new Worker(new URL("worker.ts", import.meta.url), { type: "module" });
}

/** Gives a task to a worker and waits for its next message. */
function tell(worker: Worker, task: Task): Promise<unknown> {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = (event) => {
      event.preventDefault();
      reject(new Error(event.message)); // without effect after an answer
    };
    worker.postMessage(task);
  });
}

async function withWorkers<T>(
  count: number,
  fn: (workers: Worker[]) => Promise<T>,
): Promise<T> {
  const workers = Array.from({ length: count }, startWorker);
  try {
    return await fn(workers);
  } finally {
    for (const worker of workers) worker.terminate();
  }
}

function addKernels(count: number): { program: Program; kernels: Kernel[] } {
  const program = new Program(device.context!, source).build();
  return { program, kernels: Array.from({ length: count }, () => program.kernel("add")) };
}

testOpenCL("workers launch on the queue of the main thread, each with its own kernel", async () => {
  const { program, kernels } = addKernels(3);
  using sum = new Buffer(device.context!, 4, { data: new Int32Array(1) });
  await withWorkers(3, (workers) =>
    Promise.all(workers.map((worker, i) => {
      const snapshot = snapshotHandles(device, { buffers: { sum }, kernels: { add: kernels[i]! } });
      return tell(worker, { what: "add", snapshot, times: 300 });
    })));
  const result = new Int32Array(1);
  device.queue!.read(sum, result, { blocking: true }).release();
  assertEquals(result[0], 900);
  for (const kernel of kernels) kernel.release();
  program.release();
});

testOpenCL("a worker reads and writes buffers, also those of a pool", async () => {
  using from = new Buffer(device.context!, 8, { data: new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]) });
  using to = new Buffer(device.context!, 8, { data: new Uint8Array(8) });
  const snapshot = snapshotHandles(device, { buffers: { from, to: { buffer: to } } });
  assertEquals(structuredClone(snapshot).buffers.to!.nbytes, 8);
  await withWorkers(1, ([worker]) => tell(worker!, { what: "copy", snapshot }));
  const result = new Uint8Array(8);
  device.queue!.read(to, result, { blocking: true }).release();
  assertEquals([...result], [0, 3, 4, 5, 6, 7, 8, 0]);
});

testOpenCL("a worker fills host memory in place", async () => {
  const slot = new Uint8Array(1024);
  const snapshot = snapshotHandles(device, { memory: { slot } });
  const name = await withWorkers(1, ([worker]) => tell(worker!, { what: "fill", snapshot }));
  assertEquals(name, device.deviceName);
  assertEquals(slot.every((value) => value === 7), true);
});

testOpenCL("a worker that is terminated in its work leaks nothing", async () => {
  const before = liveObjects();
  const { program, kernels: [add] } = addKernels(1);
  const sum = new Buffer(device.context!, 4, { data: new Int32Array(1) });
  const snapshot = snapshotHandles(device, { buffers: { sum }, kernels: { add: add! } });
  const references = device.context!.referenceCount;
  await withWorkers(1, async ([worker]) => {
    await tell(worker!, { what: "hold", snapshot });
    revokeHandles(snapshot); // in the midst of its launches
  });
  assertEquals(device.context!.referenceCount, references);
  device.queue!.finishSync();
  for (const object of [add!, program, sum]) object.release();
  assertEquals(liveObjects(), before);
});

testOpenCL("handles of a device that was closed are refused", async () => {
  const local = new DeviceManager();
  const handle = local.default("cl");
  const snapshot = snapshotHandles(handle);
  const { queue } = attach(snapshot);
  queue.finish();
  handle.close();
  assertThrows(() => queue.finish(), ReferenceError, "took it back");
  const answer = await withWorkers(1, ([worker]) => tell(worker!, { what: "attach", snapshot }));
  assertMatch(String(answer), /^DisposedError: Cannot use the device: the thread/);
});

testOpenCL("a launch that does not fit is an error in the worker's thread", () => {
  const { program, kernels: [add] } = addKernels(1);
  using sum = new Buffer(device.context!, 4);
  const { queue, kernels, buffers } = attach(
    snapshotHandles(device, { buffers: { sum }, kernels: { add: add! } }),
  );
  const error = assertThrows(
    () => queue.run(kernels.add!, { global: [1], args: [buffers.sum!, new Int32Array(2)] }),
    OpenCLError,
  );
  assertMatch(error.message, /clSetKernelArg failed .* for argument 1/);
  assertThrows(() => queue.read(buffers.sum!, new Uint8Array(8)), RangeError, "8 bytes");
  add!.release();
  program.release();
});

testOpenCL("handles of another process are refused", () => {
  const snapshot = { ...snapshotHandles(device), pid: Deno.pid + 1 };
  assertThrows(() => attach(snapshot), TypeError, "they hold in the process that made them");
});

Deno.test("the built-in backend has no handles to share", () => {
  assertThrows(() => snapshotHandles(manager.default("cpu")), TypeError, "no OpenCL handles");
});

testOpenCL("a shared queue reads and writes within what it was given", () => {
  const { program, kernels } = addKernels(1);
  using sum = new Buffer(device.context!, 16);
  const snapshot = snapshotHandles(device, { buffers: { sum }, kernels: { add: kernels[0]! } });
  const attached = attach(snapshot), buffer = attached.buffers.sum!, kernel = attached.kernels.add!;
  const bytes = new Uint8Array(8), n = new Int32Array([1]);
  for (const offset of [-4, 9, 1.5, NaN]) {
    assertThrows(() => attached.queue.read(buffer, bytes, offset), RangeError, "a shared buffer");
    assertThrows(() => attached.queue.write(buffer, bytes, offset), RangeError, "a shared buffer");
  }
  const run = (global: number[], local: number[] | null, first: typeof buffer | Uint8Array) => () =>
    attached.queue.run(kernel, { global, ...local && { local }, args: [first, n] });
  assertThrows(run([1, 1], [1], buffer), RangeError, "dimensions differ");
  assertThrows(run([], null, buffer), RangeError, "1 to 3");
  assertThrows(run([1], null, bytes), TypeError, "declares memory");
  run([1], [1], buffer)();
  attached.queue.finish();
  revokeHandles(snapshot);
  kernels[0]!.release();
  program.release();
});
