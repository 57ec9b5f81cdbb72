/**
 * What `backward` would compute, asked before it is called: a value that is read first should keep
 * what backward needs, not more.
 */
import { isEager, NEED, type Node } from "../../backend/internal.ts";
import { withoutAutocast } from "../core/autocast.ts";
import { goingBackward, holdsNode, nodeOf, stateOf } from "../core/tensor_state.ts";
import { isAnomalyEnabled, noGrad } from "../core/grad_mode.ts";
import { withTemporaries } from "../core/temporaries.ts";
import type { Tensor } from "../tensor.ts";
import { type GradFn, neededInputs } from "../core/grad_fn.ts";

/** The nodes of the gradients that going backward from a tensor would give, none where it cannot. */
export function foreseenGradients(root: Tensor): Node[] {
  if (!stateOf(root).isRecorded || isEager() || isAnomalyEnabled()) return [];
  const ask = (): Node[] => withTemporaries(() => gradientsFrom(root), NEED.none);
  return goingBackward(() => withoutAutocast(() => noGrad(ask)));
}

function gradientsFrom(root: Tensor): Node[] {
  const gradients = new Map<Tensor, Tensor>([[root, root.onesLike()]]);
  const ends: Node[] = [];
  for (const tensor of pending(root)) {
    const gradient = gradients.get(tensor);
    if (!gradient) continue;
    const { gradFn } = stateOf(tensor);
    if (!gradFn || isEnd(tensor, root)) {
      ends.push(nodeOf(gradient));
      continue;
    }
    const found = through(gradFn, gradient, tensor);
    gradFn.inputs.forEach((input, k) => {
      const next = found[k];
      if (!next || !input.requiresGrad || !(gradFn.needs?.[k] ?? true)) return;
      const known = gradients.get(input);
      gradients.set(input, known ? known.add(next) : next);
    });
  }
  return ends;
}

/** What lies below a value in memory was computed with it, and what it needs was kept then. */
function isEnd(tensor: Tensor, root: Tensor): boolean {
  return tensor !== root && nodeOf(tensor).isLeaf;
}

/** The recorded tensors that a root is computed from, the last made first. */
function pending(root: Tensor): Tensor[] {
  const seen = new Set<Tensor>([root]);
  for (const tensor of seen) {
    if (isEnd(tensor, root)) continue;
    const { gradFn } = stateOf(tensor);
    for (const input of gradFn ? neededInputs(gradFn) : []) seen.add(input);
  }
  return [...seen].sort((a, b) => stateOf(b).order - stateOf(a).order);
}

/**
 * Gradients of an operation's inputs. One whose gradient calls a function of the user again is not
 * asked: it reads its inputs, and that is all there is to know.
 */
function through(gradFn: GradFn, gradient: Tensor, result: Tensor): readonly (Tensor | null)[] {
  const changed = gradFn.values?.some((node, k) => !holdsNode(gradFn.inputs[k]!, node));
  if (changed || gradFn.isFreed) return [];
  return gradFn.outputs
    ? gradFn.inputs.map((input) => input.requiresGrad ? input.neg() : null)
    : gradFn.gradient(gradient, result, [gradient]);
}
