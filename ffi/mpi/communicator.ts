/**
 * A group of processes, and the collective calls that all of them make together. Every call is a
 * nonblocking one: it returns a request, and MPI makes progress whenever a request is tested.
 *
 * @module
 */
import type { ElementType, ReduceOp } from "./implementation.ts";
import { check, type MPILibrary } from "./library.ts";
import type { FunctionName, Handle } from "./symbols.ts";

const elementBytes: Readonly<Record<ElementType, number>> = {
  byte: 1,
  float32: 4,
  float64: 8,
  int32: 4,
  int64: 8,
  uint8: 1,
};

/**
 * MPI moves a few messages of 32 KiB a test where ranks share memory by copying: one test in 0.2 ms made
 * 44 MB take 125 ms between two ranks of one host. What fits into one message needs no such work: to
 * test it again and again took two thirds of a core while another rank was waited for.
 */
const WORK_MS = 0.2, MESSAGE_BYTES = 32 * 1024;

/** Memory of calls under way, held here: C writes to it while no JavaScript refers to it. */
const inFlight = new Set<Request>();

/** A collective call under way. */
export class Request {
  readonly #library: MPILibrary;
  readonly #call: FunctionName;
  /** An MPI_Request, then the flag of MPI_Test. */
  readonly #handle: ArrayBufferView;
  readonly #flag = new Int32Array(1);
  /** Memory that C reads and writes. */
  readonly memory: Uint8Array | null;
  /** The time for which a question lets MPI work on it. */
  readonly #workMs: number;
  #isDone = false;

  /** Made by {@linkcode Communicator}. */
  constructor(
    library: MPILibrary,
    call: FunctionName,
    handle: ArrayBufferView,
    memory: Uint8Array | null,
  ) {
    this.#library = library;
    this.#call = call;
    this.#handle = handle;
    this.memory = memory;
    this.#workMs = memory !== null && memory.byteLength > MESSAGE_BYTES ? WORK_MS : 0;
    inFlight.add(this);
  }

