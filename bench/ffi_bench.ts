/**
 * The cost of the binding over the bare C functions: `deno bench -A bench/ffi_bench.ts` for the
 * distributions, `deno run -A bench/ffi_bench.ts` for the ratios and the garbage of a launch.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
  Buffer,
  CommandQueue,
  Context,
  DeviceInfo,
  openLibrary,
  platforms,
  Program,
  readEnvironment,
} from "../ffi/mod.ts";
import { noArgumentsOrExit } from "./arguments.ts";

// Before the first device is opened: mistakes on the command line are reported without OpenCL, too.
if (import.meta.main) {
  noArgumentsOrExit(
    "deno run -A bench/ffi_bench.ts: what the binding costs beside the bare symbols",
  );
}

const [platform = 0, index = 0] = (readEnvironment("NETCL_DEVICE") ?? "").match(/\d+/g) ?? [];
const device = platforms()[Number(platform)]!.devices()[Number(index)]!;
const context = new Context(device);
const queue = new CommandQueue(context);
const program = new Program(
  context,
  "kernel void f(global float* x, global float* y, float a, uint n) {}",
).build();
const kernel = program.kernel("f");
const x = new Buffer(context, 64), y = new Buffer(context, 64);
const a = new Float32Array([2]), n = new Uint32Array([1]);
const global = new BigUint64Array([1n]), local = new BigUint64Array([1n]);

const cl = openLibrary();
const k = kernel.unsafeHandle, q = queue.unsafeHandle, d = device.unsafeHandle;
const bx = new BigUint64Array([x.unsafeHandle]), by = new BigUint64Array([y.unsafeHandle]);
const unitsOut = new Uint32Array(1);

function setArgsBare(): number {
  return cl.clSetKernelArg(k, 0, 8n, bx) | cl.clSetKernelArg(k, 1, 8n, by) |
    cl.clSetKernelArg(k, 2, 4n, a) | cl.clSetKernelArg(k, 3, 4n, n);
}

function setArgs(): void {
  kernel.setBuffer(0, x);
  kernel.setBuffer(1, y);
  kernel.setBytes(2, a);
  kernel.setBytes(3, n);
}

function launchBare(): void {
  const status = setArgsBare() |
    cl.clEnqueueNDRangeKernel(q, k, 1, null, global, local, 0, null, null);
  if (status < 0) throw new Error(`status ${status}`);
}

function launch(): void {
  setArgs();
  queue.enqueueKernel(kernel, 1, global, local);
}

function launchWithEvent(): void {
  queue.run(kernel, { global: [1], local: [1], args: [x, y, a, n] }).release();
}

function infoBare(): number {
  const status = cl.clGetDeviceInfo(d, DeviceInfo.MAX_COMPUTE_UNITS, 4n, unitsOut, null);
  if (status < 0) throw new Error(`status ${status}`);
  return unitsOut[0]!;
}

function info(): number {
  return device.maxComputeUnits;
}

const group = { launch: "launch with 4 arguments", args: "4 arguments", info: "info query" };
Deno.bench({ name: "symbols", group: group.launch, baseline: true, fn: launchBare });
Deno.bench({ name: "Kernel and CommandQueue", group: group.launch, fn: launch });
Deno.bench({ name: "CommandQueue.run, an event", group: group.launch, fn: launchWithEvent });
Deno.bench({ name: "symbols", group: group.args, baseline: true, fn: () => void setArgsBare() });
Deno.bench({ name: "Kernel", group: group.args, fn: setArgs });
Deno.bench({ name: "symbols", group: group.info, baseline: true, fn: () => void infoBare() });
Deno.bench({ name: "Device", group: group.info, fn: () => void info() });

/** Nanoseconds a call: the best of many short rounds, first and second in turn. */
function compare(calls: number, ...fns: (() => unknown)[]): number[] {
  const best = fns.map(() => Infinity);
  for (let round = 0; round < 100; round++) {
    for (let i = 0; i < fns.length; i++) {
      const which = (i + round) % fns.length, fn = fns[which]!;
      const start = performance.now();
      for (let call = 0; call < calls; call++) fn();
      best[which] = Math.min(best[which]!, (performance.now() - start) * 1e6 / calls);
      queue.finishSync();
    }
  }
  return best;
}

/** Bytes that a call leaves to the garbage collector. */
function garbage(calls: number, fn: () => void): number {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as () => void;
  for (let call = 0; call < calls; call++) fn();
  gc();
  const before = Deno.memoryUsage().heapUsed;
  for (let call = 0; call < calls; call++) fn();
  const after = Deno.memoryUsage().heapUsed;
  queue.finishSync();
  return (after - before) / calls;
}

function report(name: string, [bare, ours]: readonly number[], limit: number): void {
  const ratio = ours! / bare!;
  const verdict = ratio <= limit ? "good" : "too much";
  console.log(
    `${name.padEnd(26)} symbols ${bare!.toFixed(0).padStart(6)} ns, binding ${
      ours!.toFixed(0).padStart(6)
    } ns: ${ratio.toFixed(2)} times (limit ${limit}: ${verdict})`,
  );
}

if (import.meta.main) {
  console.log(`${device.name}, ${device.driverVersion}`);
  report(group.launch, compare(1000, launchBare, launch), 1.3);
  report(group.args, compare(20_000, setArgsBare, setArgs), 1.3);
  report(group.info, compare(20_000, infoBare, info), 2);
  console.log(`garbage of a launch        ${garbage(2000, launch).toFixed(1)} bytes`);
}
