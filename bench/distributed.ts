/**
 * Samples that several devices train a second, beside one: a ResNet-18 for 32x32 at 128 samples a device, and a
 * GPT of 10 million parameters. Two ways to run it:
 *
 *     deno run -A bench/distributed.ts --device gpu                  1, 2, 4 devices of one process
 *     mpirun -n 2 deno run -A bench/distributed.ts --device gpu      2 ranks, a device each
 *
 * `--compile` replays the gradients of a device's batch by `compile`; `--dtype bfloat16` computes them under
 * autocast. `--tiny` is for a machine without a GPU. For each row it prints samples a second, the share of as many times one device (or one rank, which
 * every rank measures by itself), the same by the cores' time (on a busy machine), and what a step consists of: computing alone (`host`: the
 * time in which the host enqueues that), the copies of all gradients from a device and to it, and their reduction, each timed by itself; `hidden` is the share
 * of these three that a step does not take longer than computing. `--timeline` traces three more steps, on each rank:
 * what the host does, copies, and when the device has something to compute.
 */
import { type DeviceHandle, distributed, manager, setDeterministic, withDevice } from "../mod.ts";
import { argumentsOrExit, flagValues } from "./arguments.ts";
import { type Model, models } from "./distributed/models.ts";
import type { Precision } from "./peers/models.ts";
import { partsOf } from "./distributed/parts.ts";
import { measure, type Measured } from "./distributed/steps.ts";

interface Options {
  readonly device: string;
  readonly models: readonly Model[];
  readonly counts: readonly number[];
  readonly steps: number;
  readonly compiled: boolean;
  readonly traced: boolean;
  readonly precision: Precision;
}

function parse(args: string[]): Options {
  const values = flagValues(args, {
    device: { type: "string", default: "auto" },
    model: { type: "string", default: "resnet,gpt" },
    devices: { type: "string", default: "1,2,4" },
    steps: { type: "string", default: "20" },
    compile: { type: "boolean", default: false },
    tiny: { type: "boolean", default: false },
    timeline: { type: "boolean", default: false },
    dtype: { type: "string", default: "float32" },
  });
  return {
    device: values.device,
    models: values.model.split(",").map((name) => models(name, values.tiny)),
    counts: values.devices.split(",").map(Number),
    steps: Number(values.steps),
    compiled: values.compile,
    traced: values.timeline,
    precision: values.dtype as Precision,
  };
}

/** All devices like the one that is selected, that one first. */
function devicesLike(selector: string): DeviceHandle[] {
  const first = manager.default(selector);
  const others = manager.list().filter((handle) =>
    handle !== first && handle.backend === first.backend && handle.deviceType === first.deviceType
  );
  return [first, ...others];
}

function say(row: Record<string, string | number>): void {
  console.log(Object.entries(row).map(([name, value]) => `${name} ${value}`).join("  "));
}

function report(
  { model, precision }: { readonly model: Model; readonly precision: Precision },
  count: number,
  where: string,
  one: Measured,
  many: Measured,
  parts: { readMs: number; writeMs: number; reduceMs: number },
): void {
  const moved = parts.readMs + parts.writeMs + parts.reduceMs;
  const added = Math.max(0, many.stepMs - many.computeMs);
  say({
    model: model.name,
    dtype: precision,
    [where]: count,
    "samples/s": Math.round(many.samplesPerSecond),
    share: (many.samplesPerSecond / (count * one.samplesPerSecond)).toFixed(3),
    "step ms": many.stepMs.toFixed(2),
    "one ms": one.stepMs.toFixed(2),
    "compute ms": many.computeMs.toFixed(2),
    "host ms": many.hostMs.toFixed(2),
    "d2h ms": parts.readMs.toFixed(2),
    "reduce ms": parts.reduceMs.toFixed(2),
    "h2d ms": parts.writeMs.toFixed(2),
    "cpu share": (one.cpuMs / many.cpuMs * (where === "ranks" ? 1 : count)).toFixed(3),
    hidden: moved > 0 ? Math.max(0, 1 - added / moved).toFixed(2) : "-",
  });
  for (const line of many.timeline) console.log(line);
}

async function main(options: Options): Promise<void> {
  const { device, models, counts, steps, compiled, traced, precision } = options;
  using group = distributed.init();
  const devices = devicesLike(device), [first] = devices;
  if (group.rank === 0) {
    console.log(`${manager.describeChoice(first)}; ${devices.length} such devices`);
  }
  await withDevice(first!, async () => {
    for (const model of models) {
      const setup = { model, steps, compiled, precision };
      const one = await measure({ ...setup, where: [first!] });
      if (group.size > 1) {
        // All ranks at once, as they train: they share the host's memory and its cores.
        await group.barrier();
        const many = await measure({ ...setup, traced, where: group });
        const parts = await partsOf(model, first!, group);
        if (group.rank === 0 || traced) report(setup, group.size, "ranks", one, many, parts);
        continue;
      }
      const parts = await partsOf(model, first!, group);
      for (const count of counts.filter((count) => count <= devices.length)) {
        const where = devices.slice(0, count);
        const many = count === 1 ? one : await measure({ ...setup, traced, where });
        report(setup, count, "devices", one, many, parts);
      }
    }
  });
}

setDeterministic(true);
await main(argumentsOrExit(parse));
