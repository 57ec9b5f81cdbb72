/**
 * A host by the modules `node:*`, for Node and Bun: all but foreign functions, in which they differ.
 *
 * @module
 */
import { spawn } from "node:child_process";
import process from "node:process";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { parentPort, Worker } from "node:worker_threads";
import { nodeFiles } from "./node_files.ts";
import type {
  ChildProcess,
  EndingEvent,
  Endings,
  ForeignFunction,
  ForeignTable,
  Host,
  Library,
  Listener,
} from "./types.ts";
import { Waiters } from "./waiters.ts";

/** Foreign functions of a runtime, which run on the caller's thread. */
export interface Foreign extends Pick<Host, "memoryAt" | "addressOf" | "cString" | "functionAt"> {
  /** Opens a library; nothing in the table is `nonblocking`. */
  dlopen<const T extends ForeignTable>(path: string, functions: T): Library<T>;
}

/** Facts of a runtime. */
export interface SystemOptions extends Pick<Host, "runtime" | "threadHost" | "collector"> {
  readonly foreign: Foreign;
  /** Arguments of the runtime's program before a module's path. */
  readonly ownArguments: readonly string[];
}

const systems: Readonly<Record<string, string>> = { win32: "windows" };
const processors: Readonly<Record<string, string>> = { x64: "x86_64", arm64: "aarch64" };
const cLibraries: Readonly<Record<string, string>> = {
  linux: "libc.so.6",
  darwin: "libSystem.B.dylib",
};

const flock = { flock: { parameters: ["i32", "i32"], result: "i32" } } as const;
const setenv = {
  setenv: { parameters: ["buffer", "buffer", "i32"], result: "i32" },
} as const;

const cString = (text: string) => new TextEncoder().encode(`${text}\0`);

/** Functions of the C library, opened at the first use; null where it has another name. */
function cLibrary<const T extends ForeignTable>(
  { dlopen }: Foreign,
  functions: T,
): () => Library<T>["symbols"] | null {
  let opened: Library<T>["symbols"] | null | undefined;
  return () => {
    if (opened !== undefined) return opened;
    const name = cLibraries[process.platform];
    try {
      return opened = name === undefined ? null : dlopen(name, functions).symbols;
    } catch {
      return opened = null; // musl
    }
  };
}

/** Opens a library whose functions may be `nonblocking`. */
function dlopenWith({ dlopen }: Foreign, waiters: Waiters): Host["dlopen"] {
  return <const T extends ForeignTable>(path: string, functions: T) => {
    const named = Object.entries(functions).map(([key, definition]) =>
      [key, { name: key, ...definition }] as const
    );
    const [waiting, direct] = [true, false].map((is) =>
      named.filter(([, { nonblocking = false }]) => nonblocking === is)
    ) as [typeof named, typeof named];
    const library = dlopen(path, Object.fromEntries<ForeignFunction>(direct));
    const symbols: Record<string, unknown> = { ...library.symbols };
    for (const [key, definition] of waiting) symbols[key] = waiters.call(path, definition);
    return { symbols, close: library.close } as unknown as Library<T>;
  };
}

/** Listeners of endings, by the events of the process that tell of them. */
function endings(): Pick<Host, "addEndingListener" | "removeEndingListener"> {
  const listeners: { [K in keyof Endings]: Set<Listener<K>> } = {
    unload: new Set(),
    error: new Set(),
    unhandledrejection: new Set(),
  };
  const event = <T extends object>(more: T): T & { defaultPrevented: boolean } & EndingEvent => {
    const made = { ...more, defaultPrevented: false, preventDefault: () => {} };
    made.preventDefault = () => made.defaultPrevented = true;
    return made;
  };
  const onExit = (): void => listeners.unload.forEach((listener) => listener(event({})));
  /** To listen takes the runtime's own end of the program away. */
  const uncaught = (error: unknown, isPrevented: boolean): void => {
    if (isPrevented || process.listenerCount("uncaughtException") > 1) return;
    console.error(error instanceof Error ? error.stack ?? String(error) : error);
    process.exit(1);
  };
  const onError = (error: unknown, origin?: string): void => {
    if (origin === "unhandledRejection") return onRejection(error);
    const told = event({ error });
    listeners.error.forEach((listener) => listener(told));
    uncaught(error, told.defaultPrevented);
  };
  const onRejection = (reason: unknown): void => {
    const told = event({ reason });
    listeners.unhandledrejection.forEach((listener) => listener(told));
    uncaught(reason, told.defaultPrevented);
  };
  const sources = {
    unload: ["exit", onExit],
    error: ["uncaughtException", onError],
    unhandledrejection: ["unhandledRejection", onRejection],
  } as const;
  return {
    addEndingListener: (ending, listener) => {
      const set = listeners[ending] as Set<typeof listener>;
      if (set.size === 0) process.on(...(sources[ending] as unknown as ["exit", () => void]));
      set.add(listener);
    },
    removeEndingListener: (ending, listener) => {
      const set = listeners[ending] as Set<typeof listener>;
      if (!set.delete(listener) || set.size > 0) return;
      process.off(...(sources[ending] as unknown as ["exit", () => void]));
    },
  };
}

