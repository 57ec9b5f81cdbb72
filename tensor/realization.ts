/** What is computed together: tensors, values that wait for a schedule, losses with their gradients. */
import {
  backendOf,
  type Companion,
  type DeviceHandle,
  GoneError,
  type Node,
  realize,
} from "../backend/engine.ts";
import { DisposedError } from "./errors.ts";
import { foreseenGradients } from "./foresight.ts";
import type { Tensor } from "./tensor.ts";

/** State such as running means, assigned but not computed yet. */
const awaited = new Set<Tensor>();

/** Has a tensor computed by the next schedule of its device. */
export function computeWithNext(tensor: Tensor): void {
  awaited.add(tensor);
}

function takeAwaited(device: DeviceHandle): Node[] {
  const nodes: Node[] = [];
  for (const tensor of awaited) {
    if (tensor.device !== device && !tensor.disposed) continue;
    awaited.delete(tensor);
    if (tensor.disposed || tensor.isRealized) continue;
    nodes.push(tensor.node);
  }
  return nodes;
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
  const open: Tensor[] = [];
  for (const tensor of tensors) {
    const { node } = tensor;
    if (node.saved) node.keep();
    else if (!node.storage) open.push(tensor);
  }
  if (open.length === 0) return;
  const { device } = open[0]!;
  const here = open.filter((tensor) => tensor.device === device);
  realizeOn(device, here);
  if (here.length < open.length) realizeAll(open.filter((tensor) => tensor.device !== device));
}

/** Computes a tensor for a read, if something must stay that is computed with it. */
export function realizeForRead(tensor: Tensor): void {
  if (tensor.isRealized) return;
  const nodes = [...tensor.companions(), ...takeAwaited(tensor.device)];
  const later = foreseenGradients(tensor);
  if (nodes.length + later.length === 0) return;
  // A number costs nothing to keep; what is larger is kept for backward, not for good.
  const brief = later.length > 0 && tensor.size > 1 ? tensor.node : null;
  compute(tensor.device, [tensor], [tensor.node, ...nodes], later, brief);
}

function realizeOn(device: DeviceHandle, tensors: readonly Tensor[]): void {
  const nodes: Node[] = [], later: Node[] = [];
  for (const tensor of tensors) {
    nodes.push(tensor.node, ...tensor.companions());
    if (tensor.edge) later.push(...foreseenGradients(tensor));
  }
  nodes.push(...takeAwaited(device));
  compute(device, tensors, nodes, later, null);
}

function compute(
  device: DeviceHandle,
  tensors: readonly Tensor[],
  nodes: readonly Node[],
  later: readonly Node[],
  brief: Node | null,
): void {
  try {
    const companions = rootsOn(device);
    const saved = realize(backendOf(device), nodes, { companions, later, brief });
    if (saved) { for (const tensor of tensors) if (tensor.edge) tensor.addSaved(saved); }
  } catch (error) {
    if (!(error instanceof GoneError)) throw error;
    throw new DisposedError(
      `Cannot compute ${tensors[0]}: what it is computed from was disposed; call realize() on ` +
        `what is needed later, or dispose later`,
    );
  }
}
