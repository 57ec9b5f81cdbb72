/**
 * Memory of JavaScript that the driver reads or writes after the call that enqueued it.
 *
 * A synchronous foreign call keeps nothing alive once it returns: an array that is collected, or
 * transferred to a worker, while the driver copies it, is wrong data or a crash. So a transfer
 * that does not block goes through a private copy, unless the caller asks for none
 * (`noCopy`); and either is held here until the transfer's event is complete.
 *
 * @module
 */
import { retireDeferred } from "./context_work.ts";
import { check } from "../library/errors.ts";
import type { Completion, EnqueueTarget } from "./enqueue_target.ts";
import { cl } from "../library/library.ts";
import {
  allocateNative,
  freeNative,
  isTerminable,
  needsShelter,
} from "../library/native_memory.ts";
import { memoryOwner } from "../library/memory_view.ts";
import { runAll } from "../host/run_all.ts";
import type { Handle } from "../symbols/types.ts";
import { executionStatus, hasWaitPolicy } from "./waiting.ts";

/** Options about the bytes of a transfer; see `CopyOptions`. */
interface TransferMode {
  readonly blocking?: boolean;
  readonly noCopy?: boolean;
}

interface Transfer {
  /** A reference of its own: the caller may release the event. */
  readonly event: Handle<"Event">;
  /** The event of the caller, whose wait throws the transfer's error. */
  readonly owner: Completion;
  /** Memory that the driver reads or writes: only held. */
  readonly memory: ArrayBufferView;
  /** Called when it is complete. */
  readonly finish: (() => void) | null;
}

/** Errors at the end of transfers, by event, while the event is held. */
const failures = new WeakMap<Completion, { readonly error: unknown }>();

/** Transfers whose status the last query did not give: they are not known to be complete. */
const silent = new WeakMap<Completion, unknown>();

/** Memory whose command can neither be waited for nor queried: it is kept for ever. */
const lost = new Set<unknown>();

/** The transfers of one queue, oldest first. */
export class TransferList {
  readonly #inOrder: boolean;
  #transfers: Transfer[] = [];
  /** Errors of transfers whose event was released: the next wait for the queue throws them. */
  readonly #failures: unknown[] = [];
  /** The reason why the driver did not answer when it was asked last. */
  #silence: unknown = null;

  constructor(inOrder: boolean) {
    this.#inOrder = inOrder;
  }

  /** Holds `memory` until `event` is complete, then runs `finish`. */
  add(event: Completion, memory: ArrayBufferView, finish: (() => void) | null): void {
    const handle = event.unsafeHandle;
    const status = cl.clRetainEvent(handle); // given back in retire()
    if (status < 0) {
      lost.add(memory);
      event.waitSync(); // it cannot be held, so it must be done before this returns
      lost.delete(memory);
      check(status, "clRetainEvent");
    }
    this.retire();
    this.#transfers.push({ event: handle, owner: event, memory, finish });
    pendingLists.add(this);
  }

  /**
   * Lets go of what is complete. Never throws: a transfer's error is thrown by its
   * event, or by the wait for the queue where the event was released.
   */
  retire(): void {
    this.#silence = null;
    if (this.#transfers.length === 0) return;
    const done = this.#inOrder ? this.#takeFirst() : this.#takeAny();
    if (this.#transfers.length === 0) pendingLists.delete(this);
    for (const transfer of done) this.#end(transfer);
  }

  /** Transfers under way from or to memory of `owner`. */
  with(owner: object): Handle<"Event">[] {
    const own = this.#transfers.filter(({ memory }) => memoryOwner(memory.buffer) === owner);
    return own.map(({ event }) => event);
  }

  #takeFirst(): Transfer[] {
    const busy = this.#transfers.findIndex((transfer) => this.#isBusy(transfer));
    return this.#transfers.splice(0, busy < 0 ? this.#transfers.length : busy);
  }

  #takeAny(): Transfer[] {
    const done: Transfer[] = [], busy: Transfer[] = [];
    for (const transfer of this.#transfers) (this.#isBusy(transfer) ? busy : done).push(transfer);
    this.#transfers = busy;
    return done;
  }

  /** Of what the driver does not answer for, the memory is kept. */
  #isBusy({ event, owner }: Transfer): boolean {
    try {
      const isBusy = executionStatus(event) > 0;
      if (isBusy) silent.delete(owner);
      return isBusy;
    } catch (error) {
      this.#silence = error;
      silent.set(owner, error);
      return true;
    }
  }

