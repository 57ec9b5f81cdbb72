/**
 * Gates hold copies to a device back until their bytes are there. A user event is one that the host opens.
 * A kernel is another: it looks at numbers in host memory until they are there, on the compute queue, so
 * that it holds up the kernels behind it, too, and nobody needs the host: devices write the numbers behind
 * what they copy.
 */
import {
  Buffer,
  type CommandQueue,
  type Event,
  type Kernel,
  Program,
  UserEvent,
} from "../../../ffi/mod.ts";
import { EnvironmentError, readEnvironment } from "../../../ffi/host/environment.ts";
import { mapPages, type SharedMemory } from "../../../ffi/host/shared_memory.ts";
import { runAll } from "../../../ffi/host/run_all.ts";
import { host } from "../../../ffi/runtime/host.ts";
import { type Gate, type HostBlock, type Sign, SIGN_VALUES } from "../../execution/backend.ts";
import { activeTrace } from "../../profiling/trace.ts";
import { pinned } from "./staging.ts";
import { traceCommand } from "./traced_command.ts";

/** Forms of gates. */
export type GateKind = "events" | "kernels";

/**
 * The form that NETCL_GATES names, else the driver's; null where it says that the host waits.
 *
 * @throws {RangeError} When it names none.
 */
export function gatesOf(byDriver: GateKind): GateKind | null {
  const value = readEnvironment("NETCL_GATES") ?? byDriver;
  if (value === "events" || value === "kernels") return value;
  if (value === "0") return null;
  throw new EnvironmentError("NETCL_GATES", value, 'write "events", "kernels" or 0');
}

/** Events that copies behind a gate wait for; none when it is open. */
export interface EventsOfGate extends Gate {
  readonly events: readonly Event[];
}

/** A user event. */
export class EventGate implements EventsOfGate {
  readonly #event: UserEvent;
  #isOpen = false;

  /** @param queue One of the context. */
  constructor(queue: CommandQueue) {
    this.#event = new UserEvent(queue.context);
  }

  get events(): readonly Event[] {
    return this.#isOpen ? [] : [this.#event];
  }

  open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#event.complete();
    this.#event.release();
  }
}

/**
 * `await` ends when a number or a later one is there, or the host opens the gate in its slot; `look` tries it.
 * They take addresses: memory that a driver has pinned has the same one on a GPU, and what a buffer is made of
 * NVIDIA's copies to the device before each kernel.
 */
const text = `
#define IS_BEFORE(a, b) (((a - b) & (VALUES - 1)) >= VALUES / 2)
__kernel void await(ulong sign, uint value, ulong slot, uint gate) {
  __global volatile const uint* at = (__global volatile const uint*)sign;
  __global volatile const uint* opened = (__global volatile const uint*)slot;
  while (IS_BEFORE(*at, value) && *opened != gate) {}
}
__kernel void look(ulong word, uint looks, __global uint* left) {
  __global volatile const uint* at = (__global volatile const uint*)word;
  uint first = *at;
  while (*at == first && --looks > 0) {}
  *left = looks;
}`;

/** Gates that are closed at one time are fewer. */
const SLOTS = 1024;
const WORD_BYTES = 4;
const one = BigUint64Array.of(1n);
/** Looks of a kernel before it gives up seeing what the host writes: some 0.2 s. */
const LOOKS = { gpu: 200_000, other: 100_000_000 };

/** A kernel that waits. */
class KernelGate implements EventsOfGate {
  readonly #event: Event;
  readonly #open: () => void;
  #isOpen = false;

  constructor(event: Event, open: () => void) {
    this.#event = event;
    this.#open = open;
  }

  get events(): readonly Event[] {
    return this.#isOpen ? [] : [this.#event];
  }

  open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#open();
    this.#event.release();
  }
}

/**
 * The kernels that wait on one compute queue, and the signs that its device gives. A wait keeps one
 * work-item busy, and all kernels of the queue behind it: they are to be enqueued behind whatever others
 * wait for, and then nothing hangs that waits for the device, such as the release of memory.
 */
