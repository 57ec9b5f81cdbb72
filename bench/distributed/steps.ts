/** The time of a step, and the time that it would take if nobody communicated. */
import {
  amp,
  compile,
  type DeviceHandle,
  distributed,
  manualSeed,
  optim,
  profiler,
  type Tensor,
} from "../../mod.ts";
import { cpuUsage } from "node:process";
import { backendOf } from "../../backend/internal.ts";
import type { Precision } from "../peers/models.ts";
import type { Model } from "./models.ts";
import { timelineOf } from "./timeline.ts";

/** The work that is measured, and its device. */
export interface Setup {
  readonly model: Model;
  readonly where: distributed.Group | readonly DeviceHandle[];
  readonly steps: number;
  readonly compiled: boolean;
  /** Half types are computed with under autocast; parameters and gradients stay float32. */
  readonly precision: Precision;
  /** True if one more step is traced at the end. */
  readonly traced?: boolean;
}

/** Medians over rounds. */
export interface Measured {
  readonly samplesPerSecond: number;
  readonly stepMs: number;
  /** A step of every device that reduces nothing. */
  readonly computeMs: number;
  /** The time in which the host enqueues such a step of one device, which has nothing else to do. */
  readonly hostMs: number;
  /** The processor time of a step, also where other programs use them too. */
  readonly cpuMs: number;
  /** The events of one step with their times, a line each; empty where none was traced. */
  readonly timeline: readonly string[];
}

const ROUNDS = 5, WARMUP = 4;

/** Trains for a while. */
export async function measure(
  { model, where, steps, compiled, precision, traced = false }: Setup,
): Promise<Measured> {
  manualSeed(0);
  const module = model.make();
  using parallel = new distributed.DataParallel(module, where);
  const { devices } = parallel, batches = devices.map((device) => model.data(device));
  const optimizer = new optim.AdamW(module.parameters(), { lr: 1e-4 });
  const gradients = (x: Tensor, y: Tensor): void => {
    using loss = precision === "float32"
      ? module.forward(x).crossEntropy(y)
      : amp.autocast(precision, () => module.forward(x).crossEntropy(y));
    loss.backward();
  };
  const each = compiled ? compile(gradients) : gradients;
  const update = (): void => {
    optimizer.step();
    optimizer.zeroGrad();
  };
  const learn = compiled ? compile(update) : update;
  const step = () => {
    {
      using _span = profiler.span("gradients and their reduction");
      parallel.onEachDevice(batches, each);
    }
    using _span = profiler.span("update");
    learn();
  };
  const alone = () => {
    parallel.noSync(() => each(...batches[0]!));
    learn();
  };
  const { ms: stepMs, cpuMs } = await time(step, devices, steps);
  const { ms: computeMs } = await time(alone, devices, steps);
  const hostMs = await enqueueing(alone, devices);
  const ranks = where instanceof distributed.Group ? where.size : devices.length;
  const timeline = traced ? await timelineOf(() => steadily(step, devices)) : [];
  return {
    stepMs,
    computeMs,
    hostMs,
    cpuMs,
    timeline,
    samplesPerSecond: ranks * model.batch / (stepMs / 1000),
  };
}

/** Three steps: the second begins and ends as all others do. */
async function steadily(step: () => void, devices: readonly DeviceHandle[]): Promise<void> {
  for (let k = 0; k < 3; k++) step();
  for (const device of devices) await backendOf(device).finish();
}

/** Milliseconds a call, with the devices' work. */
async function time(
  step: () => void,
  devices: readonly DeviceHandle[],
  steps: number,
): Promise<{ ms: number; cpuMs: number }> {
  for (let k = 0; k < WARMUP; k++) step();
  const rounds: number[] = [], cpu: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    for (const device of devices) await backendOf(device).finish();
    const start = performance.now(), before = cpuUsage();
    for (let k = 0; k < steps; k++) step();
    for (const device of devices) await backendOf(device).finish();
    rounds.push((performance.now() - start) / steps);
    const { user, system } = cpuUsage(before);
    cpu.push((user + system) / 1000 / steps);
  }
  return { ms: median(rounds), cpuMs: median(cpu) };
}

/** Milliseconds until a step has returned whose devices had done all before. */
async function enqueueing(step: () => void, devices: readonly DeviceHandle[]): Promise<number> {
  const times: number[] = [];
  for (let k = 0; k < 2 * ROUNDS + 1; k++) {
    for (const device of devices) await backendOf(device).finish();
    const start = performance.now();
    step();
    times.push(performance.now() - start);
  }
  return median(times);
}

function median(times: readonly number[]): number {
  return times.toSorted((a, b) => a - b)[times.length >> 1]!;
}
