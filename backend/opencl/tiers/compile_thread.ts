/** The thread that compiles: its program, which is sent as text, and what it is told. */
import type { ThreadHost } from "../../../ffi/runtime/types.ts";
import type { MessagePort } from "node:worker_threads";
import type {
  CompileJob,
  CompileMessage,
  CompilerPlace,
  controls,
  JobCompiler,
  states,
} from "./compile_job.ts";

/** Command that starts a process which compiles: see `compile_process.ts`. */
export interface CompileProcess {
  readonly command: string;
  readonly args: readonly string[];
}

/** Start data of a thread. */
export interface CompileThreadData extends CompilerPlace {
  /** The C library; null: a thread there has the priority of its process. */
  readonly libc: string | null;
  /** The process that compiles first; null where there is none. */
  readonly process: CompileProcess | null;
  /** A block of `controls`. */
  readonly control: Int32Array<SharedArrayBuffer>;
  readonly controls: typeof controls;
  readonly states: typeof states;
}

/** Has a process compile, so that this one's driver finds everything on disk. */
export interface CompilerBeside {
  /** Resolves when the process is through, or where there is none. */
  compile(job: CompileJob): Promise<void>;
  /** Ends the process; the next job starts one again. */
  rest(): void;
}

/** Makes what starts the process with the first job. It may refer to nothing outside. */
export function compilerBeside(
  { process, control, controls }: CompileThreadData,
  host: ThreadHost,
): CompilerBeside {
  const isGivenUp = (): boolean => Atomics.load(control, controls.isGivenUp) !== 0;
  let running: { ask(line: string): Promise<boolean>; end(): void } | null = null;
  const start = ({ command, args }: CompileProcess) => {
    const child = host.spawnPiped(command, args);
    Atomics.store(control, controls.pid, child.pid);
    if (isGivenUp()) child.kill("SIGKILL");
    const ended = child.status.then(() => {
      Atomics.compareExchange(control, controls.pid, child.pid, 0);
    });
    const input = child.stdin.getWriter(), output = child.stdout.getReader();
    return {
      /** False where it ended without an answer. */
      ask: async (line: string): Promise<boolean> => {
        await input.write(new TextEncoder().encode(`${line}\n`));
        return !(await output.read()).done;
      },
      end: () => void Promise.all([input.close(), ended]).catch(() => {}),
    };
  };
  let isUseful = process !== null;
  return {
    compile: async ({ text, options, launches }) => {
      if (!isUseful || isGivenUp()) return;
      try {
        running ??= start(process!);
        isUseful = await running.ask(JSON.stringify({ text, options, launches }));
      } catch {
        isUseful = false; // it cannot be started, or was ended by who cannot wait
      }
    },
    rest: () => {
      running?.end();
      running = null;
    },
  };
}

/** The thread's program; it may refer to nothing but its arguments. */
export function compileThread(
  { parentPort, workerData }: { parentPort: MessagePort; workerData: CompileThreadData },
  host: ThreadHost,
  jobCompiler: (place: CompilerPlace, host: ThreadHost) => JobCompiler,
  compilerBeside: (data: CompileThreadData, host: ThreadHost) => CompilerBeside,
): void {
  /** Milliseconds after which the process that has nothing to do is ended. */
  const IDLE_MS = 3000;
  const { libc, control, controls, states } = workerData;
  const isGivenUp = (): boolean => Atomics.load(control, controls.isGivenUp) !== 0;
  const end = (): void => {
    Atomics.store(control, controls.hasEnded, 1);
    Atomics.notify(control, controls.hasEnded);
  };
  /**
   * Lets the threads that compute go first; the process that is started here inherits it. At 19 it would
   * have 1.5 % of a core beside busy processes. On Linux 0 is the calling thread, not its process.
   */
  const yieldToOthers = (libc: string): void => {
    const PRIO_PROCESS = 0, SELF = 0, NICE = 10;
    const setpriority = { parameters: ["i32", "u32", "i32"], result: "i32" } as const;
    try {
      host.dlopen(libc, { setpriority }).symbols.setpriority(PRIO_PROCESS, SELF, NICE);
    } catch {
      // Another C library: the thread is as important as the others.
    }
  };
  if (libc !== null) yieldToOthers(libc);
  let compiler!: JobCompiler;
  try {
    compiler = jobCompiler(workerData, host);
  } catch {
    return end(); // who waits compiles by itself, and sees what is wrong
  }
  const beside = compilerBeside(workerData, host);
  let open = 0, idle: ReturnType<typeof setTimeout> | undefined;
  const compile = async (message: CompileMessage): Promise<void> => {
    const { state } = message;
    clearTimeout(idle);
    await beside.compile(message);
    let result: number = states.failed;
    try {
      if (!isGivenUp()) {
        Atomics.store(state, 0, states.compiling);
        compiler.compile(message, isGivenUp);
        result = states.built;
      }
    } catch {
      // The main thread builds it once more, for the error with its log.
    }
    Atomics.store(state, 0, result);
    Atomics.notify(state, 0);
    if (--open === 0) idle = setTimeout(beside.rest, IDLE_MS);
  };
  let last = Promise.resolve();
  parentPort.on("message", (message: CompileMessage | null) => {
    if (message === null) {
      compiler.release();
      return end();
    }
    open++;
    last = last.then(() => compile(message));
  });
}
