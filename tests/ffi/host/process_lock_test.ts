// Suite: no device; locks only.
import { assertEquals, assertThrows } from "@std/assert";
import { withProcessLock } from "../../../ffi/host/process_lock.ts";

// Opens the C library, which stays open: inside a test that would count as a leak.
withProcessLock(() => {});

const onLinux = { ignore: Deno.build.os !== "linux" };

function start(counter: Int32Array, times: number, hold = false): [Worker, Promise<void>] {
  const url = new URL("./process_lock_worker.ts", import.meta.url);
  const worker = new Worker(url, { type: "module" });
  const done = new Promise<void>((resolve) => worker.onmessage = () => resolve());
  worker.postMessage({ counter, times, hold });
  return [worker, done];
}

Deno.test("withProcessLock lets one thread in at a time", { ...onLinux }, async () => {
  const counter = new Int32Array(new SharedArrayBuffer(12));
  const started = Array.from({ length: 3 }, () => start(counter, 300));
  await Promise.all(started.map(([, done]) => done));
  for (const [worker] of started) worker.terminate();
  assertEquals(counter[0], 900);
});

Deno.test("a worker that is terminated while it holds the process lock keeps nobody out for long", {
  ...onLinux,
}, async () => {
  const counter = new Int32Array(new SharedArrayBuffer(12));
  const [worker, done] = start(counter, 1, true);
  await done;
  await new Promise((resolve) => setTimeout(resolve, 50)); // it holds the lock by now
  worker.terminate();
  const began = performance.now();
  assertEquals(withProcessLock(() => counter[0]), 1);
  assertEquals(performance.now() - began < 10_000, true);
  assertEquals(withProcessLock(() => 7), 7);
  await new Promise((resolve) => setTimeout(resolve, 100)); // the worker's last message port closes
});

Deno.test("withProcessLock passes errors on and is free afterwards", () => {
  assertThrows(
    () =>
      withProcessLock(() => {
        throw new RangeError("mine");
      }),
    RangeError,
    "mine",
  );
  assertEquals(withProcessLock(() => withProcessLock(() => 3)), 3);
});
