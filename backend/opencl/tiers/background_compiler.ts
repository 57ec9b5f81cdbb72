/**
 * Compiles programs in a thread and a process of its own, so that nobody waits for a compiler.
 *
 * This folder (`tiers/`) is how a slow compiler is kept out of the way: the baseline tier computes a
 * kernel on the host until the background compiler has made the one of the device. It imports ffi,
 * `building/`, `execution/`, `lifecycle/` and `profiling/`; `runtime/` imports it, and hands in programs and launches.
 */
import { host } from "../../../ffi/runtime/host.ts";
import type { EndingEvent } from "../../../ffi/runtime/types.ts";
import { Worker } from "node:worker_threads";
import type { Context, Device, Program } from "../../../ffi/mod.ts";
import { libcName } from "../../../ffi/host/libc.ts";
import { skipExitHandlers } from "../../lifecycle/libc.ts";
import { allowedHelpers, helperArguments } from "../building/helper_process.ts";
import { readVariable } from "../../../ffi/host/environment.ts";
import {
  type CompileJob,
  type CompileMessage,
  controls,
  jobCompiler,
  states,
} from "./compile_job.ts";
import {
  type CompileProcess,
  compilerBeside,
  compileThread,
  type CompileThreadData,
} from "./compile_thread.ts";

/** Milliseconds between two looks at a thread that may have ended. */
const LOOK_MS = 100;
/** Ends of a program: by itself, or with an error that nobody catches. */
const endings = ["unload", "error", "unhandledrejection"] as const;
/** The longest that a backend waits for the kernel that is being compiled when it is disposed of. */
const MAX_END_MS = 10_000;

/** A program that is being compiled. */
export interface Compilation {
  /**
   * State of the build. While it is "compiling" this process's driver is at work. What failed is to be
   * built by who needs it.
   */
  readonly state: "waiting" | "compiling" | "built" | "failed";
  /** Blocks until it is through, which no longer yields to anybody. */
  wait(): void;
}

/** Compiles programs while the caller goes on. */
export interface Compiler {
  /**
   * Begins to compile.
   *
   * @param program Not built yet; it must not be released before this is through.
   * @param job Its text, and launches that make its kernels ready.
   */
  compile(program: Program, job: CompileJob): Compilation;
  /** Gives up what has not begun, and waits for the kernel that is being compiled. */
  dispose(): void;
}

const stateNames = Object.keys(states) as (keyof typeof states)[];

/**
 * One thread for the programs of one context and device, made with the first program, and the process
 * that it has compile where one may be started.
 */
export class BackgroundCompiler implements Compiler {
  readonly #context: Context;
  readonly #device: Device;
  readonly #library: string;
  readonly #control = new Int32Array(new SharedArrayBuffer(12));
  #worker: Worker | null = null;
  /** The state of what was told last. */
  #last: Int32Array<SharedArrayBuffer> | null = null;

  constructor(context: Context, device: Device, library: string) {
    this.#context = context;
    this.#device = device;
    this.#library = library;
  }

  compile(program: Program, job: CompileJob): Compilation {
    const state = new Int32Array(new SharedArrayBuffer(4));
    const message: CompileMessage = { ...job, program: program.unsafeHandle, state };
    (this.#worker ??= this.#start()).postMessage(message);
    this.#last = state;
    const control = this.#control;
    return {
      get state() {
        const isLost = isOpen(state) && Atomics.load(control, controls.hasEnded) !== 0;
        return isLost ? "failed" : stateNames[Atomics.load(state, 0)]!;
      },
      wait: () => {
        while (this.#isOpen(state)) {
          this.#endProcess();
          Atomics.wait(state, 0, Atomics.load(state, 0), LOOK_MS);
        }
      },
    };
  }

  #isOpen(state: Int32Array): boolean {
    return isOpen(state) && Atomics.load(this.#control, controls.hasEnded) === 0;
  }

  /** The thread goes on by itself. */
  #endProcess(): void {
    const pid = Atomics.exchange(this.#control, controls.pid, 0);
    if (pid !== 0) killProcess(pid);
  }

  /** The thread keeps no program alive, and waits in a foreign function do not delay its end. */
  #start(): Worker {
    const workerData: CompileThreadData = {
      library: this.#library,
      libc: host.os === "linux" ? libcName() : null,
      context: this.#context.unsafeHandle,
      device: this.#device.unsafeHandle,
      process: compileProcess(this.#device, this.#library),
      control: this.#control,
      controls,
      states,
    };
    const own = [jobCompiler, compilerBeside];
    const given = [`require("node:worker_threads")`, host.threadHost, ...own.map((f) => f.name)];
    const call = `(${compileThread})(${given})`;
    const worker = new Worker([...own, call].join("\n"), {
      eval: true,
      // It reads none; a copy of this process's would ask for a permission.
      env: {},
      workerData,
    });
    worker.on("error", () => Atomics.store(this.#control, controls.hasEnded, 1));
    worker.unref();
    for (const ending of endings) host.addEndingListener(ending, this.#leave);
    return worker;
  }

  /** The end of the program does not wait for the thread, but must not take away what it works with. */
  readonly #leave = ({ defaultPrevented }: EndingEvent): void => {
    if (defaultPrevented) return;
    this.#giveUp();
    if (!this.#isIdle() && !skipExitHandlers()) this.#awaitEnd();
  };

  #giveUp(): void {
    Atomics.store(this.#control, controls.isGivenUp, 1);
    this.#endProcess();
  }

  #isIdle(): boolean {
    return this.#last === null || !this.#isOpen(this.#last);
  }

  #awaitEnd(): void {
    const end = performance.now() + MAX_END_MS, last = this.#last!;
    while (!this.#isIdle() && performance.now() < end) {
      Atomics.wait(last, 0, Atomics.load(last, 0), LOOK_MS);
    }
  }

  dispose(): void {
    if (this.#worker === null) return;
    for (const ending of endings) host.removeEndingListener(ending, this.#leave);
    this.#giveUp();
    this.#awaitEnd();
    // The queue keeps the context alive: its thread lets it go.
    if (Atomics.load(this.#control, controls.hasEnded) === 0) {
      this.#worker.postMessage(null);
      Atomics.wait(this.#control, controls.hasEnded, 0, MAX_END_MS);
    }
    void this.#worker.terminate();
    this.#worker = null;
  }
}

function isOpen(state: Int32Array): boolean {
  const at = Atomics.load(state, 0);
  return at === states.waiting || at === states.compiling;
}

/** Command of the process that compiles; null where none may be started, or would keep nothing on disk. */
function compileProcess(device: Device, library: string): CompileProcess | null {
  if (allowedHelpers() === 0 || readVariable("POCL_KERNEL_CACHE") === "0") return null;
  const module = import.meta.resolve("./compile_process.ts");
  return { command: host.execPath(), args: helperArguments(module, device, library) };
}

function killProcess(pid: number): void {
  try {
    host.kill(pid, "SIGKILL");
  } catch (error) {
    // It has ended meanwhile.
    if (!(error instanceof TypeError || error instanceof host.errors.NotFound)) throw error;
  }
}
