/**
 * Compiles programs in a thread of its own, so that nobody waits for a compiler.
 *
 * This folder (`tiers/`) is how a slow compiler is kept out of the way: the baseline tier computes a
 * kernel on the host until the background compiler has made the one of the device. It imports ffi,
 * `execution/`, `lifecycle/` and `profiling/`; `runtime/` imports it, and hands in programs and launches.
 */
import { Worker } from "node:worker_threads";
import type { Context, Device, Program } from "../../../ffi/mod.ts";
import { skipExitHandlers } from "../../lifecycle/libc.ts";
import {
  type CompileMessage,
  compileWorker,
  type CompileWorkerData,
  states,
  type WarmLaunch,
} from "./compile_worker.ts";

/** Milliseconds between two looks at a thread that may have ended. */
const LOOK_MS = 100;
/** How a program ends: by itself, or with an error that nobody catches. */
const endings = ["unload", "error", "unhandledrejection"] as const;
/** The longest that a backend waits for the kernel that is being compiled when it is disposed of. */
const MAX_END_MS = 10_000;

/** A program that is being compiled. */
export interface Compilation {
  /** How far it is; what failed is to be built by who needs it. */
  readonly state: "open" | "built" | "failed";
  /** Blocks until it is through. */
  wait(): void;
}

/** Compiles programs while the caller goes on. */
export interface Compiler {
  /**
   * Begins to compile.
   *
   * @param program Not built yet; it must not be released before this is through.
   * @param options The compiler's.
   * @param launches Each makes a kernel ready.
   */
  compile(program: Program, options: string, launches: readonly WarmLaunch[]): Compilation;
  /** Gives up what has not begun, and waits for the kernel that is being compiled. */
  dispose(): void;
}

/** One thread for the programs of one context and device; made with the first program. */
export class BackgroundCompiler implements Compiler {
  readonly #context: Context;
  readonly #device: Device;
  readonly #library: string;
  readonly #control = new Int32Array(new SharedArrayBuffer(8));
  #worker: Worker | null = null;
  /** The state of what was told last. */
  #last: Int32Array<SharedArrayBuffer> | null = null;

  constructor(context: Context, device: Device, library: string) {
    this.#context = context;
    this.#device = device;
    this.#library = library;
  }

  compile(program: Program, options: string, launches: readonly WarmLaunch[]): Compilation {
    const state = new Int32Array(new SharedArrayBuffer(4));
    const message: CompileMessage = {
      program: program.unsafeHandle,
      options: new TextEncoder().encode(`${options}\0`),
      launches,
      state,
    };
    (this.#worker ??= this.#start()).postMessage(message);
    const control = this.#control;
    this.#last = state;
    const isOpen = (): boolean =>
      Atomics.load(state, 0) === states.open && Atomics.load(control, 1) === 0;
    return {
      get state() {
        if (isOpen()) return "open";
        return Atomics.load(state, 0) === states.built ? "built" : "failed";
      },
      wait: () => {
        while (isOpen()) Atomics.wait(state, 0, states.open, LOOK_MS);
      },
    };
  }

  /** The thread keeps no program alive, and waits in a foreign function do not delay its end. */
  #start(): Worker {
    const workerData: CompileWorkerData = {
      library: this.#library,
      context: this.#context.unsafeHandle,
      device: this.#device.unsafeHandle,
      control: this.#control,
      states,
    };
    const worker = new Worker(`(${compileWorker})(require("node:worker_threads"))`, {
      eval: true,
      // It reads none; a copy of this process's would ask for a permission.
      env: {},
      workerData,
    });
    worker.on("error", () => Atomics.store(this.#control, 1, 1));
    worker.unref();
    for (const ending of endings) addEventListener(ending, this.#leave);
    return worker;
  }

  /** The end of the program does not wait for the thread, but must not take away what it works with. */
  readonly #leave = ({ defaultPrevented }: Event): void => {
    if (defaultPrevented || this.#isIdle() || skipExitHandlers()) return;
    Atomics.store(this.#control, 0, 1);
    this.#awaitEnd();
  };

  #isIdle(): boolean {
    return this.#last === null || Atomics.load(this.#last, 0) !== states.open ||
      Atomics.load(this.#control, 1) !== 0;
  }

  #awaitEnd(): void {
    const end = performance.now() + MAX_END_MS;
    while (!this.#isIdle() && performance.now() < end) {
      Atomics.wait(this.#last!, 0, states.open, LOOK_MS);
    }
  }

  dispose(): void {
    if (this.#worker === null) return;
    for (const ending of endings) removeEventListener(ending, this.#leave);
    Atomics.store(this.#control, 0, 1);
    this.#awaitEnd();
    // The queue keeps the context alive: its thread lets it go.
    if (Atomics.load(this.#control, 1) === 0) {
      this.#worker.postMessage(null);
      Atomics.wait(this.#control, 1, 0, MAX_END_MS);
    }
    void this.#worker.terminate();
    this.#worker = null;
  }
}
