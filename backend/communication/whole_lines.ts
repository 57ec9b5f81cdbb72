/**
 * Whole lines from several ranks. mpirun takes what ranks print in pieces of 4,096 bytes, a piece of each in
 * turn, so a longer line comes out with another rank's in its midst. Here a rank prints while no other one of
 * its host does, and waits until mpirun has taken the line to its end. Standard output is a pseudo terminal
 * there, which does not say what was taken from it; Linux says what mpirun has read. Where it does not, a long
 * line is given some time.
 */

import { host } from "../../ffi/runtime/host.ts";

/** Bytes read by mpirun at once (ORTE_IOF_BASE_MSG_MAX of Open MPI 4). */
const PIECE_BYTES = 4096;
/** mpirun needs some 50 microseconds for a piece, once it has a core. */
const MS_PER_PIECE = 5;
/** Longest wait while Linux says that mpirun has not read a line yet: it may be stopped. */
const MAX_WAIT_MS = 5000;

const bell = new Int32Array(new SharedArrayBuffer(4));
let isKept = false;

/** Has `console.log` print whole lines from now on; without the permission to read it stays as it is. */
export function keepLinesWhole(): void {
  const path = host.execPath();
  if (isKept || !host.isGranted({ name: "read", path })) return;
  isKept = true;
  const { log } = console;
  // A file that all ranks of the host have: only its lock is used, and that ends with the process.
  const file = host.openSync(path);
  let launcher = launcherOfRanks();
  console.log = (...args: unknown[]): void => {
    file.lockSync(true);
    try {
      if (launcher === null) logSlowly(log, args);
      else {
        const before = launcher.bytesRead();
        log(...args);
        if (!launcher.waitUntilRead(before + leastBytes(args))) launcher = null;
      }
    } finally {
      file.unlockSync();
    }
  };
}

/** Leaves others' lines and then its own the time to be taken, where it is a long one. */
function logSlowly(log: typeof console.log, args: readonly unknown[]): void {
  const pieces = Math.floor(mostBytes(args) / PIECE_BYTES);
  // What others have printed before is taken first, or it would come between the pieces.
  if (pieces > 0) sleep(MS_PER_PIECE);
  log(...args);
  if (pieces > 0) sleep(MS_PER_PIECE * pieces);
}

/** The process that takes what the ranks of a host print. */
class Launcher {
  constructor(readonly folder: string) {}

  /** Since it began, from all its files; Infinity where it cannot be known, or has ended. */
  bytesRead(): number {
    try {
      return Number(/^rchar: (\d+)$/m.exec(host.readTextFileSync(`${this.folder}/io`))![1]);
    } catch (error) {
      if (isRefused(error)) return Infinity;
      throw error;
    }
  }

  /** False where it has not read so much for long. */
  waitUntilRead(bytes: number): boolean {
    const start = performance.now();
    for (let waited = 0; this.bytesRead() < bytes; waited = performance.now() - start) {
      if (waited > MAX_WAIT_MS) return false;
      sleep(Math.min(1, Math.max(0.05, waited / 4)));
    }
    return true;
  }
}

const launcherNames = ["mpirun", "mpiexec", "orterun", "orted", "prterun", "prted"];

/** Null where Linux may not be asked about it: then times have to do. */
function launcherOfRanks(): Launcher | null {
  const mayRead = host.isGranted({ name: "read" });
  // What goes to a file instead of the launcher's pseudo terminal is not read by it.
  if (host.os !== "linux" || !mayRead || !host.isTerminal("stdout")) return null;
  const folder = `/proc/${host.ppid}`, launcher = new Launcher(folder);
  try {
    const name = host.readTextFileSync(`${folder}/comm`).trim();
    return launcherNames.includes(name) && launcher.bytesRead() < Infinity ? launcher : null;
  } catch (error) {
    if (isRefused(error)) return null;
    throw error;
  }
}

/** Linux hides processes of other users, and Deno what it takes for secrets. */
function isRefused(error: unknown): boolean {
  const { NotFound, NotCapable, PermissionDenied } = host.errors;
  return [NotFound, NotCapable, PermissionDenied].some((kind) => error instanceof kind);
}

function sleep(milliseconds: number): void {
  Atomics.wait(bell, 0, 0, milliseconds);
}

/** No line of these texts is longer: a character has three bytes at most. Objects are printed briefly. */
function mostBytes(args: readonly unknown[]): number {
  return args.reduce<number>(
    (sum, arg) => sum + 1 + (typeof arg === "string" ? 3 * arg.length : 0),
    0,
  );
}

/** Texts are no shorter than this: a character has a byte at least, unless it is part of a format. */
function leastBytes([first, ...rest]: readonly unknown[]): number {
  if (rest.length > 0 && String(first).includes("%")) return 0;
  const lengths = [first, ...rest].map((arg) => typeof arg === "string" ? arg.length : 0);
  return lengths.reduce((sum, length) => sum + length);
}
