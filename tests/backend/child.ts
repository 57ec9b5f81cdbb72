/** Programs in a process of their own, for what happens to all of a process. */
import { type Run, runProgram } from "../run_deno.ts";

const root = new URL("../../", import.meta.url);

/** The address of a module, for a text that imports it. */
export const moduleAt = (path: string): string => new URL(path, root).href;

/**
 * Runs a text that may use `manager`, `backendOf`, `shutdown`, `withFaults` and `live`.
 *
 * @param through A command and its arguments that start Deno.
 */
export function inProcess(
  program: string,
  env: Record<string, string> = {},
  through: readonly string[] = [],
): Promise<Run> {
  const script = `import { manager } from "${moduleAt("backend/devices/devices.ts")}";
    import { shutdown } from "${moduleAt("backend/shutdown.ts")}";
    import { backendOf } from "${moduleAt("backend/backends.ts")}";
    import { liveObjects } from "${moduleAt("ffi/objects/object.ts")}";
    import { withFaults } from "${moduleAt("ffi/library/faults.ts")}";
    const live = () => Object.values(liveObjects()).reduce((sum, n) => sum + n, 0);
    ${program}`;
  return runProgram(script, { env, through });
}
