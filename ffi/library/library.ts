/**
 * Finds libOpenCL and opens it at the first call. It is never closed: drivers run threads of their
 * own, and a call after closing is a crash.
 *
 * This folder (`library/`) is libOpenCL as functions: finding it, the table that is called (or made
 * to fail), statuses as errors, constants, queries, and how memory of JavaScript is kept for C. It
 * imports `symbols/` and `host/`. Calls come from all folders below; it hands them to the driver.
 *
 * @module
 */
import { host } from "../runtime/host.ts";
import type { ForeignTable } from "../runtime/types.ts";
import { readEnvironment, setDefaultVariable } from "../host/environment.ts";
import { OpenCLUnavailableError } from "./errors.ts";
import { allowedCores, openLibc } from "../host/libc.ts";
import { libraryFiles, libraryPlaceOf } from "./library_names.ts";
import { localSize } from "../host/local_ranks.ts";
import { withProcessLock } from "../host/process_lock.ts";
import { primeSignals } from "./signals.ts";
import { type FunctionName, functions, type OpenCLSymbols } from "./symbols.ts";
import type { FunctionType } from "../symbols/types.ts";

const place = libraryPlaceOf(host);
const names = Object.keys(functions) as FunctionName[];

/**
 * The functions of the library. Before the first use it is a table of getters that open the
 * library; a live binding, so that afterwards a call costs no more than a property.
 */
export let cl: OpenCLSymbols = unopened();

/** Name or path of the library that is open, or null. */
export let libraryPath: string | null = null;

function unopened(): OpenCLSymbols {
  const table = {};
  for (const name of names) {
    Object.defineProperty(table, name, { get: () => openLibrary()[name], enumerable: true });
  }
  return table as OpenCLSymbols;
}

/**
 * Opens the library, if it is not open yet.
 *
 * @returns The raw C functions. Pass them handles of live objects only: nothing is checked.
 * @throws {OpenCLUnavailableError} If no library can be opened, with what was tried and what to do.
 */
export function openLibrary(): OpenCLSymbols {
  if (libraryPath !== null) return cl;
  const candidates = permittedCandidates();
  const failures: string[] = [];
  for (const path of candidates) {
    const symbols = tryOpen(path, failures);
    if (symbols === null) continue;
    withProcessLock(placePoCLThreads);
    primeSignals();
    keepLoaded(path);
    libraryPath = path;
    return cl = symbols;
  }
  throw notFound(failures);
}

/**
 * Threads of PoCL that are not pinned may share a core, at half the speed. It pins them to the first cores
 * of the machine, whichever this process may use. Of several processes each would use the same ones: they
 * share the cores out, and keep to those that mpirun gave.
 */
function placePoCLThreads(): void {
  const processes = localSize() ?? 1, allowed = processes === 1 ? allowedCores() : null;
  if (processes > 1) return limitThreads(Math.floor(navigator.hardwareConcurrency / processes));
  if (allowed && allowed.cores.length < allowed.all) limitThreads(allowed.cores.length);
  if (allowed?.cores.some((core, k) => core !== k)) return;
  setDefaultVariable("POCL_AFFINITY", "1");
}

function limitThreads(count: number): void {
  setDefaultVariable("POCL_MAX_PTHREAD_COUNT", `${Math.max(1, count)}`);
}

/**
 * Puts other functions in the place of the library's, for tests: see `withFaults`.
 *
 * @returns The functions that were there before.
 */
export function replaceSymbols(symbols: OpenCLSymbols): OpenCLSymbols {
  const former = openLibrary();
  cl = symbols;
  return former;
}

function permittedCandidates(): readonly string[] {
  const chosen = readEnvironment("NETCL_OPENCL_LIBRARY");
  const candidates = chosen ? [chosen] : place.names;
  if (host.isGranted({ name: "ffi" })) return candidates;
  const granted = libraryFiles(place, candidates, host.arch).filter((path) =>
    host.isGranted({ name: "ffi", path })
  );
  if (granted.length > 0) return granted;
  // Not left to dlopen: the answer to its own prompt holds for a file in the working folder only.
  if (host.request({ name: "ffi" })) return candidates;
  throw new OpenCLUnavailableError(
    "Cannot open the OpenCL library without permission: run with --allow-ffi",
  );
}

function tryOpen(path: string, failures: string[]): OpenCLSymbols | null {
  try {
    return complete(host.dlopen(path, definitions()).symbols, path);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    failures.push(`${path}: ${error.message}`);
    return null;
  }
}

/**
 * Keeps the library in the process for good. Deno closes it at the end of every worker that opened
 * it: threads of a terminated worker that still wait inside would return into memory that is gone.
 */
function keepLoaded(path: string): void {
  const libc = openLibc(loaderFunctions);
  if (libc === null) return;
  libc.symbols.dlopen?.(new TextEncoder().encode(`${path}\0`), place.keepLoaded);
  libc.close();
}

const loaderFunctions = {
  // In glibc since 2.34; before that in libdl.
  dlopen: { parameters: ["buffer", "i32"], result: "u64", optional: true },
} as const;

function definitions(): ForeignTable {
  return Object.fromEntries(
    Object.entries<FunctionType>(functions).map(([name, { since, ...definition }]) => [
      name,
      { ...definition, optional: since !== undefined },
    ]),
  );
}

/** Functions that the library lacks become ones that say so. */
function complete(found: Record<string, unknown>, path: string): OpenCLSymbols {
  const entries = names.map((name) => [name, found[name] ?? missing(name, path)]);
  return Object.fromEntries(entries) as OpenCLSymbols;
}

/**
 * True when the library has a function; opens it if need be. A loader older than a driver lacks what
 * the driver's devices offer.
 */
export function hasFunction(name: FunctionName): boolean {
  return !lacking.has(openLibrary()[name]);
}

/** Stand-ins for functions that the library lacks. */
const lacking = new WeakSet<object>();

function missing(name: FunctionName, path: string): () => never {
  const { since = "1.0" }: FunctionType = functions[name];
  const refuse = (): never => {
    throw new OpenCLUnavailableError(
      `Cannot call ${name}: ${path} lacks it, it came with OpenCL ${since}`,
    );
  };
  lacking.add(refuse);
  return refuse;
}

function notFound(failures: readonly string[]): OpenCLUnavailableError {
  return new OpenCLUnavailableError(
    `Cannot find an OpenCL library. Tried:\n${failures.map((line) => `  ${line}\n`).join("")}` +
      `What to do: ${place.remedy}; ` +
      "or set NETCL_OPENCL_LIBRARY to its path",
  );
}
