/**
 * The end of netcl inside a program that goes on.
 */
import { runAll } from "../ffi/host/run_all.ts";
import { allBackends, takeBackends } from "./backends.ts";
import { manager } from "./devices/devices.ts";
import { removeExitHooks } from "./lifecycle/exit_hooks.ts";

/**
 * Finishes every queue and frees every pool, program, queue and context that netcl made, and takes
 * its listeners away. Tensors made before are gone. Idempotent; asking for a device afterwards
 * starts afresh. What you made through `ffi` yourself stays yours.
 *
 * @throws {InterruptedError} When Ctrl+C arrives while it waits; everything is freed all the same.
 * @throws {OpenCLError} When a device failed or was lost; everything else is freed all the same.
 *
 * @example
 * ```ts
 * import { shutdown } from "@netcl/netcl/backend";
 *
 * await shutdown();
 * ```
 */
export async function shutdown(): Promise<void> {
  const open = manager.opened();
  const finished = await Promise.allSettled(
    [...open, ...allBackends()].map((each) => each.finish()),
  );
  runAll([
    () => finished.forEach(throwIfRejected),
    ...takeBackends().map((backend) => () => backend.dispose()),
    ...open.map((handle) => () => handle.close()),
    removeExitHooks,
  ]);
}

function throwIfRejected(end: PromiseSettledResult<void>): void {
  if (end.status === "rejected") throw end.reason;
}
