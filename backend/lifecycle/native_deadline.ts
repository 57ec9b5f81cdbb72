/**
 * A time limit for programs that are busy in JavaScript or in a foreign call when a signal comes. No
 * listener runs there, and Deno ends no process that listens to the signal: the program would
 * outlive Ctrl+C. So the handler in front of Deno's starts a timer of the kernel, which sends the
 * same signal once more. By then SA_RESETHAND has made its disposition the default, and the program
 * ends. Whoever acts upon the signal in time stops the timer.
 *
 * The handler has to be machine code, for JavaScript cannot run in it; it is there for Linux on
 * x86-64. Elsewhere `startWatchdog` does the same with a second thread.
 */
import { host } from "../../ffi/runtime/host.ts";
import { libc } from "./libc.ts";

type Libc = NonNullable<ReturnType<typeof libc>>;

const PAGE_BYTES = 4096n;
const PROT_READ = 1, PROT_WRITE = 2, PROT_EXEC = 4;
const MAP_PRIVATE_ANONYMOUS = 0x22;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;
const SYS_TIMER_CREATE = 222n, SYS_TIMER_SETTIME = 223n;
const CLOCK_MONOTONIC = 1n;
/** Offset of the signal in `struct sigevent`; that a signal is sent is its default. */
const SIGEV_SIGNO_OFFSET = 8;

/**
 * Data of handler, kernel and JavaScript: `struct itimerspec` (repeat, delay), then whether the
 * signal came. An ArrayBuffer of its own, which V8 does not move.
 */
const fields = {
  /** Seconds and nanoseconds; 0 starts nothing. */
  delay: { offset: 16, length: 2 },
  /** True when the signal came. */
  come: { offset: 32, length: 1 },
  bytes: 64,
} as const;

/** The limit of one signal. */
export class NativeDeadline {
  /** The address of the handler that starts it. */
  readonly handler: bigint;
  readonly #libc: Libc;
  readonly #timer: bigint;
  readonly #shared = new ArrayBuffer(fields.bytes);
  readonly #delay = new BigInt64Array(this.#shared, fields.delay.offset, fields.delay.length);
  readonly #come = new Int32Array(this.#shared, fields.come.offset, fields.come.length);
  #limitMs: number | null = null;
  #isHeld = false;
  #isStarted = false;

  private constructor(libc: Libc, signal: number, next: bigint) {
    this.#libc = libc;
    this.#timer = createTimer(libc, signal);
    const address = libc.memmove(this.#shared, this.#shared, 0n);
    this.handler = install(libc, handlerCode(this.#timer, address, next));
  }

  /**
   * Makes one; null where it cannot be had.
   *
   * @param signal Its number.
   * @param next The address of the handler that the signal is passed on to.
   */
  static create(signal: number, next: bigint): NativeDeadline | null {
    const functions = host.os === "linux" && host.arch === "x86_64" ? libc() : null;
    if (functions === null) return null;
    try {
      return new NativeDeadline(functions, signal, next);
    } catch (error) {
      if (error instanceof RefusedError) return null; // a kernel that forbids making code, as SELinux's
      throw error;
    }
  }

  /** Sets how long the program may take to act upon the signal; null: as long as it likes. */
  limit(ms: number | null): void {
    this.#limitMs = ms;
    if (!this.#isHeld) this.#place(ms);
  }

  /** From here to {@linkcode resume} time does not count: netcl itself is what the program waits for. */
  hold(): void {
    this.#isHeld = true;
    this.#place(null);
  }

  /** Time counts again, from now on where the signal came meanwhile. */
  resume(): void {
    this.#isHeld = false;
    this.#place(this.#limitMs);
    if (this.#come[0] === 0 || this.#isStarted || this.#limitMs === null) return;
    this.#isStarted = true;
    this.#setTimer();
  }

  /** Somebody acts upon the signal. */
  stop(): void {
    this.#come[0] = 0;
    this.#isStarted = false;
    this.#place(null);
    this.#setTimer();
    this.limit(this.#limitMs);
  }

  #place(ms: number | null): void {
    const ns = ms === null ? 0n : BigInt(Math.max(1, Math.ceil(ms))) * 1_000_000n;
    this.#delay[0] = ns / 1_000_000_000n;
    this.#delay[1] = ns % 1_000_000_000n;
  }

  #setTimer(): void {
    this.#libc.syscall(SYS_TIMER_SETTIME, this.#timer, null, this.#shared, null);
  }
}

/** The system does not give what a deadline needs. */
class RefusedError extends Error {}

/** The kernel's number of a new timer that sends `signal` to the process. */
function createTimer(libc: Libc, signal: number): bigint {
  const event = new ArrayBuffer(64), id = new Int32Array(1);
  new Int32Array(event)[SIGEV_SIGNO_OFFSET / 4] = signal;
  const result = libc.syscall(SYS_TIMER_CREATE, CLOCK_MONOTONIC, event, id, null);
  if (result !== 0n) throw new RefusedError("timer_create");
  return BigInt(id[0]!);
}

/** Makes code executable; a page is never writable and executable at once. */
function install(libc: Libc, code: Uint8Array<ArrayBuffer>): bigint {
  const page = libc.mmap(0n, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0n);
  if (page === MAP_FAILED) throw new RefusedError("mmap");
  libc.memcpy(page, code, BigInt(code.length));
  if (libc.mprotect(page, PAGE_BYTES, PROT_READ | PROT_EXEC) !== 0) {
    throw new RefusedError("mprotect");
  }
  return page;
}

/**
 * `void handler(int signal, siginfo_t* info, void* context)`: notes that the signal came, starts the
 * timer and goes on to `next` with the same arguments. It calls the kernel directly, so errno stays.
 */
function handlerCode(timer: bigint, shared: bigint, next: bigint): Uint8Array<ArrayBuffer> {
  return Uint8Array.of(
    ...[0xf3, 0x0f, 0x1e, 0xfa], // endbr64
    ...[0x57, 0x56, 0x52], // push rdi; push rsi; push rdx
    ...[0x48, 0xb8, ...bytes(shared + BigInt(fields.come.offset), 8)], // mov rax, &come
    ...[0xc7, 0x00, ...bytes(1n, 4)], // mov dword ptr [rax], 1
    ...[0xbf, ...bytes(timer, 4)], // mov edi, timer
    ...[0x31, 0xf6], // xor esi, esi: relative time
    ...[0x48, 0xba, ...bytes(shared, 8)], // mov rdx, &itimerspec
    ...[0x45, 0x31, 0xd2], // xor r10d, r10d: no former value
    ...[0xb8, ...bytes(SYS_TIMER_SETTIME, 4)], // mov eax, timer_settime
    ...[0x0f, 0x05], // syscall
    ...[0x5a, 0x5e, 0x5f], // pop rdx; pop rsi; pop rdi
    ...[0x48, 0xb8, ...bytes(next, 8)], // mov rax, next
    ...[0xff, 0xe0], // jmp rax
  );
}

/** An integer as x86 stores it. */
function bytes(value: bigint, length: number): number[] {
  return Array.from({ length }, (_, k) => Number(value >> BigInt(8 * k) & 0xffn));
}
