/**
 * Reverse-mode differentiation: gradients are ordinary lazy tensors, so they fuse like others.
 *
 * This folder (`autograd/`) imports `core/` and the graph of `backend/`. The records of operations
 * (`core/grad_fn.ts`) come in; gradients, which are tensors like others, go to leaves and to
 * `execution/`.
 */
import { formatShape, NEED, type Node, sameShape } from "../../backend/internal.ts";
import { withoutAutocast } from "../core/autocast.ts";
import { distinct, requireTensor } from "../core/apply.ts";
import type { BackwardOptions, TensorsOf } from "../core/arguments.ts";
import type { GradFn } from "../core/grad_fn.ts";
import {
  exposed,
  gradientOf,
  holdsNode,
  isTensor,
  nodeOf,
  replaceGradient,
  stateOf,
} from "../core/internals.ts";
import { recording } from "../core/modes/grad_mode.ts";
import { withTemporaries } from "../core/modes/temporaries.ts";
import { computeWithNext, dependsOnVariable, pendingOn } from "../core/pending_work.ts";
import { shapeError } from "../core/rules/errors.ts";
import { checkOptions, type Rules, shown, takes } from "../core/rules/options.ts";
import type { Tensor } from "../core/mod.ts";
import { hasAccumulationHooks, runAccumulationHooks } from "./accumulation_hooks.ts";
import { BackwardWalk } from "./backward_walk.ts";
import { type BeginWalk, beginWalk, walkWithHooks } from "./hooked_walk.ts";

const backwardRules: Rules<BackwardOptions> = {
  retainGraph: takes.bool,
  createGraph: takes.bool,
};
const gradRules: Rules<BackwardOptions & { gradients?: readonly Tensor[] }> = {
  ...backwardRules,
  gradients: takes.list,
};

/** The gradient to start from: ones for a scalar, else the caller's. */
function seedOf(root: Tensor, gradient: Tensor | undefined): Tensor {
  if (gradient === undefined) {
    if (root.size === 1) return root.onesLike();
    throw shapeError("backward")`
      Cannot go backward from a tensor of shape ${root.shape} without a gradient: reduce it to a
      scalar, or pass one`;
  }
  requireTensor("go backward", gradient, " for the gradient, and options behind it");
  if (!sameShape(gradient.shape, root.shape)) {
    throw shapeError("backward")`
      Cannot go backward with a gradient of shape ${gradient.shape} from a tensor of shape
      ${root.shape}`;
  }
  return gradient.cast(root.dtype);
}

/** Gradients of so many passes wait to be added up, at most: each keeps what it is computed from. */
const MAX_WAITING = 2;
/** The passes in gradients that wait, where these are several. */
const waiting = new WeakMap<Tensor, number>();

/** Adds a gradient to a leaf's; returns true where many wait to be added up. */
function accumulate(leaf: Tensor, gradient: Tensor, { createGraph }: BackwardOptions): boolean {
  const grad = gradientOf(leaf);
  // One that a step has used already is used again: sums over steps are stored, not made anew.
  const isOverSteps = grad !== null && nodeOf(grad).isComputed;
  const passes = grad === null || isOverSteps ? 1 : (waiting.get(grad) ?? 1) + 1;
  const total = grad
    ? withoutAutocast(() => recording(createGraph === true, () => grad.add(gradient)))
    : gradient;
  const next = exposed(createGraph ? total : total.detach());
  stateOf(next).markGradient();
  replaceGradient(leaf, next);
  if (passes > 1) waiting.set(next, passes);
  if (isOverSteps || passes > MAX_WAITING) computeWithNext(next);
  return passes > MAX_WAITING;
}

/**
 * Adds the gradient of `root` to the `grad` of every leaf that requires one.
 *
 * @returns True where gradients of many passes wait to be added up, and are to be computed.
 */
export function backward(
  root: Tensor,
  first?: Tensor | BackwardOptions,
  behind?: BackwardOptions,
): boolean {
  const isAlone = behind === undefined && isPlain(first);
  const gradient = isAlone ? undefined : first as Tensor | undefined;
  const options: BackwardOptions = isAlone ? first : behind === undefined ? {} : behind;
  checkOptions("go backward", options, backwardRules);
  return walkWithHooks(beginBackward, [root, gradient, options], options.createGraph === true);
}

