/**
 * Kernels with one fault each, and one without: they show that oclgrind sees faults, before it is
 * believed that other kernels have none. Run with the name of a kernel.
 */
import { Buffer, CommandQueue, Context, platforms, Program } from "../../ffi/mod.ts";

const source = `
kernel void good(global float* x) { x[get_global_id(0)] += 1; }
kernel void out_of_bounds(global float* x) { x[get_global_id(0) + 1] = 1; }
kernel void global_race(global float* x) { x[0] = get_global_id(0); }
kernel void local_race(global float* x, local float* t) {
  const size_t i = get_local_id(0);
  t[i] = i;
  x[get_global_id(0)] = t[(i + 1) % get_local_size(0)];
}
kernel void uninitialised(global float* x) {
  const size_t i = get_global_id(0);
  float t[4];
  t[i % 4] = 1;
  x[i] = t[(i + 1) % 4];
}`;

const count = 64, group = 16;
const name = Deno.args[0]!;
const device = platforms()[0]!.devices()[0]!;
using context = new Context(device);
using queue = new CommandQueue(context);
using program = new Program(context, source).build();
using kernel = program.kernel(name);
using x = new Buffer(context, 4 * count);
queue.write(x, new Float32Array(count)).release();
const args = name === "local_race" ? [x, { local: 4 * group }] : [x];
queue.run(kernel, { global: [count], local: [group], args }).release();
const out = new Float32Array(count);
using read = queue.read(x, out);
await read.wait();
console.log(`${device.name}: ${name} ran`);
