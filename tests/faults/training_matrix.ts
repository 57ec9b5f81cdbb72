/**
 * Makes every function of OpenCL that a training step calls fail in turn, in this process; prints a
 * line of JSON before and after each. `training_test.ts` runs it and watches that it goes on.
 */
import { runCollector as gc } from "../../memory/core/garbage.ts";
import { manager, manualSeed, memory, nn, optim, Tensor, withDevice } from "../../mod.ts";
import { liveObjects } from "@netcl/netcl/ffi";
import { countingCalls } from "../ffi/counting_calls.ts";
import { type Fault, withFaults } from "../../ffi/mod.ts";
import { learn } from "../tensor/training.ts";
const device = manager.default("cl");
const images = Float32Array.from({ length: 8 * 64 }, (_, i) => Math.sin(i));
const classes = Int32Array.from({ length: 8 }, (_, i) => i % 10);

interface Disposed {
  dispose(): void;
}

/** Two steps of a small model from the same start; `structure` makes kernels that nobody has. */
function train(structure: number): Promise<number[]> {
  return withDevice(device, async () => {
    manualSeed(3);
    const made: Disposed[] = [];
    const keep = <T extends Disposed>(value: T): T => (made.push(value), value);
    try {
      const x = keep(Tensor.fromHost(images, { shape: [8, 1, 8, 8] }));
      const labels = keep(Tensor.fromHost(classes));
      const model = keep(
        new nn.Sequential(
          new nn.Conv2d(1, 2, 3, { padding: 1 }),
          new nn.ReLU(),
          new nn.Flatten(),
          new nn.Linear(128, 10),
        ),
      );
      const optimizer = keep(new optim.Adam(model.parameters(), { lr: 0.01 }));
      const losses: number[] = [];
      for (let step = 0; step < 2; step++) {
        using loss = learn(optimizer, () => model.forward(x).crossEntropy(labels));
        losses.push(await loss.item() as number);
      }
      const weights = keep(unusual(model.parameters()[0]!, structure)).toHostSync("float32");
      return [...losses, weights[3]!];
    } finally {
      for (const value of made.reverse()) value.dispose();
    }
  });
}

/** Leaves the values as they are, by way of a kernel of a structure of its own. */
function unusual(values: Tensor, structure: number): Tensor {
  let result = values.mul(1);
  for (let bits = structure; bits > 0; bits >>= 1) {
    result = bits & 1 ? result.neg().abs().neg().add(values).sub(values) : result.abs().neg();
  }
  return structure === 0 ? result : values.add(result.sub(result));
}

/** Has the collector take what an error left half done, which nobody else owns. */
async function collect(): Promise<void> {
  gc();
  await new Promise((resolve) => setTimeout(resolve));
}

/** The state that a step must leave as it was; what pools keep for later is given back before. */
function counts(): Record<string, number> {
  memory.emptyCache(device);
  const { Event, MappedRegion, Buffer, SvmBuffer, CommandQueue, Context } = liveObjects();
  const { bytesAllocated, requestedBytes } = memory.stats(device);
  return {
    bytesAllocated,
    requestedBytes,
    Event,
    MappedRegion,
    Buffer,
    SvmBuffer,
    CommandQueue,
    Context,
  };
}

/** The number of calls of each function in `fn`. */
async function countCalls(fn: () => Promise<unknown>): Promise<ReadonlyMap<string, number>> {
  using calls = countingCalls();
  await fn();
  return calls.counts;
}

/** Runs a step under a fault: what it threw, `"passed"`, or `"missed"` where nothing failed. */
async function attempt(fault: Fault, run: () => Promise<unknown>): Promise<string> {
  let error: unknown = null;
  try {
    await withFaults([fault], async () => {
      try {
        await run();
        await device.finish();
      } catch (caught) {
        error = caught;
      }
    });
  } catch (missed) {
    if (!String(missed).includes("never happened")) throw missed;
    return "missed";
  }
  if (error === null) return "passed";
  // Where the driver commits memory at its first use, a call that fails there means a lack of memory.
  let reason: unknown = error;
  while (reason instanceof Error && reason.cause !== undefined) reason = reason.cause;
  return reason instanceof Error ? `${reason.name}: ${reason.message}` : `not an error: ${reason}`;
}

function say(line: Record<string, unknown>): void {
  Deno.stdout.writeSync(new TextEncoder().encode(JSON.stringify(line) + "\n"));
}

/** The same after everything that pools keep was given back, with an upload and many launches. */
function trainCold(): Promise<number[]> {
  memory.emptyCache(device);
  return withDevice(device, async () => {
    using big = Tensor.fromHost(new Float32Array(300_000), { pinMemory: true });
    const launched: Tensor[] = [];
    try {
      for (let k = 0; k < 70; k++) launched.push(big.add(k).realize());
      using last = launched.at(-1)!.slice([0, 4]);
      const [value] = await last.toHost("float32");
      if (value !== 69) throw new Error(`${value} is not 69`);
    } finally {
      for (const tensor of launched) tensor.dispose();
    }
    return await train(0);
  }).finally(() => memory.emptyCache(device));
}

/**
 * The objects that were not there before. Events may be fewer, or one more: the backend holds those of
 * its last marks and copies. A leak adds up from fault to fault.
 */
function leftovers(): string[] {
  const allowed = (key: string, n: number): boolean =>
    key === "Event" ? n <= before[key]! + 1 : n === before[key];
  return Object.entries(counts()).filter(([key, n]) => !allowed(key, n))
    .map(([key, n]) => `${key}: ${n} instead of ${before[key]}`);
}

/** The same once the collector has looked, no oftener than it must: that takes longest of all. */
async function leftBehind(): Promise<string[]> {
  let left = leftovers();
  for (let turn = 0; turn < 3 && left.length > 0; turn++) {
    await collect();
    left = leftovers();
  }
  return left;
}

let structure = 2;
const kinds: { readonly [kind: string]: () => Promise<number[]> } = {
  warm: () => train(0),
  fresh: () => train(structure++),
  cold: trainCold,
};

// The backend holds the events of its last marks; once they are as many as it keeps, no more come.
for (let step = 0; step < 12; step++) await trainCold();
const expected = String(await train(0));
for (let turn = 0; turn < 3; turn++) await collect();
const before = counts();
const seen = new Set<string>();

for (const [kind, run] of Object.entries(kinds)) {
  const calls = await countCalls(run);
  for (const [call, count] of calls) {
    if (seen.has(call)) continue;
    seen.add(call);
    for (const nth of new Set([undefined, 1, Math.ceil(count / 2), count])) {
      const fault = { call, status: -5, ...nth && { nth } } as Fault;
      say({ begins: `${kind} ${call} ${nth ?? "always"}` });
      const error = await attempt(fault, run);
      const again = await run().then(String, String);
      await device.finish();
      const works = again === expected, left = await leftBehind();
      say({ kind, call, nth: nth ?? "always", count, error, works, left });
    }
  }
}
say({ done: true, calls: [...seen] });
