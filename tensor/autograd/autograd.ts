/** Reverse-mode differentiation: gradients are ordinary lazy tensors, so they fuse like others. */
import { formatShape, sameShape } from "../../backend/internal.ts";
import { withoutAutocast } from "../core/autocast.ts";
import { requireTensor } from "../core/apply.ts";
import { AnomalyWatch } from "./anomaly.ts";
import {
  exposed,
  goingBackward,
  guardValues,
  holdsNode,
  nodeOf,
  stateOf,
  useSavedValues,
} from "../core/tensor_state.ts";
import { observedCall } from "../core/operations.ts";
import { ShapeError } from "../core/errors.ts";
import { hasAccumulationHooks, runAccumulationHooks } from "./accumulation_hooks.ts";
import { hookedGradient } from "./gradient_hooks.ts";
import { enableGrad, isAnomalyEnabled, isGradEnabled, noGrad } from "../core/grad_mode.ts";
import { computeWithGradients, computeWithNext } from "../execution/realization.ts";
import { withTemporaries } from "../core/temporaries.ts";
import type { Tensor } from "../tensor.ts";
import { checkOptions, type Rules, takes } from "../core/options.ts";
import { dependsOnVariable } from "../core/unread.ts";
import { type GradFn, neededInputs, releaseGradFn } from "../core/grad_fn.ts";

/** Options of `backward` and {@linkcode grad}. */
export interface BackwardOptions {
  /** Keep what is needed to call `backward` again. */
  retainGraph?: boolean;
  /** Record the gradients themselves, for second derivatives. */
  createGraph?: boolean;
}

const backwardRules: Rules<BackwardOptions> = {
  retainGraph: takes.bool,
  createGraph: takes.bool,
};
const gradRules: Rules<BackwardOptions & { gradients?: readonly Tensor[] }> = {
  ...backwardRules,
  gradients: takes.list,
};

const freed: GradFn = {
  name: "freed",
  isFreed: true,
  inputs: [],
  gradient: () => {
    throw new Error(
      "Cannot go backward a second time: the graph was let go by the first; pass { retainGraph: true } there",
    );
  },
};

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

/** The recorded tensors below the roots, the last made first; not those below `ends`. */
function recorded(roots: readonly Tensor[], ends: ReadonlySet<Tensor>): Tensor[] {
  const seen = new Set<Tensor>();
  const stack = roots.filter((t) => t.requiresGrad);
  for (let t = stack.pop(); t; t = stack.pop()) {
    if (seen.has(t)) continue;
    seen.add(t);
    if (ends.has(t)) continue;
    const { gradFn } = stateOf(t);
    for (const input of gradFn ? neededInputs(gradFn) : []) {
      if (!seen.has(input)) stack.push(input);
    }
  }
  return [...seen].sort((a, b) => stateOf(b).order - stateOf(a).order);
}

/** Results of one operation on their way to it: it is gone through when the last has arrived. */
class Meeting {
  readonly gradients: (Tensor | null)[];
  readonly results: Tensor[] = [];
  #open = 0;

  constructor(readonly gradFn: GradFn) {
    this.gradients = (gradFn.outputs ?? []).map(() => null);
  }

  expect(): void {
    this.#open++;
  }

  /** Takes the gradient of a result, null where it has none; true when it was the last. */
  arrive(result: Tensor, gradient: Tensor | null): boolean {
    this.gradients[this.gradFn.outputs!.indexOf(stateOf(result).order)] = gradient;
    this.results.push(result);
    return --this.#open === 0 && this.gradients.some((g) => g !== null);
  }
}

/** Where the results of operations that have several meet. */
function meetingsOf(tensors: readonly Tensor[]): ReadonlyMap<GradFn, Meeting> {
  const meetings = new Map<GradFn, Meeting>();
  for (const tensor of tensors) {
    const { gradFn } = stateOf(tensor);
    if (!gradFn?.outputs) continue;
    let meeting = meetings.get(gradFn);
    if (!meeting) meetings.set(gradFn, meeting = new Meeting(gradFn));
    meeting.expect();
  }
  return meetings;
}

/** Runs a gradient; reading an input that was assigned since is an error: its value is another. */
function guardChanged<T>(gradFn: GradFn, fn: () => T): T {
  const changed = gradFn.inputs.filter((input, k) =>
    gradFn.values && !holdsNode(input, gradFn.values[k]!)
  );
  return changed.length === 0 ? fn() : guardValues(new Set(changed), gradFn.name, fn);
}

/** What a walk does on its way. */
interface Walk {
  readonly options: BackwardOptions;
  /** Called with the finished gradient of every tensor. */
  readonly visit: (tensor: Tensor, gradient: Tensor) => void;
  /** Tensors that it does not go beyond. */
  readonly ends?: ReadonlySet<Tensor>;
  /** Called with every operation that it has gone through. */
  readonly pass?: (gradFn: GradFn) => void;
}

/** Walks the graph from the roots to the leaves. */
function walk(roots: readonly Tensor[], seeds: readonly Tensor[], walk: Walk): void {
  const { options, ends = new Set(), pass = () => {} } = walk;
  const mode = options.createGraph ? enableGrad : noGrad;
  const run = (): void => new Walker(roots, seeds, { ...walk, ends, pass }).run();
  goingBackward(() => withoutAutocast(() => mode(() => withTemporaries(run))));
}

