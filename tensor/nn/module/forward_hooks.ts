/** Hooks of users on the outputs of modules: see `Module.registerForwardHook`. */
import type { HookHandle } from "../../core/arguments.ts";
import { hookHandle } from "../../core/tensor_state.ts";

// deno-lint-ignore no-explicit-any -- a module takes and gives whatever its own `forward` does
type Forward = (...inputs: any[]) => unknown;
// deno-lint-ignore no-explicit-any -- as above
type ForwardHook = (module: any, inputs: any, output: any) => unknown;

interface Hooked {
  forward: Forward;
}

const hooks = new WeakMap<object, Set<{ readonly run: ForwardHook }>>();

/** Adds a hook, until what it returns is removed. */
export function addForwardHook(module: Hooked, run: ForwardHook): HookHandle {
  const entries = hooks.get(module) ?? new Set();
  hooks.set(module, entries);
  if (entries.size === 0) interceptForward(module, entries);
  const entry = { run };
  entries.add(entry);
  return hookHandle(() => {
    // The class's own method is found again.
    if (entries.delete(entry) && entries.size === 0) delete (module as Partial<Hooked>).forward;
  });
}

/** Puts a method in front of the class's; it is no property that lists of members show. */
function interceptForward(
  module: Hooked,
  entries: ReadonlySet<{ readonly run: ForwardHook }>,
): void {
  const { forward } = module;
  const value = function (this: Hooked, ...inputs: unknown[]): unknown {
    const output = forward.apply(this, inputs);
    return [...entries].reduce(
      (current, { run }) => run(module, inputs, current) ?? current,
      output,
    );
  };
  Object.defineProperty(module, "forward", { value, configurable: true, writable: true });
}
