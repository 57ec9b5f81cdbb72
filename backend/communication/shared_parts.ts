/** Memory that the processes of a communicator share, where all of them are on one host. */
import {
  createSharedMemory,
  openSharedMemory,
  type SharedMemory,
  sleepAtWord,
  unlinkSharedMemory,
  wakeAtWord,
  type Word,
} from "../../ffi/host/shared_memory.ts";
import type { Communicator, Operation } from "./communicator.ts";
import { agree, completedSync } from "./waiting.ts";

/** A part of each process, which all of them read. */
export interface SharedParts extends Disposable {
  /** By rank; the own one is to be written. */
  readonly parts: readonly Uint8Array<ArrayBuffer>[];
  /**
   * Gives the other processes a signal, once more.
   *
   * @returns Is done when each has given it as often as this one. Asking reads memory, and calls nobody.
   */
  signal(which: SharedSignal): Operation;
}

/** Signals between processes about their parts; the caller defines their meaning. */
export type SharedSignal = "announced" | "written";

/** Behind each part, in a cache line of its own: how often each signal was given. */
const LINE_BYTES = 64;
const counters: Readonly<Record<SharedSignal, number>> = { announced: 0, written: 1 };

const NAME_BYTES = "netcl-".length + 36;

/**
 * Shares a part of each process. Blocks until all have come here.
 *
 * @returns Null, on all of them, where one cannot map the part of another.
 */
export function shareParts(communicator: Communicator, nbytes: number): SharedParts | null {
  const { rank, size } = communicator, name = `netcl-${crypto.randomUUID()}`;
  const countAt = Math.ceil(nbytes / LINE_BYTES) * LINE_BYTES, whole = countAt + LINE_BYTES;
  const own = createSharedMemory(name, whole);
  const names = new Uint8Array(NAME_BYTES * size);
  names.set(new TextEncoder().encode(name), NAME_BYTES * rank);
  completedSync("share memory", communicator.allGather(names));
  const memories = Array.from({ length: size }, (_, r) => {
    if (r === rank || own === null) return own;
    const at = NAME_BYTES * r;
    return openSharedMemory(new TextDecoder().decode(names.subarray(at, at + NAME_BYTES)), whole);
  });
  const isComplete = agree(communicator, memories.every((memory) => memory !== null));
  // All have mapped what they can: nothing is left behind by a process that is killed from here on.
  if (own) unlinkSharedMemory(name);
  const found = memories.filter((memory): memory is SharedMemory => memory !== null);
  const dispose = (): void => found.forEach((memory) => memory[Symbol.dispose]());
  if (!isComplete) {
    dispose();
    return null;
  }
  /** By signal and rank. */
  const counts = [0, 1].map((which) =>
    found.map(({ bytes: { buffer } }) => new Int32Array(buffer, countAt + 4 * which, 1))
  );
  return {
    parts: found.map(({ bytes }) => bytes.subarray(0, nbytes)),
    signal: (which) => given(counts[counters[which]]!, rank),
    [Symbol.dispose]: dispose,
  };
}

/** Gives a signal once more; done when each of the others has. */
function given(counts: readonly Word[], rank: number): Operation {
  const mine = Atomics.add(counts[rank]!, 0, 1) + 1 | 0;
  wakeAtWord(counts[rank]!);
  // Counts wrap after 2^31 times.
  const isBehind = (count: number): boolean => (count - mine | 0) < 0;
  return {
    isDone: () => !counts.some((word) => isBehind(Atomics.load(word, 0))),
    sleep: (milliseconds) => {
      for (const word of counts) {
        const count = Atomics.load(word, 0);
        if (isBehind(count)) return sleepAtWord(word, count, milliseconds);
      }
      return true;
    },
  };
}
