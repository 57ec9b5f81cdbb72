/**
 * The runtime of JavaScript as netcl sees it: foreign functions, files, variables, signals, processes.
 * Deno, Node and Bun each have an implementation, of which a program loads the one of its runtime.
 *
 * This folder (`runtime/`) is the one place that names a runtime's own functions. It imports nothing
 * of netcl; every other module takes `host` of `host.ts`. This file is long because it is all that a
 * runtime is asked for, in one interface.
 *
 * @module
 */

/** Types of C values. Addresses are whole numbers; `"buffer"` is a pointer into JavaScript memory. */
export type NativeType =
  | "void"
  | "i32"
  | "u32"
  | "i64"
  | "u64"
  | "usize"
  | "f32"
  | "f64"
  | "buffer";

/** Memory of JavaScript that C reads or writes during a call: a view's offset is honoured. */
export type NativeMemory = ArrayBufferView<ArrayBufferLike> | ArrayBuffer | null;

/** One C function. */
export interface ForeignFunction {
  /** Name in the library, where it differs from the key. */
  readonly name?: string;
  /** Its parameters. */
  readonly parameters: readonly NativeType[];
  /** Its result. */
  readonly result: NativeType;
  /** Runs on another thread and returns a promise. */
  readonly nonblocking?: boolean;
  /** Null in the result where the library lacks it; without this that is an error. */
  readonly optional?: boolean;
}

/** C functions of a library, by the keys under which they are called. */
export type ForeignTable = { readonly [key: string]: ForeignFunction };

/** The value of one C value. */
export type NativeValue<T> = T extends "i32" | "u32" | "f32" | "f64" ? number
  : T extends "buffer" ? NativeMemory
  : T extends "void" ? void
  : bigint;

type NativeValues<T extends readonly NativeType[]> = {
  -readonly [I in keyof T]: NativeValue<T[I]>;
};

type Result<F extends ForeignFunction> = F extends { readonly nonblocking: true }
  ? Promise<NativeValue<F["result"]>>
  : NativeValue<F["result"]>;

type ForeignCall<F extends ForeignFunction> =
  | ((...args: NativeValues<F["parameters"]>) => Result<F>)
  | (F extends { readonly optional: true } ? null : never);

/** Functions of an open library. */
export type ForeignSymbols<T extends ForeignTable> = {
  readonly [Key in keyof T]: ForeignCall<T[Key]>;
};

/** An open library. */
export interface Library<T extends ForeignTable> {
  /** Its functions. */
  readonly symbols: ForeignSymbols<T>;
  /** Closes it: a function that is called afterwards ends the process. */
  close(): void;
}

/** Facts about a file. */
export interface FileInfo {
  /** True for a regular file. */
  readonly isFile: boolean;
  /** True for a folder. */
  readonly isDirectory: boolean;
  /** True for a link. */
  readonly isSymlink: boolean;
  /** Bytes of it. */
  readonly size: number;
  /** Time of the last change of its bytes. */
  readonly mtime: Date | null;
  /** Kind and permissions, as Unix has them; null elsewhere. */
  readonly mode: number | null;
  /** Owner; null where there is none. */
  readonly uid: number | null;
  /** Group; null where there is none. */
  readonly gid: number | null;
}

/** An entry of a folder. */
export interface FolderEntry {
  /** Name within the folder. */
  readonly name: string;
  /** True for a regular file. */
  readonly isFile: boolean;
  /** True for a folder. */
  readonly isDirectory: boolean;
}

/** Ways to open a file; without any it is read. */
export interface OpenOptions {
  /** To read. */
  read?: boolean;
  /** To write, over what is there. */
  write?: boolean;
  /** To write behind what is there. */
  append?: boolean;
  /** Makes the file where there is none. */
  create?: boolean;
  /** Makes the file, which must not be there. */
  createNew?: boolean;
  /** Takes away what is there. */
  truncate?: boolean;
  /** Permissions of a new file. */
  mode?: number;
}

