import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStrictEquals,
  assertThrows,
} from "@std/assert";
import { drain, drainSync } from "../../../backend/lifecycle/draining.ts";
import {
  beginInterruption,
  completeInterruption,
  countUnhandled,
  deliver,
  InterruptedError,
  interruptible,
  interruptSignal,
  isHandled,
  isRunning,
  isWatched,
  resetInterruption,
  throwIfInterrupted,
} from "../../../backend/lifecycle/interruption.ts";
import { configureSignals, rearm } from "../../../backend/lifecycle/signals.ts";
import { startWatchdog } from "../../../backend/lifecycle/watchdog.ts";
import { waitSync } from "../../../backend/lifecycle/waits.ts";
import { withFaults } from "../../../ffi/library/faults.ts";
import { liveObjects, OpenCLError, Status, UserEvent } from "../../../ffi/mod.ts";
import { waitsInFlight } from "../../../ffi/events/waiting.ts";
import { hasOpenCL, openCLDevice, testOpenCL } from "../../opencl.ts";

const queue = hasOpenCL ? openCLDevice.queue! : null!;

/** Runs a test in the running state, and leaves that behind. */
function whileRunning(name: string, fn: () => void | Promise<void>): void {
  Deno.test(name, async () => {
    try {
      await fn();
    } finally {
      completeInterruption();
      resetInterruption();
    }
  });
}

function interrupt(cause?: Error): void {
  beginInterruption();
  completeInterruption(cause);
}

function settled(promise: Promise<unknown>): Promise<string> {
  return Promise.race([
    promise.then(() => "fulfilled", () => "rejected"),
    new Promise<string>((resolve) => setTimeout(() => resolve("pending"), 5)),
  ]);
}

whileRunning("a wait that nothing interrupts is as it was", async () => {
  assertEquals(await interruptible(Promise.resolve(42)), 42);
  await assertRejects(() => interruptible(Promise.reject(new RangeError("own"))), RangeError);
  throwIfInterrupted();
});

whileRunning("a wait rejects when the queues are done, and not before", async () => {
  const device = Promise.withResolvers<void>();
  const wait = interruptible(device.promise);
  assertEquals(beginInterruption(), true);
  assertEquals(interruptSignal.aborted, false);
  device.resolve();
  assertEquals(await settled(wait), "pending");
  completeInterruption();
  const error = await assertRejects(() => wait, InterruptedError);
  assertStrictEquals(interruptSignal.reason, error);
});

whileRunning("every wait rejects, also one begun while the queues are finished", async () => {
  const waits = [interruptible(Promise.resolve()), interruptible(Promise.resolve())];
  beginInterruption();
  waits.push(interruptible(new Promise<void>(() => {})));
  completeInterruption();
  const results = await Promise.allSettled(waits);
  assertEquals(results.map(({ status }) => status), ["rejected", "rejected", "rejected"]);
});

whileRunning("a wait that is not for a device is told as well, and goes on by itself", async () => {
  const download = Promise.withResolvers<string>();
  const wait = interruptible(download.promise);
  interrupt();
  await assertRejects(() => wait, InterruptedError);
  download.reject(new Error("broken off")); // tells nobody, and is no unhandled rejection
  await assertRejects(() => download.promise, Error, "broken off");
});

whileRunning("an interrupt that nobody waited for is told once, to the next call", async () => {
  interrupt();
  assertThrows(throwIfInterrupted, InterruptedError);
  throwIfInterrupted();
  assertEquals(await interruptible(Promise.resolve("saved")), "saved");
});

whileRunning("after a wait was told, the next calls work: programs save", async () => {
  const wait = interruptible(new Promise<void>(() => {}));
  interrupt();
  throwIfInterrupted(); // the wait will be told
  await assertRejects(() => wait, InterruptedError);
  assertEquals(await interruptible(Promise.resolve("saved")), "saved");
});

whileRunning("listeners of interruptSignal may wait; the rest is still told", async () => {
  const saved = Promise.withResolvers<string>();
  interruptSignal.addEventListener("abort", async () => {
    await null;
    saved.resolve(await interruptible(Promise.resolve("saved")));
  });
  interrupt();
  assertEquals(await saved.promise, "saved");
  assertEquals(isHandled(), true);
  assertThrows(throwIfInterrupted, InterruptedError);
});

whileRunning("interruptSignal is used by each of its members", () => {
  const uses: readonly ((signal: AbortSignal) => unknown)[] = [
    (signal) => signal.aborted,
    (signal) => signal.throwIfAborted(),
    (signal) => signal.onabort = () => {},
    (signal) => signal.addEventListener("abort", () => {}),
    (signal) => signal.reason,
  ];
  for (const use of uses) {
    assertEquals(isWatched(), false, String(use));
    use(interruptSignal);
    assertEquals(isWatched(), true, String(use));
    resetInterruption();
  }
});

