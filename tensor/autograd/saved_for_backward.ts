/**
 * The saved-for-backward plan: what `backward` would compute, asked before it is called. A value that is
 * read first saves what backward needs, and no more.
 */
import { isEager, NEED, type Node } from "../../backend/internal.ts";
import { isAnomalyEnabled, withoutGrad } from "../core/modes/grad_mode.ts";
import { changedInputs, type GradFn } from "../core/grad_fn.ts";
import { nodeOf, stateOf } from "../core/internals.ts";
import { withTemporaries } from "../core/modes/temporaries.ts";
import type { Tensor } from "../core/mod.ts";
import { ReverseWalk } from "./reverse_walk.ts";

/** The nodes of the gradients that going backward from a tensor would give, none where it cannot. */
export function gradientNodes(root: Tensor): Node[] {
  if (!stateOf(root).isRecorded || isEager() || isAnomalyEnabled()) return [];
  const ends: Node[] = [];
  // What lies below a value in memory was computed with it, and what it needs was saved then.
  const isEnd = (tensor: Tensor): boolean => tensor !== root && nodeOf(tensor).isLeaf;
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
  if (gradFn.isFreed || changedInputs(gradFn).length > 0) return [];
  return gradFn.outputs
    ? gradFn.inputs.map((input) => input.requiresGrad ? input.neg() : null)
    : gradFn.gradient(gradients[0]!, results[0]!, gradients);
}
