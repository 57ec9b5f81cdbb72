/** A program that is compiled away from the thread that computes, and the code that compiles one. */

import type { ThreadHost } from "../../../ffi/runtime/types.ts";

/** An argument of a launch: the bytes of a number, or how many bytes a buffer of its own has. */
export type WarmArgument = number | readonly number[];

/** One launch of a kernel over zeros: a driver compiles a kernel for the sizes of its first launch. */
export interface WarmLaunch {
  /** The kernel's name in its program. */
  readonly name: string;
  readonly global: readonly number[];
  readonly local: readonly number[];
  readonly args: readonly WarmArgument[];
}

/** A text to be compiled, and launches that make its kernels ready. */
export interface CompileJob {
  readonly text: string;
  /** The compiler's. */
  readonly options: string;
  readonly launches: readonly WarmLaunch[];
}

/** A job, and the program to be built of it. */
export interface CompileMessage extends CompileJob {
  /** Its handle in this process. */
  readonly program: bigint;
  /** One of `states`. */
  readonly state: Int32Array<SharedArrayBuffer>;
}

/** States of a program: "waiting" also while another process compiles it. */
export const states = { waiting: 0, compiling: 1, built: 2, failed: 3 } as const;

/** Fields of the control block: to be given up; the thread cannot work; the process that it started. */
export const controls = { isGivenUp: 0, hasEnded: 1, pid: 2 } as const;

/** Place where programs are compiled. */
export interface CompilerPlace {
  /** The OpenCL library. */
  readonly library: string;
  readonly context: bigint;
  readonly device: bigint;
}

/** Compiles the programs of one context and device. */
export interface JobCompiler {
  /**
   * Compiles a program, and launches its kernels once.
   *
   * @param isGivenUp Asked between two kernels.
   * @throws {Error} When it does not compile.
   */
  compile(
    job: Omit<CompileMessage, "text" | "state">,
    isGivenUp: () => boolean,
  ): void;
  release(): void;
}

/**
 * Makes a compiler in this thread. It may refer to nothing outside: threads are sent it as text.
 *
 * @throws {Error} When the library cannot be used.
 */
export function jobCompiler(
  { library, context, device }: CompilerPlace,
  host: Pick<ThreadHost, "dlopen">,
): JobCompiler {
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
  const cl = host.dlopen(library, symbols).symbols, status = new Int32Array(1);
  const check = (code: number): void => {
    if (code !== 0) throw new Error(`OpenCL status ${code}`);
  };
  const cString = (text: string) => new TextEncoder().encode(`${text}\0`);
  const queue = cl.clCreateCommandQueue(context, device, 0n, status);
  check(status[0]!);
  /** Buffers hold zeros, and each argument has its own: what counts elements finds none. */
  const launch = (program: bigint, { name, global, local, args }: WarmLaunch): void => {
    const buffers: bigint[] = [];
    const kernel = cl.clCreateKernel(program, cString(name), status);
    check(status[0]!);
    try {
      args.forEach((arg, k) => {
        let bytes: Uint8Array<ArrayBuffer>;
        if (typeof arg !== "number") bytes = Uint8Array.from(arg);
        else {
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
      const [items, group] = [global, local].map((sizes) => BigUint64Array.from(sizes, BigInt));
      check(
        cl.clEnqueueNDRangeKernel(queue, kernel, dims, null, items!, group!, 0, null, null),
      );
      check(cl.clFinish(queue));
    } finally {
      for (const buffer of buffers) cl.clReleaseMemObject(buffer);
      cl.clReleaseKernel(kernel);
    }
  };
  return {
    compile: ({ program, options, launches }, isGivenUp) => {
      check(cl.clBuildProgram(program, 0, null, cString(options), 0n, 0n));
      for (const each of launches) if (!isGivenUp()) launch(program, each);
    },
    release: () => void cl.clReleaseCommandQueue(queue),
  };
}
