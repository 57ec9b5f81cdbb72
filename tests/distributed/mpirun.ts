/** Programs under mpirun. */
import { assertEquals } from "@std/assert";
import { root } from "../module_graph.ts";
import { findCommand } from "../suite/needs.ts";

/** True where there is an mpirun; tests of several ranks are left out elsewhere. */
export const hasMpirun: boolean = findCommand("mpirun") !== null;

/** The end of a program under mpirun. */
export interface Ended {
  readonly code: number;
  /** The output of all ranks and of mpirun. */
  readonly text: string;
  readonly seconds: number;
}

/** The command that runs a program of this folder on several ranks. */
export function command(
  ranks: number,
  program: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Deno.Command {
  const mpi = ["--allow-run-as-root", "--oversubscribe", "-n", String(ranks)];
  const path = new URL(`tests/distributed/${program}`, root).pathname;
  const run = [Deno.execPath(), "run", "-A", "--no-check", decodeURIComponent(path), ...args];
  return new Deno.Command("mpirun", {
    args: [...mpi, ...run],
    cwd: root,
    // A core for each rank; kernels of tests need not be fast.
    env: { POCL_MAX_PTHREAD_COUNT: "1", POCL_EXTRA_BUILD_FLAGS: "-cl-opt-disable", ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
}

/** Runs it to its end. */
export async function mpirun(...call: Parameters<typeof command>): Promise<Ended> {
  const start = performance.now(), { code, stdout, stderr } = await command(...call).output();
  const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  return { code, text, seconds: (performance.now() - start) / 1000 };
}

/** Every rank has printed that all is well. */
export function assertGood({ code, text }: Ended, ranks: number): void {
  assertEquals(code, 0, text);
  assertEquals(text.split("\n").filter((line) => line.endsWith(": good")).length, ranks, text);
}
