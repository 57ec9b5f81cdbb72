/**
 * Faults and gaps of Mesa's rusticl on llvmpipe, each by a program of plain OpenCL calls: run with
 * the name of one, it prints whether it shows. A program that ends by a signal shows its fault, too.
 */
import {
  Buffer,
  CommandQueue,
  Context,
  type Device,
  OpenCLError,
  platforms,
  Program,
} from "../../ffi/mod.ts";

/** CL_FP_DENORM. */
const DENORM = 1n;

/** The result of one work-item in an array of zeros. */
function oneItem(device: Device, source: string, length: number): Int32Array {
  using context = new Context(device);
  using queue = new CommandQueue(context);
  using program = new Program(context, source).build();
  using kernel = program.kernel("k");
  using data = new Buffer(context, 4 * length, { data: new Int32Array(length) });
  const args = [data, new Int32Array([length])];
  queue.run(kernel, { global: [1], local: [1], args }).release();
  const out = new Int32Array(length);
  queue.read(data, out, { blocking: true }).release();
  return out;
}

/** True where a call is refused. */
function fails(call: () => Disposable): boolean {
  try {
    using _ = call();
    return false;
  } catch (error) {
    if (error instanceof OpenCLError) return true;
    throw error;
  }
}

/** Each fault: what it is, and whether a device has it. */
export const faults = {
  loops: {
    what: "a loop ends after 65,535 iterations, those of loops inside it among them (llvmpipe)",
    shows(device: Device): boolean {
      const source =
        "kernel void k(global int* o, int n) { for (int i = 0; i < n; i++) o[i] = 1; }";
      return oneItem(device, source, 70_000).includes(0);
    },
  },
  widened: {
    what: "an int that was widened to a long is never less than a constant (llvmpipe)",
    shows(device: Device): boolean {
      const source = "kernel void k(global int* o, int n) { o[0] = (long)(o[0] - n) < 0; }";
      return oneItem(device, source, 1)[0] === 0;
    },
  },
  order: {
    what: "there are no out-of-order queues",
    shows(device: Device): boolean {
      using context = new Context(device);
      return fails(() => new CommandQueue(context, device, { outOfOrder: true }));
    },
  },
  binary: {
    what: "a damaged binary ends the process: a panic at 'unknown version' (core/program.rs)",
    shows(device: Device): boolean {
      using context = new Context(device);
      return !fails(() => Program.fromBinary(context, device, new Uint8Array([1, 2, 3, 4, 5, 6])));
    },
  },
  alignment: {
    what: "a sub-buffer that is not aligned is no error",
    shows(device: Device): boolean {
      using context = new Context(device);
      using buffer = new Buffer(context, 4096);
      return device.query("MEM_BASE_ADDR_ALIGN") > 8 && !fails(() => buffer.subBuffer(1, 8));
    },
  },
  profiling: {
    what: "times of a queue without profiling are no error",
    shows(device: Device): boolean {
      using context = new Context(device);
      using queue = new CommandQueue(context);
      using event = queue.marker();
      event.waitSync();
      return !fails(() => (void event.profile, { [Symbol.dispose]() {} }));
    },
  },
  linking: {
    what: "programs that were compiled apart do not link: conflicting SPIR-V versions",
    shows(device: Device): boolean {
      using context = new Context(device);
      using one = new Program(context, "int f(int x) { return 10 * x; }").compile();
      using other = new Program(
        context,
        "int f(int x); kernel void k(global int* o) { o[0] = f(6); }",
      ).compile();
      return fails(() => Program.link(context, [other, one]));
    },
  },
  doubles: {
    what: "there is no double precision (cl_khr_fp64)",
    shows: (device: Device) => !device.extensions.includes("cl_khr_fp64"),
  },
  subnormals: {
    what: "subnormal numbers become zero, as the device says",
    shows: (device: Device) => (device.query("SINGLE_FP_CONFIG") & DENORM) === 0n,
  },
} as const;

/** The name of a fault. */
export type FaultName = keyof typeof faults;

if (import.meta.main) {
  const [device] = platforms().flatMap((platform) => platform.devices());
  const shows = faults[Deno.args[0] as FaultName].shows(device!);
  console.log(shows ? "shows" : "absent");
}
