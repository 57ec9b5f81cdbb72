/**
 * Calls off the main thread, for runtimes whose foreign functions all run on the caller's: threads
 * that open the library themselves and stand in the call. Handles and addresses hold in the whole
 * process.
 *
 * @module
 */
import { Worker } from "node:worker_threads";
import type { ForeignFunction, NativeMemory } from "./types.ts";

/** A call to be made. */
interface WaiterCall {
  readonly id: number;
  readonly path: string;
  /** Buffers are addresses in it. */
  readonly definition: ForeignFunction;
  readonly args: readonly unknown[];
}

/** The result of a call, or the text of its error. */
interface WaiterAnswer {
  readonly id: number;
  readonly result?: number | bigint;
  readonly error?: string;
}

/** One thread, and the calls that it has not answered. */
interface Waiter {
  readonly worker: Worker;
  readonly open: Map<number, PromiseWithResolvers<unknown> & { readonly held: readonly unknown[] }>;
}

/** More calls than this wait for one that returns. */
const MAX_THREADS = 4;

// A thread of its own: it may refer to nothing outside.
const program = (threadHost: string): string => `
const { parentPort } = require("node:worker_threads");
const host = ${threadHost};
const functions = new Map();
const functionOf = (path, definition) => {
  const key = path + "\\n" + definition.name;
  if (!functions.has(key)) functions.set(key, host.dlopen(path, { call: definition }).symbols.call);
  return functions.get(key);
};
parentPort.on("message", ({ id, path, definition, args }) => {
  try {
    parentPort.postMessage({ id, result: functionOf(path, definition)(...args) });
  } catch (error) {
    parentPort.postMessage({ id, error: String(error) });
  }
});
`;

/** Threads for calls that take long. They are started as they are needed, and keep no program alive. */
export class Waiters {
  readonly #threadHost: string;
  readonly #addressOf: (view: ArrayBufferView<ArrayBuffer>) => bigint;
  readonly #waiters: Waiter[] = [];
  #calls = 0;

  /**
   * Starts nothing yet.
   *
   * @param threadHost An expression for a host, in the program of a thread.
   * @param addressOf The address of a view's first byte.
   */
  constructor(threadHost: string, addressOf: (view: ArrayBufferView<ArrayBuffer>) => bigint) {
    this.#threadHost = threadHost;
    this.#addressOf = addressOf;
  }

  /** A function that makes a call in another thread. The memory that it is given is held meanwhile. */
  call(
    path: string,
    definition: ForeignFunction,
  ): (...args: readonly unknown[]) => Promise<unknown> {
    const { name, parameters, result } = definition;
    const inThread: ForeignFunction = {
      name: name!,
      parameters: parameters.map((type) => type === "buffer" ? "u64" : type),
      result,
    };
    return (...args) =>
      this.#ask(
        path,
        inThread,
        args.map((arg, k) => parameters[k] === "buffer" ? this.#address(arg as NativeMemory) : arg),
        args,
      );
  }

  #address(memory: NativeMemory): bigint {
    if (memory === null || memory.byteLength === 0) return 0n;
    const view = ArrayBuffer.isView(memory) ? memory : new Uint8Array(memory);
    return this.#addressOf(view as ArrayBufferView<ArrayBuffer>);
  }

  #ask(
    path: string,
    definition: ForeignFunction,
    args: readonly unknown[],
    held: readonly unknown[],
  ): Promise<unknown> {
    const waiter = this.#free(), id = this.#calls++;
    const answer = { ...Promise.withResolvers<unknown>(), held };
    if (waiter.open.size === 0) waiter.worker.ref();
    waiter.open.set(id, answer);
    const call: WaiterCall = { id, path, definition, args };
    waiter.worker.postMessage(call);
    return answer.promise;
  }

  /** A thread without work, a new one, or the one that has least to do. */
  #free(): Waiter {
    const idle = this.#waiters.find(({ open }) => open.size === 0);
    if (idle) return idle;
    if (this.#waiters.length < MAX_THREADS) return this.#start();
    return this.#waiters.reduce((a, b) => b.open.size < a.open.size ? b : a);
  }

  #start(): Waiter {
    const worker = new Worker(program(this.#threadHost), { eval: true });
    const waiter: Waiter = { worker, open: new Map() };
    worker.on("message", ({ id, result, error }: WaiterAnswer) => {
      const answer = waiter.open.get(id)!;
      waiter.open.delete(id);
      if (waiter.open.size === 0) worker.unref();
      if (error === undefined) answer.resolve(result);
      else answer.reject(new Error(error));
    });
    worker.on("error", (error) => {
      this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
      for (const { reject } of waiter.open.values()) reject(error);
    });
    worker.unref();
    this.#waiters.push(waiter);
    return waiter;
  }
}
