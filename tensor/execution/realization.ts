/**
 * Joint computation: tensors, values that wait for a schedule, losses with their gradients.
 *
 * This folder (`execution/`) is where values are computed, assigned, read and printed. It imports
 * `autograd/`, `core/` and a few of `ops/`. Tensors come from users and optimizers; nodes go to
 * `backend/execution/`.
 */
import {
  type Backend,
  backendOf,
  type Companion,
  type DeviceHandle,
  dtypes,
  GoneError,
  isReadable,
  isRecording,
  type LaterGraph,
  type Node,
  realize,
  type Saved,
} from "../../backend/internal.ts";
import type { BackwardOptions } from "../core/arguments.ts";
import { isFollowing, resolved } from "../core/calls.ts";
import { DisposedError } from "../core/rules/errors.ts";
import { backward } from "../autograd/autograd.ts";
import { backwardOf } from "../autograd/saved_for_backward.ts";
import { endingTemporaries } from "../core/modes/temporaries.ts";
import type { Tensor } from "../core/mod.ts";
import { requireTensor } from "../core/apply.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import { devicesWithAssignments, pendingOn } from "../core/pending_work.ts";
import { nodeOf, stateOf } from "../core/internals.ts";

/** Computes what waits for the next schedule, on every device. */
export function realizePending(): void {
  for (const device of devicesWithAssignments()) {
    const tensors = pendingOn(device).takeAssignments();
    if (tensors.length > 0) realizeOn(device, tensors);
  }
}

/** Goes backward, and computes gradients in which many passes are added up: each keeps its activations. */
export function goBackward(
  root: Tensor,
  first?: Tensor | BackwardOptions,
  behind?: BackwardOptions,
): void {
  const isSumLong = backward(root, first, behind);
  if (isSumLong && !isFollowing()) realizePending();
}

/**
 * Returns what came from the host. Small values that have waited while much came, such as hits that are counted
 * over many batches, are computed: they would hold all that they are made from.
 */
export function arrived(tensor: Tensor): Tensor {
  const { size, dtype, device } = tensor;
  if (isFollowing() || isRecording()) return tensor;
  const small = pendingOn(device).takeSmall(size * dtypes[dtype].bytes);
  if (small.length > 0) computeSmall(backendOf(device), small);
  return tensor;
}

function computeSmall(backend: Backend, values: readonly Node[]): void {
  try {
    realize(backend, values)?.use();
  } catch (error) {
    if (!(error instanceof GoneError)) throw error;
    // Its reader will be told; the others are there.
    if (values.length > 1) { for (const value of values) computeSmall(backend, [value]); }
  }
}

/**
 * Computes several tensors in one schedule, which shares what they have in common.
 *
 * @param tensors The tensors, all on one device.
 *
 * @example Two results that share a product
 * ```ts
 * import { realizeAll, Tensor } from "@netcl/netcl";
 *
 * const product = Tensor.rand([8, 8]).matmul(Tensor.rand([8, 8]));
 * const sum = product.sum(), largest = product.max();
 * realizeAll([sum, largest]);
 * console.assert(sum.isRealized && largest.isRealized);
 * ```
 */
export function realizeAll(tensors: readonly Tensor[]): void {
  requireValue("realize", "tensors", tensors, takes.list);
  for (const tensor of tensors) requireTensor("realize", tensor);
  if (isFollowing()) return;
  const open: Tensor[] = [];
  for (const tensor of resolved(tensors)) {
    const node = nodeOf(tensor);
    pendingOn(tensor.device).deleteAssignment(tensor);
    if (node.saved) node.keep();
    else if (!node.storage) open.push(tensor);
    else node.noteUse();
  }
  if (open.length === 0) return;
  const { device } = open[0]!;
  if (open.every((tensor) => tensor.device === device)) return realizeOn(device, open);
  const here = open.filter((tensor) => tensor.device === device);
  realizeOn(device, here);
  realizeAll(open.filter((tensor) => tensor.device !== device));
}

/**
 * Computes a tensor for a read and keeps its value; a view of one that is in memory is read as it is.
 *
 * @returns True when it was computed for the read, and nothing with it.
 */
export function realizeForRead(tensor: Tensor): boolean {
  const node = nodeOf(tensor), { device } = tensor;
  if (node.saved) node.keep();
  if (isReadable(node)) return false;
  const pending = pendingOn(device), isAssigned = pending.deleteAssignment(tensor);
  const isAlone = !isAssigned && !pending.hasAssignments && !stateOf(tensor).gradFn;
  if (!isAlone || stateOf(tensor).coScheduledNodes().length > 0) {
    realizeOn(device, [tensor]);
    return false;
  }
  pending.meet(node);
  const unread = pending.takeCarried();
  runSchedule({ ...nothingElse, tensors: [tensor], nodes: [node], unread });
  return unread.length === 0;
}

/** Computes a tensor, and nothing that has waited for a schedule: others do that. */
export function realizeAlone(tensor: Tensor): void {
  const node = nodeOf(tensor);
  if (node.saved) node.keep();
  else if (!node.storage) computeAlone([tensor], [node], none);
}

/**
 * Computes groups of tensors of one device one after the other, each in a schedule of its own: what later
 * groups need of an earlier one is kept until they have used it.
 *
 * @param groups The tensors; each group is enqueued before the next.
 * @param enqueued Called after each group.
 */
