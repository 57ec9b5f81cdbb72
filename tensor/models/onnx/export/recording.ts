/**
 * Lists the operations of a module on its inputs.
 *
 * This folder (`export/`) writes modules as graphs of ONNX. It imports `format/` and `core/` beside it, and
 * `core/` and `nn/module/` of tensors.
 */
import type { Node } from "../../../../backend/internal.ts";
import {
  type CallObserver,
  observeCalls,
  type Operation,
  type OperationKind,
} from "../../../core/calls.ts";
import { isTensor, makeTensor, nodeOf } from "../../../core/internals.ts";
import { noGrad } from "../../../core/modes/grad_mode.ts";
import { calledByUser } from "../../../core/modes/temporaries.ts";
import { callOperation } from "../../../core/operations.ts";
import type { Tensor } from "../../../core/mod.ts";

/** A tensor with the node that it had when it was used. */
export interface Used {
  readonly tensor: Tensor;
  readonly node: Node;
}

/** An operation with what it got and gave. */
export interface RecordedCall {
  /** The method's name. */
  readonly name: string;
  /** Arguments as they are written; tensors in them are {@linkcode Used}. */
  readonly args: readonly unknown[];
  /** Results, tensors as {@linkcode Used}. */
  readonly output: unknown;
}

/** True for a tensor of a recorded call. */
export function isUsed(value: unknown): value is Used {
  return typeof value === "object" && value !== null && "tensor" in value && "node" in value;
}

/** A value with its tensors in the place of themselves and their nodes. */
function captured(value: unknown): unknown {
  // With a handle of its own: what an operation makes on its way ends with it.
  if (isTensor(value)) {
    const node = nodeOf(value);
    return { tensor: calledByUser(() => makeTensor(node, value.device)), node };
  }
  if (Array.isArray(value)) return value.map(captured);
  if (typeof value !== "object" || value === null || value.constructor !== Object) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, captured(part)]));
}

/** Operations of a function. */
export interface Recording {
  /** Its operations, in order. */
  readonly calls: readonly RecordedCall[];
  /** Its result, tensors as {@linkcode Used}. */
  readonly result: unknown;
  /** The names of operations that were listed by their parts, by what they gave. */
  readonly makers: ReadonlyMap<Node, string>;
}

/** Runs a function and lists its operations; one that `isKnown` does not know is listed by its parts. */
export function recorded(
  fn: () => unknown,
  isKnown: (name: string) => boolean,
): Recording {
  const calls: RecordedCall[] = [], makers = new Map<Node, string>();
  const call = (
    kind: OperationKind,
    fn: Operation,
    self: unknown,
    args: readonly unknown[],
  ): unknown => {
    const { name } = fn, isOne = kind === "compute" && isKnown(name);
    if (kind === "read") {
      throw new TypeError("Cannot save a model that reads a value on its way: a graph has none");
    }
    const own = captured(args) as unknown[],
      run = () => callOperation(kind, fn, self, args.slice());
    const output = isOne ? observeCalls(null, run) : run();
    if (isOne) calls.push({ name, args: own, output: captured(output) });
    else if (isTensor(output)) makers.set(nodeOf(output), name);
    return output;
  };
  const observer: CallObserver = {
    isFollowing: false,
    call,
    look: () => {},
    write: (_holder, _tensors, change) => change(),
    giveUp: () => {},
    resolved: (value) => value,
  };
  const result = captured(noGrad(() => observeCalls(observer, fn)));
  return { calls, result, makers };
}
