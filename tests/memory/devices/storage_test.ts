import { assert, assertEquals, assertThrows } from "@std/assert";
import { CommandQueue, Context } from "../../../ffi/mod.ts";
import {
  destroyContextPools,
  DeviceMemory,
  type HostBuffer,
  HostPool,
  OutOfMemoryError,
  SlabPool,
  Storage,
  transfer,
  type TransferPath,
} from "../../../memory/mod.ts";
import { copyStaged } from "../../../memory/devices/transfer.ts";
import { queue } from "../pools/pools_under_test.ts";
import { testOpenCL } from "../../opencl.ts";

function host(name: string): DeviceMemory<HostBuffer> {
  return new DeviceMemory(new HostPool(), { name });
}

function store(memory: DeviceMemory<HostBuffer>, values: number[]): Storage<HostBuffer> {
  const storage = new Storage(memory, memory.allocate(values.length));
  storage.handle.buffer.bytes.set(values);
  return storage;
}

/** A transport that counts. */
function counting() {
  const transport = (source: Storage<unknown>, target: Storage<unknown>) => {
    transport.copies++;
    transfer(source, target);
  };
  transport.copies = 0;
  return transport;
}

const bytesOf = (storage: Storage<HostBuffer>) => [
  ...storage.handle.buffer.bytes.subarray(0, storage.nbytes),
];

Deno.test("Storage gives its block back with the last reference, and no sooner", () => {
  const memory = host("a");
  const storage = store(memory, [1, 2, 3]);
  assert(storage.retain() === storage);
  assertEquals([storage.references, storage.nbytes], [2, 3]);
  storage.release();
  assertEquals([storage.disposed, memory.stats.requestedBytes], [false, 3]);
  storage.release();
  assertEquals([storage.disposed, memory.stats.currentAllocated], [true, 0]);
});

Deno.test("Storage refuses everything after its last reference", () => {
  const memory = host("a");
  const storage = store(memory, [1]);
  storage.release();
  for (
    const use of [
      () => storage.handle,
      () => storage.retain(),
      () => storage.release(),
      () => storage.reclaim(),
      () => storage.markWritten(),
      () => storage.copyOn(memory),
    ]
  ) assertThrows(use, ReferenceError, "last reference is gone");
});

Deno.test("Storage counts a leak only when a finalizer gave the last reference back", () => {
  const memory = host("a");
  const storage = store(memory, [1]).retain();
  storage.reclaim();
  assertEquals([memory.stats.leaksReclaimed, storage.disposed], [0, false]);
  storage.reclaim();
  assertEquals([memory.stats.leaksReclaimed, storage.disposed], [1, true]);
});

Deno.test("Storage: Moving unchanged content back and forth copies nothing the second time", () => {
  const [a, b] = [host("a"), host("b")];
  const transport = counting();
  const original = store(a, [1, 2, 3]);
  const there = original.copyOn(b, transport);
  assertEquals([bytesOf(there), transport.copies], [[1, 2, 3], 1]);
  const back = there.copyOn(a, transport);
  assert(back === original);
  const again = back.copyOn(b, transport);
  assert(again === there);
  assertEquals([original.references, there.references, transport.copies], [2, 2, 1]);
});

Deno.test("Storage: Content that is on three devices is copied once to each", () => {
  const [a, b, c] = [host("a"), host("b"), host("c")];
  const transport = counting();
  const original = store(a, [9]);
  const onB = original.copyOn(b, transport), onC = onB.copyOn(c, transport);
  assert(onC.copyOn(b, transport) === onB && original.copyOn(c, transport) === onC);
  assertEquals(transport.copies, 2);
});

Deno.test("Storage: A write parts a storage from its copies; each keeps what it held", () => {
  const [a, b] = [host("a"), host("b")];
  const transport = counting();
  const original = store(a, [1]);
  const there = original.copyOn(b, transport);
  original.handle.buffer.bytes[0] = 2;
  original.markWritten();
  assertEquals([original.version, there.version, bytesOf(there)], [1, 0, [1]]);
  const renewed = original.copyOn(b, transport);
  assert(renewed !== there);
  assertEquals([bytesOf(renewed), transport.copies], [[2], 2]);
  assertEquals(there.replicaOn(a), null);
});

Deno.test("Storage: A copy is given back as soon as nobody holds it, and made again when asked for", () => {
  const [a, b] = [host("a"), host("b")];
  const transport = counting();
  const original = store(a, [1]);
  original.copyOn(b, transport).release();
  assertEquals([b.stats.currentAllocated, original.replicaOn(b)], [0, null]);
  original.copyOn(b, transport);
  assertEquals(transport.copies, 2);
});

