/** Which of the processes of its host this one is, as launchers of MPI tell by environment variables. */
import { readVariable } from "../../ffi/host/environment.ts";

/** Open MPI; MPICH and Intel MPI; MVAPICH; Slurm. */
const variables = [
  "OMPI_COMM_WORLD_LOCAL_RANK",
  "MPI_LOCALRANKID",
  "MV2_COMM_WORLD_LOCAL_RANK",
  "SLURM_LOCALID",
];

/** From 0; null where nobody says, or the permission is missing. */
export function localRank(): number | null {
  for (const variable of variables) {
    const value = readVariable(variable);
    if (value !== undefined && /^\d+$/.test(value)) return Number(value);
  }
  return null;
}
