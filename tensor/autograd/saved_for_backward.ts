/**
 * The saved-for-backward plan: what `backward` would compute, for a value that is read first and saves what
 * that reads, and no more. A plan remembers what that is, so that the gradients are asked for it only
 * where a graph is new.
 */
import { isEager, type LaterGraph, NEED, type Node } from "../../backend/internal.ts";
import { isAnomalyEnabled, withoutGrad } from "../core/modes/grad_mode.ts";
import { changedInputs, type GradFn, neededInputs } from "../core/grad_fn.ts";
import { goingBackward, nodeOf, stateOf } from "../core/internals.ts";
import { withTemporaries } from "../core/modes/temporaries.ts";
import type { Tensor } from "../core/mod.ts";
import { ReverseWalk } from "./reverse_walk.ts";

/** The graph that going backward from a tensor would compute; null where it cannot. */
export function backwardOf(root: Tensor): LaterGraph | null {
  if (!stateOf(root).isRecorded || isEager() || isAnomalyEnabled()) return null;
  // What lies below a value in memory was computed with it, and what it needs was saved then.
  const isEnd = (tensor: Tensor): boolean => tensor !== root && nodeOf(tensor).isLeaf;
  return { key: goingBackward(() => keyOf(root, isEnd)), nodes: () => gradientNodes(root, isEnd) };
}

/**
 * The operations that it would go through, in the order in which they are found, with the inputs that it
 * goes on to: with the nodes of the values, they say what is read of them.
 */
function keyOf(root: Tensor, isEnd: (tensor: Tensor) => boolean): (string | number)[] {
  const key: (string | number)[] = [], places = new Map([[root, 0]]);
  for (const tensor of places.keys()) {
    const { gradFn, order } = stateOf(tensor);
    if (gradFn === null || isEnd(tensor)) {
      key.push(-1);
      continue;
    }
    const { name, inputs, outputs } = gradFn, needed = neededInputs(gradFn);
    key.push(name, isKnown(gradFn) ? 1 : 0, outputs?.indexOf(order) ?? -1, needed.length);
    for (const input of needed) {
      if (!places.has(input)) places.set(input, places.size);
      key.push(inputs.indexOf(input), places.get(input)!);
    }
  }
  return key;
}

/** The nodes of the gradients that going backward from a tensor would give. */
function gradientNodes(root: Tensor, isEnd: (tensor: Tensor) => boolean): Node[] {
  const ends: Node[] = [];
  withoutGrad(() => {
    const visit = (tensor: Tensor, gradient: Tensor): void => {
      if (stateOf(tensor).gradFn === null || isEnd(tensor)) ends.push(nodeOf(gradient));
    };
    const seed = withTemporaries(() => root.onesLike(), NEED.none);
    new ReverseWalk([root], [seed], { isEnd, visit, pass: gradientsOf }, NEED.none).run();
  });
  return ends;
}

/**
 * Gradients of an operation's inputs. One whose gradient calls a function of the user again is not
 * asked: it reads its inputs, and that is all there is to know.
 */
function gradientsOf(
  gradFn: GradFn,
  results: readonly Tensor[],
  gradients: readonly (Tensor | null)[],
): readonly (Tensor | null)[] {
  if (!isKnown(gradFn)) return [];
  return gradFn.outputs
    ? gradFn.inputs.map((input) => input.requiresGrad ? input.neg() : null)
    : gradFn.gradient(gradients[0]!, results[0]!, gradients);
}

/** False where the gradient cannot be asked: the graph is freed, or an input has another value now. */
function isKnown(gradFn: GradFn): boolean {
  return gradFn.isFreed !== true && changedInputs(gradFn).length === 0;
}
