/** The thread that compiles: its program, which is sent as text, and what it is told. */
import type { MessagePort } from "node:worker_threads";

/** An argument of a launch: the bytes of a number, or how many bytes a buffer of its own has. */
export type WarmArgument = number | Uint8Array<ArrayBuffer>;

/** One launch of a kernel over zeros: a driver compiles a kernel for the sizes of its first launch. */
export interface WarmLaunch {
  /** The kernel's name in its program. */
  readonly name: string;
  readonly global: BigUint64Array<ArrayBuffer>;
  readonly local: BigUint64Array<ArrayBuffer>;
  readonly args: readonly WarmArgument[];
}

/** A program to be built, and launches that make its kernels ready. */
export interface CompileMessage {
  readonly program: bigint;
  /** A C string. */
  readonly options: Uint8Array<ArrayBuffer>;
  readonly launches: readonly WarmLaunch[];
  /** One of `states`. */
  readonly state: Int32Array<SharedArrayBuffer>;
}

/** How far a program is. */
export const states = { open: 0, built: 1, failed: 2 } as const;

/** What a thread is started with. */
export interface CompileWorkerData {
  /** The OpenCL library. */
  readonly library: string;
  readonly context: bigint;
  readonly device: bigint;
  /** [0]: to be given up; [1]: the thread cannot work. */
  readonly control: Int32Array<SharedArrayBuffer>;
  readonly states: typeof states;
}

/** The thread's program; it may refer to nothing outside. */
export function compileWorker(
  { parentPort, workerData }: { parentPort: MessagePort; workerData: CompileWorkerData },
): void {
  const { library, context, device, control, states } = workerData;
  const symbols = {
    clBuildProgram: {
      parameters: ["u64", "u32", "buffer", "buffer", "u64", "u64"],
      result: "i32",
    },
    clCreateKernel: { parameters: ["u64", "buffer", "buffer"], result: "u64" },
    clSetKernelArg: { parameters: ["u64", "u32", "usize", "buffer"], result: "i32" },
    clReleaseKernel: { parameters: ["u64"], result: "i32" },
    clCreateBuffer: { parameters: ["u64", "u64", "usize", "buffer", "buffer"], result: "u64" },
    clReleaseMemObject: { parameters: ["u64"], result: "i32" },
    clCreateCommandQueue: { parameters: ["u64", "u64", "u64", "buffer"], result: "u64" },
    clReleaseCommandQueue: { parameters: ["u64"], result: "i32" },
    clEnqueueNDRangeKernel: {
      parameters: [
        "u64",
        "u64",
        "u32",
        "buffer",
        "buffer",
        "buffer",
        "u32",
        "buffer",
        "buffer",
      ],
      result: "i32",
    },
    clFinish: { parameters: ["u64"], result: "i32" },
  } as const;
  const status = new Int32Array(1);
  const check = (code: number): void => {
    if (code !== 0) throw new Error(`OpenCL status ${code}`);
  };
  let cl!: Deno.DynamicLibrary<typeof symbols>["symbols"];
  let queue = 0n;
  try {
    cl = Deno.dlopen(library, symbols).symbols;
    queue = cl.clCreateCommandQueue(context, device, 0n, status);
    check(status[0]!);
  } catch {
    Atomics.store(control, 1, 1); // who waits compiles by itself, and sees what is wrong
    return;
  }
  /** Buffers hold zeros, and each argument has its own: what counts elements finds none. */
  const launch = (program: bigint, { name, global, local, args }: WarmLaunch): void => {
    const buffers: bigint[] = [];
    const kernel = cl.clCreateKernel(program, new TextEncoder().encode(`${name}\0`), status);
    check(status[0]!);
    try {
      args.forEach((arg, k) => {
        let bytes = arg as Uint8Array<ArrayBuffer>;
        if (typeof arg === "number") {
          const READ_WRITE_COPY = 1n | 32n, size = Math.max(arg, 64);
          const buffer = cl.clCreateBuffer(
            context,
            READ_WRITE_COPY,
            BigInt(size),
            new Uint8Array(size),
            status,
          );
          check(status[0]!);
          buffers.push(buffer);
          bytes = new Uint8Array(new BigUint64Array([buffer]).buffer);
        }
        check(cl.clSetKernelArg(kernel, k, BigInt(bytes.length), bytes));
      });
      const dims = global.length;
      check(
        cl.clEnqueueNDRangeKernel(queue, kernel, dims, null, global, local, 0, null, null),
      );
      check(cl.clFinish(queue));
    } finally {
      for (const buffer of buffers) cl.clReleaseMemObject(buffer);
      cl.clReleaseKernel(kernel);
    }
  };
  parentPort.on("message", (message: CompileMessage | null) => {
    if (message === null) {
      cl.clReleaseCommandQueue(queue);
      Atomics.store(control, 1, 1);
      Atomics.notify(control, 1);
      return;
    }
    const { program, options, launches, state } = message;
    let result: number = states.failed;
    try {
      if (Atomics.load(control, 0) === 0) {
        check(cl.clBuildProgram(program, 0, null, options, 0n, 0n));
        for (const each of launches) {
          if (Atomics.load(control, 0) === 0) launch(program, each);
        }
        result = states.built;
      }
    } catch {
      // The main thread builds it once more, for the error with its log.
    }
    Atomics.store(state, 0, result);
    Atomics.notify(state, 0);
  });
}
