/**
 * Deno.
 *
 * Members of `Deno` are looked up when they are called: tests put others in their place.
 *
 * @module
 */
import type { ForeignTable, Host, Library, ThreadHost } from "./types.ts";
import { v8Collector } from "./v8.ts";

/** Deno's own types of a table, which its compiler infers from literals alone. */
type DenoTable = Deno.ForeignLibraryInterface;

function pointerTo(address: bigint): Deno.PointerObject {
  const pointer = Deno.UnsafePointer.create(address);
  if (pointer === null) throw new TypeError("Cannot use memory at address 0");
  return pointer;
}

/** Last message of a worker that ends itself. */
const ENDED = "netcl: ended";

/** Deno as the host. */
export const host: Host = {
  runtime: "deno",
  os: Deno.build.os,
  arch: Deno.build.arch,
  pid: Deno.pid,
  get ppid() {
    return Deno.ppid;
  },
  get args() {
    return Deno.args;
  },
  errors: Deno.errors,

  dlopen: <const T extends ForeignTable>(path: string, functions: T) =>
    Deno.dlopen(path, functions as DenoTable) as unknown as Library<T>,
  functionAt: (address, { parameters, result, nonblocking = false }) => {
    const definition = { parameters, result, nonblocking } as Deno.ForeignFunction;
    const fn = new Deno.UnsafeFnPointer(
      pointerTo(address) as Deno.PointerObject<typeof definition>,
      definition,
    );
    return fn.call.bind(fn);
  },
  // Half of the threads that Deno runs such calls on: 32, and on Windows four a core.
  waitingThreads: Deno.build.os === "windows" ? 2 * navigator.hardwareConcurrency : 16,
  memoryAt: (address, nbytes) => Deno.UnsafePointerView.getArrayBuffer(pointerTo(address), nbytes),
  addressOf: (view) => Deno.UnsafePointer.value(Deno.UnsafePointer.of(view)),
  cString: (address) => Deno.UnsafePointerView.getCString(pointerTo(address)),

  isGranted: (permission) => Deno.permissions.querySync(permission).state === "granted",
  request: (permission) => Deno.permissions.requestSync(permission).state === "granted",

  getVariable: (name) => Deno.env.get(name),
  setVariable: (name, value) => Deno.env.set(name, value),

  stat: (path) => Deno.stat(path),
  statSync: (path) => Deno.statSync(path),
  lstatSync: (path) => Deno.lstatSync(path),
  open: (path, options) => Deno.open(path, options),
  openSync: (path, options) => Deno.openSync(path, options),
  readFile: (path) => Deno.readFile(path),
  readFileSync: (path) => Deno.readFileSync(path),
  readTextFile: (path) => Deno.readTextFile(path),
  readTextFileSync: (path) => Deno.readTextFileSync(path),
  writeNewFileSync: (path, bytes, mode) =>
    Deno.writeFileSync(path, bytes, { mode, createNew: true }),
  readDir: (path) => Deno.readDir(path),
  readDirSync: (path) => Deno.readDirSync(path),
  mkdir: (path) => Deno.mkdir(path, { recursive: true }),
  mkdirSync: (path, mode) => Deno.mkdirSync(path, { recursive: true, mode }),
  makeTempDirSync: (options) => Deno.makeTempDirSync(options),
  renameSync: (from, to) => Deno.renameSync(from, to),
  removeSync: (path, options) => Deno.removeSync(path, options),
  readLinkSync: (path) => Deno.readLinkSync(path),
  chmodSync: (path, mode) => Deno.chmodSync(path, mode),
  chownSync: (path, uid, gid) => Deno.chownSync(path, uid, gid),
  cwd: () => Deno.cwd(),

  addSignalListener: (signal, listener) => Deno.addSignalListener(signal, listener),
  removeSignalListener: (signal, listener) => Deno.removeSignalListener(signal, listener),
  keepsHandler: () => true,
  kill: (pid, signal) => Deno.kill(pid, signal),
  exit: (status) => Deno.exit(status),
  get exitCode() {
    return Deno.exitCode;
  },
  set exitCode(status: number) {
    Deno.exitCode = status;
  },
  addEndingListener: (ending, listener) =>
    addEventListener(ending, listener as unknown as EventListener),
  removeEndingListener: (ending, listener) =>
    removeEventListener(ending, listener as unknown as EventListener),
  unrefTimer: (timer) => Deno.unrefTimer(timer),

  uid: () => Deno.uid(),
  execPath: () => Deno.execPath(),
  isRestartable: !Deno.build.standalone,
  runArguments: (module) => [
    ...["run", "--quiet", "--no-prompt", "--no-config", "--no-lock"],
    ...["--allow-ffi", "--allow-env", "--allow-read", "--allow-write", "--allow-sys"],
    module,
  ],
  spawn: (command, args) => {
    const stdio = { stdin: "null", stdout: "null", stderr: "null" } as const;
    return new Deno.Command(command, { args: [...args], ...stdio }).spawn();
  },
  startWorker: (module, onMessage, onError) => {
    const worker = new Worker(module, { type: "module" });
    worker.onmessage = ({ data }) => {
      if (data === ENDED) onError(new Error("it ended itself"));
      else onMessage(data as never);
    };
    worker.onerror = (event) => {
      event.preventDefault(); // else it ends the program
      onError(event.error ?? new Error(event.message));
    };
    return { post: (message) => worker.postMessage(message), end: () => worker.terminate() };
  },
  workerPort: () => {
    // The types of the main thread have no name for a worker's own side.
    const port = globalThis as unknown as Worker;
    // Deno.exit() in a worker ends it alone, and nobody hears of it.
    addEventListener("unload", () => port.postMessage(ENDED));
    return {
      listen: (listener) => void (port.onmessage = ({ data }) => listener(data as never)),
      post: (message, transfer = []) => port.postMessage(message, transfer),
    };
  },
  hasSignalsInThreads: true,
  threadHost: `(${threadHost})()`,
  stdin: () => Deno.stdin.readable,
  writeStdout: (bytes) => Deno.stdout.write(bytes),
  isTerminal: (stream) => Deno[stream].isTerminal(),
  externalBytes: () => Deno.memoryUsage().external,
  collector: v8Collector,
  inspect: (value) => Deno.inspect(value),
};

/** A thread's Deno; it may refer to nothing outside. */
function threadHost(): ThreadHost {
  return {
    dlopen: (path, functions) => Deno.dlopen(path, functions as never) as never,
    spawnPiped: (command, args) => {
      const stdio = { stdin: "piped", stdout: "piped", stderr: "null" } as const;
      return new Deno.Command(command, { args: [...args], ...stdio }).spawn();
    },
    addSignalListener: Deno.addSignalListener,
  };
}
