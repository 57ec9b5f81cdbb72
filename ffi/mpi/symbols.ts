/**
 * The C functions of libmpi that netcl calls, with the names of mpi.h beside their types.
 *
 * A handle (MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request) is a pointer in Open MPI and an int in MPICH
 * and its relatives, so the table is completed for the implementation that was found.
 *
 * @module
 */

import type { ForeignTable } from "../runtime/types.ts";

/** An MPI handle: the address of an object, or its number. */
export type Handle = bigint | number;

/** A handle's C type: a pointer (Open MPI) or an int (MPICH). */
export type HandleType = "u64" | "i32";

const HANDLE = "handle";

/** Memory that C reads or writes: a typed array, or null. */
type Memory = ArrayBufferView | null;

type ValueType = "i32" | "u64" | "buffer" | typeof HANDLE;

interface FunctionType {
  readonly parameters: readonly ValueType[];
  /** Runs on another thread and returns a promise. */
  readonly nonblocking?: true;
}

/** Every function returns an int: MPI_SUCCESS (0) or an error code. */
const functions = {
  MPI_Init_thread: {
    parameters: ["u64", /* argc */ "u64", /* argv */ "i32", /* required */ "buffer" /* provided */],
  },
  MPI_Initialized: { parameters: ["buffer" /* flag */] },
  MPI_Finalize: { parameters: [] },
  // On another thread: the exit handlers that it runs have been seen to hang.
  MPI_Abort: { parameters: [HANDLE, /* comm */ "i32" /* errorcode */], nonblocking: true },
  MPI_Get_library_version: { parameters: ["buffer", /* version */ "buffer" /* resultlen */] },
  MPI_Error_string: {
    parameters: ["i32", /* errorcode */ "buffer", /* string */ "buffer" /* resultlen */],
  },
  MPI_Comm_set_errhandler: { parameters: [HANDLE, /* comm */ HANDLE /* errhandler */] },
  MPI_Comm_rank: { parameters: [HANDLE, /* comm */ "buffer" /* rank */] },
  MPI_Comm_size: { parameters: [HANDLE, /* comm */ "buffer" /* size */] },
  MPI_Comm_dup: { parameters: [HANDLE, /* comm */ "buffer" /* newcomm */] },
  MPI_Comm_free: { parameters: ["buffer" /* comm */] },
  MPI_Comm_split_type: {
    parameters: [
      HANDLE, // comm
      "i32", // split_type
      "i32", // key
      HANDLE, // info
      "buffer", // newcomm
    ],
  },
  MPI_Iallreduce: {
    parameters: [
      "u64", // sendbuf
      "buffer", // recvbuf
      "i32", // count
      HANDLE, // datatype
      HANDLE, // op
      HANDLE, // comm
      "buffer", // request
    ],
  },
  MPI_Ibcast: {
    parameters: [
      "buffer", // buffer
      "i32", // count
      HANDLE, // datatype
      "i32", // root
      HANDLE, // comm
      "buffer", // request
    ],
  },
  MPI_Iallgather: {
    parameters: [
      "u64", // sendbuf
      "i32", // sendcount
      HANDLE, // sendtype
      "buffer", // recvbuf
      "i32", // recvcount
      HANDLE, // recvtype
      HANDLE, // comm
      "buffer", // request
    ],
  },
  MPI_Ireduce_scatter_block: {
    parameters: [
      "u64", // sendbuf
      "buffer", // recvbuf
      "i32", // recvcount
      HANDLE, // datatype
      HANDLE, // op
      HANDLE, // comm
      "buffer", // request
    ],
  },
  MPI_Ibarrier: { parameters: [HANDLE, /* comm */ "buffer" /* request */] },
  MPI_Test: { parameters: ["buffer", /* request */ "buffer", /* flag */ "u64" /* status */] },
} as const satisfies Record<string, FunctionType>;

/** The name of a function in the table. */
export type FunctionName = keyof typeof functions;

type Value<T> = T extends "i32" ? number
  : T extends "u64" ? bigint
  : T extends "buffer" ? Memory
  : Handle;

type Values<T extends readonly ValueType[]> = { -readonly [I in keyof T]: Value<T[I]> };

type Result<F extends FunctionType> = F extends { readonly nonblocking: true } ? Promise<number>
  : number;

/** The functions, as they are called. */
export type MPISymbols = {
  [Name in FunctionName]: (
    ...args: Values<(typeof functions)[Name]["parameters"]>
  ) => Result<(typeof functions)[Name]>;
};

/** The table to open a library with, where handles are of the given type. */
export function definitions(handle: HandleType): ForeignTable {
  return Object.fromEntries(
    Object.entries<FunctionType>(functions).map(([name, { parameters, nonblocking = false }]) => [
      name,
      {
        parameters: parameters.map((type) => type === HANDLE ? handle : type),
        result: "i32",
        nonblocking,
      },
    ]),
  );
}
