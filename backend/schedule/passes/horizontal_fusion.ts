/**
 * Horizontal fusion: one launch for many kernels. Those that do the same with other buffers and sizes,
 * such as the update of every parameter of a model, need not be launched one by one.
 */
import type { HorizontalKernel, LoopKernel } from "../../kernel/kernel.ts";
import { structureOf } from "../../kernel/structure.ts";
import type { SharingRules } from "../../kernel/target.ts";
import type { KernelPlan } from "../../kernel/template.ts";
import { bytesOf, type KernelGraph, type Pass, type Step } from "./kernel_graph.ts";

/**
 * A kernel waits for those that it is launched with; what it reads must not fill memory meanwhile. With 1 MiB
 * the gradients of a small GPT's biases took 9 launches on PoCL (768 rows of 512: 1.5 MiB), with 8 they take 2.
 */
const MAX_HELD_BYTES = 1 << 23;
/** Results that are computed before they are due, such as half copies of a model's weights, hold so much. */
const MAX_EARLY_BYTES = 1 << 26;

/** Bytes of a launch's arguments for each buffer: its address, and where it begins. */
const BUFFER_BYTES = 12;
/** Bytes of an index among the arguments. */
const INDEX_BYTES = 4;
/** Argument bytes that a launch takes for itself. */
const LAUNCH_BYTES = 8;

/** Kernels that may share a launch. */
export interface Shareable {
  /** Kernels with equal keys may be launched together. */
  readonly key: string;
  /** The most of them that one launch can take. */
  readonly most: number;
}

/** Kernels that will be one launch, at the place of the last of them, or of the first. */
interface Launch {
  readonly members: number[];
  readonly most: number;
  heldBytes: number;
  /** True when all that they read is there where the first of them runs: they can all run there. */
  canBeEarly: boolean;
  /** True when all that they read was in memory before any kernel. */
  readsStored: boolean;
  /** A result of theirs is read: what joins now must be early. */
  isDue: boolean;
  /** They run at the place of the first. */
  isEarly: boolean;
  /** Bytes of their results. */
  madeBytes: number;
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

/** Conditions under which a kernel may share its launch. */
function shareable(
  kernel: LoopKernel,
  { name, variant }: KernelPlan,
  sharing: SharingRules,
): Shareable | null {
  // Parts of split sums are long work, as most contractions are: sharing their launches gains nothing.
  if (kernel.chunk || variant === null) return null;
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
 * where none of those reads its results, and before others where none of those makes what it reads.
 */
export function fuseAlike(
  graph: KernelGraph,
  shareableOf: (kernel: LoopKernel) => Shareable | null,
): KernelGraph {
  const launches = launchesOf(graph, shareableOf);
  if (launches.every(({ members }) => members.length === 1)) return graph;
  const places = new Map(
    launches.map((launch) => [launch.members.at(launch.isEarly ? 0 : -1)!, launch]),
  );
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
  /** The launch, or the step by itself, that makes a result. */
  const makers = new Map<number, Launch | number>();
  const interior = new Set(steps.flatMap(({ outputs }) => outputs));
  const isThere = (at: number, place: number): boolean => {
    const maker = makers.get(at);
    return maker === undefined ? buffers[at]!.isStored : placeOf(maker) < place;
  };
  steps.forEach(({ kernel, inputs, outputs }, k) => {
    // Who reads a result comes after its kernel: nothing is launched later with that any more.
    for (const at of inputs) {
      const maker = makers.get(at);
      if (typeof maker === "object") maker.isDue = true;
    }
    const found = kernel.kind === "loop" ? shareableOf(kernel) : null;
    for (const at of found === null ? outputs : []) makers.set(at, k);
    if (found === null) return;
    const { key, most } = found;
    const readsStored = inputs.every((at) => buffers[at]!.isStored);
    let launch = open.get(key);
    const canBeEarly = inputs.every((at) => isThere(at, launch?.members[0] ?? k));
    if (!launch || !canJoin(launch, canBeEarly, readsStored)) {
      launch = {
        members: [],
        most,
        heldBytes: 0,
        canBeEarly: true,
        readsStored: true,
        isDue: false,
        isEarly: false,
        madeBytes: 0,
      };
      open.set(key, launch);
      launches.push(launch);
    } else {
      launch.isEarly ||= launch.isDue;
      launch.canBeEarly &&= canBeEarly;
    }
    launch.members.push(k);
    launch.readsStored &&= readsStored;
    for (const at of new Set(inputs).intersection(interior)) {
      launch.heldBytes += bytesOf(buffers[at]!);
    }
    for (const at of new Set(outputs)) {
      makers.set(at, launch);
      launch.madeBytes += bytesOf(buffers[at]!);
    }
  });
  return launches;
}

/** The step in whose place a result is made. */
function placeOf(maker: Launch | number): number {
  return typeof maker === "number" ? maker : maker.members.at(maker.isEarly ? 0 : -1)!;
}

/** True when another kernel may join a launch; a due one takes only kernels that can run where it does. */
function canJoin(launch: Launch, canBeEarly: boolean, readsStored: boolean): boolean {
  const { members, most, heldBytes, isDue, madeBytes } = launch;
  if (members.length === most || heldBytes > MAX_HELD_BYTES) return false;
  const mostMade = launch.readsStored && readsStored ? MAX_EARLY_BYTES : MAX_HELD_BYTES;
  return !isDue || launch.canBeEarly && canBeEarly && madeBytes <= mostMade;
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
