/** Adds to a counter that two threads may only touch in turn; "hold" keeps the lock until the end. */
import { withProcessLock } from "../../../ffi/host/process_lock.ts";

const self = globalThis as unknown as {
  onmessage: (event: MessageEvent<{ counter: Int32Array; times: number; hold: boolean }>) => void;
  postMessage(value: unknown): void;
};

self.onmessage = ({ data: { counter, times, hold } }) => {
  for (let i = 0; i < times; i++) {
    withProcessLock(() => {
      const before = counter[0]!;
      for (let wait = 0; wait < 200; wait++) counter[1] = wait;
      withProcessLock(() => counter[0] = before + 1);
    });
  }
  self.postMessage("done");
  // By naps: nothing ends a thread that waits without a bound.
  while (hold) {
    withProcessLock(() => {
      for (;;) Atomics.wait(counter, 2, 0, 10);
    });
  }
};