  /**
   * Lets MPI work on it, for a fifth of a millisecond at most, and tells whether it is done.
   *
   * @throws {MPIError} When it failed.
   */
  isDone(): boolean {
    if (this.#isDone) return true;
    const { mpi, implementation } = this.#library, start = performance.now();
    let code: number;
    do {
      code = mpi.MPI_Test(this.#handle, this.#flag, implementation.ignoreStatus);
    } while (code === 0 && this.#flag[0] === 0 && performance.now() - start < this.#workMs);
    if (code === 0 && this.#flag[0] === 0) return false;
    this.#isDone = true;
    inFlight.delete(this);
    check(this.#library, this.#call, code);
    return true;
  }
}

/** Processes that communicate: an MPI_Comm. */
export class Communicator {
  readonly #library: MPILibrary;
  readonly #handle: Handle;
  /** This process's number, from 0. */
  readonly rank: number;
  /** The number of processes. */
  readonly size: number;

  /** Takes over a handle; MPI must be initialized. */
  constructor(library: MPILibrary, handle: Handle) {
    const { mpi, implementation } = library, number = new Int32Array(1);
    this.#library = library;
    this.#handle = handle;
    check(library, "MPI_Comm_rank", mpi.MPI_Comm_rank(handle, number));
    this.rank = number[0]!;
    check(library, "MPI_Comm_size", mpi.MPI_Comm_size(handle, number));
    this.size = number[0]!;
    check(
      library,
      "MPI_Comm_set_errhandler",
      mpi.MPI_Comm_set_errhandler(handle, implementation.errorsReturn),
    );
  }

  /** A communicator of the same processes, whose calls are not mixed up with this one's. Collective. */
  duplicate(): Communicator {
    const { mpi } = this.#library, out = this.#handleMemory();
    check(this.#library, "MPI_Comm_dup", mpi.MPI_Comm_dup(this.#handle, out));
    return new Communicator(this.#library, out[0]!);
  }

  /** The processes of this one's host. Collective. */
  onSameHost(): Communicator {
    const { mpi, implementation: { sharedMemory, noInfo } } = this.#library;
    const out = this.#handleMemory();
    check(
      this.#library,
      "MPI_Comm_split_type",
      mpi.MPI_Comm_split_type(this.#handle, sharedMemory, this.rank, noInfo, out),
    );
    return new Communicator(this.#library, out[0]!);
  }

  /** Gives the communicator back. Collective. */
  free(): void {
    const memory = this.#handleMemory();
    memory[0] = this.#handle;
    check(this.#library, "MPI_Comm_free", this.#library.mpi.MPI_Comm_free(memory));
  }

  /** Reduces the elements of all ranks, in place: every rank has the result. */
  allReduce(data: Uint8Array<ArrayBuffer>, type: ElementType, op: ReduceOp): Request {
    const { mpi, implementation: { inPlace, types, ops } } = this.#library;
    const count = this.#count(data, type);
    return this.#begin(
      "MPI_Iallreduce",
      data,
      (request) =>
        mpi.MPI_Iallreduce(inPlace, data, count, types[type], ops[op], this.#handle, request),
    );
  }

  /** Copies the bytes of one rank to all. */
  broadcast(data: Uint8Array<ArrayBuffer>, root: number): Request {
    const { mpi, implementation: { types } } = this.#library;
    const count = this.#count(data, "byte");
    return this.#begin(
      "MPI_Ibcast",
      data,
      (request) => mpi.MPI_Ibcast(data, count, types.byte, root, this.#handle, request),
    );
  }

  /** Collects the parts of all ranks, in place: this rank's part lies at its place in `data`. */
  allGather(data: Uint8Array<ArrayBuffer>): Request {
    const { mpi, implementation: { inPlace, types: { byte } } } = this.#library;
    const part = this.#count(data, "byte", this.size);
    return this.#begin(
      "MPI_Iallgather",
      data,
      (request) => mpi.MPI_Iallgather(inPlace, part, byte, data, part, byte, this.#handle, request),
    );
  }

  /** Reduces the elements of all ranks; this rank's part of the result lies at the beginning then. */
  reduceScatter(data: Uint8Array<ArrayBuffer>, type: ElementType, op: ReduceOp): Request {
    const { mpi, implementation: { inPlace, types, ops } } = this.#library;
    const part = this.#count(data, type, this.size);
    return this.#begin(
      "MPI_Ireduce_scatter_block",
      data,
      (request) =>
        mpi.MPI_Ireduce_scatter_block(
          inPlace,
          data,
          part,
          types[type],
          ops[op],
          this.#handle,
          request,
        ),
    );
  }

  /** Is done when every rank has called it. */
  barrier(): Request {
    const { mpi } = this.#library;
    return this.#begin("MPI_Ibarrier", null, (request) => mpi.MPI_Ibarrier(this.#handle, request));
  }

  /** Ends the processes of all ranks, this one by and by: the caller waits, and ends it otherwise. */
  abort(status: number): void {
    void this.#library.mpi.MPI_Abort(this.#handle, status);
  }

  #handleMemory(): BigUint64Array | Int32Array {
    return this.#library.implementation.handle === "u64"
      ? new BigUint64Array(1)
      : new Int32Array(1);
  }

  #count(data: Uint8Array, type: ElementType, parts = 1): number {
    const count = data.byteLength / elementBytes[type] / parts, MAX_INT = 2 ** 31 - 1;
    if (Number.isInteger(count) && count <= MAX_INT) return count;
    throw new RangeError(
      `Cannot communicate ${data.byteLength} bytes as ${parts} parts of ${type} elements: pass a ` +
        `whole number of elements for each part, at most ${MAX_INT}`,
    );
  }

  #begin(
    call: FunctionName,
    data: Uint8Array<ArrayBuffer> | null,
    start: (request: ArrayBufferView) => number,
  ): Request {
    // Small arrays may lie in the collector's memory, and move, until their buffer is asked for.
    void data?.buffer;
    const handle = this.#handleMemory();
    check(this.#library, call, start(handle));
    return new Request(this.#library, call, handle, data);
  }
}
