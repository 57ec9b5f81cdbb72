/**
 * A pool of threads for large work. The work is cut into parts. Each thread has its share of them, the
 * main thread too: what a kernel has written for the first rows lies in the caches of the thread that
 * takes the first rows of the next one. A thread that is through with its own takes those of others, so a
 * worker that wakes up late costs nothing. All share the memory that they compute in, which also holds
 * the block by which they synchronize.
 */
import { Worker } from "node:worker_threads";
import type { WasmMemory } from "./memory.ts";

/** Fields of the block that the threads share. */
export const fields = {
  signal: 0,
  parts: 1,
  done: 2,
  sleeping: 3,
  waiting: 4,
  generation: 5,
  failed: 6,
  ready: 7,
  range: 8,
  part: 9,
  threads: 10,
  /** Kernels that go over each part, one after the other: so many, and four fields of each. */
  calls: 11,
  kernel: 16,
  code: 17,
  codeBytes: 18,
  args: 19,
  callStep: 4,
  /** Untaken parts of each thread: a field a thread, each in a line of memory. */
  left: 32,
  leftStep: 16,
} as const;

/** Bytes of the block of so many threads. */
export function controlBytes(threads: number): number {
  return 4 * (fields.left + fields.leftStep * threads);
}

/** Takes a part of the work: of a thread's own, then of others'; -1 where there are none. */
export function takePart(
  block: Int32Array<ArrayBuffer | SharedArrayBuffer>,
  fields: Readonly<Record<"parts" | "threads" | "left" | "leftStep", number>>,
  thread: number,
): number {
  const threads = block[fields.threads]!;
  for (let k = 0; k < threads; k++) {
    const owner = (thread + k) % threads, at = fields.left + fields.leftStep * owner;
    for (let left = Atomics.load(block, at); left > 0; left = Atomics.load(block, at)) {
      if (Atomics.compareExchange(block, at, left, left - 1) !== left) continue;
      return Math.floor(owner * block[fields.parts]! / threads) + left - 1;
    }
  }
  return -1;
}

/** Start data of a worker. */
export interface WorkerInit {
  readonly memory: WebAssembly.Memory;
  /** Address of the block. */
  readonly control: number;
  readonly fields: typeof fields;
  readonly thread: number;
  /** It runs for as long as this is the block's. */
  readonly generation: number;
}

/** The worker's program. It is sent as text, so it may refer to nothing outside but `takePart`. */
export function worker({ memory, control, fields: f, thread, generation }: WorkerInit): void {
  const SPINS = 20_000;
  const block = new Int32Array(memory.buffer, control);
  const kernels = new Map<number, (a: number, b: number, e: number, t: number) => void>();
  const get = (field: number): number => Atomics.load(block, field);
  const kernelOf = (call: number) => {
    const id = get(f.kernel + call);
    let run = kernels.get(id);
    if (run === undefined) {
      const at = get(f.code + call) >>> 0, length = get(f.codeBytes + call);
      const code = new Uint8Array(memory.buffer, at, length).slice();
      const instance = new WebAssembly.Instance(new WebAssembly.Module(code), { host: { memory } });
      kernels.set(id, run = instance.exports.run as () => void);
    }
    return run;
  };
  const compute = (part: number): void => {
    try {
      const begin = part * get(f.part);
      const end = Math.min(begin + get(f.part), get(f.range));
      for (let k = 0; k < get(f.calls); k++) {
        const call = k * f.callStep;
        kernelOf(call)(get(f.args + call), begin, end, thread);
      }
    } catch {
      // The thread that asked for it says so.
      Atomics.store(block, f.failed, 1);
    }
    Atomics.add(block, f.done, 1);
    if (get(f.waiting) === 1) Atomics.notify(block, f.done);
  };
  Atomics.add(block, f.ready, 1);
  while (get(f.generation) === generation) {
    const signal = get(f.signal);
    for (let part = takePart(block, f, thread); part >= 0; part = takePart(block, f, thread)) {
      compute(part);
    }
    let spins = 0;
    while (get(f.signal) === signal && spins < SPINS) spins++;
    if (spins < SPINS) continue;
    Atomics.add(block, f.sleeping, 1);
    Atomics.wait(block, f.signal, signal);
    Atomics.sub(block, f.sleeping, 1);
  }
  Atomics.sub(block, f.ready, 1);
}

