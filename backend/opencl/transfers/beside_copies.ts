/**
 * Copies beside the kernels, from and to host memory that stays as it is. Those in one direction have a
 * queue of their own, so that both directions go at once (an H200: 55 GB/s each), and what waits for a
 * gate holds up nothing else.
 */
import { CommandQueue, type Event } from "../../../ffi/mod.ts";
import { hasWaitPolicy } from "../../../ffi/events/waiting.ts";
import { runAll } from "../../../ffi/host/run_all.ts";
import {
  type BufferHandle,
  type DeviceMemory,
  getPinnedPool,
  recordQueue,
} from "../../../memory/mod.ts";
import type { BesideCopy, Gate, HostBlock, HostCopy, Sign } from "../../execution/backend.ts";
import { activeTrace } from "../../profiling/trace.ts";
import { EventGate, type EventsOfGate, type GateKind, KernelGates } from "./gates.ts";
import { pinned } from "./staging.ts";
import { traceCommand } from "./traced_command.ts";

/** Capabilities of a queue and its driver. */
interface CopyOptions {
  /** Host and device share their memory. */
  readonly isUnified: boolean;
  /** True when copies have queues of their own; else they go to the compute queue. */
  readonly overlaps: boolean;
  readonly gates: GateKind | null;
}

/**
 * Least bytes for a second queue where device threads copy shared memory: below, it costs
 * more (markers, barriers and flushes) than its copy takes.
 */
const MIN_BESIDE_BYTES = 256 * 1024;

/** The copies beside one compute queue. */
export class BesideCopies {
  readonly #queue: CommandQueue;
  readonly #isUnified: boolean;
  readonly #overlaps: boolean;
  readonly #gates: GateKind | null;
  /** True when who waits in the driver sleeps: a GPU's may keep the core busy. */
  readonly #sleepsInDriver: boolean;
  #reads: CommandQueue | null = null;
  #writes: CommandQueue | null = null;
  /** Null where the device does not see what the host writes; undefined before that was tried. */
  #kernelGates: KernelGates | null | undefined;

  /** @param queue The compute queue. */
  constructor(queue: CommandQueue, { isUnified, overlaps, gates }: CopyOptions) {
    this.#queue = queue;
    this.#isUnified = isUnified;
    this.#overlaps = overlaps;
    this.#gates = overlaps ? gates : null;
    this.#sleepsInDriver = queue.device.type === "cpu";
  }

  /** The queues of copies that there are. */
  get queues(): CommandQueue[] {
    return [this.#reads, this.#writes].filter((queue) => queue !== null);
  }

  /**
   * Begins to copy blocks to host memory, behind what was enqueued so far and beside what is enqueued
   * later. Blocks that are released before that is done may have other content by then; the caller holds
   * them, since telling their pool would cost a marker and a flush for each.
   */
  read(copies: readonly HostCopy[], sign?: Sign): BesideCopy {
    const queue = this.#isBeside(copies) ? this.#reads ??= this.#another() : this.#queue;
    const isOther = queue !== this.#queue;
    using before = isOther ? this.#queue.marker() : null;
    this.#queue.flush();
    const wait = before ? [before] : [];
    const gates = sign && this.#gates === "kernels" ? this.#makeGates() : null;
    return this.#enqueue(
      "read",
      queue,
      copies,
      ({ block, bytes }) =>
        queue.read(block.base, bytes, { offset: block.offset, noCopy: true, wait }),
      gates && (() => gates.give(queue, sign!)),
    );
  }

