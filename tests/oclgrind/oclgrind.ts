/**
 * Runs a Deno program on oclgrind, an OpenCL device that watches every access: accesses out of
 * bounds, races between work-items, reads of uninitialised memory. OpenCL C 1.2 and no half
 * arithmetic; a thousand times slower than a device, so small shapes only. Its calls succeed all
 * the same, so what it finds is in its log.
 */
import { exists } from "../machine.ts";

/** The place where Debian's package puts the driver. The `oclgrind` wrapper has no effect on Deno. */
export const driver = "/usr/lib/oclgrind/liboclgrind-rt-icd.so";

/** The outcome of a program. */
export interface Run {
  readonly success: boolean;
  readonly output: string;
  /** The reports of oclgrind, one text each. */
  readonly reports: readonly string[];
}

/** True if this machine has oclgrind. */
export const hasOclgrind = (): boolean => exists(driver);

/**
 * Runs a program to its end.
 *
 * @param program A file, and its arguments.
 */
export async function runOnOclgrind(program: readonly string[]): Promise<Run> {
  const log = await Deno.makeTempFile({ prefix: "oclgrind" });
  try {
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", ...program],
      env: {
        OCL_ICD_VENDORS: driver,
        OCLGRIND_LOG: log,
        OCLGRIND_DATA_RACES: "1",
        OCLGRIND_UNINITIALIZED: "1",
        OCLGRIND_MAX_ERRORS: "100",
        // Optimised code has instructions that its search for uninitialised values does not know.
        OCLGRIND_BUILD_OPTIONS: "-cl-opt-disable",
        // Parts of a large buffer are not out of bounds to it; this pool gives whole buffers.
        NETCL_POOL: "buffer",
        NETCL_CACHE_DIR: "off", // binaries of another driver, or for it, are of no use
      },
    }).output();
    const text = new TextDecoder();
    const output = text.decode(stdout) + text.decode(stderr);
    return { success, output, reports: split(await Deno.readTextFile(log)) };
  } finally {
    await Deno.remove(log);
  }
}

/** Each report begins at the margin, after an empty line. */
function split(log: string): string[] {
  return log.split(/\n\s*\n(?=\S)/).map((report) => report.trim()).filter(Boolean);
}
