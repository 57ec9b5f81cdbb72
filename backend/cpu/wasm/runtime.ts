/**
 * Compiles WebAssembly kernels and runs them, over several threads where that pays.
 *
 * This folder (`wasm/`) has what all WebAssembly kernels need: the assembler, vectors, functions,
 * memory, threads. It imports `script/`, `graph/`, `profiling/` and `memory/`. Modules come from
 * `loops/`, `tile/` and others below it and are run here.
 */
import { countBuild } from "../../profiling/counters.ts";
import { FunctionBuilder } from "./assembler.ts";
import { makeWasmMemory, type WasmMemory } from "./memory.ts";
import { f32x4, v128 } from "./opcodes.ts";
import { controlBytes, ThreadPool } from "./thread_pool.ts";

/** A compiled kernel. */
export interface WasmKernel {
  readonly id: number;
  /** Address of its code for workers; null where there was no room for it: it is not shared. */
  readonly code: number | null;
  readonly codeBytes: number;
  readonly run: (args: number, begin: number, end: number, thread: number) => void;
}

/** Bytes of a run's arguments; those of a kernel that follows begin at the second half. */
const ARGUMENT_BYTES = 16384, CHAINED_BYTES = ARGUMENT_BYTES / 2;
/** Workers wake up in some microseconds: less work than this, in nanoseconds, is done before they do. */
const MIN_SHARED_NS = 20_000;
/** While workers are awake, from the work before, this much is enough. */
const MIN_AWAKE_NS = 5_000;
/** Work that follows within this time wakes them for less, too. */
const MAX_GAP_MS = 0.05;
/** Most times its cost that little work may take while another program has the core. */
const MAX_DELAY = 3;
/** After a longer delay little work is not shared for this time. */
const ALONE_MS = 100;
/** Nanoseconds of a part: small enough that no thread waits long for the last one. */
const PART_NS = 10_000;
const MAX_PARTS = 256;
/** Nanoseconds of work that could have been shared before workers are worth their start. */
const START_AFTER_NS = 20_000_000;
const MAX_THREADS = 16;
/** OpenBLAS's threads spin for 2^26 cycles after a product; workers would take their cores. */
const CROWDED_MS = 20;
/** Work of so many nanoseconds is shared even so. */
const MIN_CROWDED_NS = 1_000_000;

/** A kernel that goes over each part of a range after another: its arguments are `chainedWords`. */
export type ChainedKernel = WasmKernel;

/** Kernels, their arguments, and the threads that run them. */
export class WasmRuntime {
  readonly memory: WasmMemory;
  readonly threads: ThreadPool;
  /** The arguments of the next run. */
  readonly words: Int32Array;
  /** The arguments of the kernel that follows in the next run. */
  readonly chainedWords: Int32Array;
  /** True when the engine has relaxed SIMD. */
  readonly relaxed: boolean;
  /** True when the engine lets a module have a memory of its own beside the shared one. */
  readonly hasPrivatePages: boolean;
  readonly #scratch = new Map<number, number | null>();
  readonly #args: number;
  readonly #kernels = new Map<string, WasmKernel>();
  readonly #named = new Map<string, WasmKernel>();
  #codeAt = 0;
  #codeEnd = 0;
  #shareable = 0;
  #asked = -Infinity;
  #restUntil = 0;
  #aloneUntil = 0;

