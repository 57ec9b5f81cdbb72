/**
 * A stand-in for `Deno` on Node and Bun: what examples and tests take of it. netcl itself needs none.
 *
 * This module imports the host, `node:*` and what needs neither; to import it puts the stand-in in place.
 */
import { spawn, type SpawnOptions, spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { freemem, tmpdir } from "node:os";
import process from "node:process";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { host } from "../../ffi/runtime/host.ts";
import { errorClass } from "../../ffi/runtime/node_files.ts";
import { withWords } from "../at_terminal.ts";
import type { Path } from "../../ffi/runtime/types.ts";

/** Thrown by what only Deno can do: a test that needs it is left out. */
export class LeftOut extends Error {}

function leaveOut(reason: string): never {
  throw new LeftOut(reason);
}

const granted = { state: "granted" };
const encode = (text: string) => new TextEncoder().encode(text);

function temporaryFile({ dir = tmpdir(), prefix = "", suffix = "" } = {}): string {
  const folder = fs.mkdtempSync(`${dir}/${prefix}`), path = `${folder}${suffix}.file${suffix}`;
  fs.rmdirSync(folder);
  fs.writeFileSync(path, "", { flag: "wx", mode: 0o600 });
  return path;
}

const temporaryFolder = ({ dir = tmpdir(), prefix = "" } = {}): string =>
  fs.mkdtempSync(`${dir}/${prefix}`);

type WriteOptions = { mode?: number; append?: boolean; createNew?: boolean };
const flagOf = ({ append, createNew }: WriteOptions): string =>
  createNew ? "wx" : append ? "a" : "w";

function writeFileSync(path: Path, bytes: Uint8Array | string, options: WriteOptions = {}): void {
  fs.writeFileSync(path, bytes, {
    flag: flagOf(options),
    ...(options.mode && { mode: options.mode }),
  });
}

const writeFile = async (...args: Parameters<typeof writeFileSync>): Promise<void> =>
  await writeFileSync(...args);

function mkdirSync(path: Path, { recursive = false, mode = 0o777 } = {}): void {
  fs.mkdirSync(path, { recursive, mode });
}

interface CommandOptions {
  readonly args?: readonly string[];
  readonly env?: Record<string, string>;
  readonly clearEnv?: boolean;
  readonly cwd?: string;
  readonly stdin?: "piped" | "inherit" | "null";
  readonly stdout?: "piped" | "inherit" | "null";
  readonly stderr?: "piped" | "inherit" | "null";
}

const stdioOf = { piped: "pipe", inherit: "inherit", null: "ignore" } as const;

/** Stands for the program of Deno in command lines. */
const DENO = "deno";

/** A command line that starts Deno with a module, for this runtime, also at a terminal; others as they are. */
function forThisRuntime(line: readonly string[]): string[] {
  const at = line.indexOf(DENO);
  if (at < 0) return line.map((text) => withWords(text, forThisRuntime));
  const [verb, ...rest] = line.slice(at + 1),
    module = rest.findIndex((arg) => !arg.startsWith("-"));
  const file = rest[module]?.replace(/^file:\/\//, "").replace(/\.ts$/, ".js") ?? "";
  if (verb !== "run" || !fs.existsSync(file)) leaveOut("it starts Deno");
  if (rest.slice(0, module).some((flag) => /^--(no-prompt|allow|deny|v8)/.test(flag))) {
    leaveOut("it is about Deno's flags");
  }
  const own = fileURLToPath(import.meta.url), args = rest.slice(module + 1);
  return [...line.slice(0, at), host.execPath(), "--import", own, file, ...args];
}

class Command {
  constructor(readonly command: string | URL, readonly options: CommandOptions = {}) {}

  spawn() {
    const { args = [], env = {}, clearEnv = false, cwd, ...stdio } = this.options;
    const { stdin = "inherit", stdout = "inherit", stderr = "inherit" } = stdio;
    const options: SpawnOptions = {
      env: clearEnv ? env : { ...process.env, ...env },
      stdio: [stdioOf[stdin], stdioOf[stdout], stdioOf[stderr]],
      ...(cwd && { cwd }),
    };
    const [command, ...all] = forThisRuntime([String(this.command), ...args]);
    const child = spawn(command!, all, options);
    const status = new Promise<{ success: boolean; code: number; signal: string | null }>(
      (resolve, reject) => {
        child.on("error", reject);
        child.on(
          "exit",
          (code, signal) => resolve({ success: code === 0, code: code ?? 128, signal }),
        );
      },
    );
    status.catch(() => {});
    const out = child.stdout && Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>;
    const err = child.stderr && Readable.toWeb(child.stderr) as ReadableStream<Uint8Array>;
    const bytes = async (stream: ReadableStream<Uint8Array> | null) =>
      stream ? new Uint8Array(await new Response(stream as never).arrayBuffer()) : new Uint8Array();
    return {
      pid: child.pid,
      status,
      stdin: child.stdin && Writable.toWeb(child.stdin),
      stdout: out,
      stderr: err,
      kill: (signal: NodeJS.Signals = "SIGTERM") => void child.kill(signal),
      ref: () => child.ref(),
      unref: () => child.unref(),
      output: async () => {
        const [stdout, stderr] = await Promise.all([bytes(out), bytes(err)]);
        return { ...await status, stdout, stderr };
      },
    };
  }

  outputSync() {
    const { args = [], env = {}, cwd } = this.options;
    const options = { env: { ...process.env, ...env }, ...(cwd && { cwd }) };
    const [command, ...all] = forThisRuntime([String(this.command), ...args]);
    const { status, stdout, stderr } = spawnSync(command!, all, options);
    return { success: status === 0, code: status ?? 128, stdout, stderr };
  }

  output() {
    const { options } = this;
    return new Command(this.command, {
      stdout: "piped",
      stderr: "piped",
      stdin: "null",
      ...options,
    })
      .spawn().output();
  }
}

const stream = (name: "stdout" | "stderr", number: number) => ({
  isTerminal: () => host.isTerminal(name),
  writeSync: (bytes: Uint8Array) => fs.writeSync(number, bytes),
  write: (bytes: Uint8Array) => Promise.resolve(fs.writeSync(number, bytes)),
});

const standIn = {
  args: host.args,
  build: { os: host.os, arch: host.arch, standalone: false },
  pid: host.pid,
  ppid: host.ppid,
  noColor: process.env.NO_COLOR !== undefined,
  execPath: () => DENO,
  cwd: host.cwd,
  chdir: (path: string) => process.chdir(path),
  exit: (code = 0) => process.exit(code),
  get exitCode() {
    return host.exitCode;
  },
  set exitCode(code: number) {
    host.exitCode = code;
  },
  errors: {
    ...host.errors,
    NotADirectory: errorClass("ENOTDIR"),
    AlreadyExists: errorClass("EEXIST"),
    AddrInUse: errorClass("EADDRINUSE"),
    BrokenPipe: errorClass("EPIPE"),
  },
  SeekMode: { Start: 0 },
  env: {
    get: host.getVariable,
    set: host.setVariable,
    delete: (name: string) => void delete process.env[name],
    has: (name: string) => name in process.env,
    toObject: () => ({ ...process.env }),
  },
  permissions: {
    query: () => Promise.resolve(granted),
    querySync: () => granted,
    request: () => Promise.resolve(granted),
    requestSync: () => granted,
  },
  inspect: host.inspect,
  memoryUsage: () => process.memoryUsage(),
  systemMemoryInfo: () => ({ available: freemem() }),
  addSignalListener: host.addSignalListener,
  removeSignalListener: host.removeSignalListener,
  kill: host.kill,
  unrefTimer: host.unrefTimer,
  uid: () => process.getuid?.() ?? null,
  stdout: stream("stdout", 1),
  stderr: stream("stderr", 2),
  stdin: { isTerminal: () => host.isTerminal("stdin") },
  consoleSize: () => ({ columns: process.stdout.columns ?? 80, rows: process.stdout.rows ?? 24 }),
  Command,
  dlopen: host.dlopen,
  UnsafePointer: {
    of: (view: ArrayBufferView<ArrayBuffer>) => host.addressOf(view),
    value: (p: bigint) => p,
  },
  stat: host.stat,
  statSync: host.statSync,
  lstat: (path: Path) => Promise.resolve(host.lstatSync(path)),
  lstatSync: (path: Path) => ({
    ...host.lstatSync(path),
    isFifo: fs.lstatSync(path).isFIFO(),
    isCharDevice: fs.lstatSync(path).isCharacterDevice(),
  }),
  open: host.open,
  openSync: host.openSync,
  create: (path: Path) =>
    host.open(path, { read: true, write: true, create: true, truncate: true }),
  readFile: host.readFile,
  readFileSync: host.readFileSync,
  readTextFile: host.readTextFile,
  readTextFileSync: host.readTextFileSync,
  readDir: host.readDir,
  readDirSync: host.readDirSync,
  writeFile,
  writeFileSync,
  writeTextFile: writeFile,
  writeTextFileSync: (path: Path, text: string, options?: WriteOptions) =>
    writeFileSync(path, encode(text), options),
  mkdir: async (...args: Parameters<typeof mkdirSync>) => await mkdirSync(...args),
  mkdirSync,
  makeTempDir: async (options = {}) => await temporaryFolder(options),
  makeTempDirSync: temporaryFolder,
  makeTempFile: async (options = {}) => await temporaryFile(options),
  makeTempFileSync: temporaryFile,
  // deno-lint-ignore require-await -- a rejection, as in Deno
  remove: async (path: Path, options?: { recursive: boolean }) => host.removeSync(path, options),
  removeSync: host.removeSync,
  renameSync: host.renameSync,
  rename: async (from: Path, to: Path) => await host.renameSync(from, to),
  copyFileSync: (from: Path, to: Path) => fs.copyFileSync(from, to),
  copyFile: (from: Path, to: Path) => fs.promises.copyFile(from, to),
  symlink: (to: Path, path: Path) => fs.promises.symlink(to, path),
  symlinkSync: (to: Path, path: Path) => fs.symlinkSync(to, path),
  linkSync: (from: Path, to: Path) => fs.linkSync(from, to),
  readLinkSync: host.readLinkSync,
  chmod: async (path: Path, mode: number) => await host.chmodSync(path, mode),
  chmodSync: host.chmodSync,
  chownSync: host.chownSync,
  utimeSync: (path: Path, accessed: Date, modified: Date) =>
    fs.utimesSync(path, accessed, modified),
  truncateSync: (path: Path, bytes: number) => fs.truncateSync(path, bytes),
};

Object.defineProperty(globalThis, "Deno", { value: standIn, configurable: true, writable: true });

const { addEventListener: others } = globalThis;
Object.assign(globalThis, {
  addEventListener: (name: string, listener: () => void) => {
    if (name === "unload") host.addEndingListener(name, listener);
    else others?.(name, listener);
  },
});

Object.defineProperty(globalThis, "Worker", {
  get: () => leaveOut("it starts a worker whose program is for Deno"),
});