function start(command: string, args: readonly string[]): ChildProcess {
  const child = spawn(command, [...args], { stdio: "ignore" });
  const { promise: status, resolve } = Promise.withResolvers<Awaited<ChildProcess["status"]>>();
  child.on("error", () => resolve({ success: false, code: 127, signal: null }));
  child.on("exit", (code, signal) => {
    resolve({ success: code === 0, code: code ?? 128, signal });
  });
  return {
    pid: child.pid ?? -1,
    status,
    ref: () => void child.ref(),
    unref: () => void child.unref(),
    kill: (signal) => void child.kill(signal),
  };
}

/** A host of a runtime that has the modules `node:*`. */
export function systemHost(options: SystemOptions): Host {
  const { runtime, foreign, threadHost, ownArguments, collector } = options;
  const { memoryAt, addressOf, functionAt } = foreign;
  const waiters = new Waiters(threadHost, addressOf);
  const locks = cLibrary(foreign, flock), variables = cLibrary(foreign, setenv);
  return {
    runtime,
    os: systems[process.platform] ?? process.platform,
    arch: processors[process.arch] ?? process.arch,
    pid: process.pid,
    get ppid() {
      return process.ppid;
    },
    get args() {
      return process.argv.slice(2);
    },

    dlopen: dlopenWith(foreign, waiters),
    ...{ functionAt, memoryAt, addressOf, cString: foreign.cString },
    // Others stay for what is no wait for an event.
    waitingThreads: 2,

    isGranted: () => true,
    request: () => true,

    getVariable: (name) => process.env[name],
    setVariable: (name, value) => {
      process.env[name] = value;
      // Bun keeps a copy of the environment, which C libraries do not see.
      if (runtime === "bun") variables()?.setenv(cString(name), cString(value), 1);
    },

    // Without the C library no file is locked, and none found locked: what is left of saves stays.
    ...nodeFiles((file, operation) => locks()?.flock(file, operation) === 0),

    addSignalListener: (signal, listener) => void process.on(signal, listener),
    removeSignalListener: (signal, listener) => void process.off(signal, listener),
    keepsHandler: (signal) => process.listenerCount(signal) > 0,
    kill: (pid, signal) => void process.kill(pid, signal),
    exit: (status) => process.exit(status),
    get exitCode() {
      return Number(process.exitCode ?? 0);
    },
    set exitCode(status: number) {
      process.exitCode = status;
    },
    ...endings(),
    unrefTimer: (timer) => void (timer as unknown as { unref(): void }).unref(),

    uid: () => process.getuid?.() ?? null,
    execPath: () => process.execPath,
    isRestartable: true,
    runArguments: (module) => [...ownArguments, fileURLToPath(module)],
    spawn: start,
    startWorker: (module, onMessage, onError) => {
      const worker = new Worker(module);
      worker.on("message", onMessage as (message: unknown) => void).on("error", onError)
        .on("exit", () => onError(new Error("it ended itself")));
      return {
        post: (message) => worker.postMessage(message),
        end: () => void worker.terminate(),
      };
    },
    workerPort: () => {
      const port = parentPort!;
      return {
        listen: (listener) => void port.on("message", listener as (message: unknown) => void),
        post: (message, transfer = []) => port.postMessage(message, transfer as never),
      };
    },
    hasSignalsInThreads: false,
    threadHost,
    stdin: () => Readable.toWeb(process.stdin) as ReadableStream<Uint8Array<ArrayBuffer>>,
    writeStdout: (bytes) => new Promise((resolve) => process.stdout.write(bytes, resolve)),
    isTerminal: (stream) => process[stream].isTTY === true,
    externalBytes: () => process.memoryUsage().external,
    collector,
    inspect: (value) => inspect(value),
  };
}

/**
 * Part of a thread's host that is the same on Node and Bun; it may refer to nothing outside.
 *
 * @param dlopen Of the runtime.
 */
export function systemThreadHost<D>(dlopen: D): unknown {
  const { spawn } = process.getBuiltinModule("node:child_process");
  const { Readable, Writable } = process.getBuiltinModule("node:stream");
  return {
    dlopen,
    spawnPiped: (command: string, args: readonly string[]) => {
      const child = spawn(command, [...args], { stdio: ["pipe", "pipe", "ignore"] });
      return {
        pid: child.pid,
        status: new Promise<void>((resolve) => child.on("exit", () => resolve())),
        stdin: Writable.toWeb(child.stdin),
        stdout: Readable.toWeb(child.stdout),
        kill: (signal: "SIGKILL") => child.kill(signal),
      };
    },
  };
}