whileRunning("a second signal begins nothing", () => {
  assertEquals([beginInterruption(), beginInterruption()], [true, false]);
  completeInterruption();
  assertEquals(beginInterruption(), false);
});

whileRunning("rearm makes a fresh signal, and refuses while the queues are finished", () => {
  const first = interruptSignal;
  beginInterruption();
  assertThrows(rearm, Error, "Cannot rearm while");
  completeInterruption();
  rearm();
  assertEquals([isRunning(), first.aborted, interruptSignal.aborted], [true, true, false]);
});

whileRunning("an error of the device becomes the interrupt's cause", async () => {
  const cause = new Error("lost");
  const wait = interruptible(Promise.resolve());
  interrupt(cause);
  const error = await assertRejects(() => wait, InterruptedError);
  assertStrictEquals((error as Error).cause, cause);
});

whileRunning("who prints the error asks nothing, who reads its class or name does", () => {
  const readers: [(error: Error) => unknown, boolean][] = [
    [(error) => Deno.inspect(error), false],
    [(error) => `${error} ${error.message} ${error.stack} ${error instanceof RangeError}`, false],
    [(error) => error.name === "InterruptedError", true],
    [(error) => error instanceof InterruptedError, true],
  ];
  for (const [read, isAsking] of readers) {
    interrupt();
    read(deliver());
    assertEquals(isHandled(), isAsking, String(read));
    rearm();
  }
});

whileRunning("an uncaught interrupt counts when no receiver caught it", async () => {
  const waits = [interruptible(Promise.resolve()), interruptible(Promise.resolve())];
  interrupt();
  await Promise.allSettled(waits);
  assertEquals([countUnhandled(), countUnhandled()], [false, true]);
});

Deno.test("waitSync returns when it is done and passes errors on", () => {
  let polls = 0;
  waitSync(() => ++polls > 20);
  assertEquals(polls, 21);
  assertThrows(() => {
    waitSync(() => {
      throw new RangeError("own");
    });
  }, RangeError);
});

Deno.test("options that cannot be are refused", () => {
  for (const graceMs of [-1, NaN]) {
    assertThrows(() => configureSignals({ graceMs }), RangeError, `graceMs ${graceMs}`);
  }
});

Deno.test("a watchdog without netcl's signals is refused", async () => {
  configureSignals({ enabled: false });
  try {
    await assertRejects(startWatchdog, Error, "signals are not handled by netcl");
  } finally {
    configureSignals({ enabled: true });
  }
});

Deno.test("of two watchdogs that are started at once, one runs", async () => {
  const [first, second] = await Promise.allSettled([startWatchdog(), startWatchdog()]);
  if (first.status === "fulfilled") first.value[Symbol.dispose]();
  assertEquals([first.status, second.status], ["fulfilled", "rejected"]);
  (await startWatchdog())[Symbol.dispose]();
});

testOpenCL("draining waits for what was enqueued, not for what comes later", async () => {
  const events = liveObjects().Event;
  const first = new UserEvent(queue.context), second = new UserEvent(queue.context);
  queue.barrier([first]).release();
  const draining = drain(performance.now() + 10_000);
  queue.barrier([second]).release();
  assertEquals(await settled(draining), "pending");
  first.complete();
  assertEquals(await draining, { finished: true, errors: [] });
  second.complete();
  queue.finishSync();
  first.release();
  second.release();
  assertEquals(liveObjects().Event, events);
});

testOpenCL("draining gives up at the deadline", async () => {
  const event = new UserEvent(queue.context);
  queue.barrier([event]).release();
  assertEquals(await drain(performance.now() + 10), { finished: false, errors: [] });
  assertEquals(drainSync(performance.now() + 10), { finished: false, errors: [] });
  event.complete();
  event.release();
  assertEquals(drainSync(performance.now() + 10_000), { finished: true, errors: [] });
});

testOpenCL("a device that is lost does not hold the draining up", async () => {
  const lost = {
    call: "clEnqueueMarkerWithWaitList",
    status: Status.CL_DEVICE_NOT_AVAILABLE,
  } as const;
  await withFaults([lost], async () => {
    const { finished, errors } = await drain(performance.now() + 10_000);
    assertEquals(finished, true);
    assert(errors.length > 0);
    assertInstanceOf(errors[0], OpenCLError);
  });
});

testOpenCL("waits of queues and events go through the interruption", async () => {
  const event = new UserEvent(queue.context);
  queue.barrier([event]).release();
  const marker = queue.marker();
  const waits = [queue.finish(), marker.wait()];
  beginInterruption();
  event.complete();
  completeInterruption();
  try {
    for (const result of await Promise.allSettled(waits)) {
      assertInstanceOf((result as PromiseRejectedResult).reason, InterruptedError);
    }
    await queue.finish();
    // The wait that was given up ends on its own thread, with the event that it kept alive.
    while (waitsInFlight() > 0) await new Promise((resolve) => setTimeout(resolve, 1));
  } finally {
    resetInterruption();
    marker.release();
    event.release();
  }
});
