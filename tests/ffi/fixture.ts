/**
 * One context for the tests of a file. Importing it opens the library, so that no test counts it as
 * its own; without OpenCL the exports are never touched, as `testOpenCL` leaves the tests out.
 */
import { runCollector } from "../../memory/core/garbage.ts";
import {
  type Buffer,
  CommandQueue,
  Context,
  type Device,
  liveObjects,
  platforms,
  Program,
  readEnvironment,
} from "../../ffi/mod.ts";
import { hasOpenCL } from "../opencl.ts";

export { hasOpenCL, testOpenCL } from "../opencl.ts";

const source = `
kernel void axpy(global const float* x, global float* y, const float a, const uint n) {
  const size_t i = get_global_id(0);
  if (i < n) y[i] += a * x[i];
}
kernel void put(global int* y, int value) { y[get_global_id(0)] = value; }
kernel void spin(global float* y, int n) {
  float v = y[0];
  for (int k = 0; k < n; k++) for (int i = 0; i < 100000; i++) v = v * 0.999999f + 0.5f;
  y[0] = v;
}`;

export const device: Device = hasOpenCL ? chosenDevice() : never();
export const context: Context = hasOpenCL ? new Context(device) : never();
export const queue: CommandQueue = hasOpenCL ? new CommandQueue(context) : never();
export const program: Program = hasOpenCL ? new Program(context, source).build() : never();

/** The first device, or the one that NETCL_DEVICE names as `cl:PLATFORM:DEVICE`. */
function chosenDevice(): Device {
  const [, platform = 0, index = 0] =
    /^cl:(\d+):(\d+)$/.exec(readEnvironment("NETCL_DEVICE") ?? "") ?? [];
  return platforms()[Number(platform)]!.devices()[Number(index)]!;
}

/** Stands where there is no OpenCL: tests that would touch it are left out. */
function never<T>(): T {
  return undefined as T;
}

/**
 * Bytes that begin where the device wants buffers to begin, in an array of their own: Intel's driver
 * refuses parts of a buffer that lives elsewhere, NVIDIA's and PoCL do not.
 */
export function alignedBytes(nbytes: number): Uint8Array<ArrayBuffer> {
  const alignment = device.query("MEM_BASE_ADDR_ALIGN") / 8;
  const all = new Uint8Array(nbytes + alignment);
  const address = Deno.UnsafePointer.value(Deno.UnsafePointer.of(all));
  const misplaced = Number(BigInt(address) % BigInt(alignment));
  return all.subarray(alignment - misplaced, alignment - misplaced + nbytes);
}

/** The elements of a buffer when all commands before are done, as many as there is room for. */
export async function contentOf(
  buffer: Buffer,
  into: Uint8Array | Int32Array | Float32Array,
): Promise<number[]> {
  await queue.read(buffer, into).wait();
  return [...into];
}

/** Runs `fn` and returns how many objects it left behind, by kind; empty if none. */
export async function leftBehind(fn: () => unknown): Promise<Record<string, number>> {
  // What others forgot goes before, not meanwhile.
  for (let turn = 0; turn < 2; turn++) {
    runCollector();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const before: Record<string, number> = liveObjects();
  await fn();
  const changes = Object.entries(liveObjects()).map(([kind, n]) => [kind, n - before[kind]!]);
  return Object.fromEntries(changes.filter(([, change]) => change !== 0));
}