  /** Begins to copy host memory to blocks that no command under way uses. */
  write(memory: DeviceMemory, copies: readonly HostCopy[], gate?: Gate): BesideCopy {
    const queue = this.#writeQueue(copies, gate), isOther = queue !== this.#queue;
    const wait = gate ? (gate as EventsOfGate).events : [];
    return this.#enqueue("upload", queue, copies, ({ block, bytes }) => {
      const options = { offset: block.offset, noCopy: true, wait };
      const event = queue.write(block.base, bytes, options);
      if (isOther) {
        recordQueue(block, queue);
        memory.uploads.add(block, event.share());
      }
      return event;
    });
  }

  /** The same to new blocks. */
  upload(
    memory: DeviceMemory,
    data: readonly Uint8Array<ArrayBuffer>[],
    gate?: Gate,
  ): { blocks: BufferHandle[]; copy: BesideCopy } {
    const queue = this.#writeQueue(data.map((bytes) => ({ bytes })), gate);
    const isOther = queue !== this.#queue;
    const blocks = data.map(({ byteLength }) => memory.allocate(byteLength, { queue }));
    if (isOther) { for (const block of blocks) recordQueue(block, this.#queue); }
    const copies = blocks.map((block, k) => ({ block, bytes: data[k]! }));
    return { blocks, copy: this.write(memory, copies, gate) };
  }

  /**
   * False where the driver has none, where synchronous waits block in it, so that nobody would open a gate,
   * and where copies have no queue of their own.
   */
  get hasGates(): boolean {
    if (this.#gates === null || !hasWaitPolicy()) return false;
    return this.#gates === "events" || this.#makeGates() !== null;
  }

  /** A closed gate. */
  gate(signs: readonly Sign[]): Gate {
    if (this.#gates === "kernels") return this.#makeGates()!.close(signs);
    return new EventGate(this.#queue);
  }

  #makeGates(): KernelGates | null {
    if (this.#kernelGates === undefined) this.#kernelGates = KernelGates.make(this.#queue);
    return this.#kernelGates;
  }

  #writeQueue(copies: readonly Pick<HostCopy, "bytes">[], gate?: Gate): CommandQueue {
    const isBeside = gate !== undefined || this.#isBeside(copies);
    return isBeside ? this.#writes ??= this.#another() : this.#queue;
  }

  /** True when copies get a queue of their own. */
  #isBeside(copies: readonly Pick<HostCopy, "bytes">[]): boolean {
    if (!this.#overlaps || !this.#isUnified) return this.#overlaps;
    return copies.reduce((sum, { bytes }) => sum + bytes.byteLength, 0) >= MIN_BESIDE_BYTES;
  }

  #another(): CommandQueue {
    const { context, device, profiling } = this.#queue;
    return new CommandQueue(context, device, { profiling });
  }

  /** Host memory for such copies. */
  stage(nbytes: number): HostBlock {
    if (this.#isUnified) return { bytes: new Uint8Array(nbytes), [Symbol.dispose]: () => {} };
    const pool = getPinnedPool(this.#queue), block = pool.allocate(nbytes, { label: "staging" });
    return { bytes: block.view, [Symbol.dispose]: () => pool.releaseIdle(block) };
  }

  /** Host memory of somebody else, for the same: NVIDIA's driver pins what a buffer is made of. */
  pin(bytes: Uint8Array<ArrayBuffer>): HostBlock {
    if (this.#isUnified) return { bytes, [Symbol.dispose]: () => {} };
    return pinned(this.#queue, bytes);
  }

  /** Waits for the copies under way and gives the queues back. */
  dispose(): void {
    const { queues } = this, gates = this.#kernelGates;
    this.#reads = this.#writes = null;
    this.#kernelGates = undefined;
    runAll([
      ...queues.flatMap((queue) => [() => queue.finishSync(), () => queue.release()]),
      () => gates?.dispose(),
    ]);
  }

  /** Enqueues copies on one queue, which is in order, and a last one of their sign: the last one ends last. */
  #enqueue(
    name: string,
    queue: CommandQueue,
    copies: readonly HostCopy[],
    begin: (copy: HostCopy) => Event,
    sign: (() => Event) | null = null,
  ): BesideCopy {
    const trace = activeTrace();
    let last: Event | null = null;
    for (const copy of copies) {
      const bytes = copy.bytes.byteLength, enqueuedAt = performance.now();
      if (bytes === 0) continue;
      last?.release();
      last = begin(copy);
      if (trace) {
        traceCommand(trace, last.share(), queue, { name, isCopy: true, bytes, enqueuedAt });
      }
    }
    if (sign !== null) {
      last?.release();
      last = sign();
    }
    queue.flush();
    return {
      isDone: () => last === null || last.status === "complete",
      ...this.#sleepsInDriver && { waitInDriver: () => last?.waitInDriver() },
      [Symbol.dispose]: () => last?.release(),
    };
  }
}