  #end({ event, owner, memory, finish }: Transfer): void {
    silent.delete(owner);
    try {
      runAll([
        () => {
          if (finish !== null && executionStatus(event) === 0) finish();
        },
        () => freeNative(memory),
        () => check(cl.clReleaseEvent(event), "clReleaseEvent"),
      ]);
    } catch (error) {
      this.#fail(owner, error);
    }
  }

  #fail(owner: Completion, error: unknown): void {
    if (owner.released) this.#failures.push(error);
    else failures.set(owner, { error });
  }

  /**
   * Throws what went wrong with a transfer whose event was released, each error once; or why it is
   * not known whether all transfers are done.
   */
  throwFailure(): void {
    if (this.#failures.length > 0) throw this.#failures.shift();
    if (this.#silence !== null) throw this.#silence;
  }
}

/** Throws what went wrong at the end of the event's transfer; each error once. */
export function throwFailureOf(event: Completion): void {
  const failure = failures.get(event);
  if (failure === undefined) return;
  failures.delete(event);
  throw failure.error;
}

/** Throws the error of the last status query, where it told nothing of the event's transfer. */
export function throwSilenceOf(event: Completion): void {
  if (silent.has(event)) throw silent.get(event);
}

// Reached from the module, not from the queues: a queue may be collected before its transfers end.
const pendingLists = new Set<TransferList>();

/** Lets go of every transfer that is complete. Called after each wait. */
export function retireTransfers(): void {
  for (const list of pendingLists) list.retire();
  retireDeferred();
}

/** Events of the transfers under way from or to memory of `owner`, on all queues. */
export function pendingWith(owner: object): Handle<"Event">[] {
  return [...pendingLists].flatMap((list) => list.with(owner));
}

/**
 * Enqueues a copy to the device.
 *
 * @param enqueue Passes the bytes and the blocking flag to C.
 */
export function upload<E extends Completion>(
  queue: EnqueueTarget,
  data: ArrayBufferView,
  { blocking = false, noCopy = blocking }: TransferMode,
  enqueue: (bytes: Uint8Array, blocking: number) => E,
): E {
  const bytes = transferable(data, "write from");
  const source = mayUseDirectly(bytes, blocking, noCopy) ? bytes : copyOf(bytes);
  return transfer(queue, source, data, blocking, null, enqueue);
}

/**
 * Enqueues a copy from the device.
 *
 * @param enqueue Passes the bytes and the blocking flag to C.
 */
export function download<E extends Completion>(
  queue: EnqueueTarget,
  into: ArrayBufferView,
  { blocking = false, noCopy = blocking }: TransferMode,
  enqueue: (bytes: Uint8Array, blocking: number) => E,
): E {
  const bytes = transferable(into, "read into");
  if (mayUseDirectly(bytes, blocking, noCopy)) {
    return transfer(queue, bytes, into, blocking, null, enqueue);
  }
  const copy = driverMemory(bytes.byteLength);
  const finish = (): void => transferable(into, "finish a read into").set(copy);
  return transfer(queue, copy, copy, blocking, finish, enqueue);
}

/**
 * True when the driver may be given the bytes themselves: the caller allows it, and they stay until it
 * is done.
 */
export function mayUseDirectly(bytes: Uint8Array, blocking: boolean, noCopy: boolean): boolean {
  return noCopy && (!needsShelter(bytes) || blocksInDriver(blocking, null));
}

/**
 * Memory for the driver to copy to or from, which stays until it is done, and where it is: a small array
 * without a buffer of its own is moved by JavaScriptCore when its `buffer` is first asked for.
 */
export function driverMemory(nbytes: number): Uint8Array<ArrayBuffer> {
  return (isTerminable ? allocateNative(nbytes) : null) ?? new Uint8Array(new ArrayBuffer(nbytes));
}

function copyOf(bytes: Uint8Array): Uint8Array {
  const copy = driverMemory(bytes.byteLength);
  copy.set(bytes);
  return copy;
}

/** True when the call itself waits: nothing, not even the end of the worker, comes between. */
function blocksInDriver(blocking: boolean, finish: (() => void) | null): boolean {
  return blocking && finish === null && !hasWaitPolicy();
}

/**
 * Enqueues a copy to or from bytes that stay where they are.
 *
 * @param array The caller's array, which is held with the bytes where they are its own.
 * @param finish Runs when it is complete.
 * @param enqueue Passes the bytes and the blocking flag to C.
 */
export function transfer<E extends Completion>(
  queue: EnqueueTarget,
  bytes: Uint8Array,
  array: ArrayBufferView,
  blocking: boolean,
  finish: (() => void) | null,
  enqueue: (bytes: Uint8Array, blocking: number) => E,
): E {
  const direct = blocksInDriver(blocking, finish);
  const event = enqueue(bytes, direct ? 1 : 0);
  if (direct) return event;
  try {
    queue.hold(event, bytes.buffer === array.buffer ? array : bytes, finish);
    if (blocking) event.waitSync();
    return event;
  } catch (error) {
    event.release();
    throw error;
  }
}

/**
 * The bytes of an array that takes part in a transfer.
 *
 * @throws {TypeError} If its memory could move or is gone.
 */
export function transferable(view: ArrayBufferView, action: string): Uint8Array {
  const { buffer } = view;
  if (buffer instanceof ArrayBuffer && buffer.detached) {
    throw new TypeError(`Cannot ${action} a transferred array: its memory belongs to someone else`);
  }
  if (buffer instanceof ArrayBuffer ? buffer.resizable : buffer.growable) {
    throw new TypeError(
      `Cannot ${action} an array over a resizable buffer, as it may move: copy it with slice()`,
    );
  }
  return new Uint8Array(buffer, view.byteOffset, view.byteLength);
}
