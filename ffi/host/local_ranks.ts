/**
 * The processes that a launcher of MPI started on this host, as it tells them by environment variables.
 *
 * @module
 */
import { readVariable } from "./environment.ts";

/** Open MPI; MPICH and Intel MPI; MVAPICH; Slurm. */
const rankVariables = [
  "OMPI_COMM_WORLD_LOCAL_RANK",
  "MPI_LOCALRANKID",
  "MV2_COMM_WORLD_LOCAL_RANK",
  "SLURM_LOCALID",
];
const sizeVariables = [
  "OMPI_COMM_WORLD_LOCAL_SIZE",
  "MPI_LOCALNRANKS",
  "MV2_COMM_WORLD_LOCAL_SIZE",
];

/** The number of this process among them, from 0; null where it is not known or not permitted. */
export function localRank(): number | null {
  return firstNumber(rankVariables);
}

/** Their number; null where nobody says, or the permission is missing. */
export function localSize(): number | null {
  return firstNumber(sizeVariables);
}

function firstNumber(variables: readonly string[]): number | null {
  for (const variable of variables) {
    const value = readVariable(variable);
    if (value !== undefined && /^\d+$/.test(value)) return Number(value);
  }
  return null;
}
