/** Memory that the processes of a communicator share, where all of them are on one host. */
import {
  createSharedMemory,
  openSharedMemory,
  type SharedMemory,
  unlinkSharedMemory,
} from "../../ffi/host/shared_memory.ts";
import type { Communicator } from "./communicator.ts";
import { agree, completedSync } from "./waiting.ts";

/** A part of each process, which all of them read. */
export interface SharedParts extends Disposable {
  /** By rank; the own one is to be written. */
  readonly parts: readonly Uint8Array<ArrayBuffer>[];
}

const NAME_BYTES = "netcl-".length + 36;

/**
 * Shares a part of each process. Blocks until all have come here.
 *
 * @returns Null, on all of them, where one cannot map the part of another.
 */
export function shareParts(communicator: Communicator, nbytes: number): SharedParts | null {
  const { rank, size } = communicator, name = `netcl-${crypto.randomUUID()}`;
  const own = createSharedMemory(name, nbytes);
  const names = new Uint8Array(NAME_BYTES * size);
  names.set(new TextEncoder().encode(name), NAME_BYTES * rank);
  completedSync("share memory", communicator.allGather(names));
  const memories = Array.from({ length: size }, (_, r) => {
    if (r === rank || own === null) return own;
    const at = NAME_BYTES * r;
    return openSharedMemory(new TextDecoder().decode(names.subarray(at, at + NAME_BYTES)), nbytes);
  });
  const isComplete = agree(communicator, memories.every((memory) => memory !== null));
  // All have mapped what they can: nothing is left behind by a process that is killed from here on.
  if (own) unlinkSharedMemory(name);
  const found = memories.filter((memory): memory is SharedMemory => memory !== null);
  const dispose = (): void => found.forEach((memory) => memory[Symbol.dispose]());
  if (isComplete) return { parts: found.map(({ bytes }) => bytes), [Symbol.dispose]: dispose };
  dispose();
  return null;
}