/** An open file, with a place at which the next bytes are read or written. */
export interface HostFile extends Disposable {
  /** Number of bytes that were read; null at the end. */
  read(into: Uint8Array): Promise<number | null>;
  /** The same, blocking. */
  readSync(into: Uint8Array): number | null;
  /** Number of bytes that were written: it may be fewer than there are. */
  write(bytes: Uint8Array): Promise<number>;
  /** The same, blocking. */
  writeSync(bytes: Uint8Array): number;
  /** Goes to a place, counted from the file's begin (0). */
  seek(offset: number, from: 0): Promise<unknown>;
  /** The same, blocking. */
  seekSync(offset: number, from: 0): unknown;
  /** Facts about the file. */
  stat(): Promise<FileInfo>;
  /** Puts what was written on the disk. */
  sync(): Promise<void>;
  /** The same, blocking. */
  syncSync(): void;
  /** Cuts the file off. */
  truncateSync(bytes: number): void;
  /** Waits for the lock of the file, which others then wait for. */
  lockSync(exclusive: true): void;
  /** Takes the lock of the file; false where another process has it. */
  tryLockSync(exclusive: true): boolean;
  /** Gives the lock back. */
  unlockSync(): void;
  /** Closes the file. */
  close(): void;
}

/** The end of a process. */
export interface ProcessStatus {
  /** True for status 0. */
  readonly success: boolean;
  /** Its status. */
  readonly code: number;
  /** The signal that ended it; null where none did. */
  readonly signal: string | null;
}

/** A process that this one started. */
export interface ChildProcess {
  /** Its number. */
  readonly pid: number;
  /** Resolves when it has ended. */
  readonly status: Promise<ProcessStatus>;
  /** The end of this program waits for it. */
  ref(): void;
  /** The end of this program does not wait for it. */
  unref(): void;
  /** Ends it at once. */
  kill(signal: "SIGKILL"): void;
}

/** A process that is asked by its standard input, and answers by its standard output. */
export interface PipedProcess {
  /** Its number. */
  readonly pid: number;
  /** Resolves when it has ended. */
  readonly status: Promise<unknown>;
  /** To be written to. */
  readonly stdin: WritableStream<Uint8Array>;
  /** To be read. */
  readonly stdout: ReadableStream<Uint8Array>;
  /** Ends it at once. */
  kill(signal: "SIGKILL"): void;
}

/** A thread that runs a module. */
export interface HostWorker {
  /** Sends it a message. */
  post(message: unknown): void;
  /** Ends it at once. */
  end(): void;
}

/** Side of a thread that runs a module, towards the one that started it. */
export interface WorkerPort {
  /** Takes messages. */
  listen(listener: (message: never) => void): void;
  /** Sends a message; what is transferred leaves this thread. */
  post(message: unknown, transfer?: Transferable[]): void;
}

/** The part of {@linkcode Host} for threads that are sent their program as text. */
export interface ThreadHost {
  /** See {@linkcode Host.dlopen}. */
  dlopen<const T extends ForeignTable>(path: string, functions: T): Library<T>;
  /** Starts a process, whose errors nobody reads. */
  spawnPiped(command: string, args: readonly string[]): PipedProcess;
  /** See {@linkcode Host.addSignalListener}. */
  addSignalListener(signal: SignalName, listener: () => void): void;
}

/** Signals that netcl listens to. */
export type SignalName = "SIGHUP" | "SIGINT" | "SIGTERM" | "SIGWINCH";

/** A right that a runtime may keep back. Node and Bun grant all that the system does. */
export type Permission =
  | { readonly name: "read" | "write" | "ffi"; readonly path?: string | URL }
  | { readonly name: "env"; readonly variable?: string }
  | { readonly name: "run"; readonly command?: string }
  | { readonly name: "sys"; readonly kind: "uid" };

