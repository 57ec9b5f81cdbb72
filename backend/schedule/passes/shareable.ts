/** Conditions under which kernels may share a launch. */
import { bytesMoved, bytesWritten } from "../../kernel/analysis.ts";
import {
  extent,
  type Launchable,
  type LoopKernel,
  type SpecialKernel,
  writesInPlace,
} from "../../kernel/kernel.ts";
import { structureOf } from "../../kernel/structure.ts";
import type { SharingRules } from "../../kernel/target.ts";
import type { PlanningDevice } from "../../kernel/template.ts";
import type { KernelGraph } from "./kernel_graph.ts";
import type { Shareable } from "./shared_order.ts";

/** Bytes of a launch's arguments for each buffer: its address, and where it begins. */
const BUFFER_BYTES = 12;
/** Bytes of an index among the arguments. */
const INDEX_BYTES = 4;
/** Argument bytes that a launch takes for itself. */
const LAUNCH_BYTES = 8;

/** Steps whose results no kernel reads, such as the next values of a model's weights. */
export function leavesOf({ steps }: KernelGraph): ReadonlySet<number> {
  const read = new Set(steps.flatMap(({ inputs }) => inputs));
  return new Set(
    steps.keys().filter((k) => steps[k]!.outputs.every((at) => !read.has(at))),
  );
}

/**
 * Conditions under which a kernel may share its launch; null where it may not.
 *
 * @param isLeaf Whether no kernel reads its results: what is alike then does not depend on each other.
 */
export function shareable(
  kernel: Launchable,
  device: PlanningDevice,
  isLeaf: boolean,
): Shareable | null {
  if (kernel.kind === "special") return shareableSpecial(kernel, device);
  return kernel.kind === "loop" ? shareableLoop(kernel, device, isLeaf) : null;
}

/** Sizes and steps of a special kernel among the arguments, at most. */
const MAX_NUMBERS = 48;

/** The same for a kernel that writes where its result belongs, such as keys and values of a cache. */
function shareableSpecial(
  kernel: SpecialKernel,
  { target: { isGpu, sharing } }: PlanningDevice,
): Shareable | null {
  if (sharing === null || !isGpu || !writesInPlace(kernel)) return null;
  const bytes = (kernel.inputs.length + 1) * BUFFER_BYTES + MAX_NUMBERS * INDEX_BYTES;
  const most = Math.min(
    sharing.maxKernels,
    Math.floor((sharing.argumentBytes - LAUNCH_BYTES) / bytes),
  );
  return { key: JSON.stringify(kernel), most };
}

function shareableLoop(
  kernel: LoopKernel,
  { target, planKernel }: PlanningDevice,
  isLeaf: boolean,
): Shareable | null {
  const { sharing } = target;
  if (sharing === null || planKernel === null || isLong(kernel, sharing, isLeaf)) return null;
  const { name, variant, scratch } = planKernel(kernel, target);
  if (variant === null) return null;
  const { key, numberBytes, copiedBytes } = structureOf(kernel);
  const buffers = kernel.inputs.length + kernel.outputs.length + scratch.length;
  // One index says where the work-groups of the kernel begin.
  const bytes = buffers * BUFFER_BYTES + numberBytes + copiedBytes * (variant.copies - 1) +
    INDEX_BYTES * (variant.numbers + 1);
  const room = sharing.argumentBytes - LAUNCH_BYTES;
  const most = Math.min(sharing.maxKernels, Math.floor(room / bytes));
  return most < 2 ? null : { key: `${name}|${variant.key}|${key}`, most };
}

/** True for long work, whose launch costs nothing beside it. */
function isLong(kernel: LoopKernel, sharing: SharingRules, isLeaf: boolean): boolean {
  if (kernel.chunk && !sharing.sharesParts) return true;
  if (kernel.contraction === null) return bytesMoved(kernel) > sharing.maxBytes;
  const products = extent(kernel, [...kernel.outer, ...kernel.inner]);
  if (!isLeaf) return products > sharing.maxProducts || bytesMoved(kernel) > sharing.maxBytes;
  return products > sharing.maxLeafProducts || bytesWritten(kernel.outputs) > sharing.maxBytes;
}
