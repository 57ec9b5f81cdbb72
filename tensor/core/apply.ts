/** Makes the result of an operation: a lazy tensor, recorded for `backward` where that is wanted. */
import { type DType, isEager, Node, type Op, type Shape } from "../../backend/internal.ts";
import { type GradientFn, RecordedOperation, type RecordOptions } from "./grad_fn.ts";
import { callerStack, isAnomalyEnabled, isGradEnabled } from "./modes/grad_mode.ts";
import { requireType } from "./rules/supported_types.ts";
import { isTensor, makeTensor, nodeOf, originalOf, stateOf } from "./internals.ts";
import type { Tensor } from "./mod.ts";
import type { Rule } from "../../ffi/host/option_rules.ts";
import { deviceError } from "./rules/errors.ts";
import { phraseOf, shown } from "./rules/options.ts";

/** The rule of options that are tensors. */
export function aTensor(): Rule {
  return {
    takes: "a tensor; Tensor.fromHost makes one of arrays",
    accepts: (value) => isTensor(value),
  };
}

/** Throws where a caller without types passes something else. */
export function requireTensor(op: string, value: unknown, or = ""): asserts value is Tensor {
  if (isTensor(value)) return;
  throw new TypeError(
    `Cannot ${phraseOf(op)} with ${
      shown(value)
    }: pass a tensor${or}; Tensor.fromHost makes one of ` +
      "arrays",
  );
}

/** @throws {TypeError} Unless it is an object of tensors by name, such as `stateDict()` returns. */
export function requireState(action: string, state: unknown): void {
  const isRecord = typeof state === "object" && state !== null && !Array.isArray(state) &&
    !(state instanceof Promise || state instanceof Map);
  if (isRecord && Object.values(state).every(isTensor)) return;
  throw new TypeError(
    `Cannot ${action} from ${shown(state)}: pass tensors by name, as stateDict() returns them`,
  );
}

/** Throws unless all are tensors on one device. */
export function sameDevice(op: string, tensors: readonly Tensor[]): void {
  for (const value of tensors) requireTensor(op.replace(/ (of|on|from)$/, ""), value);
  const first = tensors[0];
  for (const other of tensors) {
    if (other.device === first!.device) continue;
    throw deviceError(op)`
      Cannot ${op} tensors of two devices: ${first!.shape} is on ${first!.device}, ${other.shape}
      on ${other.device}; move one with to()`;
  }
}

/**
 * The result of an operation on tensors.
 *
 * @param name The operation, for messages.
 * @param inputs What it is computed from.
 * @param how How: a node, or a tensor that nobody else has, which is given up for the result.
 * @param gradient The gradients of the inputs; null where there are none.
 * @param options Particulars of the record.
 */
export function result(
  name: string,
  inputs: readonly Tensor[],
  how: Node | Tensor,
  gradient: GradientFn | null,
  options: RecordOptions = plain,
): Tensor {
  const node = how instanceof Node ? how : nodeOf(how);
  requireType(inputs[0]!.device, node.dtype);
  node.hold();
  if (!(how instanceof Node)) how.dispose();
  const out = makeTensor(node, inputs[0]!.device);
  node.drop();
  if (gradient !== null && inputs.some(needsGrad) && isGradEnabled()) {
    stateOf(out).record(newGradFn(name, inputs, gradient, options));
  }
  return isEager() ? out.realize() : out;
}

function needsGrad(input: Tensor): boolean {
  return stateOf(input).needsGrad;
}

/**
 * Result of an operation that had nothing to do: another tensor of the same value, so that
 * disposing of one leaves the other.
 */
export function distinct(name: string, x: Tensor): Tensor {
  return derived(name, x, { kind: "reshape" }, x.shape, x.dtype, (g) => [g]);
}

const plain: RecordOptions = {};

/** Makes the record of an operation's result for `backward`. */
export function newGradFn(
  name: string,
  inputs: readonly Tensor[],
  gradient: GradientFn,
  options: RecordOptions = plain,
): RecordedOperation {
  const values = inputs.map(nodeOf);
  if (options.kept !== undefined) values.push(...options.kept);
  let below: RecordedOperation[] | null = null;
  for (const input of inputs) {
    const { gradFn } = stateOf(input);
    if (gradFn instanceof RecordedOperation) (below ??= []).push(gradFn);
  }
  const originals = inputs.map(originalOf), needs = inputs.map(needsGrad);
  const made = new RecordedOperation(name, originals, gradient, values, needs, below, options);
  if (isAnomalyEnabled()) made.stack = callerStack();
  return made;
}

/** A tensor of one operation on one tensor. */
export function derived(
  name: string,
  input: Tensor,
  op: Op,
  shape: Shape,
  dtype: DType,
  gradient: GradientFn | null,
): Tensor {
  return result(name, [input], new Node(op, [nodeOf(input)], shape, dtype), gradient);
}
