/**
 * Failing on command: any function can be made to return any status, to be late, or to describe
 * another device. For tests, also those of programs that use this library.
 *
 * @module
 */
import { Status } from "./constants.ts";
import { type AnyCall, setExtensionInterceptor } from "./extension_calls.ts";
import { cl, replaceSymbols } from "./library.ts";
import { type FunctionName, functions, type OpenCLSymbols } from "./symbols.ts";
import type { FunctionType } from "../symbols/types.ts";

/** The C name of a function; its nonblocking twin fails with it. */
export type FaultyFunction = Exclude<FunctionName, `${string}Async`>;

/** The C name of an extension's function. */
export type FaultyExtensionFunction = `cl${string}${
  | "KHR"
  | "EXT"
  | "INTEL"
  | "NV"
  | "AMD"
  | "ARM"}`;

/** The fault. */
export interface Fault {
  /** The function, as in `"clEnqueueNDRangeKernel"`. */
  readonly call: FaultyFunction | FaultyExtensionFunction;
  /** The call that fails, counted from 1; every one where it is left out. */
  readonly nth?: number;
  /** The status that is returned; the driver is not called then. */
  readonly status?: number;
  /** The time that the call takes longer, in milliseconds. */
  readonly delayMs?: number;
  /** Of an info function: which property has another `value`. */
  readonly parameter?: number;
  /** The kind of the property: a number or bits, text, or bytes. */
  readonly value?: bigint | string | Uint8Array;
}

interface ActiveFault extends Fault {
  /** Calls of the function so far. */
  calls: number;
  /** The number of times it took effect. */
  hits: number;
}

/** Faults that are in force, by `withFaults` call. */
const active = new Set<readonly ActiveFault[]>();
let genuine: OpenCLSymbols | null = null;

/** Functions that report no status, only a null result. */
const silent: ReadonlySet<string> = new Set([
  "clSVMAlloc",
  "clGetExtensionFunctionAddress",
  "clGetExtensionFunctionAddressForPlatform",
]);

/**
 * Runs a function while OpenCL misbehaves, then repairs it; also when the function is asynchronous.
 *
 * @returns What `fn` returns.
 * @throws {Error} If a fault never took effect: such a test would test nothing.
 *
 * @example
 * ```ts
 * import { Buffer, Context, platforms, withFaults } from "@netcl/netcl/ffi";
 *
 * using context = new Context(platforms()[0]!.devices()[0]!);
 * try {
 *   withFaults([{ call: "clCreateBuffer", nth: 1, status: -4 }], () => new Buffer(context, 64));
 * } catch (error) {
 *   console.log(error); // CL_MEM_OBJECT_ALLOCATION_FAILURE
 * }
 * ```
 */
export function withFaults<T>(faults: readonly Fault[], fn: () => T): T {
  const mine = faults.map((fault) => ({ ...fault, calls: 0, hits: 0 }));
  active.add(mine);
  install();
  let result: T;
  try {
    result = fn();
  } catch (error) {
    end(mine);
    throw error;
  }
  if (result instanceof Promise) return finishLater(mine, result) as T;
  end(mine);
  requireHits(mine);
  return result;
}

async function finishLater<T>(mine: readonly ActiveFault[], result: Promise<T>): Promise<T> {
  try {
    const value = await result;
    requireHits(mine);
    return value;
  } finally {
    end(mine);
  }
}

function end(mine: readonly ActiveFault[]): void {
  active.delete(mine);
  install();
}

function requireHits(mine: readonly ActiveFault[]): void {
  const missed = mine.find(({ hits }) => hits === 0);
  if (missed === undefined) return;
  throw new Error(
    `Cannot pass: the fault in ${missed.call} never happened, it was called ${missed.calls} times`,
  );
}

/** Builds the table anew from the genuine one, so that concurrent users do not undo each other. */
function install(): void {
  setExtensionInterceptor(active.size === 0 ? null : wrapAll);
  genuine ??= genuineSymbols();
  if (active.size === 0) return void replaceSymbols(genuine);
  const entries = (Object.keys(genuine) as FunctionName[])
    .map((name) => [name, wrapAll(name, functions[name], genuine![name] as AnyCall)]);
  replaceSymbols(Object.fromEntries(entries) as OpenCLSymbols);
}

function genuineSymbols(): OpenCLSymbols {
  void cl.clGetPlatformIDs; // opens the library
  return cl;
}

/** The call with every fault that is in force for it. */
function wrapAll(name: string, type: FunctionType, call: AnyCall): AnyCall {
  const cName = type.name ?? name;
  return [...active].flat().filter((fault) => fault.call === cName)
    .reduce((inner, fault) => wrap(name, type, inner, fault), call);
}

function wrap(name: string, type: FunctionType, call: AnyCall, fault: ActiveFault): AnyCall {
  return (...args) => {
    const parameter = args[type.parameters.length - 4];
    if (fault.parameter !== undefined && parameter !== fault.parameter) return call(...args);
    fault.calls++;
    if (fault.nth !== undefined && fault.nth !== fault.calls) return call(...args);
    fault.hits++;
    const outcome = (): unknown => misbehave(name, type, call, fault, args);
    if (type.nonblocking) return sleep(fault.delayMs ?? 0).then(outcome);
    sleepSync(fault.delayMs ?? 0);
    return outcome();
  };
}

function misbehave(
  name: string,
  { result }: FunctionType,
  call: AnyCall,
  fault: Fault,
  args: unknown[],
): unknown {
  if (fault.value !== undefined) return answer(fault.value, args);
  if (fault.status === undefined) return call(...args);
  if (result === "i32") return fault.status;
  if (result !== "void" && !silent.has(name)) (args.at(-1) as Int32Array)[0] = fault.status;
  return 0n;
}

/** Answers an info query in place of the driver: its last arguments are size, value, size_ret. */
function answer(value: bigint | string | Uint8Array, args: unknown[]): number {
  const bytes = toBytes(value);
  const [size, into, sizeOut] = args.slice(-3) as [
    bigint,
    Uint8Array | null,
    BigUint64Array | null,
  ];
  if (sizeOut !== null) sizeOut[0] = BigInt(bytes.length);
  if (into !== null) {
    new Uint8Array(into.buffer, into.byteOffset).set(bytes.subarray(0, Number(size)));
  }
  return Status.CL_SUCCESS;
}

function toBytes(value: bigint | string | Uint8Array): Uint8Array {
  if (typeof value === "string") return new TextEncoder().encode(value + "\0");
  return typeof value === "bigint" ? new Uint8Array(new BigUint64Array([value]).buffer) : value;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function sleepSync(ms: number): void {
  if (ms > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
