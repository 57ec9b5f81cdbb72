/** Backends with other capabilities than they have. */
import { type BackendName, manager } from "../../mod.ts";
import { backendOf } from "../../backend/internal.ts";
import type { Backend } from "../../backend/execution/backend.ts";

/** Runs while a backend has other capabilities. */
export async function withCapabilities<R>(
  name: BackendName,
  changes: Partial<Backend["capabilities"]>,
  fn: () => R | Promise<R>,
): Promise<R> {
  const { capabilities } = backendOf(manager.default(name)), former = { ...capabilities };
  Object.assign(capabilities, changes);
  try {
    return await fn();
  } finally {
    Object.assign(capabilities, former);
  }
}
