/**
 * A pool of threads for large work. The work is cut into parts; each thread that is free takes the next
 * one, the main thread too, so a worker that wakes up late costs nothing. All share the memory that they
 * compute in, which also holds the block by which they synchronize.
 */
import { Worker } from "node:worker_threads";
import type { WasmMemory } from "./memory.ts";

/** Fields of the block that the threads share; `LEFT` counts parts that nobody has taken. */
export const fields = {
  signal: 0,
  left: 1,
  done: 2,
  sleeping: 3,
  waiting: 4,
  generation: 5,
  failed: 6,
  ready: 7,
  kernel: 8,
  code: 9,
  codeBytes: 10,
  args: 11,
  range: 12,
  part: 13,
} as const;

/** Bytes of that block. */
export const CONTROL_BYTES = 64;

/** What a worker is started with. */
export interface WorkerInit {
  readonly memory: WebAssembly.Memory;
  /** Where the block lies. */
  readonly control: number;
  readonly fields: typeof fields;
  readonly thread: number;
  /** It runs for as long as this is the block's. */
  readonly generation: number;
}

/** The worker's program. It is sent as text, so it may refer to nothing outside. */
export function worker({ memory, control, fields: f, thread, generation }: WorkerInit): void {
  const SPINS = 20_000;
  const block = new Int32Array(memory.buffer, control, 16);
  const kernels = new Map<number, (a: number, b: number, e: number, t: number) => void>();
  const get = (field: number): number => Atomics.load(block, field);
  const kernelOf = (id: number) => {
    let run = kernels.get(id);
    if (run === undefined) {
      const code = new Uint8Array(memory.buffer, get(f.code) >>> 0, get(f.codeBytes)).slice();
      const instance = new WebAssembly.Instance(new WebAssembly.Module(code), { host: { memory } });
      kernels.set(id, run = instance.exports.run as () => void);
    }
    return run;
  };
  const compute = (part: number): void => {
    try {
      const begin = part * get(f.part);
      const end = Math.min(begin + get(f.part), get(f.range));
      kernelOf(get(f.kernel))(get(f.args), begin, end, thread);
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
    for (let left = get(f.left); left > 0; left = get(f.left)) {
      if (Atomics.compareExchange(block, f.left, left, left - 1) === left) compute(left - 1);
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

/** Work for all threads. */
export interface ParallelWork {
  /** The kernel, by number and by its code in memory. */
  readonly kernel: number;
  readonly code: number;
  readonly codeBytes: number;
  /** Where the arguments lie. */
  readonly args: number;
  readonly range: number;
  /** How much of the range is a part. */
  readonly part: number;
  /** The kernel in this thread. */
  readonly run: (args: number, begin: number, end: number, thread: number) => void;
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

  /** `control` is the place of {@linkcode CONTROL_BYTES} zero bytes. */
  constructor(memory: WasmMemory, control: number, size: number) {
    this.#memory = memory;
    this.#control = control;
    this.size = size;
    this.#block = new Int32Array(memory.memory.buffer, control, CONTROL_BYTES / 4);
  }

  /** Workers that run. */
  get workers(): number {
    return this.#started ? Atomics.load(this.#block, fields.ready) : 0;
  }

  /** Whether no worker sleeps. */
  get isAwake(): boolean {
    return Atomics.load(this.#block, fields.sleeping) === 0;
  }

  /** Starts the workers, which takes them some milliseconds; they do not keep the program alive. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    const generation = Atomics.load(this.#block, fields.generation);
    const code = `(${worker})(require("node:worker_threads").workerData)`;
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
    block[fields.kernel] = work.kernel;
    block[fields.code] = work.code;
    block[fields.codeBytes] = work.codeBytes;
    block[fields.args] = work.args;
    block[fields.range] = work.range;
    block[fields.part] = work.part;
    block[fields.done] = 0;
    Atomics.store(block, fields.left, parts);
    this.#wake(parts - 1);
    let own = 0;
    for (let left = parts; left > 0; left = Atomics.load(block, fields.left)) {
      if (Atomics.compareExchange(block, fields.left, left, left - 1) !== left) continue;
      const begin = (left - 1) * work.part;
      work.run(work.args, begin, Math.min(begin + work.part, work.range), 0);
      own++;
    }
    this.#await(parts - own);
    if (Atomics.exchange(block, fields.failed, 0) === 1) {
      throw new Error("A worker thread could not run a kernel: is memory short?");
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
