/**
 * Processes that learn together, as the tensor layer sees them: collective operations on bytes of the
 * host. Every process of a communicator must call the same operations in the same order.
 */

/** Type of elements while they are reduced. */
export type WireType = "float32" | "float64" | "int32" | "int64" | "uint8";

/** Operation that joins elements of several processes. */
export type WireOp = "sum" | "max" | "min";

/** An operation under way. */
export interface Operation {
  /**
   * Makes progress, and tells whether it is done; the bytes are not to be touched before.
   *
   * @throws {MPIError} When it failed.
   */
  isDone(): boolean;
  /**
   * Blocks the thread until it may be done, for so long at most. Absent where nothing would wake it.
   *
   * @returns False where it has not: somebody else is to sleep.
   */
  sleep?(milliseconds: number): boolean;
}

/** The processes, and what they do together. All operations are in place. */
export interface Communicator {
  /** This process's number, from 0. */
  readonly rank: number;
  /** Number of processes. */
  readonly size: number;
  /** This process's number among those of its host. */
  readonly localRank: number;
  /** Number of processes on its host. */
  readonly localSize: number;
  /** Every process gets the elements of all, reduced; the same bits everywhere. */
  allReduce(data: Uint8Array<ArrayBuffer>, type: WireType, op: WireOp): Operation;
  /** Every process gets the bytes of `root`. */
  broadcast(data: Uint8Array<ArrayBuffer>, root: number): Operation;
  /** Every process gets the parts of all; its own lies at its place in `data`. */
  allGather(data: Uint8Array<ArrayBuffer>): Operation;
  /** Every process gets its part of what `allReduce` would give, at the beginning of `data`. */
  reduceScatter(data: Uint8Array<ArrayBuffer>, type: WireType, op: WireOp): Operation;
  /** Is done when every process has called it. */
  barrier(): Operation;
  /** The same processes, whose operations have an order of their own. Blocks until all have called it. */
  duplicate(): Communicator;
}
