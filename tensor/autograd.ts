/** Reverse-mode differentiation: gradients are ordinary lazy tensors, so they fuse like others. */
import { formatShape, type Node, sameShape } from "../backend/engine.ts";
import { withoutAutocast } from "./amp/autocast.ts";
import { AnomalyWatch, isAnomalyEnabled } from "./anomaly.ts";
import { computeWithGradients, guardValues } from "./base.ts";
import { ShapeError } from "./errors.ts";
import { enableGrad, noGrad } from "./grad_mode.ts";
import type { Tensor } from "./tensor.ts";

/** The gradient of an operation's inputs, given that of its result; null where none is needed. */
export type GradientFn = (gradient: Tensor, result: Tensor) => readonly (Tensor | null)[];

/** How a tensor was computed. */
export interface Edge {
  /** The operation. */
  readonly name: string;
  /** What it was computed from. */
  readonly inputs: readonly Tensor[];
  /** The values that the inputs had then. */
  readonly values?: readonly Node[];
  /** The gradients of the inputs. */
  readonly gradient: GradientFn;
  /** Where it was called, when anomalies are looked for. */
  readonly stack?: string;
}

/** Options of `backward`. */
export interface BackwardOptions {
  /** Keep what is needed to call `backward` again. */
  retainGraph?: boolean;
  /** Record the gradients themselves, for second derivatives. */
  createGraph?: boolean;
}

const spent: Edge = {
  name: "spent",
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
  if (!sameShape(gradient.shape, root.shape)) {
    throw new ShapeError(
      `Cannot go backward with a gradient of shape ${
        formatShape(gradient.shape)
      } from a tensor of shape ${formatShape(root.shape)}`,
    );
  }
  return gradient;
}

/** The recorded tensors below the roots, the last made first. */
function recorded(roots: readonly Tensor[]): Tensor[] {
  const seen = new Set<Tensor>();
  const stack = roots.filter((t) => t.requiresGrad);
  for (let t = stack.pop(); t; t = stack.pop()) {
    if (seen.has(t)) continue;
    seen.add(t);
    for (const input of t.edge?.inputs ?? []) {
      if (input.requiresGrad && !seen.has(input)) stack.push(input);
    }
  }
  return [...seen].sort((a, b) => b.order - a.order);
}

/** Runs a gradient; reading an input that was assigned since is an error: its value is another. */
function guardChanged<T>(edge: Edge, fn: () => T): T {
  const changed = edge.inputs.filter((input, k) => edge.values && !input.holds(edge.values[k]!));
  return changed.length === 0 ? fn() : guardValues(new Set(changed), edge.name, fn);
}

/** Walks the graph from the roots; calls `visit` with the finished gradient of every tensor. */
function walk(
  roots: readonly Tensor[],
  seeds: readonly Tensor[],
  options: BackwardOptions,
  visit: (tensor: Tensor, gradient: Tensor) => void,
): void {
  const gradients = new Map<Tensor, Tensor>();
  const sums = new Set<Tensor>();
  const watch = isAnomalyEnabled() ? new AnomalyWatch() : null;
  const join = (tensor: Tensor, gradient: Tensor): void => {
    const known = gradients.get(tensor);
    gradients.set(tensor, known ? known.add(gradient) : gradient);
    if (known && watch) sums.add(tensor);
  };
  const mode = options.createGraph ? enableGrad : noGrad;
  const run = (fn: () => void): void => withoutAutocast(() => mode(fn));
  run(() => {
    roots.forEach((root, k) => join(root, seeds[k]!));
    for (const seed of seeds) watch?.addSeed(seed);
    for (const tensor of recorded(roots)) {
      const gradient = gradients.get(tensor);
      if (!gradient) continue;
      gradients.delete(tensor);
      if (sums.has(tensor)) watch?.addSum(tensor.edge, gradient);
      visit(tensor, gradient);
      const edge = tensor.edge;
      if (!edge) continue;
      const results = guardChanged(edge, () => edge.gradient(gradient, tensor));
      watch?.addResults(tensor, edge, results);
      edge.inputs.forEach((input, k) => {
        const result = results[k];
        if (result && input.requiresGrad) join(input, result);
      });
      if (!options.retainGraph && !options.createGraph) tensor.edge = spent;
    }
    if (watch) noGrad(() => watch.check());
  });
}

function accumulate(leaf: Tensor, gradient: Tensor, { createGraph }: BackwardOptions): void {
  const mode = createGraph ? enableGrad : noGrad;
  const { grad } = leaf;
  const total = grad ? withoutAutocast(() => mode(() => grad.add(gradient))) : gradient;
  grad?.dispose();
  leaf.grad = createGraph ? total : total.detach();
}

/** Adds the gradient of `root` to the `grad` of every leaf that requires one. */
export function backward(root: Tensor, gradient?: Tensor, options: BackwardOptions = {}): void {
  if (!root.requiresGrad) {
    throw new Error(
      "Cannot go backward from a tensor that requires no gradient: set requiresGrad on what it is " +
        "computed from, and compute it outside noGrad",
    );
  }
  const seed = seedOf(root, gradient);
  const found: [Tensor, Tensor][] = [];
  walk([root], [seed], options, (tensor, g) => {
    if (!tensor.edge) found.push([tensor, g]);
  });
  // Only now: a walk that throws leaves everybody's gradient alone.
  const leaves = found.map(([leaf, g]) => {
    accumulate(leaf, g, options);
    return leaf;
  });
  if (root.isRealized) return;
  // A root that is read before the step computes the gradients too, so that its work is done once.
  const gradients = leaves.map((leaf) => leaf.grad!);
  root.setCompanions(() => gradients.filter((g) => !g.disposed).map((g) => g.node));
  computeWithGradients(root);
}

/**
 * The gradients of `outputs` with respect to `inputs`, without touching anybody's `grad`.
 *
 * @param outputs What is differentiated: scalars, or tensors with `gradients`.
 * @param inputs With respect to what.
 * @param options `gradients` of the outputs; `createGraph` to differentiate the result again.
 * @returns One tensor per input; zeros where an output does not depend on it.
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
  const seeds = outputs.map((output, k) => seedOf(output, options.gradients?.[k]));
  const wanted = new Map<Tensor, Tensor>();
  const targets = new Set(inputs);
  walk(outputs, seeds, { retainGraph: true, ...options }, (tensor, gradient) => {
    if (targets.has(tensor)) wanted.set(tensor, gradient);
  });
  return inputs.map((input) => wanted.get(input) ?? input.zerosLike());
}
