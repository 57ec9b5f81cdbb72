/**
 * The starter of this process: each launcher tells its processes by environment variables, before any
 * library of MPI is opened.
 *
 * @module
 */
import { host } from "../runtime/host.ts";
import { MPIUnavailableError } from "./errors.ts";

/** A launcher, and the libraries that its processes may use. */
export interface Launcher {
  /** As a message names it. */
  readonly name: string;
  /** The number of processes that it started, where it says so. */
  readonly size: number | null;
  /** Sonames to try, in this order. */
  readonly libraries: readonly string[];
}

const openMPI = ["libmpi.so.40", "libmpi.so.80"];
// Debian's MPICH has no libmpi.so.12; Cray's has its own name.
const mpich = ["libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12"];
const byOS: Partial<Record<string, readonly string[]>> = {
  darwin: ["/opt/homebrew/lib/libmpi.dylib", "/usr/local/lib/libmpi.dylib", "libmpi.dylib"],
  windows: ["msmpi.dll"],
};

/** Variables that say how many processes there are, by launcher. The first that is set counts. */
const launchers: readonly [variable: string, name: string, libraries: readonly string[]][] = [
  ["OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun", [...openMPI, "libmpi.so"]],
  ["PMI_SIZE", "MPICH's mpiexec", [...mpich, "libmpi.so"]],
  ["MV2_COMM_WORLD_SIZE", "MVAPICH's mpirun", [...mpich, "libmpi.so"]],
];

/** The same where only the rank is told: `srun --mpi=pmix`, PMI over a socket. */
const ranked: typeof launchers = [
  ["PMIX_RANK", "a launcher with PMIx", [...openMPI, ...mpich, "libmpi.so"]],
  ["PMI_RANK", "a launcher with PMI", [...mpich, ...openMPI, "libmpi.so"]],
];

/**
 * The launcher of this process, null where there was none.
 *
 * @throws {MPIUnavailableError} When the environment may not be read: alone, every process of many
 * would train by itself.
 */
export function findLauncher(): Launcher | null {
  for (const [variable, name, libraries] of launchers) {
    const value = variableOf(variable);
    if (value !== undefined) return { name, size: Number(value), libraries: onThisOS(libraries) };
  }
  for (const [variable, name, libraries] of ranked) {
    if (variableOf(variable) !== undefined) {
      return { name, size: null, libraries: onThisOS(libraries) };
    }
  }
  return null;
}

/** The libraries of a program that names one by NETCL_MPI_LIBRARY, and no launcher. */
export const noLauncher: Launcher = { name: "no launcher", size: null, libraries: [] };

function onThisOS(libraries: readonly string[]): readonly string[] {
  return byOS[host.os] ?? libraries;
}

function variableOf(variable: string): string | undefined {
  if (!host.request({ name: "env", variable })) {
    throw new MPIUnavailableError(
      `Cannot tell whether mpirun started this process: ${variable} may not be read; run with ` +
        "--allow-env",
    );
  }
  return host.getVariable(variable) || undefined;
}