export class KernelGates {
  readonly #queue: CommandQueue;
  readonly #program: Program;
  readonly #kernel: Kernel;
  /** By slot: the gate that the host has opened last. */
  readonly #opened: HostBlock;
  readonly #pages: SharedMemory;
  readonly #words: Uint32Array;
  /** 0, 1, 2, ... on the device: copies write a sign from here. */
  readonly #numbers: Buffer;
  #count = 0;

  private constructor(queue: CommandQueue, pages: SharedMemory) {
    const { context } = queue;
    this.#queue = queue;
    this.#program = new Program(context, text).build(`-DVALUES=${SIGN_VALUES}u`);
    this.#kernel = this.#program.kernel("await");
    this.#pages = pages;
    this.#opened = pinned(queue, pages.bytes);
    this.#words = new Uint32Array(pages.bytes.buffer);
    this.#numbers = new Buffer(context, SIGN_VALUES * WORD_BYTES);
    const numbers = Uint32Array.from({ length: SIGN_VALUES }, (_, k) => k);
    queue.write(this.#numbers, numbers, { blocking: true }).release();
  }

  /**
   * Makes them; null where kernels do not see what the host writes meanwhile.
   *
   * @param queue The compute queue.
   */
  static make(queue: CommandQueue): KernelGates | null {
    const pages = mapPages(SLOTS * WORD_BYTES);
    if (pages === null) return null;
    const gates = new KernelGates(queue, pages);
    if (gates.#seesHost()) return gates;
    gates.dispose();
    return null;
  }

  #seesHost(): boolean {
    const queue = this.#queue, words = this.#words, out = new Uint32Array(1);
    const looks = queue.device.type === "gpu" ? LOOKS.gpu : LOOKS.other;
    using kernel = this.#program.kernel("look");
    using left = new Buffer(queue.context, WORD_BYTES);
    queue.finishSync();
    kernel.setBytes(0, addressOf(this.#opened, 0));
    kernel.setBytes(1, Uint32Array.of(looks));
    kernel.setBuffer(2, left);
    using running = queue.enqueueKernelEvent(kernel, 1, one, one);
    queue.flush();
    while (running.status !== "complete") words[0]!++;
    words[0] = 0;
    queue.read(left, out, { blocking: true }).release();
    return out[0]! > 0;
  }

  /** Enqueues the copy that gives a sign; `queue` is in order. */
  give(queue: CommandQueue, { memory: { bytes }, offset, value }: Sign): Event {
    const place = bytes.subarray(offset, offset + WORD_BYTES);
    return queue.read(this.#numbers, place, { offset: value * WORD_BYTES, noCopy: true });
  }

  /** A gate that opens when all signs are given. */
  close(signs: readonly Sign[]): Gate {
    const gate = ++this.#count >>> 0,
      slot = gate % SLOTS,
      queue = this.#queue,
      kernel = this.#kernel;
    const trace = activeTrace();
    let last: Event | null = null;
    for (const { memory, offset, value } of signs) {
      const enqueuedAt = performance.now();
      kernel.setBytes(0, addressOf(memory, offset));
      kernel.setBytes(1, Uint32Array.of(value));
      kernel.setBytes(2, addressOf(this.#opened, slot * WORD_BYTES));
      kernel.setBytes(3, Uint32Array.of(gate));
      last?.release();
      last = queue.enqueueKernelEvent(kernel, 1, one, one);
      if (trace) {
        traceCommand(trace, last.share(), queue, { name: "wait for others", bytes: 0, enqueuedAt });
      }
    }
    last ??= queue.marker();
    queue.flush();
    return new KernelGate(last, () => this.#words[slot] = gate);
  }

  /** Gives memory and kernel back; nothing waits any more. */
  dispose(): void {
    runAll([
      () => this.#queue.finishSync(),
      () => this.#kernel.release(),
      () => this.#program.release(),
      () => this.#numbers.release(),
      () => this.#opened[Symbol.dispose](),
      () => this.#pages[Symbol.dispose](),
    ]);
  }
}

function addressOf({ bytes }: HostBlock, offset: number): BigUint64Array<ArrayBuffer> {
  return BigUint64Array.of(host.addressOf(bytes) + BigInt(offset));
}
