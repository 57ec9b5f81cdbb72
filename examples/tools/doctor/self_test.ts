/** A kernel that is built, run and checked on a device. */
import { Buffer, CommandQueue, Context, type Device, OpenCLError, Program } from "@netcl/netcl/ffi";
import type { Finding } from "./finding.ts";

const count = 1 << 20;
// A number of its own each time, so that no compiler cache hides how long a build takes.
const seed = Date.now() % 1000;
const source = `
kernel void check(global const float* x, global float* y, const uint n) {
  const size_t i = get_global_id(0);
  if (i < n) y[i] = 2 * x[i] + ${seed};
}`;

/** Checks that a device computes what it should, and times building and running. */
export async function selfTest(device: Device): Promise<Finding> {
  const subject = "self-test";
  try {
    const { buildMs, runMs, wrong } = await compute(device);
    if (wrong >= 0) {
      const found = `${device.name} computed element ${wrong} of ${count} wrongly`;
      return { subject, found, remedy: "update the driver, or choose another device" };
    }
    const found = `built in ${buildMs.toFixed(0)} ms, ${count} elements in ${runMs.toFixed(2)} ms`;
    return { subject, found };
  } catch (error) {
    if (!(error instanceof OpenCLError)) throw error;
    const remedy = "update the driver, or choose another device with NETCL_DEVICE";
    return { subject, found: error.message, remedy };
  }
}

async function compute(
  device: Device,
): Promise<{ buildMs: number; runMs: number; wrong: number }> {
  using context = new Context(device);
  using queue = new CommandQueue(context, device, { profiling: true });
  using program = new Program(context, source);
  const start = performance.now();
  program.build();
  const buildMs = performance.now() - start;
  const input = Float32Array.from({ length: count }, (_, i) => i % 1024);
  using x = new Buffer(context, input.byteLength), y = new Buffer(context, input.byteLength);
  using kernel = program.kernel("check");
  queue.write(x, input).release();
  queue.run(kernel, { global: [count], args: [x, y, count] }).release(); // the first one warms up
  using event = queue.run(kernel, { global: [count], args: [x, y, count] });
  const output = new Float32Array(count);
  using read = queue.read(y, output);
  await read.wait();
  const wrong = output.findIndex((value, i) => value !== 2 * input[i]! + seed);
  return { buildMs, runMs: event.durationMs, wrong };
}
