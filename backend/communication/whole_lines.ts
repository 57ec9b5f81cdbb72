/**
 * Whole lines from several ranks. mpirun takes what ranks print in pieces of 4,096 bytes, a piece of each in
 * turn, so a longer line comes out with another rank's in its midst. Here a rank prints while no other one of
 * its host does, and leaves mpirun the time to take a long line to its end. (How much it has taken cannot be
 * asked: standard output is a pseudo terminal there.)
 */

/** What mpirun reads at once (ORTE_IOF_BASE_MSG_MAX of Open MPI 4). */
const PIECE_BYTES = 4096;
/** mpirun needs some 50 microseconds for a piece, once it has a core. */
const MS_PER_PIECE = 5;

const bell = new Int32Array(new SharedArrayBuffer(4));
let isKept = false;

/** Has `console.log` print whole lines from now on; without the permission to read it stays as it is. */
export function keepLinesWhole(): void {
  const path = Deno.execPath();
  if (isKept || Deno.permissions.querySync({ name: "read", path }).state !== "granted") return;
  isKept = true;
  const { log } = console;
  // A file that all ranks of the host have: only its lock is used, and that ends with the process.
  const file = Deno.openSync(path);
  console.log = (...args: unknown[]): void => {
    file.lockSync(true);
    try {
      const pieces = Math.floor(mostBytes(args) / PIECE_BYTES);
      // What others have printed before is taken first, or it would come between the pieces.
      if (pieces > 0) sleep(MS_PER_PIECE);
      log(...args);
      if (pieces > 0) sleep(MS_PER_PIECE * pieces);
    } finally {
      file.unlockSync();
    }
  };
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
