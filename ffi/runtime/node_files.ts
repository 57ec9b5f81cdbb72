/**
 * Files by `node:fs`, for Node and Bun.
 *
 * @module
 */
import * as fs from "node:fs";
import { join } from "node:path";
import process from "node:process";
import type {
  FileInfo,
  FolderEntry,
  Host,
  HostErrors,
  HostFile,
  OpenOptions,
  Path,
} from "./types.ts";

/** A class of errors by their codes: `node:fs` has one class for all. */
export function errorClass(...codes: readonly string[]): HostErrors[keyof HostErrors] {
  return class extends Error {
    readonly code = codes[0]!;
    static override [Symbol.hasInstance](value: unknown): boolean {
      return value instanceof Error && "code" in value && codes.includes(String(value.code));
    }
  };
}

/** Errors of `node:fs` that netcl tells apart. */
export const errors: HostErrors = {
  NotFound: errorClass("ENOENT"),
  NotCapable: errorClass("ERR_ACCESS_DENIED"),
  PermissionDenied: errorClass("EACCES", "EPERM"),
  IsADirectory: errorClass("EISDIR"),
  FilesystemLoop: errorClass("ELOOP"),
  BadResource: errorClass("EBADF"),
};

const isUnix = process.platform !== "win32";

function infoOf(stats: fs.Stats): FileInfo {
  return {
    isFile: stats.isFile(),
    isDirectory: stats.isDirectory(),
    isSymlink: stats.isSymbolicLink(),
    size: stats.size,
    mtime: stats.mtime,
    mode: isUnix ? stats.mode : null,
    uid: isUnix ? stats.uid : null,
    gid: isUnix ? stats.gid : null,
  };
}

function entryOf(entry: fs.Dirent): FolderEntry {
  return { name: entry.name, isFile: entry.isFile(), isDirectory: entry.isDirectory() };
}

function flagsOf({ read, write, append, create, createNew, truncate }: OpenOptions): number {
  const flags = fs.constants, writes = write || append;
  const way = !writes ? flags.O_RDONLY : read ? flags.O_RDWR : flags.O_WRONLY;
  return way | (append ? flags.O_APPEND : 0) | (truncate ? flags.O_TRUNC : 0) |
    (create || createNew ? flags.O_CREAT : 0) | (createNew ? flags.O_EXCL : 0);
}

/** Takes or gives back the lock of a file; false where another process has it. */
export type FileLock = (file: number, operation: number) => boolean;

const LOCK_EX = 2, LOCK_NB = 4, LOCK_UN = 8;

class NodeFile implements HostFile {
  readonly #file: number;
  readonly #lock: FileLock;
  /** Null until the program goes to a place: pipes have none. */
  #place: number | null = null;
  #isClosed = false;

  constructor(file: number, lock: FileLock) {
    this.#file = file;
    this.#lock = lock;
  }

  read(into: Uint8Array): Promise<number | null> {
    return new Promise((resolve, reject) => {
      fs.read(this.#file, into, 0, into.length, this.#place, (error, count) => {
        if (error) reject(error);
        else resolve(this.#moved(count) || (into.length > 0 ? null : 0));
      });
    });
  }

  readSync(into: Uint8Array): number | null {
    const count = this.#moved(fs.readSync(this.#file, into, 0, into.length, this.#place));
    return count || (into.length > 0 ? null : 0);
  }

  write(bytes: Uint8Array): Promise<number> {
    return new Promise((resolve, reject) => {
      fs.write(this.#file, bytes, 0, bytes.length, this.#place, (error, count) => {
        if (error) reject(error);
        else resolve(this.#moved(count));
      });
    });
  }

  writeSync(bytes: Uint8Array): number {
    return this.#moved(fs.writeSync(this.#file, bytes, 0, bytes.length, this.#place));
  }

  #moved(count: number): number {
    if (this.#place !== null) this.#place += count;
    return count;
  }

  seek(offset: number): Promise<void> {
    this.seekSync(offset);
    return Promise.resolve();
  }

  seekSync(offset: number): void {
    this.#place = offset;
  }

