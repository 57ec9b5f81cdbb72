/**
 * Finds libmpi, opens it and tells which implementation it is. Nothing is opened before
 * {@linkcode openMPILibrary} is called, and nothing is ever closed: MPI has threads of its own.
 *
 * @module
 */
import { host } from "../runtime/host.ts";
import { readEnvironment } from "../host/environment.ts";
import { openLibc } from "../host/libc.ts";
import { MPIError, MPIUnavailableError } from "./errors.ts";
import { type Implementation, mpich, openMPI } from "./implementation.ts";
import { findLauncher, type Launcher, noLauncher } from "./launcher.ts";
import { definitions, type FunctionName, type MPISymbols } from "./symbols.ts";

/** An open library. */
export interface MPILibrary {
  /** Its name or path. */
  readonly path: string;
  /** The starter of this process. */
  readonly launcher: Launcher;
  /** Its constants. */
  readonly implementation: Implementation;
  /** Its raw functions: what they return is to be checked. */
  readonly mpi: MPISymbols;
}

const loader = {
  dlopen: { parameters: ["buffer", "i32"], result: "u64" },
  dlsym: { parameters: ["u64", "buffer"], result: "u64" },
} as const;

/**
 * The library of the MPI that started this process, or that NETCL_MPI_LIBRARY names.
 *
 * @returns Null where nobody started it under MPI: then it is one process of one.
 * @throws {MPIUnavailableError} When no library can be opened, with what was tried and what to do.
 */
export function openMPILibrary(): MPILibrary | null {
  const chosen = readEnvironment("NETCL_MPI_LIBRARY");
  const launcher = findLauncher() ?? (chosen === undefined ? null : noLauncher);
  if (launcher === null) return null;
  requirePermission();
  const failures: string[] = [];
  for (const path of chosen === undefined ? launcher.libraries : [chosen]) {
    const found = tryOpen(path, failures);
    if (found) return { path, launcher, ...found };
  }
  throw notFound(launcher, failures);
}

function requirePermission(): void {
  if (host.request({ name: "ffi" })) return;
  throw new MPIUnavailableError("Cannot open libmpi without permission: run with --allow-ffi");
}

function tryOpen(
  path: string,
  failures: string[],
): Pick<MPILibrary, "implementation" | "mpi"> | null {
  try {
    const implementation = implementationOf(path);
    const { symbols } = host.dlopen(path, definitions(implementation.handle));
    return { implementation, mpi: symbols as unknown as MPISymbols };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    failures.push(`${path}: ${error.message.replace(/^Could not open library: /, "")}`);
    return null;
  }
}

/** Open MPI is known by the objects that its constants point to; all others share MPICH's ABI. */
function implementationOf(path: string): Implementation {
  if (host.os === "windows") return mpich;
  const libc = openLibc(loader);
  if (libc === null) throw new Error("the C library has no dlsym to ask");
  const { dlopen, dlsym } = libc.symbols;
  const RTLD_NOW = 2, RTLD_GLOBAL = host.os === "darwin" ? 0x8 : 0x100;
  try {
    // Global: components of Open MPI are libraries that take its symbols from the process.
    const library = dlopen(cString(path), RTLD_NOW | RTLD_GLOBAL);
    if (library === 0n) return mpich; // host.dlopen says why
    const addressOf = (symbol: string): bigint => dlsym(library, cString(symbol));
    return addressOf("ompi_mpi_comm_world") === 0n ? mpich : openMPI(addressOf);
  } finally {
    libc.close();
  }
}

function cString(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}

function notFound({ name }: Launcher, failures: readonly string[]): MPIUnavailableError {
  return new MPIUnavailableError(
    `Cannot find the MPI library of ${name}. Tried:\n${
      failures.map((line) => `  ${line}\n`).join("")
    }What to do: install it (Debian, Ubuntu: apt install openmpi-bin), or set NETCL_MPI_LIBRARY to ` +
      "the path of the libmpi that mpirun belongs to",
  );
}

/**
 * Turns what a call returned into an error.
 *
 * @throws {MPIError} When it is not MPI_SUCCESS.
 */
export function check({ mpi }: MPILibrary, call: FunctionName, code: number): void {
  if (code !== 0) throw new MPIError(call, code, errorText(mpi, code));
}

function errorText(mpi: MPISymbols, code: number): string {
  const MAX_ERROR_STRING = 512, text = new Uint8Array(MAX_ERROR_STRING), length = new Int32Array(1);
  if (mpi.MPI_Error_string(code, text, length) !== 0) return "unknown";
  return new TextDecoder().decode(text.subarray(0, length[0]));
}

/** The library's name of itself, on one line: "Open MPI v4.1.4, ...". */
export function libraryVersion({ mpi }: MPILibrary): string {
  const MAX_VERSION_STRING = 8192, text = new Uint8Array(MAX_VERSION_STRING);
  const length = new Int32Array(1);
  mpi.MPI_Get_library_version(text, length);
  return new TextDecoder().decode(text.subarray(0, length[0])).split(/[\n\0]/)[0]!.trim();
}
