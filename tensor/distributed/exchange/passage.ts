/** The way of tensors from one device of this process to others: through host memory that all of them pin. */
import {
  type Backend,
  type Block,
  type Gate,
  type HostBlock,
  leaveBehind,
  mapPages,
  type Progress,
  type SharedMemory,
  type Sign,
  SIGN_VALUES,
} from "../../../backend/internal.ts";
import { Bucket } from "./bucket.ts";

/** Of the sign behind the bytes, in a line of the cache of its own. */
const LINE_BYTES = 64;

/** Memory that one device writes, again and again, and others read. */
export class Passage implements Disposable {
  /** The sender's. */
  readonly bucket: Bucket;
  readonly #pages: SharedMemory | null;
  readonly #receivers: ReadonlyMap<Backend, HostBlock>;
  readonly #signAt: number;
  #reads = 0;

  /** Reserves the memory and pins it for all. */
  constructor(from: Backend, to: readonly Backend[], nbytes: number) {
    const signAt = this.#signAt = Math.ceil(nbytes / LINE_BYTES) * LINE_BYTES;
    const all = signAt + LINE_BYTES, pages = this.#pages = mapPages(all);
    const bytes = pages?.bytes ?? new Uint8Array(all);
    this.bucket = new Bucket(from, nbytes, all - nbytes, bytes);
    this.#receivers = new Map(to.map((backend) => [backend, backend.pin(bytes)]));
  }

  /** A gate of a receiver for what was read last; none where the host has to wait. */
  gate(backend: Backend): Gate | undefined {
    // Devices look at whole pages that are pinned, and nowhere else.
    if (this.#pages === null || !backend.hasGates) return undefined;
    return backend.gate([this.#signIn(this.#receivers.get(backend)!)]);
  }

  /** Begins to read a block of the sender's; somebody holds it. */
  read(block: Block): void {
    this.bucket.read(block, this.nextSign());
  }

  /** The sign to give behind what is read next. */
  nextSign(): Sign {
    this.#reads = (this.#reads + 1) % SIGN_VALUES;
    return this.#signIn(this.bucket);
  }

  #signIn(memory: HostBlock): Sign {
    return { memory, offset: this.#signAt, value: this.#reads };
  }

  /** Copies what was read last to a new block of a receiver, the caller's to release. */
  upload(backend: Backend, gate?: Gate): Block {
    return this.bucket.upload(this.#receivers.get(backend)!.bytes, gate, backend);
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    this.bucket[Symbol.dispose]();
    for (const block of this.#receivers.values()) block[Symbol.dispose]();
    this.#pages?.[Symbol.dispose]();
  }
}

/** Leaves it to the next waits to open gates when passages have been read. */
export function leaveReads(
  what: string,
  passages: readonly Passage[],
  gates: readonly (Gate | undefined)[],
): Progress {
  const progress = { isDone: () => passages.every(({ bucket }) => bucket.isRead()) };
  return leaveBehind(what, progress, () => gates.forEach((gate) => gate?.open()));
}
