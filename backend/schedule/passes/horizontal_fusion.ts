/**
 * Horizontal fusion: one launch for many kernels. Those that do the same with other buffers and sizes,
 * such as the update of every parameter of a model, need not be launched one by one.
 */
import type { HorizontalKernel, LoopKernel } from "../../kernel/kernel.ts";
import { structureOf } from "../../kernel/structure.ts";
import type { SharingRules } from "../../kernel/target.ts";
import type { KernelPlan } from "../../kernel/template.ts";
import { bytesOf, type KernelGraph, type Pass, type Step } from "./kernel_graph.ts";

/** A kernel waits for those that it is launched with; what it reads must not fill memory meanwhile. */
const MAX_HELD_BYTES = 1 << 20;

/** Bytes of a launch's arguments for each buffer: its address, and where it begins. */
const BUFFER_BYTES = 12;
/** Bytes of an index among the arguments. */
const INDEX_BYTES = 4;
/** Argument bytes that a launch takes for itself. */
const LAUNCH_BYTES = 8;

/** Which kernels may share a launch. */
export interface Shareable {
  /** Kernels with equal keys may be launched together. */
  readonly key: string;
  /** The most of them that one launch can take. */
  readonly most: number;
}

/** Kernels that will be one launch, at the place of the last of them. */
interface Launch {
  readonly members: number[];
  readonly most: number;
  heldBytes: number;
}

/** The pass: kernels of equal structure that do not depend on each other are launched together. */
export const fuseHorizontally: Pass = (graph, device) => {
  const { target: { sharing }, planKernel } = device;
  if (sharing === null || planKernel === null) return graph;
  return fuseAlike(
    graph,
    (kernel) => shareable(kernel, planKernel(kernel, device.target), sharing),
  );
};

/** Whether a kernel may share its launch, and with which. */
function shareable(
  kernel: LoopKernel,
  { name, variant }: KernelPlan,
  sharing: SharingRules,
): Shareable | null {
  // Contractions and parts of split sums are long work: sharing their launches gains nothing.
  if (kernel.contraction || kernel.chunk || variant === null) return null;
  const { key, numberBytes, copiedBytes } = structureOf(kernel);
  const buffers = kernel.inputs.length + kernel.outputs.length;
  // One index says where the work-groups of the kernel begin.
  const bytes = buffers * BUFFER_BYTES + numberBytes + copiedBytes * (variant.copies - 1) +
    INDEX_BYTES * (variant.numbers + 1);
  const room = sharing.argumentBytes - LAUNCH_BYTES;
  const most = Math.min(sharing.maxKernels, Math.floor(room / bytes));
  return most < 2 ? null : { key: `${name}|${variant.key}|${key}`, most };
}

/**
 * Joins kernels that are alike and do not depend on each other. A kernel moves behind others only
 * where none of those reads its results.
 */
export function fuseAlike(
  graph: KernelGraph,
  shareableOf: (kernel: LoopKernel) => Shareable | null,
): KernelGraph {
  const launches = launchesOf(graph, shareableOf);
  if (launches.every(({ members }) => members.length === 1)) return graph;
  const places = new Map(launches.map((launch) => [launch.members.at(-1)!, launch]));
  const moved = new Set(launches.flatMap(({ members }) => members));
  const steps = graph.steps.flatMap((step, k) => {
    const launch = places.get(k);
    if (launch) return [join(launch.members.map((member) => graph.steps[member]!))];
    return moved.has(k) ? [] : [step];
  });
  return { ...graph, steps };
}

function launchesOf(
  { steps, buffers }: KernelGraph,
  shareableOf: (kernel: LoopKernel) => Shareable | null,
): Launch[] {
  const launches: Launch[] = [], open = new Map<string, Launch>();
  const waiting = new Map<number, string>();
  const interior = new Set(steps.flatMap(({ outputs }) => outputs));
  steps.forEach(({ kernel, inputs, outputs }, k) => {
    // Who reads a result comes after its kernel: nothing joins that launch any more.
    for (const at of inputs) {
      const key = waiting.get(at);
      if (key !== undefined) open.delete(key);
    }
    const found = kernel.kind === "loop" ? shareableOf(kernel) : null;
    if (found === null) return;
    const { key, most } = found;
    let launch = open.get(key);
    if (
      !launch || launch.members.length === launch.most || launch.heldBytes > MAX_HELD_BYTES
    ) {
      open.set(key, launch = { members: [], most, heldBytes: 0 });
      launches.push(launch);
    }
    launch.members.push(k);
    for (const at of new Set(inputs).intersection(interior)) {
      launch.heldBytes += bytesOf(buffers[at]!);
    }
    for (const at of outputs) waiting.set(at, key);
  });
  return launches;
}

function join(steps: readonly Step[]): Step {
  if (steps.length === 1) return steps[0]!;
  const members = steps.map(({ kernel }) => kernel as LoopKernel);
  const kernel: HorizontalKernel = { kind: "horizontal", members, label: members[0]!.label };
  return {
    kernel,
    inputs: steps.flatMap(({ inputs }) => inputs),
    outputs: steps.flatMap(({ outputs }) => outputs),
  };
}