class Walker {
  readonly #gradients = new Map<Tensor, Tensor>();
  /** Tensors whose gradient is a sum, when anomalies are looked for. */
  readonly #sums = new Set<Tensor>();
  readonly #watch = isAnomalyEnabled() ? new AnomalyWatch() : null;
  readonly #order: readonly Tensor[];
  readonly #meetings: ReadonlyMap<GradFn, Meeting>;
  readonly #walk: Required<Walk>;
  readonly #freed: GradFn[] = [];

  constructor(roots: readonly Tensor[], seeds: readonly Tensor[], walk: Required<Walk>) {
    this.#walk = walk;
    roots.forEach((root, k) => this.#join(root, seeds[k]!));
    for (const seed of seeds) this.#watch?.addSeed(seed);
    this.#order = recorded(roots, walk.ends);
    this.#meetings = meetingsOf(this.#order.filter((t) => !walk.ends.has(t)));
  }

  run(): void {
    for (const tensor of this.#order) this.#step(tensor);
    if (this.#watch) noGrad(() => this.#watch!.check());
    // Only now: the gradient of an operation may need a result that another one has held so far.
    for (const gradFn of this.#freed) releaseGradFn(gradFn);
  }

  #join(tensor: Tensor, gradient: Tensor): void {
    const known = this.#gradients.get(tensor);
    this.#gradients.set(tensor, known ? known.add(gradient) : gradient);
    if (known && this.#watch) this.#sums.add(tensor);
  }

  #step(tensor: Tensor): void {
    const arrived = this.#gradients.get(tensor) ?? null;
    const gradient = arrived && hookedGradient(tensor, arrived);
    this.#gradients.delete(tensor);
    if (gradient && this.#sums.has(tensor)) this.#watch?.addSum(stateOf(tensor).gradFn, gradient);
    if (gradient) this.#walk.visit(tensor, gradient);
    const { gradFn } = stateOf(tensor);
    if (!gradFn || this.#walk.ends.has(tensor)) return;
    const meeting = this.#meetings.get(gradFn);
    if (meeting) {
      if (meeting.arrive(tensor, gradient)) this.#pass(gradFn, meeting.results, meeting.gradients);
    } else if (gradient) this.#pass(gradFn, [tensor], [gradient]);
  }

  /** Goes through an operation: from its results to its inputs. */
  #pass(gradFn: GradFn, results: readonly Tensor[], gradients: readonly (Tensor | null)[]): void {
    const { retainGraph, createGraph } = this.#walk.options;
    const one = gradients.find((g) => g !== null)!;
    const found = guardChanged(gradFn, () => gradFn.gradient(one, results[0]!, gradients));
    for (const result of results) this.#watch?.addResults(result, gradFn, found);
    gradFn.inputs.forEach((input, k) => {
      const gradient = found[k];
      if (gradient && input.requiresGrad && (gradFn.needs?.[k] ?? true)) {
        this.#join(input, gradient);
      }
    });
    this.#walk.pass(gradFn);
    if (retainGraph || createGraph) return;
    for (const result of results) stateOf(result).record(freed);
    this.#freed.push(gradFn);
  }
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
  walk(results, gradients, {
    options: { createGraph: isGradEnabled() },
    ends,
    visit: (tensor, gradient) => {
      if (ends.has(tensor)) found.set(tensor, gradient);
    },
  });
  return inputs.map((input) => found.get(input) ?? null);
}

function accumulate(leaf: Tensor, gradient: Tensor, { createGraph }: BackwardOptions): void {
  const mode = createGraph ? enableGrad : noGrad;
  const { grad } = leaf;
  // One that a step has used already is used again: sums over steps are stored, not made anew.
  const isOverSteps = grad !== null && nodeOf(grad).isComputed;
  const total = grad ? withoutAutocast(() => mode(() => grad.add(gradient))) : gradient;
  grad?.dispose();
  const next = leaf.grad = exposed(createGraph ? total : total.detach());
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
  const order: Set<Tensor> | null = hasAccumulationHooks() ? new Set() : null;
  walk([root], [seed], {
    options,
    visit: (tensor, g) => {
      if (!stateOf(tensor).gradFn) found.push([tensor, g]);
    },
    pass: (edge) => {
      storeConstants(edge);
      if (order) noteLast(order, edge.inputs);
    },
  });
  // Only now: a walk that throws leaves everybody's gradient alone.
  const leaves = found.map(([leaf, g]) => {
    accumulate(leaf, g, options);
    return leaf;
  });
  useSavedValues();
  if (!root.isRealized) {
    // A root that is read before the step computes the gradients too, so that its work is done once:
    // those that are there then, since clipping and the like replace them.
    stateOf(root).coScheduled = () =>
      leaves.flatMap(({ grad }) => grad && !grad.disposed ? nodeOf(grad) : []);
    computeWithGradients(root);
  }
  if (order) {
    const reached = new Set(leaves);
    runAccumulationHooks([...order].filter((leaf) => reached.has(leaf)));
  }
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
  return observedCall("compute", gradientsOf, undefined, [outputs, inputs, options]) as Tensor[];
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
  walk(outputs, seeds, {
    options: { retainGraph: true, ...options },
    visit: (tensor, gradient) => {
      if (targets.has(tensor)) wanted.set(tensor, gradient);
    },
  });
  useSavedValues();
  return inputs.map((input) => {
    const gradient = wanted.get(input);
    return gradient ? exposed(gradient) : input.zerosLike();
  });
}