Deno.test("Storage: A copy outlives its original", () => {
  const [a, b] = [host("a"), host("b")];
  const original = store(a, [4, 5]);
  const there = original.copyOn(b);
  original.release();
  assertEquals([a.stats.currentAllocated, bytesOf(there)], [0, [4, 5]]);
  assertEquals(bytesOf(there.copyOn(a)), [4, 5]);
});

Deno.test("Storage: A copy that fails leaves nothing behind", () => {
  const [a, b] = [host("a"), host("b")];
  const original = store(a, [1]);
  assertThrows(
    () =>
      original.copyOn(b, () => {
        throw new Error("The cable is gone");
      }),
    Error,
    "cable",
  );
  assertEquals([b.stats.currentAllocated, original.replicaOn(b)], [0, null]);
  b.emptyCache();
  b.setLimit(0);
  assertThrows(() => original.copyOn(b), OutOfMemoryError);
});

Deno.test("Storage: No bytes are copied by nobody", () => {
  const [a, b] = [host("a"), host("b")];
  const transport = counting();
  const empty = new Storage(a, a.allocate(0));
  assertEquals([empty.copyOn(b, transport).nbytes, transport.copies], [0, 0]);
});

const N = 3 * 2 ** 20 + 12;

function random(): Uint8Array {
  return Uint8Array.from({ length: N }, (_, i) => (i * 2654435761) >>> 24);
}

/** Sends bytes through the memories in turn and returns what arrives, with the paths. */
function route(memories: DeviceMemory<never>[]): { bytes: Uint8Array; paths: TransferPath[] } {
  const [a, b] = [host("start"), host("end")];
  const start = new Storage(a, a.allocate(N));
  start.handle.buffer.bytes.set(random());
  const paths: TransferPath[] = [];
  let last: Storage<unknown> = start as Storage<unknown>;
  for (const memory of [...memories, b]) {
    const next: Storage<unknown> = last.copyOn(
      memory as DeviceMemory<unknown>,
      (source, target) => {
        paths.push(transfer(source, target));
      },
    );
    last.release();
    last = next;
  }
  return { bytes: (last.handle.buffer as HostBuffer).bytes.slice(0, N), paths };
}

function deviceMemory(on: CommandQueue, name: string): DeviceMemory<never> {
  return new DeviceMemory(new SlabPool(on), { name, queue: on }) as unknown as DeviceMemory<never>;
}

testOpenCL("Storage: transfer within a context is the driver's, and orders both queues", () => {
  using other = new CommandQueue(queue!.context);
  const memories = [deviceMemory(queue!, "one"), deviceMemory(other, "two")];
  const { bytes, paths } = route(memories);
  assertEquals(paths, ["host", "device", "host"]);
  assertEquals(bytes, random());
  for (const memory of memories) memory.destroy();
});

testOpenCL("Storage: transfer between contexts maps memory that the host shares", () => {
  using context = new Context(queue!.device);
  using other = new CommandQueue(context);
  const memories = [deviceMemory(queue!, "one"), deviceMemory(other, "two")];
  const { bytes, paths } = route(memories);
  assertEquals(paths, ["host", queue!.device.hostUnifiedMemory ? "mapped" : "staged", "host"]);
  assertEquals(bytes, random());
  for (const memory of memories) memory.destroy();
  destroyContextPools(context);
});

testOpenCL("Storage: transfer between contexts goes through two pinned slots else", async () => {
  using context = new Context(queue!.device);
  using other = new CommandQueue(context);
  const nbytes = 4 * 2 ** 20 * 3 + 100;
  const [one, two] = [new SlabPool(queue!), new SlabPool(other)];
  using source = one.allocate(nbytes), target = two.allocate(nbytes);
  const data = Uint8Array.from({ length: nbytes }, (_, i) => (i * 40503) >>> 8);
  queue!.write(source.buffer, data, { blocking: true }).release();
  copyStaged({ from: queue!, source: source.buffer, to: other, target: target.buffer, nbytes });
  const out = new Uint8Array(nbytes);
  other.read(target.buffer, out, { blocking: true }).release();
  assertEquals(out, data);
  await other.finish();
  destroyContextPools(context);
  one.destroy();
  two.destroy();
});

Deno.test("Storage: transfer refuses storages of different sizes", () => {
  const a = host("a");
  assertThrows(() => transfer(store(a, [1]), store(a, [1, 2])), RangeError, "1 bytes into 2");
});
