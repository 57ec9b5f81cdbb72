/**
 * A file that is being written and has no name of its own yet. A process that is killed leaves it
 * behind; the next save into the same folder finds it and takes it away.
 *
 * @module
 */
import { host } from "../runtime/host.ts";
import type { HostFile } from "../runtime/types.ts";
import { dirname, join } from "node:path";

/** Placeholder for the first bytes until all others are on the disk. */
const FILE_MARKER = new TextEncoder().encode("netcl unfinished");
const FILE_NAME = /^\.netcl-[0-9a-f]{16}\.part$/;

/** A new file beside the one that it will replace. */
export class PartialFile {
  /** Its path meanwhile. */
  readonly path: string;
  readonly #file: HostFile;
  readonly #head: Uint8Array = new Uint8Array(FILE_MARKER.length);
  #bytes = 0;

  private constructor(path: string, file: HostFile) {
    this.path = path;
    this.#file = file;
  }

  /**
   * Makes one. Its name is new: what others planted under a name is neither followed nor opened.
   *
   * @param target The file that it will replace.
   * @param mode Its permissions; by default those that the process gives to every new file.
   */
  static create(target: string, mode?: number): PartialFile {
    const random = crypto.getRandomValues(new BigUint64Array(1))[0]!;
    const name = `.netcl-${random.toString(16).padStart(16, "0")}.part`;
    const path = join(dirname(target), name);
    const options = { read: true, write: true, createNew: true };
    const file = host.openSync(path, mode === undefined ? options : { ...options, mode });
    const partial = new PartialFile(path, file);
    try {
      lockWhereKnown(file);
      writeFully(file, FILE_MARKER);
    } catch (error) {
      partial.discard();
      throw error;
    }
    return partial;
  }

  /** Appends bytes. */
  async write(bytes: Uint8Array): Promise<void> {
    const rest = this.#takeHead(bytes);
    for (let at = 0; at < rest.length;) at += await this.#file.write(rest.subarray(at));
  }

  /** Appends bytes. */
  writeSync(bytes: Uint8Array): void {
    writeFully(this.#file, this.#takeHead(bytes));
  }

  /** Puts everything on the disk; it is whole then, and closed. */
  async complete(isDurable: boolean): Promise<void> {
    if (isDurable) await this.#file.sync();
    this.#placeHead();
    if (isDurable) await this.#file.sync();
    this.#file.close();
  }

  /** The same, blocking. */
  completeSync(isDurable: boolean): void {
    if (isDurable) this.#file.syncSync();
    this.#placeHead();
    if (isDurable) this.#file.syncSync();
    this.#file.close();
  }

  /** Takes it away. */
  discard(): void {
    try {
      this.#file.close();
    } catch (error) {
      if (!(error instanceof host.errors.BadResource)) throw error; // it was closed
    }
    removeIfThere(this.path);
  }

  /** Keeps the first bytes back and returns the others. */
  #takeHead(bytes: Uint8Array): Uint8Array {
    const missing = Math.max(0, this.#head.length - this.#bytes);
    this.#head.set(bytes.subarray(0, missing), this.#head.length - missing);
    this.#bytes += bytes.length;
    return bytes.subarray(Math.min(missing, bytes.length));
  }

  #placeHead(): void {
    this.#file.seekSync(0, 0);
    writeFully(this.#file, this.#head.subarray(0, this.#bytes));
    if (this.#bytes < FILE_MARKER.length) this.#file.truncateSync(this.#bytes);
  }
}

/** Takes away what processes that were killed left in a folder, as far as it may be read. */
export function removeLeftovers(folder: string): void {
  if (!host.isGranted({ name: "read", path: folder })) return;
  for (const { name, isFile } of host.readDirSync(folder)) {
    if (isFile && FILE_NAME.test(name)) removeLeftover(join(folder, name));
  }
}

/** A file that is being written is locked; a complete one has no marker. */
function removeLeftover(path: string): void {
  try {
    using file = host.openSync(path, { read: true, write: true });
    const head = new Uint8Array(FILE_MARKER.length);
    const isOurs = file.readSync(head) === head.length &&
      head.every((b, k) => b === FILE_MARKER[k]);
    if (isOurs && file.tryLockSync(true)) removeIfThere(path);
  } catch (error) {
    // Another user's, or gone meanwhile, or on a disk without locks: it may stay.
    if (!isSystemError(error)) throw error;
  }
}

/** Network disks may know no locks: what is left there stays. */
function lockWhereKnown(file: HostFile): void {
  try {
    file.tryLockSync(true);
  } catch (error) {
    if (!isSystemError(error)) throw error;
  }
}

/** True when the operating system refused something. */
function isSystemError(error: unknown): boolean {
  return error instanceof Error && "code" in error && typeof error.code === "string";
}

function removeIfThere(path: string): void {
  ifThere(() => host.removeSync(path));
}

function writeFully(file: HostFile, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) at += file.writeSync(bytes.subarray(at));
}

/** The result of an access to a file; undefined where another process removed it meanwhile. */
export function ifThere<T>(access: () => T): T | undefined {
  try {
    return access();
  } catch (error) {
    if (error instanceof host.errors.NotFound) return undefined;
    throw error;
  }
}
