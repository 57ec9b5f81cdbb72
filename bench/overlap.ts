/**
 * The share of the time that batches take to reach a device is hidden behind its kernels: a training
 * loop over a DataLoader, in a process of its own for each way of copying.
 *
 *     deno run -A bench/overlap.ts [--device gpu] [--steps 40] [--batch 2048] [--width 1024]
 *
 * There is something to hide behind only where kernels take longer than the host needs to make a batch:
 * on a fast GPU widen the model (`--width 32768`).
 *
 * Prints, for each way, the time of a step, of its copies, and the share of the copies' time during
 * which a kernel ran. The losses must be the same for all.
 */
import { fileURLToPath } from "node:url";
import {
  DataLoader,
  device,
  manualSeed,
  memory,
  nn,
  optim,
  profiler,
  setDeterministic,
  shutdown,
  TensorDataset,
} from "../mod.ts";
import { argumentsOrExit, flagValues } from "./arguments.ts";

const FEATURES = 3072, CLASSES = 10, LOSS_EVERY = 8;

/** A way to copy: what the environment and the loader are told. */
interface Way {
  readonly name: string;
  readonly async: "0" | "1";
  readonly pinMemory: boolean;
}

const ways: readonly Way[] = [
  { name: "NETCL_ASYNC_H2D=0", async: "0", pinMemory: false },
  { name: "NETCL_ASYNC_H2D=0, pinMemory", async: "0", pinMemory: true },
  { name: "NETCL_ASYNC_H2D=1", async: "1", pinMemory: false },
  { name: "NETCL_ASYNC_H2D=1, pinMemory", async: "1", pinMemory: true },
];

/** The result of one way. */
interface Result {
  readonly device: string;
  readonly stepMs: number;
  readonly copies: number;
  readonly copyMs: number;
  readonly overlappedMs: number;
  readonly losses: readonly number[];
  readonly pinnedBytes: number;
}

interface Options {
  readonly device: string;
  readonly steps: number;
  readonly batch: number;
  /** Hidden features of the model. */
  readonly width: number;
  /** Set in the processes that measure. */
  readonly way: Way | null;
}

function readOptions(args: string[]): Options {
  const string = { type: "string" } as const;
  const values = flagValues(args, {
    device: string,
    steps: string,
    batch: string,
    width: string,
    way: string,
  });
  return {
    device: values.device ?? "cl",
    steps: count("steps", values.steps ?? "40"),
    batch: count("batch", values.batch ?? "2048"),
    width: count("width", values.width ?? "1024"),
    way: ways.find(({ name }) => name === values.way) ?? null,
  };
}

function count(name: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new TypeError(`Cannot measure with --${name} ${text}: it takes a whole number from 1`);
}

/** Pseudo-random content that every process makes alike. */
function samples(length: number): TensorDataset {
  const data = new Float32Array(length * FEATURES);
  for (let i = 0, x = 1; i < data.length; i++) {
    x = Math.imul(x, 1664525) + 1013904223 | 0;
    data[i] = x / 2 ** 31;
  }
  const labels = Int32Array.from({ length }, (_, i) => i % CLASSES);
  return new TensorDataset({ data, shape: [length, FEATURES] }, { data: labels, shape: [length] });
}