/** The end of the program, as a listener hears of it. */
export interface EndingEvent {
  /** True when another listener deals with the error. */
  readonly defaultPrevented: boolean;
  /** Deals with the error: the program goes on. */
  preventDefault(): void;
}

/** Endings that a listener hears of. */
export interface Endings {
  /** The normal end, and an exit that the program asks for. Nothing asynchronous runs any more. */
  unload: EndingEvent;
  /** An error that nobody caught. */
  error: EndingEvent & { readonly error: unknown };
  /** The same, of a promise. */
  unhandledrejection: EndingEvent & { readonly reason: unknown };
}

/** An error of the runtime. */
export interface RuntimeError extends Error {
  /** The system's name of it, such as "ENOENT", where it comes from the system. */
  readonly code?: string;
}

type ErrorClass = new (message: string, options?: ErrorOptions) => RuntimeError;

/** Errors of the runtime that netcl tells apart or throws. */
export interface HostErrors {
  /** There is no such file. */
  readonly NotFound: ErrorClass;
  /** The runtime keeps a right back. */
  readonly NotCapable: ErrorClass;
  /** The system refuses it to this user. */
  readonly PermissionDenied: ErrorClass;
  /** A file is expected, and it is a folder. */
  readonly IsADirectory: ErrorClass;
  /** Links lead in a circle. */
  readonly FilesystemLoop: ErrorClass;
  /** The file is closed. */
  readonly BadResource: ErrorClass;
}

/** A path, or the URL of a file. */
export type Path = string | URL;

/** One runtime of JavaScript. */
export interface Host {
  /** Its name. */
  readonly runtime: "deno" | "node" | "bun";
  /** The operating system, such as "linux", "darwin" or "windows". */
  readonly os: string;
  /** The processor, such as "x86_64" or "aarch64". */
  readonly arch: string;
  /** Number of this process. */
  readonly pid: number;
  /** Number of the process that started this one. */
  readonly ppid: number;
  /** Arguments of the program. */
  readonly args: readonly string[];
  /** Errors that are told apart. */
  readonly errors: HostErrors;

  /**
   * Opens a library.
   *
   * @throws {Error} "Could not open library" or "Failed to register symbol", with what the system says.
   */
  dlopen<const T extends ForeignTable>(path: string, functions: T): Library<T>;
  /** The function at an address. */
  functionAt(address: bigint, definition: ForeignFunction): (...args: never[]) => unknown;
  /** Calls that wait at the same time without standing in each other's way. */
  readonly waitingThreads: number;
  /** Memory of C: not copied, and to be detached before it is freed. The address is not 0. */
  memoryAt(address: bigint, nbytes: number): ArrayBuffer;
  /** The address of a view's first byte. */
  addressOf(view: ArrayBufferView<ArrayBuffer>): bigint;
  /** The text at an address, which is not 0. */
  cString(address: bigint): string;

  /** True where a right is given already; nobody is asked. */
  isGranted(permission: Permission): boolean;
  /** The same; where there is somebody to be asked, that person is. */
  request(permission: Permission): boolean;

  /** A variable of the environment; undefined where it is not set. */
  getVariable(name: string): string | undefined;
  /** Sets a variable, for C libraries of this process, too. */
  setVariable(name: string, value: string): void;

