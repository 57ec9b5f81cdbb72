/**
 * A device that is busy for a given time: the load of the programs that signals are sent to.
 */
import { Buffer, type Event, Program } from "../../ffi/mod.ts";
import type { DeviceHandle } from "../../backend/devices/device_handle.ts";

/**
 * Kernels of PoCL are code of this process: one that asks Linux to sleep until a time is as busy for
 * the host as one that computes, and leaves the cores to the tests beside it. The calls are
 * clock_gettime(1, time) and clock_nanosleep(1, TIMER_ABSTIME, time, 0), on the monotonic clock; a
 * signal ends a sleep early.
 */
const sleeping = `
long system_call(long number, long second, long third) {
  __asm__ volatile("xorl %%r10d, %%r10d; syscall" : "+a"(number)
    : "D"(1L), "S"(second), "d"(third) : "rcx", "r10", "r11", "memory");
  return number;
}
kernel void occupy(global float* y, int ms) {
  long time[2]; // seconds, nanoseconds
  system_call(228, (long)time, 0);
  long end = time[1] + ms * 1000000L;
  time[0] += end / 1000000000L;
  time[1] = end % 1000000000L;
  while (system_call(230, 1, (long)time) == -4); // EINTR
  y[0] = ms;
}`;

const computing = `kernel void occupy(global float* y, int n) {
  float v = y[0];
  for (int k = 0; k < n; k++) for (int i = 0; i < 100000; i++) v = v * 0.999999f + 0.5f;
  y[0] = v;
}`;

/** Enqueues about so many milliseconds of work. */
export type Busy = ((ms: number) => Event) & Disposable;

function canSleep({ platformName }: DeviceHandle): boolean {
  const isLinux = Deno.build.os === "linux" && Deno.build.arch === "x86_64";
  return isLinux && platformName === "Portable Computing Language";
}

/** Makes a device's queue busy for given times. */
export function busyDevice(device: DeviceHandle): Busy {
  const { context, queue } = device;
  const program = new Program(context!, canSleep(device) ? sleeping : computing).build();
  const kernel = program.kernel("occupy");
  const y = new Buffer(context!, 4);
  queue!.fill(y, new Float32Array(1)).release();
  const launch = (n: number) =>
    queue!.run(kernel, { global: [1], local: [1], args: [y, new Int32Array([n])] });
  const timed = (n: number) => {
    const start = performance.now();
    using event = launch(n);
    event.waitSync();
    return performance.now() - start;
  };
  timed(1);
  // Many short runs: on a busy machine one of them at least is not disturbed.
  const measure = () => Math.min(...Array.from({ length: 12 }, () => timed(8) / 8));
  const unit = canSleep(device) ? 1 : measure();
  const busy = (ms: number) => launch(Math.max(1, Math.round(ms / unit)));
  return Object.assign(busy, {
    [Symbol.dispose]: () => [kernel, program, y].forEach((object) => object.release()),
  });
}
