/**
 * A device that is busy for a given time: the load of the programs that signals are sent to.
 */
import { Buffer, type Event, Program } from "../../ffi/mod.ts";
import type { DeviceHandle } from "../../backend/device_handle.ts";

const source = `kernel void spin(global float* y, int n) {
  float v = y[0];
  for (int k = 0; k < n; k++) for (int i = 0; i < 100000; i++) v = v * 0.999999f + 0.5f;
  y[0] = v;
}`;

/** Returns a function that enqueues about so many milliseconds of work. */
export function busyDevice({ context, queue }: DeviceHandle): (ms: number) => Event {
  const kernel = new Program(context!, source).build().kernel("spin");
  const y = new Buffer(context!, 4);
  queue!.fill(y, new Float32Array(1));
  const launch = (n: number) =>
    queue!.run(kernel, { global: [1], local: [1], args: [y, new Int32Array([n])] });
  launch(1);
  queue!.finishSync();
  // Many short runs: on a busy machine one of them at least is not disturbed.
  const runs = Array.from({ length: 12 }, () => {
    const start = performance.now();
    launch(30);
    queue!.finishSync();
    return (performance.now() - start) / 30;
  });
  const unit = Math.min(...runs);
  return (ms) => launch(Math.max(1, Math.round(ms / unit)));
}
