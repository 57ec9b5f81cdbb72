/** The pools whose blocks the host can see: pinned, shared and its own. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer, CommandQueue, Context, liveObjects, UserEvent } from "../../../ffi/mod.ts";
import { awaitDeferred } from "../../../ffi/events/context_work.ts";
import { countingFrees } from "../../ffi/counting_frees.ts";
import {
  destroyContextPools,
  getPersistentPool,
  getPinnedPool,
  HostPool,
  isIntegratedGpu,
  PersistentBufferPool,
  PinnedBufferPool,
  recordQueue,
  SvmPool,
} from "../../../memory/mod.ts";
import { queue } from "./pools_under_test.ts";
import { testOpenCL } from "../../opencl.ts";

const svm = { ignore: queue === null || !SvmPool.isAvailable(queue) };
const MiB = 2 ** 20;

Deno.test("HostPool's blocks are views of memory that is not copied", () => {
  const pool = new HostPool();
  const a = pool.allocate(1000), b = pool.allocate(1000);
  a.buffer.bytes.fill(1);
  b.buffer.bytes.fill(2);
  assert(a.buffer.bytes.every((byte) => byte === 1), "neighbours are apart");
  assertEquals([a.buffer.nbytes % 64, a.buffer.bytes.byteOffset % 64], [0, 0]);
  assert(a.buffer.bytes.buffer === b.buffer.bytes.buffer, "one segment");
  assertEquals(new Float64Array(a.buffer.bytes.buffer, a.offset, 125).length, 125);
});

testOpenCL("PinnedBufferPool lends the memory itself, detached at the release", async () => {
  const pool = new PinnedBufferPool(queue!);
  const handle = pool.allocate(5000);
  assertEquals(handle.view.byteLength, 5000);
  handle.view.set([1, 2, 3]);
  assert(handle.view === handle.view, "one view a handle");
  using target = new Buffer(queue!.context, 5000);
  using event = queue!.write(target, handle.view, { noCopy: true });
  await event.wait();
  const out = new Uint8Array(3);
  queue!.read(target, out, { blocking: true }).release();
  assertEquals([...out], [1, 2, 3]);
  const { view } = handle;
  handle.release();
  assertEquals(view.byteLength, 0);
  assertThrows(() => handle.view, ReferenceError, "after its release");
  pool.destroy();
});

testOpenCL("PinnedBufferPool's views of one memory come and go by themselves", async () => {
  const pool = new PinnedBufferPool(queue!);
  const first = pool.allocate(4096);
  first.view[7] = 42;
  first.release();
  await queue!.finish();
  const second = pool.allocate(4096);
  assertEquals([pool.stats.hits, second.view[7]], [1, 42]);
  pool.destroy();
  assertEquals(second.state, "destroyed");
});

testOpenCL("PinnedBufferPool rounds little above 1 MiB: pinned memory is scarce", () => {
  const pool = new PinnedBufferPool(queue!, { maxBytes: 64 * MiB });
  const sizes = [1, 5000, MiB, MiB + 1, 5_000_000].map((size) => pool.allocate(size).bucketSize);
  assertEquals(sizes, [4096, 8192, MiB, MiB + 4096, 5_001_216]);
  assertThrows(() => pool.allocate(64 * MiB), Error, "limit is 64 MiB");
  pool.destroy();
});

testOpenCL("PinnedBufferPool lends a recorded block only when its copy is done", async () => {
  const pool = new PinnedBufferPool(queue!);
  using target = new Buffer(queue!.context, 8 * MiB);
  const first = pool.allocate(8 * MiB);
  first.view.fill(7);
  const event = queue!.write(target, first.view, { noCopy: true });
  recordQueue(first, queue!);
  first.release();
  const second = pool.allocate(8 * MiB);
  second.view.fill(9);
  await event.wait();
  event.release();
  const out = new Uint8Array(8 * MiB);
  queue!.read(target, out, { blocking: true }).release();
  assert(out.every((byte) => byte === 7));
  pool.destroy();
});

testOpenCL("PinnedBufferPool lends a block again after its copy, whatever the queue", async () => {
  using other = new CommandQueue(queue!.context);
  using target = new Buffer(queue!.context, 8 * MiB);
  for (const named of [undefined, other]) {
    using gate = new UserEvent(queue!.context);
    const pool = new PinnedBufferPool(queue!);
    const options = named && { queue: named };
    const first = pool.allocate(8 * MiB, options);
    first.view.fill(7);
    const copy = other.write(target, first.view, { noCopy: true, wait: [gate] });
    first.release();
    const second = pool.allocate(8 * MiB, options);
    second.view.fill(9);
    gate.complete();
    await copy.wait();
    copy.release();
    const out = new Uint8Array(8 * MiB);
    other.read(target, out, { blocking: true }).release();
    assert(out.every((byte) => byte === 7), "the next holder did not write into the copy");
    second.release();
    await other.finish();
    const third = pool.allocate(8 * MiB, options);
    assertEquals(pool.stats.hits, 1, "afterwards it is lent again");
    third.release();
    pool.destroy();
  }
});

testOpenCL("PinnedBufferPool waits for copies before it gives memory back, whatever queue", () => {
  using target = new Buffer(queue!.context, 64 * MiB);
  const pool = new PinnedBufferPool(queue!);
  const gone = new CommandQueue(queue!.context);
  const handle = pool.allocate(64 * MiB, { queue: gone });
  handle.view.fill(7);
  using copy = gone.write(target, handle.view, { noCopy: true });
  gone.release();
  handle.release();
  assertEquals([copy.status, pool.stats.reservedBytes], ["complete", 0]);
  const out = new Uint8Array(64 * MiB);
  queue!.read(target, out, { blocking: true }).release();
  assert(out.every((byte) => byte === 7));
  pool.destroy();
});

testOpenCL("A context's pinned pool outlives the queue that it was asked for with", () => {
  const context = new Context(queue!.device);
  const first = new CommandQueue(context), second = new CommandQueue(context);
  const pool = getPinnedPool(first);
  pool.allocate(4096).release();
  first.release();
  const handle = getPinnedPool(second).allocate(MiB);
  handle.view.fill(1);
  handle.release();
  const buffers = liveObjects().Buffer;
  destroyContextPools(context);
  assert(liveObjects().Buffer < buffers, "its buffers are gone");
  second.release();
  context.release();
});

Deno.test("SvmPool gives no memory back that another queue still uses", { ...svm }, () => {
  using other = new CommandQueue(queue!.context), gate = new UserEvent(queue!.context);
  const pool = new SvmPool(queue!, { segmentBytes: MiB });
  const handle = pool.allocate(MiB, { queue: other });
  other.fill(handle.buffer, new Uint8Array([3]), { wait: [gate], nbytes: MiB }).release();
  handle.release();
  countingFrees((frees) => {
    pool.trim();
    queue!.finishSync();
    assertEquals(frees(), 0, "the fill is still to come");
    gate.complete();
    other.finishSync();
    awaitDeferred(queue!.context.unsafeHandle);
    assertEquals(frees(), 1);
  });
  pool.destroy();
});

Deno.test("SvmPool lets host and device see the same bytes, uncopied", { ...svm }, async () => {
  const pool = new SvmPool(queue!, { segmentBytes: MiB });
  const a = pool.allocate(1000), b = pool.allocate(1000);
  b.view.fill(5);
  queue!.copy(b.buffer, a.buffer, { nbytes: 1000 }).release();
  await queue!.finish();
  assert(a.view.every((byte) => byte === 5), "the kernel's side is the view");
  const { view } = a;
  a.release();
  assertEquals([view.byteLength, b.view[999]], [0, 5]);
  pool.destroy();
  assertEquals(liveObjects().SvmBuffer, 0);
});

testOpenCL("A context has one pinned and one persistent pool, until they are destroyed", () => {
  using other = new CommandQueue(queue!.context);
  const pinned = getPinnedPool(queue!), persistent = getPersistentPool(queue!);
  assert(pinned instanceof PinnedBufferPool && persistent instanceof PersistentBufferPool);
  assert(getPinnedPool(other) === pinned && getPersistentPool(other) === persistent);
  const handle = pinned.allocate(64);
  destroyContextPools(queue!.context);
  assertEquals(handle.state, "destroyed");
  assert(getPinnedPool(queue!) !== pinned);
  destroyContextPools(queue!.context);
});

testOpenCL("Only a GPU that shares the host's memory is an integrated one", () => {
  const { type, hostUnifiedMemory } = queue!.device;
  assertEquals(isIntegratedGpu(queue!), type === "gpu" && hostUnifiedMemory);
  const fake = { device: { type: "gpu", hostUnifiedMemory: true } } as unknown as CommandQueue;
  assertEquals(isIntegratedGpu(fake), true);
});