  /** `features`: what modules may use; by default what the engine has. */
  constructor(memory: WasmMemory, threads: number, features: EngineFeatures = engineFeatures()) {
    this.memory = memory;
    const control = controlBytes(threads);
    const start = memory.tryAllocate(control + ARGUMENT_BYTES)!;
    this.#args = start + control;
    this.words = new Int32Array(memory.memory.buffer, this.#args, ARGUMENT_BYTES / 4);
    this.chainedWords = this.words.subarray(CHAINED_BYTES / 4);
    this.threads = new ThreadPool(memory, start, threads);
    this.relaxed = features.relaxed;
    this.hasPrivatePages = features.hasPrivatePages;
  }

  /** Address of so many bytes for each thread, one behind the other, which others use too; null: no room. */
  threadScratch(nbytes: number): number | null {
    // Sizes that differ by less than twice share a place.
    const size = 2 ** Math.ceil(Math.log2(nbytes));
    let address = this.#scratch.get(size);
    if (address === undefined) {
      address = this.memory.tryAllocate(size * this.threads.size);
      this.#scratch.set(size, address);
    }
    return address;
  }

  /** The kernel of a name, which stands for all that its module depends on: it is written once. */
  named(name: string, write: () => Uint8Array<ArrayBuffer>): WasmKernel {
    let kernel = this.#named.get(name);
    if (kernel === undefined) this.#named.set(name, kernel = this.compile(write()));
    return kernel;
  }

  /** The kernel of a module; equal modules are compiled once. */
  compile(bytes: Uint8Array<ArrayBuffer>): WasmKernel {
    const key = new TextDecoder("latin1").decode(bytes);
    let kernel = this.#kernels.get(key);
    if (kernel === undefined) {
      const { memory } = this.memory;
      const instance = new WebAssembly.Instance(new WebAssembly.Module(bytes), {
        host: { memory },
      });
      countBuild();
      const run = instance.exports.run as WasmKernel["run"];
      const id = this.#kernels.size;
      kernel = { id, run, codeBytes: bytes.length, code: this.#keepCode(bytes) };
      this.#kernels.set(key, kernel);
    }
    return kernel;
  }

  /** Puts code where workers find it. */
  #keepCode(bytes: Uint8Array): number | null {
    if (this.#codeAt + bytes.length > this.#codeEnd) {
      const size = Math.max(65536, bytes.length);
      const place = this.memory.tryAllocate(size);
      if (place === null) return null;
      this.#codeAt = place;
      this.#codeEnd = place + size;
    }
    const place = this.#codeAt;
    this.memory.bytes(place, bytes.length).set(bytes);
    this.#codeAt += bytes.length;
    return place;
  }

  /**
   * Runs a kernel on the arguments in `words`.
   *
   * @param kernel The kernel.
   * @param range How far it runs.
   * @param grain Parts are multiples of this.
   * @param cost About how many nanoseconds that takes.
   * @param next What goes over each part behind it, in the same thread.
   */
  run(
    kernel: WasmKernel,
    range: number,
    grain: number,
    cost: number,
    next: ChainedKernel | null = null,
  ): void {
    const parts = Math.min(MAX_PARTS, Math.max(this.threads.size, Math.floor(cost / PART_NS)));
    const isWhole = cost < MIN_AWAKE_NS || range <= grain;
    const part = isWhole ? range : Math.ceil(range / parts / grain) * grain;
    const isShared = kernel.code !== null && next?.code !== null;
    if (isWhole || !isShared || !this.#hasWorkers(cost)) {
      return this.#runAlone(kernel, next, range, part);
    }
    this.#share(kernel, next, range, part);
    if (cost >= MIN_SHARED_NS) return;
    const now = performance.now();
    if (now - this.#asked > MAX_DELAY * cost / 1e6) this.#aloneUntil = now + ALONE_MS;
  }

  /** Part by part: V8 goes over to optimized code from one call to the next, never within one. */
  #runAlone({ run }: WasmKernel, next: ChainedKernel | null, range: number, part: number): void {
    for (let begin = 0; begin < range; begin += part) {
      const end = Math.min(begin + part, range);
      run(this.#args, begin, end, 0);
      next?.run(this.#args + CHAINED_BYTES, begin, end, 0);
    }
  }

  #share(kernel: WasmKernel, next: ChainedKernel | null, range: number, part: number): void {
    const first = { kernel, args: this.#args };
    const chained = next && { kernel: next, args: this.#args + CHAINED_BYTES };
    this.threads.run({ calls: chained ? [first, chained] : [first], range, part });
  }

  #hasWorkers(cost: number): boolean {
    if (this.#restUntil > 0 && cost < MIN_CROWDED_NS && performance.now() < this.#restUntil) {
      return false;
    }
    if (this.threads.workers > 0) return cost >= MIN_SHARED_NS || this.#isWorthwhile();
    this.#shareable += cost;
    if (this.#shareable > START_AFTER_NS && this.threads.size > 1) this.threads.start();
    return false;
  }

  /** Called after another library's threads have worked: they spin for a while, and need their cores. */
  othersWorked(): void {
    this.#restUntil = performance.now() + CROWDED_MS;
  }

  /** Little work is shared while workers are awake, unless they were late the last time. */
  #isWorthwhile(): boolean {
    const now = performance.now(), before = this.#asked;
    this.#asked = now;
    return now > this.#aloneUntil && (this.threads.isAwake || now - before < MAX_GAP_MS);
  }
}

let made: WasmRuntime | null | undefined;

/** The runtime of this realm; null where WebAssembly has no shared memory to give. */
export function wasmRuntime(): WasmRuntime | null {
  if (made !== undefined) return made;
  const memory = makeWasmMemory();
  const threads = Math.min(MAX_THREADS, navigator.hardwareConcurrency);
  return made = memory && new WasmRuntime(memory, threads);
}

/** Features an engine may lack. */
export type EngineFeatures = Pick<WasmRuntime, "relaxed" | "hasPrivatePages">;

/** Features valid here: relaxed SIMD, and a module with two memories. */
function engineFeatures(): EngineFeatures {
  const madd = new FunctionBuilder(), load = new FunctionBuilder();
  madd.v(f32x4.relaxedMadd, madd.float(1), madd.float(1), madd.float(1));
  load.loadFixed(v128.load, 0);
  return {
    relaxed: WebAssembly.validate(madd.finish()),
    hasPrivatePages: WebAssembly.validate(load.finish(true)),
  };
}
