/**
 * Types Ctrl+C at a program's terminal when the file that it writes says "ready", and prints that file.
 *
 *     deno run -A tests/systems/typing.ts TIMES FILE COMMAND...
 *
 * Ends with the status of the program.
 */

import { atTerminal } from "../at_terminal.ts";

/** Milliseconds between "ready" and the first key, and between two keys: within the grace window. */
const PAUSE_MS = 700;
/** A program that is not ready then has failed. */
const MAX_START_MS = 120_000;

/** A command that does so. */
export function typing(command: readonly string[], file: string, times: number): readonly string[] {
  const self = import.meta.filename!;
  return [Deno.execPath(), "run", "-A", "--no-check", self, `${times}`, file, ...command];
}

function textOf(file: string): string {
  try {
    return Deno.readTextFileSync(file);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

const pause = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

async function main([times, file, ...command]: readonly string[]): Promise<number> {
  const terminal = atTerminal(command, { stdout: "null", stderr: "inherit" }).spawn();
  const keyboard = terminal.stdin.getWriter();
  let hasEnded = false;
  const ended = terminal.status.finally(() => hasEnded = true);
  const start = performance.now();
  while (!hasEnded && !textOf(file!).includes("ready")) {
    if (performance.now() - start > MAX_START_MS) break;
    await pause(50);
  }
  for (let k = 0; k < Number(times) && !hasEnded; k++) {
    await pause(PAUSE_MS);
    await keyboard.write(new Uint8Array([3]));
  }
  const { code } = await ended;
  await keyboard.close().catch(() => {}); // the terminal is gone
  console.log(textOf(file!).trimEnd());
  Deno.removeSync(file!);
  return code;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
