/**
 * Compiled programs on disk, so that a second start does not compile: one file a program, named by
 * device, driver, source and options. Each carries a checksum, and a damaged one is as good as none.
 */
import type { Device } from "../../../ffi/mod.ts";
import { readVariable } from "../../../ffi/host/environment.ts";
import { CacheFolder, hashText, identityOf } from "./cache_folder.ts";

const MAGIC = "netcl1\n";
/** Names that `hashText` gives, and those of entries being written by earlier versions. */
const NAME = /^[0-9a-f]{16}\.bin(\.\d+\.[0-9a-z]*)?$/;
/** Beyond this the oldest entries go. */
const MAX_BYTES = 256 * 2 ** 20;
/** Entries written between two looks at the size of all. */
const TRIM_EVERY = 32;

/** The compiled programs of one device. A folder that fails is left alone: compiling goes on. */
export class BinaryCache {
  readonly #folder: CacheFolder;
  readonly #device: string;
  #usable = true;
  #isFilled = false;
  #written = 0;

  private constructor(folder: CacheFolder, device: Device) {
    this.#folder = folder;
    this.#device = identityOf(device);
  }

  /** The cache, or null where it may not be used: no folder, no permission, or switched off. */
  static open(device: Device): BinaryCache | null {
    const folder = CacheFolder.open("read", "write");
    return folder && new BinaryCache(folder, device);
  }

  /** True where nothing was ever kept, for any device. */
  get isEmpty(): boolean {
    // Asked at each build: a look at every one of thousands of entries takes longer than some builds.
    this.#isFilled ||= this.#attempt(() => this.#folder.hasEntry(NAME)) ?? true;
    return !this.#isFilled;
  }

  /** The folder, which only this user writes to. */
  get path(): string {
    return this.#folder.path;
  }

  /**
   * The binary of a source, or null. A damaged one is removed, and no driver sees it: Mesa's rusticl
   * ends the process at it.
   */
  read(source: string, options: string): Uint8Array | null {
    return this.#attempt(() => {
      const name = this.#name(source, options), bytes = this.#folder.read(name);
      const binary = bytes && unwrap(bytes, this.#signature(source, options));
      if (bytes !== null && binary === null) this.#folder.remove(name);
      return binary;
    }) ?? null;
  }

  /** Keeps a binary. */
  write(source: string, options: string, binary: Uint8Array): void {
    this.#attempt(() => {
      const bytes = wrap(binary, this.#signature(source, options));
      this.#folder.write(this.#name(source, options), bytes);
      if (this.#written++ % TRIM_EVERY === 0) this.#trim();
    });
  }

  /**
   * True where a source need not be compiled: its binary is here, or the driver has the kernels in a
   * cache of its own.
   */
  has(source: string, options: string): boolean {
    return this.read(source, options) !== null ||
      this.read(compiledByDriver(source), options) !== null;
  }

  /** Notes that the driver has compiled a source, and keeps what it has compiled. */
  noteCompiled(source: string, options: string): void {
    if (readVariable("POCL_KERNEL_CACHE") === "0") return;
    const note = compiledByDriver(source);
    if (this.read(note, options) === null) this.write(note, options, new Uint8Array(1));
  }

  /** Forgets an entry that turned out to be of no use. */
  remove(source: string, options: string): void {
    this.#attempt(() => this.#folder.remove(this.#name(source, options)));
  }

  #name(source: string, options: string): string {
    return `${hashText(`${this.#device}\n${options}\n${source}`)}.bin`;
  }

  /** Tells apart two programs with the same file name. */
  #signature(source: string, options: string): string {
    return hashText(`${source}\n${options}`) + hashText(`${this.#device}${source.length}`);
  }

  /** Lets the oldest entries go where there are too many. What netcl did not make stays. */
  #trim(): void {
    this.#folder.removeLeftovers();
    const entries = this.#folder.entries(NAME);
    let total = entries.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { name, bytes } of entries.sort((a, b) => a.time - b.time)) {
      if (total <= MAX_BYTES) return;
      total -= bytes;
      if (this.#isEntry(name)) this.#folder.remove(name);
    }
  }

  #isEntry(name: string): boolean {
    const bytes = this.#folder.read(name);
    return bytes !== null && startsWith(bytes, MAGIC);
  }

  /** A full disk, a folder that went away: the next start compiles, no more. */
  #attempt<T>(action: () => T): T | undefined {
    if (!this.#usable) return undefined;
    try {
      return action();
    } catch (error) {
      if (!(error instanceof Error && "code" in error)) throw error;
      this.#usable = false;
      return undefined;
    }
  }
}

/** The entry that says that a driver has a source in its cache: PoCL's, which lies in this folder. */
function compiledByDriver(source: string): string {
  return `compiled: ${readVariable("POCL_CACHE_DIR") ?? ""}\n${source}`;
}

function wrap(binary: Uint8Array, signature: string): Uint8Array {
  const head = new TextEncoder().encode(`${MAGIC}${signature}\n${checksum(binary)}\n`);
  const out = new Uint8Array(head.length + binary.length);
  out.set(head);
  out.set(binary, head.length);
  return out;
}

function unwrap(bytes: Uint8Array, signature: string): Uint8Array | null {
  const length = MAGIC.length + signature.length + 1 + 9;
  if (bytes.length <= length) return null;
  const binary = bytes.subarray(length);
  return startsWith(bytes, `${MAGIC}${signature}\n${checksum(binary)}\n`) ? binary : null;
}

function startsWith(bytes: Uint8Array, text: string): boolean {
  return new TextDecoder("latin1").decode(bytes.subarray(0, text.length)) === text;
}

function checksum(bytes: Uint8Array): string {
  let hash = 0x811c9dc5;
  for (let k = 0; k < bytes.length; k++) hash = Math.imul(hash ^ bytes[k]!, 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
