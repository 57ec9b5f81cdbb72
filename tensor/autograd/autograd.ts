/**
 * Reverse-mode differentiation: gradients are ordinary lazy tensors, so they fuse like others.
 *
 * This folder (`autograd/`) imports `core/` and the graph of `backend/`. The records of operations
 * (`core/grad_fn.ts`) come in; gradients, which are tensors like others, go to leaves and to
 * `execution/`.
 */
import { formatShape, NEED, type Node, sameShape, type Saved } from "../../backend/internal.ts";
import { withoutAutocast } from "../core/autocast.ts";
import { requireTensor } from "../core/apply.ts";
import { AnomalyWatch } from "./anomaly.ts";
import {
  exposed,
  gradientOf,
  guardValues,
  holdsNode,
  nodeOf,
  replaceGradient,
  stateOf,
} from "../core/internals.ts";
import { compute } from "../core/operations.ts";
import { ShapeError } from "../core/rules/errors.ts";
import { hasAccumulationHooks, runAccumulationHooks } from "./accumulation_hooks.ts";
import { hookedGradient } from "./gradient_hooks.ts";
import { type Walk, walkBackward } from "./reverse_walk.ts";
import {
  isAnomalyEnabled,
  isGradEnabled,
  recording,
  withoutGrad,
} from "../core/modes/grad_mode.ts";
import type { Tensor } from "../core/tensor.ts";
import { checkOptions, type Rules, takes } from "../core/rules/options.ts";
import { computeWithNext, dependsOnVariable, pendingOn } from "../core/pending_work.ts";
import { changedInputs, type GradFn, noGradFn, releaseGradFn } from "../core/grad_fn.ts";
import type { BackwardOptions } from "../core/arguments.ts";

const backwardRules: Rules<BackwardOptions> = {
  retainGraph: takes.bool,
  createGraph: takes.bool,
};
const gradRules: Rules<BackwardOptions & { gradients?: readonly Tensor[] }> = {
  ...backwardRules,
  gradients: takes.list,
};

const freed = noGradFn(
  "freed",
  "Cannot go backward a second time: the graph was let go by the first; pass { retainGraph: true } there",
);

/** The gradient to start from: ones for a scalar, else the caller's. */
function seedOf(root: Tensor, gradient: Tensor | undefined): Tensor {
  if (gradient === undefined) {
    if (root.size === 1) return root.onesLike();
    throw new ShapeError(
      `Cannot go backward from a tensor of shape ${formatShape(root.shape)} without a gradient: ` +
        `reduce it to a scalar, or pass one`,
    );
  }
  requireTensor("go backward", gradient, " for the gradient, and options behind it");
  if (!sameShape(gradient.shape, root.shape)) {
    throw new ShapeError(
      `Cannot go backward with a gradient of shape ${
        formatShape(gradient.shape)
      } from a tensor of shape ${formatShape(root.shape)}`,
    );
  }
  return gradient.cast(root.dtype);
}

/** Walks from the roots to the leaves in the modes of `backward`, and lets go of the graph. */
function walk(
  roots: readonly Tensor[],
  seeds: readonly Tensor[],
  options: BackwardOptions,
  visits: Visits,
): void {
  recording(options.createGraph === true, () => {
    const backward = new BackwardWalk(options, visits);
    for (const seed of seeds) backward.watch?.addSeed(seed);
    try {
      walkBackward(roots, seeds, backward);
      withoutGrad(() => backward.watch?.check());
    } finally {
      backward.end();
    }
  });
}

/** What is done on the way beside calling gradient functions. */
interface Visits {
  /** Called with the finished gradient of every tensor. */
  readonly visit: (tensor: Tensor, gradient: Tensor) => void;
  /** Tensors that it does not go beyond. */
  readonly ends?: ReadonlySet<Tensor>;
  /** Called with every operation that it has gone through. */
  readonly passed?: (gradFn: GradFn) => void;
}

class BackwardWalk implements Walk {
  /** What looks for anomalies, where somebody does. */
  readonly watch: AnomalyWatch | null = isAnomalyEnabled() ? new AnomalyWatch() : null;
  readonly #visits: Visits;
  readonly #isGraphKept: boolean;
  readonly #freed: GradFn[] = [];
  readonly #saved: Saved[] = [];

  constructor({ retainGraph, createGraph }: BackwardOptions, visits: Visits) {
    this.#isGraphKept = retainGraph === true || createGraph === true;
    this.#visits = visits;
  }

  isEnd(tensor: Tensor): boolean {
    return this.#visits.ends?.has(tensor) === true;
  }

  visit(tensor: Tensor, sum: Tensor, isSum: boolean): Tensor {
    const gradient = hookedGradient(tensor, sum);
    if (isSum) this.watch?.addSum(stateOf(tensor).gradFn, gradient);
    this.#visits.visit(tensor, gradient);
    return gradient;
  }

