/**
 * The processes that mpirun started: MPI from its begin to the end of the program.
 *
 * MPI ends with the program and not before, because it cannot begin a second time. A process that
 * ends badly (an uncaught error, a status other than 0) ends all others by MPI_Abort: they would wait
 * for it for ever.
 */
import { host } from "../../ffi/runtime/host.ts";
import type { EndingEvent } from "../../ffi/runtime/types.ts";
import {
  check,
  Communicator as MPICommunicator,
  type MPILibrary,
  openMPILibrary,
} from "../../ffi/mpi/mod.ts";
import { primeSignals } from "../../ffi/library/signals.ts";
import { sleepSync } from "../lifecycle/draining.ts";
import { isInterruptedError } from "../lifecycle/interruption.ts";
import { exitNow } from "../lifecycle/libc.ts";
import { alone } from "./alone.ts";
import type { Communicator, Operation, WireOp, WireType } from "./communicator.ts";
import { completedSync } from "./waiting.ts";

/**
 * A reduction of more goes by pieces: between two ranks of one host Open MPI 4.1 took 0.3 ms for 1 MiB and
 * 7 ms for 4 MiB, where the nonblocking algorithm waits for whole halves.
 */
const PIECE_BYTES = 2 ** 20;

/** Milliseconds for MPI_Abort to end this process. */
const ABORT_MS = 2000;

let world: Communicator | null = null;

/**
 * All processes that were started together; MPI begins with the first call.
 *
 * @throws {MPIUnavailableError} When mpirun started the program, and libmpi cannot be used.
 * @throws {MPIError} When MPI does not begin.
 */
export const worldCommunicator = (): Communicator => world ??= begin();

function begin(): Communicator {
  const library = openMPILibrary();
  if (library === null) return alone;
  // Before the library replaces handlers, as before OpenCL's does.
  primeSignals();
  initialize(library);
  const all = new MPICommunicator(library, library.implementation.world);
  requireAll(library, all);
  const { rank: localRank, size: localSize } = all.onSameHost();
  endWith(library, all);
  return new World(all, localRank, localSize);
}

function initialize(library: MPILibrary): void {
  const THREAD_FUNNELED = 1, { mpi } = library, flag = new Int32Array(1);
  check(library, "MPI_Initialized", mpi.MPI_Initialized(flag));
  if (flag[0] !== 0) return;
  check(library, "MPI_Init_thread", mpi.MPI_Init_thread(0n, 0n, THREAD_FUNNELED, flag));
}

/** A library that did not come with the launcher knows nothing of it: each process is alone. */
function requireAll({ launcher, path, implementation }: MPILibrary, all: MPICommunicator): void {
  if (launcher.size === null || launcher.size === all.size) return;
  throw new Error(
    `Cannot join the ${launcher.size} processes that ${launcher.name} started: ${path} ` +
      `(${implementation.name}) sees ${all.size}; set NETCL_MPI_LIBRARY to the libmpi that belongs ` +
      "to it",
  );
}

/** A communicator of MPI, for the layers above. */
class World implements Communicator {
  readonly rank: number;
  readonly size: number;

  constructor(
    readonly mpi: MPICommunicator,
    readonly localRank: number,
    readonly localSize: number,
  ) {
    this.rank = mpi.rank;
    this.size = mpi.size;
  }

  allReduce(data: Uint8Array<ArrayBuffer>, type: WireType, op: WireOp): Operation {
    if (data.byteLength <= PIECE_BYTES) return this.mpi.allReduce(data, type, op);
    const pieces: Operation[] = [];
    // All begin at once: operations must begin in the same order on every rank.
    for (let at = 0; at < data.byteLength; at += PIECE_BYTES) {
      pieces.push(this.mpi.allReduce(data.subarray(at, at + PIECE_BYTES), type, op));
    }
    return {
      isDone: () => {
        while (pieces.length > 0 && pieces[0]!.isDone()) pieces.shift();
        return pieces.length === 0;
      },
    };
  }

  broadcast(data: Uint8Array<ArrayBuffer>, root: number): Operation {
    return this.mpi.broadcast(data, root);
  }

  allGather(data: Uint8Array<ArrayBuffer>): Operation {
    return this.mpi.allGather(data);
  }

  reduceScatter(data: Uint8Array<ArrayBuffer>, type: WireType, op: WireOp): Operation {
    return this.mpi.reduceScatter(data, type, op);
  }

  barrier(): Operation {
    return this.mpi.barrier();
  }

  duplicate(): Communicator {
    // MPI_Comm_dup blocks in C, where Ctrl+C does not reach: the wait for the others comes before.
    completedSync("duplicate a communicator", this.barrier());
    return new World(this.mpi.duplicate(), this.localRank, this.localSize);
  }
}

function endWith(library: MPILibrary, all: MPICommunicator): void {
  host.addEndingListener("unload", () => {
    if (host.exitCode !== 0) abort(all, `ends with status ${host.exitCode}`, host.exitCode);
    // MPI_Finalize waits for all processes in C: before, Ctrl+C and SIGTERM still end this one.
    completedSync("end the program", all.barrier());
    check(library, "MPI_Finalize", library.mpi.MPI_Finalize());
  });
  host.addEndingListener("error", (event) => abortAfter(event, event.error, all));
  host.addEndingListener("unhandledrejection", (event) => abortAfter(event, event.reason, all));
}

/** Deno would print the error and end this process alone. */
function abortAfter(event: EndingEvent, error: unknown, all: MPICommunicator): void {
  if (event.defaultPrevented || isInterruptedError(error)) return;
  console.error("error: Uncaught", error instanceof Error ? error.stack ?? error.message : error);
  abort(all, "ends with an uncaught error", 1);
}

function abort(all: MPICommunicator, why: string, status: number): never {
  if (all.size > 1) {
    console.error(`netcl: rank ${all.rank} of ${all.size} ${why}: all ranks end`);
  }
  all.abort(status);
  // mpirun ends the others, too, when a process ends with such a status.
  sleepSync(ABORT_MS);
  exitNow(status);
}
