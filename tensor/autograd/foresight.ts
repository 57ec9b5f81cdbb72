/**
 * What `backward` would compute, asked before it is called: a value that is read first should keep
 * what backward needs, not more.
 */
import { isEager, NEED, type Node } from "../../backend/engine.ts";
import { withoutAutocast } from "../core/autocast.ts";
import { isAnomalyEnabled } from "./anomaly.ts";
import { type Edge, neededInputs } from "./autograd.ts";
import { goingBackward } from "../core/base.ts";
import { noGrad } from "../core/grad_mode.ts";
import { withTemporaries } from "../execution/temporaries.ts";
import type { Tensor } from "../tensor.ts";

/** The nodes of the gradients that going backward from a tensor would give, none where it cannot. */
export function foreseenGradients(root: Tensor): Node[] {
  if (!root.edge || root.edge.isSpent || isEager() || isAnomalyEnabled()) return [];
  const ask = (): Node[] => withTemporaries(() => gradientsFrom(root), NEED.none);
  return goingBackward(() => withoutAutocast(() => noGrad(ask)));
}

function gradientsFrom(root: Tensor): Node[] {
  const gradients = new Map<Tensor, Tensor>([[root, root.onesLike()]]);
  const ends: Node[] = [];
  for (const tensor of pending(root)) {
    const gradient = gradients.get(tensor);
    if (!gradient) continue;
    const { edge } = tensor;
    if (!edge || isEnd(tensor, root)) {
      ends.push(gradient.node);
      continue;
    }
    const found = through(edge, gradient, tensor);
    edge.inputs.forEach((input, k) => {
      const next = found[k];
      if (!next || !input.requiresGrad || !(edge.needs?.[k] ?? true)) return;
      const known = gradients.get(input);
      gradients.set(input, known ? known.add(next) : next);
    });
  }
  return ends;
}

/** What lies below a value in memory was computed with it, and what it needs was kept then. */
function isEnd(tensor: Tensor, root: Tensor): boolean {
  return tensor !== root && tensor.node.isLeaf;
}

/** The recorded tensors that a root is computed from, the last made first. */
function pending(root: Tensor): Tensor[] {
  const seen = new Set<Tensor>([root]);
  for (const tensor of seen) {
    if (isEnd(tensor, root)) continue;
    for (const input of tensor.edge ? neededInputs(tensor.edge) : []) seen.add(input);
  }
  return [...seen].sort((a, b) => b.order - a.order);
}

/**
 * Gradients of an operation's inputs. One whose gradient calls a function of the user again is not
 * asked: it reads its inputs, and that is all there is to know.
 */
function through(edge: Edge, gradient: Tensor, result: Tensor): readonly (Tensor | null)[] {
  const changed = edge.values?.some((node, k) => !edge.inputs[k]!.holds(node));
  if (changed || edge.isSpent) return [];
  return edge.outputs
    ? edge.inputs.map((input) => input.requiresGrad ? input.neg() : null)
    : edge.gradient(gradient, result, [gradient]);
}
