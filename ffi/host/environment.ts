/**
 * The environment variables of netcl: one table, one way to read them.
 *
 * @module
 */

import { host } from "../runtime/host.ts";

/** One variable. */
export interface EnvironmentVariable {
  /** Values that it may hold. */
  readonly values: string;
  /** The value when it is unset. */
  readonly default: string;
  /** The decision that it makes. */
  readonly description: string;
}

/** Every variable that netcl reads. */
export const environmentVariables = {
  NETCL_DEVICE: {
    values: "auto, gpu, cl, cpu, cl:PLATFORM:DEVICE",
    default: "auto",
    description: "The device of a program that names none",
  },
  NETCL_OPENCL_LIBRARY: {
    values: "a path or a library name",
    default: "the system's libOpenCL",
    description: "The OpenCL library to open, and no other",
  },
  NETCL_MPI_LIBRARY: {
    values: "a path or a library name",
    default: "the libmpi of the mpirun that started the program",
    description: "The MPI library that distributed.init() opens, and no other",
  },
  NETCL_ASYNC_H2D: {
    values: "0, 1",
    default: "1",
    description: "Whether copies to the device overlap with computing",
  },
  NETCL_PINNED_H2D: {
    values: "0, 1",
    default: "1 on discrete GPUs, else while the device is busy",
    description: "Whether copies to the device go through pinned host memory",
  },
  NETCL_MAX_CACHED_GB: {
    values: "a number of GiB",
    default: "4",
    description: "The most that the persistent pool keeps cached",
  },
  NETCL_MEMORY_LIMIT: {
    values: "bytes, or a number with KiB, MiB, GiB or %",
    default: "90% of the device's memory",
    description: "The most that netcl reserves on a device",
  },
  NETCL_POOL: {
    values: "slab, persistent, buffer, svm",
    default: "slab",
    description: "The pool that device memory comes from",
  },
  NETCL_EAGER: {
    values: "0, 1",
    default: "0",
    description: "Whether every operation runs at once, by itself",
  },
  NETCL_DETERMINISTIC: {
    values: "0, 1",
    default: "0",
    description: "Whether a program begins with setDeterministic(true)",
  },
  NETCL_CPU: {
    values: "fast, wasm, reference",
    default: "fast",
    description: "How the built-in CPU backend computes: at best speed, without BLAS, or plainly",
  },
  NETCL_GATES: {
    values: "events, kernels, 0",
    default: "kernels with NVIDIA's driver, else events",
    description: "What waits on a device for other devices; 0: the host waits instead",
  },
  NETCL_MATRIX_UNITS: {
    values: "0, 1",
    default: "1",
    description: "Whether products use the matrix units of GPUs that have them",
  },
  NETCL_ADDRESSES: {
    values: "0, 1",
    default: "1 with NVIDIA's driver, else 0",
    description: "Whether kernels are told addresses, not memory objects: launches are shorter",
  },
  NETCL_CACHE_DIR: {
    values: "a folder, or off",
    default: "netcl in the user's cache folder",
    description: "Where compiled kernels and tuned tiles are kept",
  },
  NETCL_BUILD_PROCESSES: {
    values: "a number, 0 for none",
    default: "up to 8, by the work",
    description: "How many processes help to build kernels; for PoCL it is one",
  },
  NETCL_SIGNALS: {
    values: "0, 1",
    default: "1",
    description: "Whether netcl finishes its queues at Ctrl+C and SIGTERM",
  },
  NETCL_SIGINT_GRACE_MS: {
    values: "milliseconds",
    default: "3000",
    description: "How long the queues may take to finish before the program ends without them",
  },
  NETCL_DEBUG: {
    values: "0, 1",
    default: "0",
    description: "Whether misuse that is counted otherwise throws",
  },
} as const satisfies Record<string, EnvironmentVariable>;

/** The name of a variable in the table. */
export type EnvironmentName = keyof typeof environmentVariables;

/**
 * Reads a variable of the table where the permission is granted already; never asks for it.
 *
 * @returns The value, or `undefined` where it is unset, empty or not allowed to be read.
 */
export function readEnvironment(name: EnvironmentName): string | undefined {
  return readVariable(name);
}

/** A variable of the table holds what it cannot hold. */
export class EnvironmentError extends RangeError {
  /** The class's name. */
  override readonly name = "EnvironmentError";

  /**
   * Made by what reads the variable.
   *
   * @param variable Its name.
   * @param value What it holds.
   * @param remedy What to write instead: "write 0 or 1".
   */
  constructor(variable: EnvironmentName, value: string, remedy: string) {
    super(`${variable} is "${value}": ${remedy}`);
  }
}

/** The same for a variable that is not netcl's, such as a driver's. */
export function readVariable(variable: string): string | undefined {
  return mayUse(variable) ? host.getVariable(variable) || undefined : undefined;
}

/** Sets a variable for the drivers in this process, unless it is set or setting is not allowed. */
export function setDefaultVariable(variable: string, value: string): void {
  if (mayUse(variable) && host.getVariable(variable) === undefined) {
    host.setVariable(variable, value);
  }
}

function mayUse(variable: string): boolean {
  return host.isGranted({ name: "env", variable });
}
