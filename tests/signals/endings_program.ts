/**
 * Programs that end in other ways than those of the matrix: `endings_program.ts CASE`.
 */
import { manager } from "../../backend/devices/devices.ts";
import {
  InterruptedError,
  interruptible,
  interruptSignal,
} from "../../backend/lifecycle/interruption.ts";
import { withoutDeadline } from "../../backend/lifecycle/native_handlers.ts";
import { configureSignals, rearm } from "../../backend/lifecycle/signals.ts";
import { shutdown } from "../../backend/shutdown.ts";
import { startWatchdog } from "../../backend/lifecycle/watchdog.ts";
import { Transfers } from "../../backend/opencl/transfers/transfers.ts";
import { saveFile } from "../../ffi/host/atomic_file.ts";
import { Buffer, type Event } from "../../ffi/mod.ts";
import { busyDevice } from "./busy.ts";
import { SAVING_MS } from "./matrix.ts";
import { nap, stayInJavaScript } from "./waits.ts";

const SHORT = 700, LONG = 60_000;
const [name] = Deno.args;
if (name === "switched-off") configureSignals({ enabled: false });

const handle = manager.default("cl");
const queue = handle.queue!;
const busy = busyDevice(handle);

function ready(): void {
  console.log("ready");
}

/** Tells whether a command is done when netcl's listener has run: ours comes after it. */
function tellStatus(event: Event, ...endings: string[]): void {
  for (const ending of endings) {
    const tell = () => console.log(event.status === "complete" ? "finished" : "unfinished");
    addEventListener(ending, tell, { once: true });
  }
}

function isInterrupt(error: unknown): error is InterruptedError {
  if (error instanceof InterruptedError) return true;
  throw error;
}

function listenMyself(): Promise<void> {
  let count = 0;
  Deno.addSignalListener("SIGINT", () => {
    console.log(`mine ${++count}`);
    if (count === 2) Deno.exit(7);
  });
  ready();
  return nap(LONG);
}

