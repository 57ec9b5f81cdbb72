import { plain } from "../plain.ts";
/** Programs in a process of their own, for what happens to all of a process. */

const root = new URL("../../", import.meta.url);

export interface Child {
  readonly out: string;
  readonly err: string;
  readonly code: number;
}

/** Runs a text that may use `manager`, `backendOf`, `shutdown`, `withFaults` and `live`. */
export async function inProcess(
  program: string,
  env: Record<string, string> = {},
): Promise<Child> {
  const script = `import { manager } from "${new URL("backend/devices/devices.ts", root)}";
    import { shutdown } from "${new URL("backend/shutdown.ts", root)}";
    import { backendOf } from "${new URL("backend/backends.ts", root)}";
    import { liveObjects } from "${new URL("ffi/objects/object.ts", root)}";
    import { withFaults } from "${new URL("ffi/library/faults.ts", root)}";
    const live = () => Object.values(liveObjects()).reduce((sum, n) => sum + n, 0);
    ${program}`;
  const { stdout, stderr, code } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-check", "--ext=ts", script],
    env: { ...plain, ...env },
    stdin: "null",
  }).output();
  const text = new TextDecoder();
  return { out: text.decode(stdout), err: text.decode(stderr), code };
}
