/**
 * What is still to be done when the program ends, however it does: Deno tells the listeners of
 * "unload" about a normal end only, not about an uncaught error or Ctrl+C.
 */
import { runAll } from "../../ffi/run_all.ts";
import { isCalm } from "./interruption.ts";

/** Does what it can until `deadline`, by the clock of `performance.now()`. */
export type Ending = (deadline: number) => void;

/** How long a program that was interrupted, or failed, may take to put away what it has. */
const HURRIED_MS = 1000;

const endings = new Set<Ending>();

/** Has something done at the end. */
export function beforeEnd(ending: Ending): void {
  if (endings.size === 0) addEventListener("unload", unload);
  endings.add(ending);
}

/** Takes it back. */
export function forgetEnding(ending: Ending): void {
  if (endings.delete(ending) && endings.size === 0) removeEventListener("unload", unload);
}

function unload(): void {
  if (isCalm()) run(Infinity);
  else endInHurry();
}

/** What somebody waits for who pressed Ctrl+C, or looks for the error. */
export function endInHurry(): void {
  run(performance.now() + HURRIED_MS);
}

function run(deadline: number): void {
  runAll([...endings].map((ending) => () => ending(deadline)));
}
