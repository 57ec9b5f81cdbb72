/**
 * A program that signals are sent to: `program.ts STATE MS` says "ready" when it is in the state,
 * and "done" when nobody disturbed it. Code that catches an InterruptedError says "saved".
 */
import { device } from "../../backend/devices/device_stack.ts";
import {
  InterruptedError,
  interruptible,
  interruptSignal,
} from "../../backend/lifecycle/interruption.ts";
import { type CommandQueue, Program } from "../../ffi/mod.ts";
import { busyDevice } from "./busy.ts";
import { SAVING_MS } from "./matrix.ts";
import { nap, stayInJavaScript } from "./waits.ts";

const [state, duration] = Deno.args;
const ms = Number(duration);
const handle = device("cl");
const queue: CommandQueue = handle.queue!;
const busy = busyDevice(handle);

function ready(): void {
  console.log("ready");
}

const states: Record<string, () => unknown> = {
  async idle() {
    ready();
    await nap(ms);
  },

  async short() {
    ready();
    await saving(async () => {
      busy(ms);
      await queue.finish();
    });
    await nap(500); // SIGTERM ends the program meanwhile
  },

  async long() {
    busy(ms);
    ready();
    await queue.finish();
  },

  async "blocked-short"() {
    busy(ms);
    ready();
    await saving(() => queue.finishSync());
  },

  blocked() {
    busy(ms);
    ready();
    queue.finishSync();
  },

  async reading() {
    const { Tensor } = await import("../../tensor/mod.ts");
    const tensor = Tensor.ones([1024]).realize();
    await tensor.mul(2).toHost(); // builds the kernel
    busy(ms);
    ready();
    await tensor.mul(2).toHost();
  },

  /** `ms` is the number of programs. */
  async building() {
    ready();
    for (let n = 0; n < ms; n++) {
      const unique = crypto.randomUUID().replaceAll("-", ""); // not in the driver's cache
      const kernels = Array.from({ length: 50 }, (_, i) => kernelSource(`${unique}_${i}`));
      new Program(handle.context!, kernels.join("")).build().release();
      busy(1);
      await queue.finish();
    }
  },

  async worker() {
    const source = `import { stayInJavaScript } from "${new URL("waits.ts", import.meta.url)}";
      stayInJavaScript(${ms});
      postMessage("decoded");`;
    const worker = new Worker(`data:text/javascript,${encodeURIComponent(source)}`, {
      type: "module",
    });
    ready();
    await new Promise((resolve) => worker.onmessage = resolve);
    worker.terminate();
  },

  busy() {
    ready();
    stayInJavaScript(ms);
  },

  foreign() {
    ready();
    sleepInLibc(ms);
  },

  async catching() {
    ready();
    await interruptible(nap(ms)).catch(saveSlowly);
  },

  async listening() {
    interruptSignal.addEventListener("abort", () => void saveSlowly(interruptSignal.reason));
    ready();
    await nap(ms);
  },

  unload() {
    busy(ms);
    addEventListener("unload", () => console.log("done")); // runs after netcl's, which finishes
    ready();
  },
};

async function saving(work: () => void | Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    console.log("saved");
    Deno.exit(130);
  }
}

/** Saves as code does that uses Deno alone, and takes longer than the grace window. */
async function saveSlowly(error: unknown): Promise<never> {
  if (!(error instanceof InterruptedError)) throw error;
  await nap(SAVING_MS);
  console.log("saved");
  Deno.exit(130);
}

/** Signals interrupt each of the short ones, as they do calls that begin again. */
function sleepInLibc(milliseconds: number): void {
  const libc = Deno.build.os === "darwin" ? "libSystem.B.dylib" : "libc.so.6";
  const { usleep } = Deno.dlopen(libc, { usleep: { parameters: ["u32"], result: "i32" } }).symbols;
  for (const end = performance.now() + milliseconds; performance.now() < end;) usleep(500_000);
}

function kernelSource(name: string): string {
  return `kernel void k${name}(global float* y, global const float* x) {
    size_t i = get_global_id(0);
    y[i] = exp(x[i]) * sin(x[i]) + pow(x[i], 1.5f) - tanh(y[i]);
  }\n`;
}

await states[state!]!();
if (state !== "unload") console.log("done");