const cases: Record<string, () => unknown> = {
  end() {
    tellStatus(busy(SHORT), "unload");
    ready();
  },

  exit() {
    tellStatus(busy(SHORT), "unload");
    ready();
    Deno.exit(3);
  },

  throw() {
    tellStatus(busy(SHORT), "error", "unhandledrejection");
    ready();
    throw new Error("boom");
  },

  "throw-long"() {
    tellStatus(busy(LONG), "error", "unhandledrejection");
    ready();
    throw new Error("boom");
  },

  async "throw-later"() {
    tellStatus(busy(SHORT), "error");
    ready();
    setTimeout(() => {
      throw new Error("boom");
    });
    await nap(LONG);
  },

  async uncaught() {
    busy(SHORT);
    ready();
    await queue.finish();
  },

  async "uncaught-beside-saving"() {
    busy(SHORT);
    ready();
    void queue.finish(); // nobody catches this one
    await queue.finish().catch(isInterrupt);
    await nap(200);
    console.log("saved");
  },

  "own-listener": listenMyself,
  "switched-off": listenMyself,

  async rearm() {
    busy(SHORT);
    ready();
    await queue.finish().catch(isInterrupt);
    const first = interruptSignal;
    rearm();
    console.log(first.aborted, interruptSignal.aborted);
    busy(SHORT);
    await queue.finish().catch(isInterrupt);
    console.log("again", interruptSignal.aborted);
  },

  async "rearm-sync"() {
    busy(SHORT);
    ready();
    interruptedSync();
    rearm();
    await nap(10); // the listener of the first signal has nothing to do any more
    console.log(interruptSignal.aborted);
    busy(SHORT);
    interruptedSync();
    console.log("again", interruptSignal.aborted);
  },

  async "saving-listener"() {
    const buffer = new Buffer(handle.context!, 4, { data: new Float32Array([42]) });
    interruptSignal.addEventListener("abort", async () => {
      const saved = new Float32Array(1);
      const into = new Uint8Array(saved.buffer);
      await new Transfers(queue).read([{ buffer, offset: 0, into }]);
      console.log("saved", saved[0]);
      Deno.exit(130);
    });
    ready();
    await nap(LONG);
  },

  async "saving-after-catch"() {
    const transfers = new Transfers(queue);
    const buffer = new Buffer(handle.context!, 4, { data: new Float32Array([42]) });
    busy(SHORT);
    ready();
    await queue.finish().catch(isInterrupt);
    const saved = new Float32Array(1);
    await transfers.read([{ buffer, offset: 0, into: new Uint8Array(saved.buffer) }]);
    transfers.readSync([{ buffer, offset: 0, into: new Uint8Array(saved.buffer) }]);
    console.log("saved", saved[0]);
  },

  async "launching-loop"() {
    const transfers = new Transfers(queue);
    ready();
    try {
      for (;;) {
        busy(1);
        transfers.afterLaunch();
        await nap(0);
      }
    } catch (error) {
      if (isInterrupt(error)) console.log("saved");
    }
  },

  "launching-loop-sync"() {
    const transfers = new Transfers(queue);
    ready();
    try {
      for (;;) {
        busy(0);
        transfers.afterLaunch();
      }
    } catch (error) {
      if (isInterrupt(error)) console.log("saved");
    }
  },

  /** Two interrupted calls, and a loop that catches everything, asks nothing and never awaits. */
  "swallowing-loop-sync"() {
    ready();
    for (;;) {
      try {
        busy(50);
        queue.finishSync();
      } catch {
        console.log("swallowed");
      }
    }
  },

  async long() {
    busy(LONG);
    ready();
    await queue.finish();
  },

  async shutdown() {
    busy(LONG);
    ready();
    await shutdown();
  },

  async survive() {
    busy(SHORT);
    ready();
    await queue.finish();
    console.log("survived");
  },

  /** Of two calls that were interrupted one is caught by code that saves, and takes its time. */
  async "saves-beside-uncaught"() {
    ready();
    void interruptible(nap(LONG)); // nobody catches this one
    await interruptible(nap(LONG)).catch(isInterrupt);
    await nap(SAVING_MS);
    console.log("saved");
    Deno.exit();
  },

  /** Two calls that were interrupted, one error that nobody catches, and a timer that goes on. */
  async "uncaught-all"() {
    setInterval(() => {}, 100);
    ready();
    await Promise.all([interruptible(nap(LONG)), interruptible(nap(LONG))]);
  },

  async "saving-with-saveFile"() {
    async function* slow() {
      yield new Uint8Array(10);
      await nap(SAVING_MS);
    }
    const path = await Deno.makeTempFile();
    const save = saveFile(path, slow());
    ready();
    await save;
    console.log("saved", Deno.statSync(path).size);
    Deno.removeSync(path);
    await nap(LONG);
  },

  async "own-listener-saving"() {
    Deno.addSignalListener("SIGINT", async () => {
      await nap(SAVING_MS);
      console.log("saved");
      Deno.exit(7);
    });
    ready();
    await nap(LONG);
  },

  /** The event loop is blocked for longer than the grace window when the signal comes. */
  async "busy-then-saving"() {
    interruptSignal.addEventListener("abort", () => {
      console.log("saved");
      Deno.exit(130);
    });
    ready();
    stayInJavaScript(SAVING_MS);
    await nap(LONG);
  },

  /** One build that takes longer than the grace window: what called it can still save. */
  async building() {
    ready();
    try {
      withoutDeadline(() => {
        stayInJavaScript(SAVING_MS);
      });
      await interruptible(nap(LONG));
    } catch (error) {
      if (isInterrupt(error)) console.log("saved");
      Deno.exit(130);
    }
  },

  async "watchdog-loop"() {
    using _ = await startWatchdog();
    ready();
    for (;;); // as blind to signals as a foreign call
  },

  async "watchdog-over"() {
    {
      using _ = await startWatchdog();
    }
    ready();
    await nap(100);
  },
};

function interruptedSync(): void {
  try {
    queue.finishSync();
  } catch (error) {
    isInterrupt(error);
  }
}

await cases[name!]!();
