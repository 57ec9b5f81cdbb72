/**
 * The library's access to tensors, not the users': it makes them of nodes, and reaches the state
 * and the node behind them.
 */
import {
  backendOf,
  type DeviceHandle,
  dtypes,
  formatShape,
  leaveToCollector,
  type Node,
} from "../../backend/internal.ts";
import { look, tellGradient } from "./calls.ts";
import type { Tensor } from "./mod.ts";
import { TensorState } from "./tensor_state.ts";

/** Access of the class, which alone has the private field with the state of a tensor. */
interface TensorAccess {
  readonly stateOf: (tensor: Tensor) => TensorState;
  readonly setState: (tensor: Tensor, state: TensorState) => void;
  readonly tensorOf: (state: TensorState) => Tensor;
  readonly isTensor: (value: unknown) => value is Tensor;
}

/** The state of a tensor. */
export let stateOf: TensorAccess["stateOf"];

/** True for tensors. There are none before there is the class. */
export let isTensor: TensorAccess["isTensor"] = (_): _ is Tensor => false;

/** Gives a tensor another state. */
let setState: TensorAccess["setState"];

/** A tensor with a state. */
let tensorOf: TensorAccess["tensorOf"];

/** Called by the class, once, while it is defined. */
export function provideTensors(access: TensorAccess): void {
  ({ stateOf, setState, tensorOf, isTensor } = access);
}

/** A tensor of a node: holds the node until it is disposed of or collected. */
export function makeTensor(node: Node, device: DeviceHandle): Tensor {
  return tensorOf(new TensorState(node, device));
}

/** A tensor without a value, which stands for a result that is known later. */
export function makeStandIn(
  like: Node,
  device: DeviceHandle,
  standsFor: { readonly requiresGrad: boolean },
): Tensor {
  const state = new TensorState(like, device, "stand-in");
  state.standsFor = standsFor;
  state.requiresGrad = standsFor.requiresGrad;
  return tensorOf(state);
}

/** Makes a stand-in the tensor of a node. */
export function fulfil(standIn: Tensor, node: Node): void {
  setState(standIn, new TensorState(node, standIn.device));
}

/** The tensor itself, for a stand-in that has become one, too. */
export function originalOf(tensor: Tensor): Tensor {
  return stateOf(tensor).original ?? tensor;
}

/** Has a stand-in be what a tensor is. */
export function shareState(standIn: Tensor, tensor: Tensor): void {
  const state = stateOf(tensor);
  state.original ??= tensor;
  state.hooks ??= stateOf(standIn).hooks;
  setState(standIn, state);
}

/**
 * Has a leaf be what another tensor is, which nobody else has: its value, in its type, on its device. The
 * leaf stays the same object, requires a gradient as before, and keeps its hooks and its gradient.
 */
export function become(leaf: Tensor, other: Tensor): void {
  const former = stateOf(leaf), state = stateOf(other);
  state.requiresGrad = former.requiresGrad;
  state.hooks = former.hooks;
  state.grad = former.grad;
  if (state.requiresGrad) state.markVariable();
  setState(leaf, state);
  former.dispose();
}

// ---- the value, where it may be used

/** Tensors that must not be read, because a recorded operation used another value of them. */
let guarded: { readonly tensors: ReadonlySet<Tensor>; readonly op: string } | null = null;

/** Runs `fn` while reading any of `tensors` is an error that names the operation. */
export function guardValues<T>(tensors: ReadonlySet<Tensor>, op: string, fn: () => T): T {
  const former = guarded;
  guarded = { tensors, op };
  try {
    return fn();
  } finally {
    guarded = former;
  }
}

let isGoingBackward = false;

/**
 * Runs `fn`, which goes backward: it may read tensors that were disposed of meanwhile, for they are
 * part of the graph all the same. Their values are there, or computed again, or an error says so.
 */
export function goingBackward<T>(fn: () => T): T {
  const former = isGoingBackward;
  isGoingBackward = true;
  try {
    return fn();
  } finally {
    isGoingBackward = former;
  }
}

/**
 * The node of the expression graph behind a tensor.
 *
 * @throws {DisposedError} After `dispose()`.
 */
export function nodeOf(tensor: Tensor): Node {
  // It may give a stand-in the state of its tensor.
  look(tensor);
  const state = stateOf(tensor);
  if (state.lifecycle !== "live") requireUsable(tensor, state);
  if (guarded !== null && guarded.tensors.has(tensor)) throw changedError(state, guarded.op);
  return state.node;
}

function requireUsable(tensor: Tensor, state: TensorState): void {
  if (state.lifecycle === "stand-in") {
    throw new Error(
      `Cannot use ${tensor}: a compiled function made it and did not return it; return it from the ` +
        `function, or make it outside and pass it`,
    );
  }
  if (isGoingBackward) return;
  if (state.lifecycle === "disposed") throw state.goneError("it");
  state.markCarried();
}

function changedError({ node }: TensorState, op: string): Error {
  return new Error(
    `Cannot go backward through ${op}: its input of shape ${
      formatShape(node.shape)
    } was assigned ` +
      `another value since; go backward before assign() or step(), or compute it again`,
  );
}

/** True while a tensor has the value of that node. */
export function holdsNode(tensor: Tensor, node: Node): boolean {
  return stateOf(tensor).node === node;
}

/** Has the user read a temporary at any time from now on; returns it. */
export function exposed(tensor: Tensor): Tensor {
  stateOf(tensor).expose();
  return tensor;
}

// ---- gradients, which the program may have got as well

/** The gradient of a leaf, for what keeps no hold of it. */
export function gradientOf(leaf: Tensor): Tensor | null {
  const { grad } = stateOf(leaf);
  tellGradient(leaf, grad);
  return grad;
}

/** Gives a leaf a gradient that the library made; the former one is the caller's to let go of. */
export function setGradient(leaf: Tensor, gradient: Tensor | null): void {
  const state = stateOf(leaf);
  tellGradient(leaf, state.grad, gradient);
  state.grad = gradient;
}

/** Gives a leaf another gradient, and lets go of the former one. */
export function replaceGradient(leaf: Tensor, gradient: Tensor | null): void {
  const former = gradientOf(leaf);
  setGradient(leaf, gradient);
  if (former !== null) letGoOfGradient(former);
}

/** Gives the memory of a gradient back, unless the program has it, too: then the collector does. */
export function letGoOfGradient(gradient: Tensor): void {
  const { isShared, device, node } = stateOf(gradient);
  if (isShared) leaveToCollector(backendOf(device), node.size * dtypes[node.dtype].bytes);
  else gradient.dispose();
}

/**
 * `dispose` with the gradient, also where activations of a graph that `backward` went through may be
 * read yet.
 */
export function disposeForGood(tensor: Tensor): void {
  const gradient = gradientOf(tensor);
  if (gradient !== null) disposeForGood(gradient);
  setGradient(tensor, null);
  tensor.dispose();
  stateOf(tensor).node.releaseTransient();
}
