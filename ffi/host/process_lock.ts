/**
 * One lock for all threads of JavaScript in this process, which share nothing else.
 *
 * Drivers are not always as safe for threads as OpenCL asks. A crash at a build was reported after
 * two workers had opened a PoCL device at the same time; it was never reproduced here. The likely
 * cause is the one LLVM context behind all contexts of PoCL, which it makes and counts in
 * pocl_llvm_create_context (pocl_llvm_utils.cc). On an H100 (driver 580) 14 workers whose first builds
 * begin at the same time end in a segmentation fault about once in five times. So platforms are asked,
 * contexts made and released, and the first program of a thread built by one thread at a time.
 *
 * The lock is a robust mutex of the C library: a worker that ends while it holds the lock leaves it
 * to the next. Where a terminated worker's thread stays (Deno ends no thread that sleeps in the C library), others wait
 * for a few seconds and then do without. Its address stands in the environment of the C library, the
 * one place that every worker finds; it is set once, before the first call of a driver. Where there
 * are no such mutexes (macOS, Windows) or no permission, there is no lock.
 *
 * @module
 */
import { host } from "../runtime/host.ts";
import type { ForeignSymbols } from "../runtime/types.ts";
import { openLibc } from "./libc.ts";

const functions = {
  getauxval: { parameters: ["u64"], result: "u64" },
  malloc: { parameters: ["usize"], result: "u64" },
  free: { parameters: ["u64"], result: "void" },
  getenv: { parameters: ["buffer"], result: "u64" },
  setenv: { parameters: ["buffer", "buffer", "i32"], result: "i32" },
  pthread_mutexattr_init: { parameters: ["buffer"], result: "i32" },
  pthread_mutexattr_setrobust: { parameters: ["buffer", "i32"], result: "i32" },
  pthread_mutexattr_settype: { parameters: ["buffer", "i32"], result: "i32" },
  pthread_mutex_init: { parameters: ["u64", "buffer"], result: "i32" },
  pthread_mutex_timedlock: { parameters: ["u64", "buffer"], result: "i32" },
  pthread_mutex_unlock: { parameters: ["u64"], result: "i32" },
  pthread_mutex_consistent: { parameters: ["u64"], result: "i32" },
} as const;

type Libc = ForeignSymbols<typeof functions>;

interface Lock {
  readonly libc: Libc;
  readonly mutex: bigint;
}

/** More than a pthread_mutex_t has anywhere: 40 bytes on x86-64, 48 on arm64. */
const MUTEX_BYTES = 128n;
const PTHREAD_MUTEX_ROBUST = 1, PTHREAD_MUTEX_RECURSIVE = 1;
/** The owner ended while it held the lock, which is the caller's now. */
const EOWNERDEAD = 130, ETIMEDOUT = 110;
const MAX_WAIT_MS = 5000;
const timespec = new BigUint64Array(2);

let opened: Lock | null | undefined;

/**
 * Runs `fn` while no other thread of this process runs something here. Calls may be nested.
 *
 * @param fn Synchronous: another turn of the event loop is not under the lock.
 */
export function withProcessLock<T>(fn: () => T): T {
  using _lock = lockProcess();
  return fn();
}

/**
 * Takes the lock until what it returns is disposed of, by this thread: also across turns of its event
 * loop. Threads that wait for it are blocked meanwhile.
 */
export function lockProcess(): Disposable {
  const lock = opened === undefined ? opened = openLock() : opened;
  if (lock === null) return unlocked;
  const { libc, mutex } = lock;
  const status = libc.pthread_mutex_timedlock(mutex, deadline());
  if (status === ETIMEDOUT) {
    // What runs here takes a second or so: an owner that keeps it for so long may never give it back.
    opened = null;
    return unlocked;
  }
  if (status === EOWNERDEAD) libc.pthread_mutex_consistent(mutex);
  else if (status !== 0) throw new Error(`Cannot lock the process: pthread error ${status}`);
  return { [Symbol.dispose]: () => void libc.pthread_mutex_unlock(mutex) };
}

const unlocked: Disposable = { [Symbol.dispose]: () => {} };

/** A struct timespec of the wall clock: seconds, nanoseconds. */
function deadline(): BigUint64Array<ArrayBuffer> {
  const milliseconds = Date.now() + MAX_WAIT_MS;
  timespec[0] = BigInt(Math.floor(milliseconds / 1000));
  timespec[1] = BigInt(milliseconds % 1000) * 1_000_000n;
  return timespec;
}

/** The lock of the process, made by the first thread that asks for it. */
function openLock(): Lock | null {
  if (host.os !== "linux") return null;
  const library = openLibc(functions); // stays open, as the lock does
  if (library === null) return null;
  const libc = library.symbols;
  const name = cString(variableName(libc));
  const known = readAddress(libc, name);
  if (known !== null) return { libc, mutex: known };
  const mutex = makeMutex(libc);
  // Sets it unless another thread was quicker; getenv then tells all of them the same.
  libc.setenv(name, cString(`${mutex}`), 0);
  const winner = readAddress(libc, name);
  if (winner !== mutex) libc.free(mutex);
  return winner === null ? null : { libc, mutex: winner };
}

/**
 * Of this process alone: a child that inherits the environment has another number, and its kernel
 * another address for its random bytes.
 */
function variableName(libc: Libc): string {
  const AT_RANDOM = 25n;
  return `NETCL_LOCK_${host.pid}_${libc.getauxval(AT_RANDOM).toString(16)}`;
}

function makeMutex(libc: Libc): bigint {
  const mutex = libc.malloc(MUTEX_BYTES), attributes = new Uint8Array(64);
  if (mutex === 0n) throw new RangeError("Cannot make a lock: there is no memory");
  libc.pthread_mutexattr_init(attributes);
  libc.pthread_mutexattr_setrobust(attributes, PTHREAD_MUTEX_ROBUST);
  libc.pthread_mutexattr_settype(attributes, PTHREAD_MUTEX_RECURSIVE);
  libc.pthread_mutex_init(mutex, attributes);
  return mutex;
}

function readAddress(libc: Libc, name: Uint8Array<ArrayBuffer>): bigint | null {
  const value = libc.getenv(name);
  return value === 0n ? null : BigInt(host.cString(value));
}

function cString(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}