async function measure({ device: selector, steps, batch, width, way }: Options): Promise<Result> {
  using handle = device(selector);
  manualSeed(1);
  const model = new nn.Sequential(
    new nn.Linear(FEATURES, width),
    new nn.ReLU(),
    new nn.Linear(width, CLASSES),
  );
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.01 });
  const loader = new DataLoader(samples(4 * batch), {
    batchSize: batch,
    pinMemory: way!.pinMemory,
  });
  const losses: number[] = [];
  const train = async (steps: number): Promise<void> => {
    for (let step = 0; step < steps;) {
      for await (const [x, y] of loader) {
        const loss = model.forward(x!).crossEntropy(y!);
        optimizer.zeroGrad();
        loss.backward();
        optimizer.step();
        // Reading every loss would hold the host back, and leave the device idle at each copy.
        if (step % LOSS_EVERY === 0) losses.push(await loss.item());
        for (const tensor of [x!, y!, loss]) tensor.dispose();
        if (++step === steps) break;
      }
    }
  };
  await train(8); // compiles the kernels and fills the pools
  const start = performance.now();
  await train(steps);
  const stepMs = (performance.now() - start) / steps;
  const path = Deno.makeTempFileSync({ suffix: ".json" });
  {
    using _trace = profiler.trace(path);
    await train(steps);
  }
  const copies = readCopies(path);
  Deno.removeSync(path);
  const pinnedBytes = memory.stats(handle).pinned?.requested.allocated ?? 0;
  return { device: `${handle}`, stepMs, ...copies, losses, pinnedBytes };
}

interface Slice {
  readonly ph: string;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
}

/** The copies of a trace, and for how long of them a kernel ran. */
function readCopies(path: string): Pick<Result, "copies" | "copyMs" | "overlappedMs"> {
  const { traceEvents } = JSON.parse(Deno.readTextFileSync(path)) as { traceEvents: Slice[] };
  const lane = (wanted: number) =>
    traceEvents.filter(({ ph, tid }) => ph === "X" && tid === wanted).sort((a, b) => a.ts - b.ts);
  const kernels = lane(2), copies = lane(3);
  let total = 0, overlapped = 0;
  for (const { ts, dur } of copies) {
    total += dur;
    // Kernels of an in-order queue do not overlap each other, so no part of a copy is counted
    // twice.
    for (const kernel of kernels) {
      const end = Math.min(ts + dur, kernel.ts + kernel.dur);
      overlapped += Math.max(0, end - Math.max(ts, kernel.ts));
    }
  }
  return { copies: copies.length, copyMs: total / 1000, overlappedMs: overlapped / 1000 };
}

/** Measures a way in a process of its own: the environment is read when a device is opened. */
async function inProcess({ device, steps, batch, width }: Options, way: Way): Promise<Result> {
  const { code, stdout } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--no-check", fileURLToPath(import.meta.url), "--way", way.name],
      ...["--device", device, "--steps", `${steps}`, "--batch", `${batch}`, "--width", `${width}`],
    ],
    env: { NETCL_ASYNC_H2D: way.async },
    stderr: "inherit",
  }).output();
  if (code !== 0) throw new Error(`Measuring "${way.name}" ended with status ${code}`);
  return JSON.parse(new TextDecoder().decode(stdout));
}

if (import.meta.main) {
  const options = argumentsOrExit(readOptions);
  if (options.way) {
    setDeterministic(true);
    console.log(JSON.stringify(await measure(options)));
    await shutdown();
    Deno.exit();
  }
  const batchMiB = options.batch * FEATURES * 4 / 2 ** 20;
  const rows: Record<string, Record<string, string | number>> = {};
  let first: Result | null = null, same = true;
  for (const way of ways) {
    const result = await inProcess(options, way);
    if (first === null) console.log(`${result.device}, batches of ${batchMiB} MiB`);
    first ??= result;
    same &&= result.losses.every((loss, i) => Number.isFinite(loss) && loss === first!.losses[i]);
    rows[way.name] = {
      "ms a step": result.stepMs.toFixed(2),
      "ms of copies a step": (result.copyMs / options.steps).toFixed(2),
      "copies": result.copies,
      "overlapped": result.copies === 0
        ? "none traced"
        : `${(100 * result.overlappedMs / result.copyMs).toFixed(0)} %`,
      "MiB through the pinned pool": (result.pinnedBytes / 2 ** 20).toFixed(0),
    };
  }
  console.table(rows);
  console.log(same ? "the losses are the same" : "THE LOSSES DIFFER");
  Deno.exit(same ? 0 : 1);
}