  /** Facts about a file, behind links. */
  stat(path: Path): Promise<FileInfo>;
  /** The same, blocking. */
  statSync(path: Path): FileInfo;
  /** Facts about a file; of a link, about the link. */
  lstatSync(path: Path): FileInfo;
  /** Opens a file. */
  open(path: Path, options?: OpenOptions): Promise<HostFile>;
  /** The same, blocking. */
  openSync(path: Path, options?: OpenOptions): HostFile;
  /** All bytes of a file. */
  readFile(path: Path): Promise<Uint8Array<ArrayBuffer>>;
  /** The same, blocking. */
  readFileSync(path: Path): Uint8Array<ArrayBuffer>;
  /** A file's text. */
  readTextFile(path: Path): Promise<string>;
  /** The same, blocking. */
  readTextFileSync(path: Path): string;
  /** Writes a new file. */
  writeNewFileSync(path: Path, bytes: Uint8Array, mode: number): void;
  /** Entries of a folder. */
  readDir(path: Path): AsyncIterable<FolderEntry>;
  /** The same, blocking. */
  readDirSync(path: Path): Iterable<FolderEntry>;
  /** Makes a folder, and those that it lies in. */
  mkdir(path: Path): Promise<void>;
  /** The same with permissions, blocking. */
  mkdirSync(path: Path, mode: number): void;
  /** Makes a folder whose name is new. */
  makeTempDirSync(options: { dir: string; prefix: string }): string;
  /** Gives a file another name, in the place of one that has it. */
  renameSync(from: Path, to: Path): void;
  /** Takes a file away, or a folder. */
  removeSync(path: Path, options?: { recursive: boolean }): void;
  /** Target of a link. */
  readLinkSync(path: Path): string;
  /** Sets permissions. */
  chmodSync(path: Path, mode: number): void;
  /** Sets the owner and the group; null leaves one as it is. */
  chownSync(path: Path, uid: number | null, gid: number | null): void;
  /** The working folder. */
  cwd(): string;

  /** Calls `listener` at each such signal. */
  addSignalListener(signal: SignalName, listener: () => void): void;
  /** Ends that. */
  removeSignalListener(signal: SignalName, listener: () => void): void;
  /**
   * True while the runtime's handler of a signal is in place: as long as there is a listener, and in Deno
   * afterwards, too, where it does what the signal does by default.
   */
  keepsHandler(signal: SignalName): boolean;
  /** Sends a signal to a process. */
  kill(pid: number, signal: SignalName | "SIGKILL"): void;
  /** Ends the program. */
  exit(status: number): never;
  /** Status with which the program ends. */
  exitCode: number;
  /** Calls `listener` when the program ends in this way. */
  addEndingListener<K extends keyof Endings>(ending: K, listener: Listener<K>): void;
  /** Ends that. */
  removeEndingListener<K extends keyof Endings>(ending: K, listener: Listener<K>): void;
  /** The end of the program does not wait for a timer. */
  unrefTimer(timer: ReturnType<typeof setTimeout>): void;

  /** The number of this user; null on Windows. */
  uid(): number | null;
  /** The runtime's program. */
  execPath(): string;
  /** False where the runtime's program is not the runtime alone. */
  readonly isRestartable: boolean;
  /** Arguments with which the runtime runs a module, with the rights to build programs. */
  runArguments(module: string): string[];
  /** Starts a process that reads nothing, and writes nothing that is read. */
  spawn(command: string, args: readonly string[]): ChildProcess;
  /** Starts a thread, which keeps the program alive until it is ended; that it ended itself is an error. */
  startWorker(
    module: URL,
    onMessage: (message: never) => void,
    onError: (error: Error) => void,
  ): HostWorker;
  /** In such a thread: its side. */
  workerPort(): WorkerPort;
  /** True where a thread hears of signals. */
  readonly hasSignalsInThreads: boolean;
  /** An expression for a {@linkcode ThreadHost}, in the program of a thread. */
  readonly threadHost: string;
  /** Standard input. */
  stdin(): ReadableStream<Uint8Array<ArrayBuffer>>;
  /** Writes to standard output. */
  writeStdout(bytes: Uint8Array): Promise<unknown>;
  /** True for a terminal. */
  isTerminal(stream: "stdin" | "stdout" | "stderr"): boolean;
  /** Bytes of this program outside of the JavaScript heap. */
  externalBytes(): number;
  /** A function that runs the garbage collector. */
  collector(): () => void;
  /** A value as the console shows it. */
  inspect(value: unknown): string;
}

/** A function that is called when the program ends. */
export type Listener<K extends keyof Endings> = (event: Endings[K]) => void;
