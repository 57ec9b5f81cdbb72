/**
 * Differences of implementations of MPI: constants that mpi.h defines, which no library exports.
 *
 * @module
 */
import type { Handle, HandleType } from "./symbols.ts";

/** The element types that netcl sends; `byte` for what is copied and not reduced. */
export type ElementType = "byte" | "float32" | "float64" | "int32" | "int64" | "uint8";

/** Operations that join elements of several ranks. */
export type ReduceOp = "sum" | "max" | "min";

/** The constants of one implementation. */
export interface Implementation {
  /** "Open MPI" or "MPICH": all that share an ABI with it are called so. */
  readonly name: "Open MPI" | "MPICH";
  /** The C form of a handle. */
  readonly handle: HandleType;
  /** MPI_COMM_WORLD */
  readonly world: Handle;
  /** MPI_INFO_NULL */
  readonly noInfo: Handle;
  /** MPI_ERRORS_RETURN */
  readonly errorsReturn: Handle;
  /** MPI_IN_PLACE */
  readonly inPlace: bigint;
  /** MPI_STATUS_IGNORE */
  readonly ignoreStatus: bigint;
  /** MPI_COMM_TYPE_SHARED */
  readonly sharedMemory: number;
  /** MPI_Datatype */
  readonly types: Readonly<Record<ElementType, Handle>>;
  /** MPI_Op */
  readonly ops: Readonly<Record<ReduceOp, Handle>>;
}

/**
 * MPICH's ABI, which Intel MPI, MVAPICH, Cray MPICH and MS-MPI share: mpi.h of MPICH 4.0.2. It has not
 * changed since 3.1 (https://www.mpich.org/abi).
 */
export const mpich: Implementation = {
  name: "MPICH",
  handle: "i32",
  world: 0x44000000,
  noInfo: 0x1c000000,
  errorsReturn: 0x54000001,
  inPlace: BigInt.asUintN(64, -1n),
  ignoreStatus: 1n,
  sharedMemory: 1,
  types: {
    byte: 0x4c00010d,
    float32: 0x4c00040a,
    float64: 0x4c00080b,
    int32: 0x4c000439,
    int64: 0x4c00083a,
    uint8: 0x4c00013b,
  },
  ops: { max: 0x58000001, min: 0x58000002, sum: 0x58000003 },
};

/**
 * Open MPI, whose constants are the addresses of objects in the library (mpi.h of 4.1 and 5.0).
 *
 * @param addressOf The address of a symbol of the library.
 */
export function openMPI(addressOf: (symbol: string) => bigint): Implementation {
  const type = (name: string): bigint => addressOf(`ompi_mpi_${name}`);
  return {
    name: "Open MPI",
    handle: "u64",
    world: addressOf("ompi_mpi_comm_world"),
    noInfo: addressOf("ompi_mpi_info_null"),
    errorsReturn: addressOf("ompi_mpi_errors_return"),
    inPlace: 1n,
    ignoreStatus: 0n,
    sharedMemory: 0,
    types: {
      byte: type("byte"),
      float32: type("float"),
      float64: type("double"),
      int32: type("int32_t"),
      int64: type("int64_t"),
      uint8: type("uint8_t"),
    },
    ops: {
      max: addressOf("ompi_mpi_op_max"),
      min: addressOf("ompi_mpi_op_min"),
      sum: addressOf("ompi_mpi_op_sum"),
    },
  };
}
