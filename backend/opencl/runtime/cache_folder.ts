/**
 * The folder where things are kept from one start to the next: compiled programs and tuned tiles.
 * Compiled programs are code, so nothing is taken from a folder that others may write to, nor from
 * anything but a regular file of this user.
 */
import { host } from "../../../ffi/runtime/host.ts";
import type { FileInfo } from "../../../ffi/runtime/types.ts";
import { join } from "node:path";
import { readEnvironment, readVariable } from "../../../ffi/host/environment.ts";
import { userId } from "../../../ffi/host/libc.ts";
import type { Device } from "../../../ffi/mod.ts";
import { ifThere, PartialFile, removeLeftovers } from "../../../ffi/host/partial_file.ts";

/** Write permission of the group and of others. */
const WRITABLE_BY_OTHERS = 0o022;
/** No entry comes near; a larger file is none of ours. */
const MAX_ENTRY_BYTES = 64 * 2 ** 20;

/** A file of the folder. */
export interface CacheEntry {
  readonly name: string;
  readonly bytes: number;
  /** Time at which it was written, in milliseconds. */
  readonly time: number;
}

const warned = new Set<string>();

/** A folder that only this user writes to. */
export class CacheFolder {
  /** Path of it. */
  readonly path: string;
  readonly #uid: number | null;

  private constructor(path: string, uid: number | null) {
    this.path = path;
    this.#uid = uid;
  }

  /**
   * Opens the folder, which need not exist yet. Null where none is known, NETCL_CACHE_DIR switches
   * it off, the permissions are missing, or the folder is not safe; the last is told once.
   */
  static open(...names: readonly ("read" | "write")[]): CacheFolder | null {
    const path = cacheFolder();
    if (path === null || !isAllowed(path, ...names)) return null;
    const uid = userId();
    if (uid === null && host.os !== "windows") return null;
    const problem = folderProblem(path, uid);
    if (problem === null) return new CacheFolder(path, uid);
    if (!warned.has(path)) console.error(`netcl: no kernel is cached: ${problem}`);
    warned.add(path);
    return null;
  }

  /** An entry, or null where there is none that is safe to read. */
  read(name: string): Uint8Array | null {
    const path = join(this.path, name);
    const info = ifThere(() => host.lstatSync(path));
    return info && this.#isOurs(info) ? ifThere(() => host.readFileSync(path)) ?? null : null;
  }

  /** Writes an entry; a reader meets all of it or the former one. */
  write(name: string, bytes: Uint8Array): void {
    host.mkdirSync(this.path, 0o700);
    const path = join(this.path, name);
    const partial = PartialFile.create(path, 0o600);
    try {
      partial.writeSync(bytes);
      partial.completeSync(false); // what a power cut damages is seen by its checksum
      host.renameSync(partial.path, path);
    } catch (error) {
      partial.discard();
      throw error;
    }
  }

  /** Takes an entry away. */
  remove(name: string): void {
    ifThere(() => host.removeSync(join(this.path, name)));
  }

  /** This user's regular files whose names match. */
  entries(pattern: RegExp): CacheEntry[] {
    return [...this.#matching(pattern)];
  }

  /** True when there is any such file. */
  hasEntry(pattern: RegExp): boolean {
    return !this.#matching(pattern).next().done;
  }

  *#matching(pattern: RegExp): Generator<CacheEntry> {
    for (const { name, isFile } of ifThere(() => host.readDirSync(this.path)) ?? []) {
      if (!isFile || !pattern.test(name)) continue;
      const info = ifThere(() => host.lstatSync(join(this.path, name)));
      if (!info || !this.#isOurs(info)) continue;
      yield { name, bytes: info.size, time: info.mtime?.getTime() ?? 0 };
    }
  }

  /** Takes away what processes left that were killed while they wrote. */
  removeLeftovers(): void {
    removeLeftovers(this.path);
  }

  #isOurs({ isFile, uid, mode, size }: FileInfo): boolean {
    if (!isFile || size > MAX_ENTRY_BYTES) return false;
    return this.#uid === null || uid === this.#uid && (mode! & WRITABLE_BY_OTHERS) === 0;
  }
}

/** The folder's path, or null where none is known or NETCL_CACHE_DIR switches it off. */
export function cacheFolder(): string | null {
  const chosen = readEnvironment("NETCL_CACHE_DIR");
  if (chosen !== undefined) return chosen === "off" ? null : chosen;
  return defaultFolder();
}

function defaultFolder(): string | null {
  const base = userCacheFolder();
  return base === undefined ? null : `${base}/netcl`;
}

/** A path that is not absolute counts as unset, as the XDG specification has it. */
function userCacheFolder(): string | undefined {
  if (host.os === "windows") return readVariable("LOCALAPPDATA");
  const home = absolute(readVariable("HOME"));
  if (host.os === "darwin") return home && `${home}/Library/Caches`;
  return absolute(readVariable("XDG_CACHE_HOME")) ?? (home && `${home}/.cache`);
}

function absolute(path: string | undefined): string | undefined {
  return path?.startsWith("/") ? path : undefined;
}

/** True when the permissions are there already; never asks for them. */
function isAllowed(path: string, ...names: readonly ("read" | "write")[]): boolean {
  return names.every((name) => host.isGranted({ name, path }));
}

/** The reason why a folder cannot be trusted, with the remedy; null where it can, or is not there yet. */
function folderProblem(path: string, uid: number | null): string | null {
  const info = statIfReachable(path);
  if (info === null || uid === null) return null;
  if (!info.isDirectory) return null; // nothing can be read from it or written to it
  const remedy = "or set NETCL_CACHE_DIR to a folder of your own";
  if (info.uid !== uid) {
    return `${path} belongs to another user (${info.uid}); chown it, ${remedy}`;
  }
  if ((info.mode! & WRITABLE_BY_OTHERS) === 0) return null;
  if (path === defaultFolder() && isAllowed(path, "write")) {
    host.chmodSync(path, 0o700); // netcl made it, under a generous umask
    return null;
  }
  return `others may write to ${path}; run chmod 700 on it, ${remedy}`;
}

function statIfReachable(path: string): FileInfo | null {
  try {
    return host.statSync(path);
  } catch (error) {
    if (error instanceof Error && "code" in error) return null; // absent, or behind a closed door
    throw error;
  }
}

/** Device and driver: their files are of no use to others. */
export function identityOf(device: Device): string {
  return `${device.platform.name}|${device.name}|${device.driverVersion}`;
}

/**
 * A 64-bit hash of a text as 16 hexadecimal digits (two 32-bit FNV-1a lanes with different primes):
 * for names and cache keys, not against an adversary.
 */
export function hashText(text: string): string {
  let a = 0x811c9dc5, b = 0x1b873593;
  for (let k = 0; k < text.length; k++) {
    const code = text.charCodeAt(k);
    a = Math.imul(a ^ code, 0x01000193);
    b = Math.imul(b ^ code, 0x85ebca6b);
    b ^= b >>> 13;
  }
  const hex = (n: number): string => (n >>> 0).toString(16).padStart(8, "0");
  return hex(a) + hex(b);
}