/** An object that was written as options. */
function isPlain(value: unknown): value is BackwardOptions {
  return (value as object | null | undefined)?.constructor === Object;
}

const beginBackward: BeginWalk<
  [root: Tensor, gradient: Tensor | undefined, options: BackwardOptions],
  boolean
> = (at, root, gradient, options) => {
  if (!root.requiresGrad) {
    throw new Error(
      "Cannot go backward from a tensor that requires no gradient: set requiresGrad on what it is " +
        "computed from, and compute it outside noGrad",
    );
  }
  const seed = withTemporaries(() => seedOf(root, gradient));
  const found: [Tensor, Tensor][] = [];
  const losses = new Set([root]);
  const order: Set<Tensor> | null = hasAccumulationHooks() ? new Set() : null;
  const walk = new BackwardWalk([root], [seed], options, {
    visit: (tensor, g) => {
      if (!stateOf(tensor).gradFn) found.push([tensor, g]);
      else if (isLossOfUser(tensor)) losses.add(tensor);
    },
    isLoss: (result) => losses.has(result),
    passed: (gradFn, isRepeated) => {
      if (!isRepeated) storeConstants(gradFn);
      if (order) noteLast(order, gradFn.inputs);
    },
    // Only at the end: a walk that throws leaves everybody's gradient alone.
    finish: () => leaveGradients(found, losses, order, options),
  });
  return beginWalk(at, walk);
};

/**
 * Adds up the gradients of leaves, which are computed with a loss that is read, and tells of them; returns true
 * where many wait to be added up.
 */
function leaveGradients(
  found: readonly (readonly [leaf: Tensor, gradient: Tensor])[],
  losses: ReadonlySet<Tensor>,
  order: ReadonlySet<Tensor> | null,
  options: BackwardOptions,
): boolean {
  let isLong = false;
  // In the order in which they were made, which becomes that of kernels: as optimizers have it, it takes least memory.
  const inOrder = found.toSorted(([a], [b]) => stateOf(a).order - stateOf(b).order);
  const leaves = inOrder.map(([leaf, g]) => {
    isLong = accumulate(leaf, g, options) || isLong;
    return leaf;
  });
  const gradients = gradientsOfLeaves(leaves);
  for (const loss of losses) {
    if (loss.isRealized) continue;
    // A loss that is read before the step computes the gradients too, so that its work is done once:
    // those that are there then, since clipping and the like replace them.
    stateOf(loss).coScheduled = gradients;
    pendingOn(loss.device).addRoot(stateOf(loss));
  }
  if (order) {
    const reached = new Set(leaves);
    runAccumulationHooks([...order].filter((leaf) => reached.has(leaf)));
  }
  return isLong;
}

/** True for a number that the user may read after the step: a loss before it is scaled, parts of a sum. */
function isLossOfUser(tensor: Tensor): boolean {
  return tensor.size === 1 && stateOf(tensor).node.exposure === NEED.lasting;
}

/**
 * Function that gives the nodes of the leaves' gradients at its call. A loss keeps it: made in
 * `backward` itself it would keep alive all that closures there share, each gradient on the way.
 */
function gradientsOfLeaves(leaves: readonly Tensor[]): () => Node[] {
  return () =>
    leaves.flatMap((leaf) => {
      const { grad } = stateOf(leaf);
      return grad === null || grad.disposed ? [] : [nodeOf(grad)];
    });
}

/** Moves tensors to the end of an order: their gradients got another part. */
function noteLast(order: Set<Tensor>, inputs: readonly Tensor[]): void {
  for (const input of inputs) {
    if (!input.requiresGrad || stateOf(input).gradFn) continue;
    order.delete(input);
    order.add(input);
  }
}

/**
 * Stores a graph's constants: one computed from something that learns, such as an old policy,
 * is computed with the graph: it is stored then, and need not keep former parameters.
 */
