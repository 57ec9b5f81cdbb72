/** Programs in a process of their own, for what happens to all of a process. */
import { type Run, runProgram } from "../run_deno.ts";

const root = new URL("../../", import.meta.url);

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
  const script = `import { manager } from "${new URL("backend/devices/devices.ts", root)}";
    import { shutdown } from "${new URL("backend/shutdown.ts", root)}";
    import { backendOf } from "${new URL("backend/backends.ts", root)}";
    import { liveObjects } from "${new URL("ffi/objects/object.ts", root)}";
    import { withFaults } from "${new URL("ffi/library/faults.ts", root)}";
    const live = () => Object.values(liveObjects()).reduce((sum, n) => sum + n, 0);
    ${program}`;
  return runProgram(script, { env, through });
}