  stat(): Promise<FileInfo> {
    return new Promise((resolve, reject) => {
      fs.fstat(this.#file, (error, stats) => error ? reject(error) : resolve(infoOf(stats)));
    });
  }

  sync(): Promise<void> {
    return new Promise((resolve, reject) => {
      fs.fsync(this.#file, (error) => error ? reject(error) : resolve());
    });
  }

  syncSync(): void {
    fs.fsyncSync(this.#file);
  }

  truncateSync(bytes: number): void {
    fs.ftruncateSync(this.#file, bytes);
  }

  lockSync(): void {
    this.#lock(this.#file, LOCK_EX);
  }

  tryLockSync(): boolean {
    return this.#lock(this.#file, LOCK_EX | LOCK_NB);
  }

  unlockSync(): void {
    this.#lock(this.#file, LOCK_UN);
  }

  close(): void {
    if (this.#isClosed) throw new errors.BadResource("Bad resource: the file is closed");
    this.#isClosed = true;
    fs.closeSync(this.#file);
  }

  [Symbol.dispose](): void {
    if (!this.#isClosed) this.close();
  }
}

/** The part of a host that files are. */
type FileHost = Pick<
  Host,
  | ("stat" | "statSync" | "lstatSync" | "open" | "openSync" | "readFile" | "readFileSync")
  | ("readTextFile" | "readTextFileSync" | "writeNewFileSync" | "readDir" | "readDirSync")
  | ("mkdir" | "mkdirSync" | "makeTempDirSync" | "renameSync" | "removeSync" | "readLinkSync")
  | ("chmodSync" | "chownSync" | "cwd" | "errors")
>;

/**
 * Files.
 *
 * @param lock Locks a file by its number.
 */
export function nodeFiles(lock: FileLock): FileHost {
  const openSync = (path: Path, options: OpenOptions = { read: true }): HostFile =>
    new NodeFile(fs.openSync(path, flagsOf(options), options.mode ?? 0o666), lock);
  /** Small files come in a part of a buffer that others share. */
  const bytes = (read: Uint8Array<ArrayBufferLike>): Uint8Array<ArrayBuffer> =>
    new Uint8Array(
      read.byteLength === read.buffer.byteLength
        ? read.buffer as ArrayBuffer
        : Uint8Array.from(read),
    );
  return {
    errors,
    stat: async (path) => infoOf(await fs.promises.stat(path)),
    statSync: (path) => infoOf(fs.statSync(path)),
    lstatSync: (path) => infoOf(fs.lstatSync(path)),
    // deno-lint-ignore require-await -- a refused file is a rejection, as for other files
    open: async (path, options) => openSync(path, options),
    openSync,
    readFile: async (path) => bytes(await fs.promises.readFile(path)),
    readFileSync: (path) => bytes(fs.readFileSync(path)),
    readTextFile: (path) => fs.promises.readFile(path, "utf8"),
    readTextFileSync: (path) => fs.readFileSync(path, "utf8"),
    writeNewFileSync: (path, content, mode) =>
      fs.writeFileSync(path, content, { mode, flag: "wx" }),
    readDir: async function* (path) {
      for (const entry of await fs.promises.readdir(path, { withFileTypes: true })) {
        yield entryOf(entry);
      }
    },
    readDirSync: (path) => fs.readdirSync(path, { withFileTypes: true }).map(entryOf),
    mkdir: async (path) => void await fs.promises.mkdir(path, { recursive: true }),
    mkdirSync: (path, mode) => void fs.mkdirSync(path, { recursive: true, mode }),
    makeTempDirSync: ({ dir, prefix }) => fs.mkdtempSync(join(dir, prefix)),
    renameSync: (from, to) => fs.renameSync(from, to),
    removeSync: (path, { recursive } = { recursive: false }) => {
      if (recursive) fs.rmSync(path, { recursive });
      else if (fs.lstatSync(path).isDirectory()) fs.rmdirSync(path);
      else fs.unlinkSync(path);
    },
    readLinkSync: (path) => fs.readlinkSync(path),
    chmodSync: (path, mode) => fs.chmodSync(path, mode),
    chownSync: (path, uid, gid) => fs.chownSync(path, uid ?? -1, gid ?? -1),
    cwd: () => process.cwd(),
  };
}
