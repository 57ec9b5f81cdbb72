import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  CommandQueue,
  Context,
  type Fault,
  liveObjects,
  MemFlags,
  UserEvent,
  withFaults,
} from "../../../ffi/mod.ts";
import { HostedSource, type LentMemory, NoMemoryError, SlabPool } from "../../../memory/mod.ts";
import { queue as shared } from "../pools/pools_under_test.ts";

const MiB = 2 ** 20;
const ignore = shared === null || !shared.device.hostUnifiedMemory ||
  shared.device.type !== "cpu" || shared.device.platform.name.includes("NVIDIA");

/** Lends arrays for so many bytes, and notes which are out. */
class Lender implements LentMemory {
  readonly out = new Set<Uint8Array>();
  #left: number;

  constructor(nbytes: number) {
    this.#left = nbytes;
  }

  lend(nbytes: number): Uint8Array<ArrayBuffer> | null {
    if (nbytes > this.#left) return null;
    this.#left -= nbytes;
    // Shared memory that grows: what the baseline tier lends.
    const pages = Math.ceil(nbytes / 65536);
    const { buffer } = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
    const bytes = new Uint8Array(buffer as ArrayBuffer, 0, nbytes);
    this.out.add(bytes);
    return bytes;
  }

  takeBack(bytes: Uint8Array<ArrayBuffer>): void {
    this.#left += bytes.byteLength;
    this.out.delete(bytes);
  }
}

/** Each has a context of its own: what other tests left unfinished would keep arrays from going back. */
function test(name: string, fn: (queue: CommandQueue) => void): void {
  Deno.test(`HostedSource ${name}`, { ignore }, () => {
    const before = liveObjects();
    const context = new Context(shared!.device), queue = new CommandQueue(context);
    fn(queue);
    queue.release();
    context.release();
    assertEquals(liveObjects(), before, "nothing is left behind");
  });
}

test("has buffers in lent arrays: device and host see what the other one wrote", (queue) => {
  const lender = new Lender(MiB), source = new HostedSource(queue, lender);
  const pool = new SlabPool(source, { segmentBytes: MiB });
  const [first, block] = [pool.allocate(1000), pool.allocate(1024)];
  const array = source.arrayOf(block.base)!;
  array.fill(7, block.offset, block.offset + 1024);
  const read = new Uint8Array(1024);
  queue.read(block.base, read, { offset: block.offset, blocking: true }).release();
  assert(read.every((value) => value === 7), "the device reads what the host wrote");
  const { buffer } = block;
  queue.fill(buffer, new Uint8Array([9]), { nbytes: 512 }).release();
  queue.finishSync();
  const now = array.subarray(block.offset, block.offset + 1024);
  assertEquals([now[0], now[511], now[512]], [9, 9, 7], "the host reads what the device wrote");
  for (const each of [first, block]) each.release();
  pool.destroy();
  queue.finishSync();
  assertEquals(lender.out.size, 0);
});

test("is the driver's where the lender has no more, and for other flags", (queue) => {
  const lender = new Lender(MiB), source = new HostedSource(queue, lender);
  const buffers = [
    source.create(MiB, undefined),
    source.create(MiB, undefined),
    source.create(4096, MemFlags.READ_ONLY),
  ];
  const isLent = buffers.map((buffer) => source.arrayOf(buffer) !== undefined);
  assertEquals([isLent, lender.out.size], [[true, false, false], 1]);
  for (const buffer of buffers) source.destroy(buffer);
  queue.finishSync();
  assertEquals(lender.out.size, 0);
});

test("gives an array back when no command uses it any more", (queue) => {
  const lender = new Lender(MiB), source = new HostedSource(queue, lender);
  const buffer = source.create(4096, undefined);
  const gate = new UserEvent(queue.context);
  queue.fill(buffer, new Uint8Array([1]), { wait: [gate] }).release();
  source.destroy(buffer);
  assertEquals(lender.out.size, 1, "the fill has not begun");
  gate.complete();
  gate.release();
  queue.finishSync();
  assertEquals(lender.out.size, 0);
});

test("gives the array back where the driver refuses the buffer", (queue) => {
  const lender = new Lender(MiB), source = new HostedSource(queue, lender);
  const faults: Fault[] = [{ call: "clCreateBuffer", status: -4 }];
  assertThrows(() => withFaults(faults, () => source.create(4096, undefined)), NoMemoryError);
  assertEquals(lender.out.size, 0);
});
