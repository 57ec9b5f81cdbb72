/**
 * A device that is busy for a given time: the load of the programs that signals are sent to.
 */
import { Buffer, type Event, Program } from "../../ffi/mod.ts";
import type { DeviceHandle } from "../../backend/devices/device_handle.ts";

const source = `kernel void spin(global float* y, int n) {
  float v = y[0];
  for (int k = 0; k < n; k++) for (int i = 0; i < 100000; i++) v = v * 0.999999f + 0.5f;
  y[0] = v;
}`;

/** Enqueues about so many milliseconds of work. */
export type Busy = ((ms: number) => Event) & Disposable;

/** Makes a device's queue busy for given times. */
export function busyDevice({ context, queue }: DeviceHandle): Busy {
  const program = new Program(context!, source).build();
  const kernel = program.kernel("spin");
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
  const unit = Math.min(...Array.from({ length: 12 }, () => timed(8) / 8));
  const busy = (ms: number) => launch(Math.max(1, Math.round(ms / unit)));
  return Object.assign(busy, {
    [Symbol.dispose]: () => [kernel, program, y].forEach((object) => object.release()),
  });
}
