/**
 * Compiled programs on disk, so that a second start does not compile: one file a program, named by
 * device, driver, source and options. Each carries a checksum, and a damaged one is as good as none.
 */
import type { Device } from "../../ffi/mod.ts";
import { hashText } from "../graph/hash.ts";
import { cacheFolder, identityOf, isAllowed, replaceFile } from "./cache_folder.ts";

const MAGIC = "netcl1\n";
/** Beyond this the oldest entries go. */
const MAX_BYTES = 256 * 2 ** 20;

/** The compiled programs of one device. A folder that fails is left alone: compiling goes on. */
export class BinaryCache {
  readonly #folder: string;
  readonly #device: string;
  #usable = true;

  private constructor(folder: string, device: Device) {
    this.#folder = folder;
    this.#device = identityOf(device);
  }

  /** The cache, or null where it may not be used: no folder, no permission, or switched off. */
  static open(device: Device): BinaryCache | null {
    const folder = cacheFolder();
    if (folder === null || !isAllowed(folder, "read", "write")) return null;
    return new BinaryCache(folder, device);
  }

  #path(source: string, options: string): string {
    return `${this.#folder}/${hashText(`${this.#device}\n${options}\n${source}`)}.bin`;
  }

  /** The binary of a source, or null. */
  read(source: string, options: string): Uint8Array | null {
    if (!this.#usable) return null;
    let bytes: Uint8Array | undefined;
    try {
      bytes = ifThere(() => Deno.readFileSync(this.#path(source, options)));
    } catch {
      this.#usable = false;
    }
    return bytes ? unwrap(bytes, this.#signature(source, options)) : null;
  }

  /** Keeps a binary. */
  write(source: string, options: string, binary: Uint8Array): void {
    if (!this.#usable) return;
    try {
      replaceFile(this.#path(source, options), wrap(binary, this.#signature(source, options)));
    } catch {
      this.#usable = false;
    }
  }

  /** Lets the oldest go where there are too many; to be called after some were written. */
  trim(): void {
    if (!this.#usable) return;
    try {
      this.#trim();
    } catch {
      this.#usable = false;
    }
  }

  /** Forgets an entry that turned out to be of no use. */
  remove(source: string, options: string): void {
    try {
      ifThere(() => Deno.removeSync(this.#path(source, options)));
    } catch {
      this.#usable = false;
    }
  }

  /** What tells two programs with the same file name apart. */
  #signature(source: string, options: string): string {
    return hashText(`${source}\n${options}`) + hashText(`${this.#device}${source.length}`);
  }

  #trim(): void {
    const files = [...Deno.readDirSync(this.#folder)].flatMap(({ name }) => {
      const path = `${this.#folder}/${name}`;
      const info = name.endsWith(".json") ? undefined : ifThere(() => Deno.statSync(path));
      return info?.isFile ? [{ path, size: info.size, time: info.mtime?.getTime() ?? 0 }] : [];
    });
    let total = files.reduce((sum, file) => sum + file.size, 0);
    for (const { path, size } of files.sort((a, b) => a.time - b.time)) {
      if (total <= MAX_BYTES) return;
      ifThere(() => Deno.removeSync(path));
      total -= size;
    }
  }
}

/** Other processes rename and remove files of the same folder. */
function ifThere<T>(access: () => T): T | undefined {
  try {
    return access();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
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
  const expected = `${MAGIC}${signature}\n${checksum(binary)}\n`;
  return new TextDecoder("latin1").decode(bytes.subarray(0, length)) === expected ? binary : null;
}

function checksum(bytes: Uint8Array): string {
  let hash = 0x811c9dc5;
  for (let k = 0; k < bytes.length; k++) hash = Math.imul(hash ^ bytes[k]!, 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
