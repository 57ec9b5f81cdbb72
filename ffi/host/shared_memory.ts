/**
 * Memory that several processes of a host share: files that live in memory, mapped. A file is unlinked
 * as soon as all have mapped it, so that nothing is left of it, however the processes end.
 *
 * @module
 */
import { host } from "../runtime/host.ts";
import type { ForeignSymbols } from "../runtime/types.ts";
import { openLibc } from "./libc.ts";

/** A mapped file. */
export interface SharedMemory extends Disposable {
  /** The memory; gone when the mapping is. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

const FOLDER = "/dev/shm";
const O_RDWR = 2, O_CREAT = 0o100, O_EXCL = 0o200, O_CLOEXEC = 0o2000000, OWNER_ONLY = 0o600;
const PROT_READ = 1,
  PROT_WRITE = 2,
  MAP_SHARED = 1,
  MAP_PRIVATE = 2,
  MAP_ANONYMOUS = 0x20,
  MAP_FAILED = 2n ** 64n - 1n;

const functions = {
  open: { parameters: ["buffer", "i32", "i32"], result: "i32" },
  // Reserves the pages: where the folder is too small this fails, and not a later write, by a signal.
  posix_fallocate: { parameters: ["i32", "i64", "i64"], result: "i32" },
  mmap: { parameters: ["usize", "usize", "i32", "i32", "i32", "i64"], result: "u64" },
  munmap: { parameters: ["u64", "usize"], result: "i32" },
  unlink: { parameters: ["buffer"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  futex: {
    name: "syscall",
    parameters: ["i64", "buffer", "i32", "i32", "buffer"],
    result: "i64",
  },
} as const;

const FUTEX_WAIT = 0, FUTEX_WAKE = 1, ALL = 0x7fff_ffff;
/** The number of the system call, by processor. */
export const futexNumbers: Partial<Record<string, bigint>> = {
  x86_64: 202n,
  aarch64: 98n,
};

type Libc = ForeignSymbols<typeof functions>;

let opened: Libc | null | undefined;

/** Stays open: to open it takes Deno 2 ms, and each bucket of gradients maps a part of every rank. */
function libc(): Libc | null {
  if (host.os !== "linux") return null;
  return opened === undefined ? opened = openLibc(functions)?.symbols ?? null : opened;
}

/** `struct timespec`: seconds, nanoseconds. */
const timeout = new BigInt64Array(2);

function futex(
  word: Word,
  operation: number,
  value: number,
  limit: typeof timeout | null,
): boolean {
  const number = futexNumbers[host.arch], symbols = libc();
  if (number === undefined || symbols === null) return false;
  symbols.futex(number, word, operation, value, limit);
  return true;
}

/** One element, in shared memory. */
export type Word = Int32Array<ArrayBuffer>;

/**
 * Blocks this thread until another process wakes it, or for so long; not at all where the word is no more
 * what it was. It may return early, and no signal handler of JavaScript runs meanwhile.
 *
 * @param milliseconds Less than 1,000.
 * @returns False where the system has no such waits; then it has not waited.
 */
export function sleepAtWord(word: Word, value: number, milliseconds: number): boolean {
  timeout[1] = BigInt(Math.ceil(milliseconds * 1e6));
  return futex(word, FUTEX_WAIT, value, timeout);
}

/** Wakes all who sleep at a word, to be called when it has changed. */
export function wakeAtWord(word: Word): void {
  futex(word, FUTEX_WAKE, ALL, null);
}

/** Makes memory that others map by its name: letters, digits and dashes. Null where it cannot be had. */
export function createSharedMemory(name: string, nbytes: number): SharedMemory | null {
  return mapped(name, nbytes, true);
}

/** Memory that another process of this host has made. Null where it cannot be had. */
export function openSharedMemory(name: string, nbytes: number): SharedMemory | null {
  return mapped(name, nbytes, false);
}

/** Pages of this process alone, which drivers pin. Null where they cannot be had. */
export function mapPages(nbytes: number): SharedMemory | null {
  const symbols = libc(), size = BigInt(nbytes), flags = MAP_PRIVATE | MAP_ANONYMOUS;
  const address = symbols?.mmap(0n, size, PROT_READ | PROT_WRITE, flags, -1, 0n) ?? MAP_FAILED;
  return symbols && address !== MAP_FAILED ? memoryAt(symbols, address, nbytes) : null;
}

/** Takes the name away; the memory stays for those who have mapped it. */
export function unlinkSharedMemory(name: string): void {
  libc()?.unlink(pathOf(name));
}

function pathOf(name: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${FOLDER}/${name}\0`);
}

function mapped(name: string, nbytes: number, isNew: boolean): SharedMemory | null {
  const symbols = libc();
  const address = symbols && mapFile(symbols, name, nbytes, isNew);
  return symbols && address !== null ? memoryAt(symbols, address, nbytes) : null;
}

function memoryAt({ munmap }: Libc, address: bigint, nbytes: number): SharedMemory {
  return {
    bytes: new Uint8Array(host.memoryAt(address, nbytes)),
    [Symbol.dispose]: () => void munmap(address, BigInt(nbytes)),
  };
}

function mapFile(libc: Libc, name: string, nbytes: number, isNew: boolean): bigint | null {
  const size = BigInt(nbytes), flags = O_RDWR | O_CLOEXEC | (isNew ? O_CREAT | O_EXCL : 0);
  const file = libc.open(pathOf(name), flags, OWNER_ONLY);
  if (file < 0) return null;
  const isThere = !isNew || libc.posix_fallocate(file, 0n, size) === 0;
  const address = isThere
    ? libc.mmap(0n, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0n)
    : MAP_FAILED;
  libc.close(file);
  if (address !== MAP_FAILED) return address;
  if (isNew) libc.unlink(pathOf(name));
  return null;
}
