/** What is computed together: tensors, values that wait for a schedule, losses with their gradients. */
import {
  backendOf,
  type Companion,
  type DeviceHandle,
  GoneError,
  type Node,
  realize,
  type Saved,
} from "../backend/engine.ts";
import { isFollowing, settled } from "./calls.ts";
import { DisposedError } from "./errors.ts";
import { foreseenGradients } from "./foresight.ts";
import type { Tensor } from "./tensor.ts";
import { requireValue, takes } from "./options.ts";

/**
 * Tensors that were assigned a value that is not computed yet. It is computed with the next schedule:
 * the value before, from which it may be computed, goes with the next `assign`.
 */
const awaited = new Set<Tensor>();

/** Has a tensor computed by the next schedule of its device. */
export function computeWithNext(tensor: Tensor): void {
  if (!isFollowing()) awaited.add(settled(tensor));
}

function takeAwaited(device: DeviceHandle): Tensor[] {
  const tensors: Tensor[] = [];
  for (const tensor of awaited) {
    if (tensor.device !== device && !tensor.disposed) continue;
    awaited.delete(tensor);
    if (!tensor.disposed && !tensor.isRealized) tensors.push(tensor);
  }
  return tensors;
}

/** Computes what waits for the next schedule, on every device. */
export function realizeAwaited(): void {
  if (awaited.size === 0) return;
  for (const device of new Set([...awaited].map((tensor) => tensor.device))) {
    const tensors = takeAwaited(device);
    if (tensors.length > 0) realizeOn(device, tensors);
  }
}

/** Roots of `backward` that no schedule has computed yet; nobody may want them any more. */
const roots = new Set<WeakRef<Tensor>>();

/**
 * Has a tensor computed by the schedule that uses its gradients: a loss belongs to the step that
 * they make, and parameters change in it.
 */
export function computeWithGradients(root: Tensor): void {
  roots.add(new WeakRef(root));
}

/** The roots of a device, with the gradients that they belong to. */
function rootsOn(device: DeviceHandle): Companion[] {
  const companions: Companion[] = [];
  for (const reference of roots) {
    const root = reference.deref();
    if (!root || root.disposed || root.isRealized) roots.delete(reference);
    else if (root.device === device) companions.push({ root: root.node, with: root.companions() });
  }
  return companions;
}

/**
 * Computes several tensors in one schedule, which shares what they have in common.
 *
 * @param tensors The tensors, all on one device.
 */
export function realizeAll(tensors: readonly Tensor[]): void {
  requireValue("realize", "tensors", tensors, takes.list);
  if (isFollowing()) return;
  const open: Tensor[] = [];
  for (const tensor of settled(tensors)) {
    const { node } = tensor;
    awaited.delete(tensor);
    if (node.saved) node.keep();
    else if (!node.storage) open.push(tensor);
  }
  if (open.length === 0) return;
  const { device } = open[0]!;
  const here = open.filter((tensor) => tensor.device === device);
  realizeOn(device, here);
  if (here.length < open.length) realizeAll(open.filter((tensor) => tensor.device !== device));
}

/**
 * Computes a tensor for a read, if something must stay that is computed with it.
 *
 * @returns What is kept for the read alone, to be let go after it.
 */
export function realizeForRead(tensor: Tensor): Saved | null {
  if (tensor.isRealized) return null;
  const companions = tensor.companions(), states = takeAwaited(tensor.device);
  const later = foreseenGradients(tensor);
  if (companions.length + states.length + later.length === 0) return null;
  // A number costs nothing to keep; what is larger is kept for the read and for backward, not for good.
  const stays = companions.length > 0 || tensor.size === 1 || states.includes(tensor);
  const brief = stays ? null : tensor.node;
  return compute({ tensors: [tensor], nodes: [tensor.node, ...companions], states, later, brief });
}

function realizeOn(device: DeviceHandle, tensors: readonly Tensor[]): void {
  const nodes: Node[] = [], later: Node[] = [];
  for (const tensor of tensors) {
    nodes.push(tensor.node, ...tensor.companions());
    if (tensor.edge) later.push(...foreseenGradients(tensor));
  }
  compute({ tensors, nodes, states: takeAwaited(device), later, brief: null });
}

interface Work {
  /** What is asked for: at least one tensor, all on one device. */
  readonly tensors: readonly Tensor[];
  /** Their nodes, and those of what is computed with them. */
  readonly nodes: readonly Node[];
  /** What has waited for this schedule. */
  readonly states: readonly Tensor[];
  readonly later: readonly Node[];
  readonly brief: Node | null;
}

/** Returns what was saved, unless a tensor keeps it for its backward. */
function compute({ tensors, nodes, states, later, brief }: Work): Saved | null {
  const { device } = tensors[0]!;
  try {
    const all = [...nodes, ...states.map((tensor) => tensor.node)];
    const options = { companions: rootsOn(device), later, brief };
    const saved = realize(backendOf(device), all, options);
    const keepers = saved ? tensors.filter(({ edge }) => edge !== null) : [];
    for (const tensor of keepers) tensor.addSaved(saved!);
    return keepers.length > 0 ? null : saved;
  } catch (error) {
    if (!(error instanceof GoneError)) {
      for (const tensor of states) awaited.add(tensor);
      throw error;
    }
    // What backward or another tensor needs may be gone, where what is asked for now is not.
    if (later.length + states.length > 0) {
      for (const state of states) computeIfThere(state);
      return compute({ tensors, nodes, states: [], later: [], brief });
    }
    throw new DisposedError(
      `Cannot compute ${tensors[0]}: what it is computed from was disposed; call realize() on ` +
        `what is needed later, or dispose later`,
    );
  }
}

/** Computes an assigned value that may be gone: who reads it is told. */
function computeIfThere(state: Tensor): void {
  try {
    compute({ tensors: [state], nodes: [state.node], states: [], later: [], brief: null });
  } catch (error) {
    if (!(error instanceof DisposedError)) throw error;
  }
}
