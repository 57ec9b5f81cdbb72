import type { HookHandle } from "./arguments.ts";

/** The handle of a hook, which `remove` takes away. */
export function hookHandle(remove: () => void): HookHandle {
  return { remove, [Symbol.dispose]: remove };
}
