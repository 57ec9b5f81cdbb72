/** Hooks for gradients that `backward` has added to leaves, such as reduction over ranks. */
import type { Tensor } from "../core/mod.ts";

/** Gets leaves of one `backward`, in the order in which it finished their gradients. */
export type AccumulationHook = (leaves: readonly Tensor[]) => void;

const hooks = new WeakMap<Tensor, Set<AccumulationHook>>();
let count = 0;

/** Has a hook called after every `backward` that reaches any of the leaves; disposing ends that. */
export function addAccumulationHook(leaves: readonly Tensor[], hook: AccumulationHook): Disposable {
  count++;
  for (const leaf of leaves) hooks.set(leaf, (hooks.get(leaf) ?? new Set()).add(hook));
  return {
    [Symbol.dispose]: () => {
      count--;
      for (const leaf of leaves) hooks.get(leaf)?.delete(hook);
    },
  };
}

/** True when there is a hook: without one, nobody asks for the order of leaves. */
export function hasAccumulationHooks(): boolean {
  return count > 0;
}

/** Calls each hook once, with its own leaves. */
export function runAccumulationHooks(leaves: Iterable<Tensor>): void {
  const own = new Map<AccumulationHook, Tensor[]>();
  for (const leaf of leaves) {
    for (const hook of hooks.get(leaf) ?? []) {
      const list = own.get(hook);
      if (list) list.push(leaf);
      else own.set(hook, [leaf]);
    }
  }
  for (const [hook, list] of own) hook(list);
}