export function realizeInOrder(
  groups: readonly (readonly Tensor[])[],
  enqueued: (group: number) => void,
): void {
  groups.forEach((group, k) => {
    const open = group.filter((tensor) => !nodeOf(tensor).storage);
    if (open.length > 0) {
      const later = groups.slice(k + 1).flatMap((others) => others.map(nodeOf));
      realizeOn(open[0]!.device, open, later);
    }
    enqueued(k);
  });
}

function realizeOn(
  device: DeviceHandle,
  tensors: readonly Tensor[],
  usedLater: readonly Node[] = none,
): void {
  // Gradients that are asked for what they need, and which nobody gets.
  endingTemporaries(() => realizeWithPending(device, tensors, usedLater));
}

function realizeWithPending(
  device: DeviceHandle,
  tensors: readonly Tensor[],
  usedLater: readonly Node[],
): void {
  const nodes: Node[] = [], ahead: LaterGraph[] = [], pending = pendingOn(device);
  for (const tensor of tensors) {
    const { coScheduled, gradFn } = stateOf(tensor), node = nodeOf(tensor);
    nodes.push(node);
    if (gradFn === null && node.owner?.isVariable !== true) pending.meet(node);
    if (coScheduled !== null) nodes.push(...coScheduled());
    const backward = gradFn === null ? null : backwardOf(tensor);
    if (backward !== null) ahead.push(backward);
  }
  const assigned = pending.takeAssignments(), roots = pending.roots();
  // A recorded call computes what it returns and assigns, and nothing beside it.
  const endsFormer = !isRecording() && pending.takeHasAssigned();
  const carried = pending.takeCarried();
  const unread = endsFormer ? [...pending.takeUnread(roots), ...carried] : carried;
  runSchedule({ tensors, nodes, assigned, unread, roots, later: usedLater, ahead, endsFormer });
  if (endsFormer) pending.forgetComputed();
}

const none: readonly never[] = [];

/** Work of one schedule. */
interface Work {
  /** Requested tensors: at least one, all on one device. */
  readonly tensors: readonly Tensor[];
  /** Their nodes, and those of what is computed with them. */
  readonly nodes: readonly Node[];
  /** Tensors waiting for this schedule. */
  readonly assigned: readonly Tensor[];
  /** Nodes that nobody has asked for: they depend on values that were replaced, or steps pass them on. */
  readonly unread: readonly Node[];
  /** Nodes computed if their gradients are. */
  readonly roots: readonly Companion[];
  /** Nodes that a later group computes: what they read is kept. */
  readonly later: readonly Node[];
  /** Graphs of gradients that backward will compute: what they read is kept. */
  readonly ahead: readonly LaterGraph[];
  /** True when replaced values are let go after it. */
  readonly endsFormer: boolean;
}

const nothingElse = {
  assigned: none,
  unread: none,
  roots: none,
  later: none,
  ahead: none,
  endsFormer: false,
};

function runSchedule(work: Work): void {
  const { tensors, nodes, assigned, unread, roots, later, ahead, endsFormer } = work;
  const { device } = tensors[0]!, pending = pendingOn(device);
  try {
    const isAlone = assigned.length + unread.length === 0;
    const all = isAlone ? nodes : [...nodes, ...assigned.map(nodeOf), ...unread];
    const saved = realize(backendOf(device), all, { companions: roots, later, ahead, endsFormer });
    if (saved) keep(saved, tensors);
  } catch (error) {
    if (!(error instanceof GoneError)) {
      for (const tensor of assigned) pending.addAssignment(tensor);
      throw error;
    }
    // What backward or another tensor needs may be gone, where what is asked for now is not.
    if (later.length + ahead.length + assigned.length + unread.length === 0) {
      throw goneError(tensors[0]!);
    }
    for (const tensor of assigned) computeIfThere(tensor);
    computeAlone(tensors, nodes, pending.roots());
  }
}

/** Keeps saved values by the tensors through which backward may go. */
function keep(saved: Saved, tensors: readonly Tensor[]): void {
  const keepers = tensors.filter((tensor) => stateOf(tensor).gradFn !== null);
  for (const tensor of keepers) stateOf(tensor).addSaved(saved);
  // Without a backward to come, it is what is computed next that reads them.
  if (keepers.length === 0) saved.use();
}

/** An activation of a graph that backward has gone through outlives one assignment, not two. */
function goneError(tensor: Tensor): DisposedError {
  return new DisposedError(
    `Cannot compute ${tensor}: it is a result on the way of a graph that backward went through, and ` +
      `values that it depends on were assigned or disposed of since; read it, or call realize() on it, ` +
      `before the next step`,
  );
}

/** Computes what is asked for, and nothing that has waited for a schedule. */
function computeAlone(
  tensors: readonly Tensor[],
  nodes: readonly Node[],
  roots: readonly Companion[],
): void {
  runSchedule({ ...nothingElse, tensors, nodes, roots });
}

/** Computes an assigned value that may be gone: who reads it is told. */
function computeIfThere(state: Tensor): void {
  try {
    computeAlone([state], [nodeOf(state)], []);
  } catch (error) {
    if (!(error instanceof DisposedError)) throw error;
  }
}
