import { plain } from "../plain.ts";
/**
 * Runs programs from outside: real signals, exit statuses, times.
 */

/** A signal and when it is sent. */
export interface Delivery {
  readonly signal: Deno.Signal;
  /** Milliseconds after the program is ready, or after it said `after`. */
  readonly atMs: number;
  readonly after?: string;
}

/** The end of a program. */
export interface Ending {
  /** The exit status; null when a signal ended it. */
  readonly code: number | null;
  /** The signal that ended it; null when it exited. */
  readonly signal: Deno.Signal | null;
  readonly out: string;
  readonly err: string;
  /** Milliseconds from the last signal (or from ready) to the end, all its pipes closed. */
  readonly ms: number;
}

export interface RunOptions {
  readonly args?: readonly string[];
  /** Flags of `deno run`; default: all permissions. */
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly deliveries?: readonly Delivery[];
  /** Signals that the program is started with ignored, as `nohup` does. */
  readonly ignored?: readonly Deno.Signal[];
  /** Milliseconds after which a program that does not end is killed. */
  readonly timeoutMs?: number;
}

/** The line of a program when signals may come. */
const READY = "ready";

/** Runs a module as a program of its own until it ends. */
export async function run(module: URL, options: RunOptions = {}): Promise<Ending> {
  const { args = [], flags = ["-A"], deliveries = [], timeoutMs = 20_000 } = options;
  const command = ["run", "--no-check", "--quiet", ...flags, module.href, ...args];
  const child = start(command, options);
  const timers = [setTimeout(() => child.kill("SIGKILL"), timeoutMs)];
  const out = new Output(child.stdout);
  const err = new Response(child.stderr).text();
  let last = 0;
  for (const { signal, atMs, after = READY } of deliveries) {
    void out.said(after).then((said) => {
      if (!said) return;
      timers.push(setTimeout(() => {
        last = performance.now();
        child.kill(signal);
      }, atMs));
    });
  }
  if (await out.said(READY)) last = performance.now();
  const status = await child.status;
  const ending = { out: await out.text, err: await err, ms: performance.now() - last };
  timers.forEach(clearTimeout);
  return { code: status.signal ? null : status.code, signal: status.signal, ...ending };
}

function start(args: string[], { env = {}, ignored = [] }: RunOptions): Deno.ChildProcess {
  const options = {
    env: { ...plain, ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  } as const;
  if (ignored.length === 0) return new Deno.Command(Deno.execPath(), { args, ...options }).spawn();
  const names = ignored.map((signal) => signal.slice("SIG".length)).join(" ");
  const script = `trap '' ${names}; exec "$0" "$@"`;
  return new Deno.Command("sh", { args: ["-c", script, Deno.execPath(), ...args], ...options })
    .spawn();
}

/** The output of a program, as it comes. */
class Output {
  /** All of it, once the stream is closed: no process holds its other end any more. */
  readonly text: Promise<string>;
  #soFar = "";
  #closed = false;
  #wake = Promise.withResolvers<void>();

  constructor(stream: ReadableStream<Uint8Array<ArrayBuffer>>) {
    this.text = this.#read(stream);
  }

  /** Waits until the program said `words`; false when it ended without. */
  async said(words: string): Promise<boolean> {
    while (!this.#soFar.includes(words)) {
      if (this.#closed) return false;
      await this.#wake.promise;
    }
    return true;
  }

  async #read(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
    for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
      this.#soFar += chunk;
      this.#tell();
    }
    this.#closed = true;
    this.#tell();
    return this.#soFar;
  }

  #tell(): void {
    const { resolve } = this.#wake;
    this.#wake = Promise.withResolvers();
    resolve();
  }
}

/** "exit 130" or "SIGINT": how a program ended, in the words of the table in the guide. */
export function describe({ code, signal }: Ending): string {
  return signal ?? `exit ${code}`;
}

/** The due end of a program. */
export interface Expected {
  /** As `describe` says it. */
  readonly ending: string;
  /** Milliseconds after the last signal (or ready): at least, at most. */
  readonly within?: readonly [number, number];
  /** Its output after "ready"; none by default. */
  readonly said?: string;
  /** Its output on stderr; none by default. */
  readonly complains?: RegExp;
}

/** Faults of an ending; empty when it is as it should be. */
export function faults(
  ending: Ending,
  { ending: how, within: [least, most] = [0, 10_000], said = "", complains = /^$/ }: Expected,
): string[] {
  const wrong: string[] = [];
  if (describe(ending) !== how) wrong.push(`ended with ${describe(ending)}, not ${how}`);
  if (ending.ms < least || ending.ms > most) {
    wrong.push(`took ${Math.round(ending.ms)} ms, not ${least} to ${most}`);
  }
  const text = ending.out.replace("ready\n", "").trim();
  if (text !== said) wrong.push(`said "${text}", not "${said}"`);
  if (!complains.test(ending.err)) wrong.push(`wrote to stderr: ${ending.err}`);
  return wrong;
}

/** Programs at a time; most of them only wait for a signal, and the suite runs others beside them. */
const CONCURRENCY = 2;

/** Runs every job, a few at a time, and returns the results in the jobs' order. */
export async function runAll<T>(jobs: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  const waiting = jobs.entries();
  async function work(): Promise<void> {
    for (const [index, job] of waiting) results[index] = await job();
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  return results;
}