  pass(
    gradFn: GradFn,
    results: readonly Tensor[],
    gradients: readonly (Tensor | null)[],
  ): readonly (Tensor | null)[] {
    const found = callGradient(gradFn, results[0]!, gradients);
    for (const result of results) this.watch?.addResults(result, gradFn, found);
    this.#visits.passed?.(gradFn);
    if (this.#isGraphKept) return found;
    this.#freed.push(gradFn);
    for (const result of results) {
      const state = stateOf(result);
      state.record(freed);
      this.#saved.push(...state.takeSaved());
    }
    return found;
  }

  /** The gradients are made: each saved value goes with its last reader. */
  end(): void {
    for (const saved of this.#saved) saved.use();
    // Not before: the gradient of an operation may need a result that another one has held so far.
    for (const gradFn of this.#freed) releaseGradFn(gradFn);
  }
}

/** Runs a gradient; reading an input that was assigned since is an error: its value is another. */
function callGradient(
  gradFn: GradFn,
  result: Tensor,
  gradients: readonly (Tensor | null)[],
): readonly (Tensor | null)[] {
  const one = gradients.find((g) => g !== null)!, changed = changedInputs(gradFn);
  const call = (): readonly (Tensor | null)[] => gradFn.gradient(one, result, gradients);
  return changed.length === 0 ? call() : guardValues(new Set(changed), gradFn.name, call);
}

/**
 * The gradients of `inputs`, from those of results that were computed from them, for `backward` to go
 * on with; null where there is none. Recorded only where recording is on.
 */
export function gradientsBelow(
  results: readonly Tensor[],
  gradients: readonly Tensor[],
  inputs: readonly Tensor[],
): (Tensor | null)[] {
  const found = new Map<Tensor, Tensor>();
  const ends = new Set(inputs);
  walk(results, gradients, { createGraph: isGradEnabled() }, {
    ends,
    visit: (tensor, gradient) => {
      if (ends.has(tensor)) found.set(tensor, gradient);
    },
  });
  return inputs.map((input) => found.get(input) ?? null);
}

function accumulate(leaf: Tensor, gradient: Tensor, { createGraph }: BackwardOptions): void {
  const grad = gradientOf(leaf);
  // One that a step has used already is used again: sums over steps are stored, not made anew.
  const isOverSteps = grad !== null && nodeOf(grad).isComputed;
  const total = grad
    ? withoutAutocast(() => recording(createGraph === true, () => grad.add(gradient)))
    : gradient;
  const next = exposed(createGraph ? total : total.detach());
  replaceGradient(leaf, next);
  if (isOverSteps) computeWithNext(next);
}

/** Adds the gradient of `root` to the `grad` of every leaf that requires one. */
export function backward(root: Tensor, gradient?: Tensor, options: BackwardOptions = {}): void {
  checkOptions("go backward", options, backwardRules);
  if (!root.requiresGrad) {
    throw new Error(
      "Cannot go backward from a tensor that requires no gradient: set requiresGrad on what it is " +
        "computed from, and compute it outside noGrad",
    );
  }
  const seed = seedOf(root, gradient);
  const found: [Tensor, Tensor][] = [];
  const losses = new Set([root]);
  const order: Set<Tensor> | null = hasAccumulationHooks() ? new Set() : null;
  walk([root], [seed], options, {
    visit: (tensor, g) => {
      if (!stateOf(tensor).gradFn) found.push([tensor, g]);
      else if (isLossOfUser(tensor)) losses.add(tensor);
    },
    passed: (gradFn) => {
      storeConstants(gradFn);
      if (order) noteLast(order, gradFn.inputs);
    },
  });
  // Only now: a walk that throws leaves everybody's gradient alone.
  const leaves = found.map(([leaf, g]) => {
    accumulate(leaf, g, options);
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
}

/** True for a number that the user may read after the step: a loss before it is scaled, parts of a sum. */
function isLossOfUser(tensor: Tensor): boolean {
  return tensor.size === 1 && stateOf(tensor).node.exposure === NEED.lasting;
}

/**
 * What gives the nodes of the gradients that leaves have when it is called. A loss keeps it: made in
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
 * What enters a graph as a constant but is computed from something that learns, such as an old policy,
 * is computed with the graph: it is stored then, and need not keep former parameters.
 */
function storeConstants(gradFn: GradFn): void {
  gradFn.inputs.forEach((input, k) => {
    if (gradFn.needs?.[k] ?? input.requiresGrad) return;
    const node = gradFn.values?.[k];
    if (!node || node.isLeaf || input.disposed || !holdsNode(input, node)) return;
    if (dependsOnVariable(node)) computeWithNext(input);
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
 * @param outputs What is differentiated: scalars, or tensors with `gradients`.
 * @param inputs With respect to what.
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
 * const [first] = grad([x.pow(3)], [x], { createGraph: true });
 * const [second] = grad([first!], [x]);
 * assertEquals(await second!.item(), 18);
 * ```
 */
export function grad(
  outputs: readonly Tensor[],
  inputs: readonly Tensor[],
  options: BackwardOptions & { gradients?: readonly Tensor[] } = {},
): Tensor[] {
  checkOptions("differentiate", options, gradRules);
  return compute(gradientsOf, outputs, inputs, options);
}

type GradOptions = BackwardOptions & { gradients?: readonly Tensor[] };

function gradientsOf(
  outputs: readonly Tensor[],
  inputs: readonly Tensor[],
  options: GradOptions,
): Tensor[] {
  if (!Array.isArray(outputs) || !Array.isArray(inputs)) {
    throw new TypeError("Cannot differentiate: pass arrays of tensors, as in grad([loss], [x])");
  }
  for (const tensor of [...outputs, ...inputs]) requireTensor("differentiate", tensor);
  requireDifferentiable(outputs, inputs);
  const seeds = outputs.map((output, k) => seedOf(output, options.gradients?.[k]));
  const wanted = new Map<Tensor, Tensor>();
  const targets = new Set(inputs);
  walk(outputs, seeds, { retainGraph: true, ...options }, {
    visit: (tensor, gradient) => {
      if (targets.has(tensor)) wanted.set(tensor, gradient);
    },
  });
  return inputs.map((input) => {
    const gradient = wanted.get(input);
    return gradient ? exposed(gradient) : input.zerosLike();
  });
}