function storeConstants(gradFn: GradFn): void {
  gradFn.inputs.forEach((input, k) => {
    if (gradFn.needs?.[k] ?? input.requiresGrad) return;
    const node = gradFn.values?.[k];
    if (!node || node.isLeaf || input.disposed || !holdsNode(input, node)) return;
    if (dependsOnVariable(node)) computeWithNext(input);
    pendingOn(input.device).meet(node);
  });
}

function requireDifferentiable(outputs: readonly Tensor[], inputs: readonly Tensor[]): void {
  const constant = inputs.findIndex((input) => !input.requiresGrad);
  if (constant >= 0) {
    throw new Error(
      `Cannot differentiate with respect to input ${constant}, of shape ${
        formatShape(inputs[constant]!.shape)
      }: set requiresGrad on it, or on what it is computed from, before the outputs are computed`,
    );
  }
  if (outputs.some((output) => output.requiresGrad)) return;
  throw new Error(
    "Cannot differentiate outputs that require no gradient: set requiresGrad on what they are " +
      "computed from, and compute them outside noGrad",
  );
}

/**
 * The gradients of `outputs` with respect to `inputs`, without touching anybody's `grad`.
 *
 * @param outputs What is differentiated: a scalar, or several, or tensors with `gradients`.
 * @param inputs With respect to what: a tensor, or several.
 * @param options `gradients` of the outputs; `createGraph` to differentiate the result again.
 * @returns One tensor per input; zeros where no output depends on it.
 * @throws {Error} When an input requires no gradient, or no output does.
 *
 * @example A second derivative
 * ```ts
 * import { grad, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.fromHost(3, { requiresGrad: true });
 * const [first] = grad(x.pow(3), x, { createGraph: true });
 * const [second] = grad(first, x);
 * assertEquals(await second.item(), 18);
 * ```
 */
export function grad<const Inputs extends Tensor | readonly Tensor[]>(
  outputs: Tensor | readonly Tensor[],
  inputs: Inputs,
  options: BackwardOptions & { gradients?: readonly Tensor[] } = {},
): TensorsOf<Inputs extends readonly Tensor[] ? Inputs : [Tensor]> {
  checkOptions("differentiate", options, gradRules);
  const isRecorded = options.createGraph === true,
    args = [listOf(outputs), listOf(inputs)] as const;
  return walkWithHooks(beginGrad, [...args, options], isRecorded) as ReturnType<
    typeof grad<Inputs>
  >;
}

function listOf(tensors: Tensor | readonly Tensor[]): readonly Tensor[] {
  return isTensor(tensors) ? [tensors] : tensors;
}

type GradOptions = BackwardOptions & { gradients?: readonly Tensor[] };

const beginGrad: BeginWalk<
  [outputs: readonly Tensor[], inputs: readonly Tensor[], options: GradOptions],
  Tensor[]
> = (at, outputs, inputs, options) => {
  if (!Array.isArray(outputs) || !Array.isArray(inputs)) {
    const wrong = Array.isArray(outputs) ? inputs : outputs;
    throw new TypeError(
      `Cannot differentiate with ${
        shown(wrong)
      }: pass tensors, or arrays of them, grad(loss, [w, b])`,
    );
  }
  for (const tensor of [...outputs, ...inputs]) requireTensor("differentiate", tensor);
  requireDifferentiable(outputs, inputs);
  const seeds = withTemporaries(() =>
    outputs.map((output, k) => seedOf(output, options.gradients?.[k]))
  );
  const wanted = new Map<Tensor, Tensor>();
  const targets = new Set(inputs);
  const walk = new BackwardWalk(outputs, seeds, { retainGraph: true, ...options }, {
    visit: (tensor, gradient) => {
      if (targets.has(tensor)) wanted.set(tensor, gradient);
    },
    finish: () => {
      // Each is the caller's to dispose of: no two are one tensor, and none is a gradient that was passed.
      const taken = new Set(seeds);
      return inputs.map((input) => {
        const found = wanted.get(input) ?? input.zerosLike();
        const own = taken.has(found) ? distinct("grad", found) : found;
        taken.add(own);
        return exposed(own);
      });
    },
  });
  return beginWalk(at, walk);
};