/** A call of a kernel. */
export interface KernelCall {
  readonly kernel: {
    /** Its number, and the place of its code for workers. */
    readonly id: number;
    readonly code: number | null;
    readonly codeBytes: number;
    /** The kernel in this thread. */
    readonly run: (args: number, begin: number, end: number, thread: number) => void;
  };
  /** Address of the arguments. */
  readonly args: number;
}

/** Work for all threads. */
export interface ParallelWork {
  /** Calls that go over each part, in order: two at most, whose code workers find. */
  readonly calls: readonly KernelCall[];
  readonly range: number;
  /** Length of a part of the range. */
  readonly part: number;
}

/** Turns of a loop before a thread sleeps. */
const SPINS = 20_000;

/** The main thread and its workers. */
export class ThreadPool {
  /** Threads with this one. */
  readonly size: number;
  readonly #memory: WasmMemory;
  readonly #block: Int32Array;
  readonly #control: number;
  #started = false;

  /** `control` is the place of {@linkcode controlBytes} zero bytes. */
  constructor(memory: WasmMemory, control: number, size: number) {
    this.#memory = memory;
    this.#control = control;
    this.size = size;
    this.#block = new Int32Array(memory.memory.buffer, control, controlBytes(size) / 4);
    this.#block[fields.threads] = size;
  }

  /** Workers that run. */
  get workers(): number {
    return this.#started ? Atomics.load(this.#block, fields.ready) : 0;
  }

  /** True when no worker sleeps. */
  get isAwake(): boolean {
    return Atomics.load(this.#block, fields.sleeping) === 0;
  }

  /** Starts the workers, which takes them some milliseconds; they do not keep the program alive. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    const generation = Atomics.load(this.#block, fields.generation);
    const code = `${takePart}\n(${worker})(require("node:worker_threads").workerData)`;
    for (let thread = 1; thread < this.size; thread++) {
      const workerData: WorkerInit = {
        memory: this.#memory.memory,
        control: this.#control,
        fields,
        thread,
        generation,
      };
      new Worker(code, { eval: true, workerData }).unref();
    }
  }

  /** Ends the workers; {@linkcode start} starts new ones. */
  stop(): void {
    if (!this.#started) return;
    this.#started = false;
    Atomics.add(this.#block, fields.generation, 1);
    this.#wake(Infinity);
  }

  /** Wakes so many workers that sleep. */
  #wake(count: number): void {
    Atomics.add(this.#block, fields.signal, 1);
    if (Atomics.load(this.#block, fields.sleeping) > 0) {
      Atomics.notify(this.#block, fields.signal, count);
    }
  }

  /**
   * Computes the whole range, with all threads that are awake.
   *
   * @throws {Error} When a worker could not run the kernel.
   */
  run(work: ParallelWork): void {
    const block = this.#block;
    const parts = Math.ceil(work.range / work.part);
    block[fields.calls] = work.calls.length;
    work.calls.forEach(({ kernel, args }, k) => {
      const call = k * fields.callStep;
      block[fields.kernel + call] = kernel.id;
      block[fields.code + call] = kernel.code!;
      block[fields.codeBytes + call] = kernel.codeBytes;
      block[fields.args + call] = args;
    });
    block[fields.range] = work.range;
    block[fields.part] = work.part;
    block[fields.parts] = parts;
    block[fields.done] = 0;
    this.#divide(parts);
    this.#wake(parts - 1);
    let own = 0;
    for (let part = 0; (part = takePart(block, fields, 0)) >= 0; own++) {
      const begin = part * work.part, end = Math.min(begin + work.part, work.range);
      for (const { kernel, args } of work.calls) kernel.run(args, begin, end, 0);
    }
    this.#await(parts - own);
    if (Atomics.exchange(block, fields.failed, 0) === 1) {
      throw new Error("A worker thread could not run a kernel: is memory short?");
    }
  }

  /** Gives each thread its share: from then on workers take parts. */
  #divide(parts: number): void {
    const { size } = this, first = (thread: number): number => Math.floor(thread * parts / size);
    for (let thread = 0; thread < size; thread++) {
      const own = first(thread + 1) - first(thread);
      Atomics.store(this.#block, fields.left + fields.leftStep * thread, own);
    }
  }

  /** Waits until the workers have done so many parts. */
  #await(parts: number): void {
    const block = this.#block;
    for (let spins = 0; spins < SPINS; spins++) {
      if (Atomics.load(block, fields.done) === parts) return;
    }
    Atomics.store(block, fields.waiting, 1);
    for (let done; (done = Atomics.load(block, fields.done)) < parts;) {
      Atomics.wait(block, fields.done, done);
    }
    Atomics.store(block, fields.waiting, 0);
  }
}
