/** Assignment: a tensor gets another value, which is computed with what is computed next. */
import { formatShape, isFloat, isRecording, Node, sameShape } from "../../backend/internal.ts";
import { isFollowing, tellAssigned } from "../core/calls.ts";
import { deviceError, shapeError } from "../core/rules/errors.ts";
import { requireValue, shown, takes } from "../core/rules/options.ts";
import { requireTensor } from "../core/apply.ts";
import { isTensor, nodeOf, setGradient, stateOf } from "../core/internals.ts";
import type { Tensor } from "../core/mod.ts";
import { computeWithNext, pendingOn } from "../core/pending_work.ts";
import { scatteredNode } from "../ops/indexing/indexing.ts";
import { realizeAll, realizePending } from "./realization.ts";

/** Gives a tensor another value of the same shape; returns the tensor. */
export function assign(x: Tensor, value: Tensor): Tensor {
  requireAssignable(x, value);
  const present = nodeOf(x), isPlain = !isFollowing() && !isRecording();
  if (isPlain && pendingOn(x.device).isLong(x, present, nodeOf(value))) realizePending();
  const op = { kind: value.dtype === x.dtype ? "reshape" : "cast" } as const;
  stateOf(x).assign(new Node(op, [nodeOf(value)], x.shape, x.dtype));
  tellAssigned(x);
  pendingOn(x.device).noteAssignment();
  computeWithNext(x);
  return x;
}

/**
 * Stores rows of a tensor along an axis, in place where nothing else needs its value; the rest stays.
 *
 * @param x The tensor, which requires no gradient.
 * @param axis The axis.
 * @param indices Where each goes: whole numbers that broadcast to the shape of `rows`, each one once.
 * @param rows What is stored: as `x` is, but for the axis.
 */
export function writeRows(x: Tensor, axis: number, indices: Tensor, rows: Tensor): void {
  stateOf(x).replace(scatteredNode("writeRows", "write", x, axis, indices, rows.cast(x.dtype)));
  tellAssigned(x);
  pendingOn(x.device).noteAssignment();
  computeWithNext(x);
}

function requireAssignable(x: Tensor, value: Tensor): void {
  if (stateOf(x).gradFn !== null) {
    throw new TypeError(
      `Cannot assign to a tensor of shape ${formatShape(x.shape)} that was computed from ` +
        `others: backward goes through its value; make a new tensor, or detach() it first`,
    );
  }
  if (!isTensor(value)) {
    throw new TypeError(`Cannot assign ${shown(value)}: pass a tensor`);
  }
  if (!sameShape(value.shape, x.shape)) {
    throw shapeError("assign")`
      Cannot assign a tensor of shape ${value.shape} to one of shape ${x.shape}`;
  }
  if (value.device === x.device) return;
  throw deviceError("assign")`
    Cannot assign a tensor on ${value.device} to one on ${x.device}: move it with to()`;
}

/** Computes a tensor and keeps its value; returns it. */
export function realize(x: Tensor): Tensor {
  realizeAll([x]);
  return x;
}

/** Ends a tensor. */
export function dispose(x: Tensor): void {
  stateOf(x).dispose();
}

/** Gives a leaf a gradient that the program made, or takes it away. */
export function setGrad(x: Tensor, gradient: Tensor | null): void {
  if (gradient !== null) {
    requireGradient(x, gradient);
    stateOf(gradient).isShared = true;
  }
  setGradient(x, gradient);
}

function requireGradient(x: Tensor, gradient: Tensor): void {
  requireTensor("set grad", gradient, " of its shape, or null");
  if (!sameShape(gradient.shape, x.shape)) {
    throw shapeError("grad")`
      Cannot set grad of shape ${gradient.shape} to a tensor of shape ${x.shape}: the shapes must
      be equal`;
  }
  if (gradient.device === x.device) return;
  throw deviceError("grad")`
    Cannot set grad on ${gradient.device} to a tensor on ${x.device}: move it with to()`;
}

/** Says whether `backward` adds up a gradient of a leaf. */
export function setRequiresGrad(x: Tensor, value: boolean): void {
  requireValue("set requiresGrad", "value", value, takes.bool);
  const state = stateOf(x);
  if (value && !isFloat(x.dtype)) {
    throw new TypeError(
      `Cannot require a gradient of a tensor of ${x.dtype}: only floating point has one`,
    );
  }
  if (!value && state.gradFn !== null) {
    throw new TypeError("Cannot stop gradients at a computed tensor: use detach()");
  }
  state.requiresGrad = value;
  if (value) state.markVariable();
}
