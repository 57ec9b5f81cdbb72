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

/** Which of them this process is, from 0; null where nobody says, or the permission is missing. */
export function localRank(): number | null {
  return firstNumber(rankVariables);
}

/** How many there are; null where nobody says, or the permission is missing. */
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
