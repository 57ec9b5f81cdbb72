/**
 * Runs programs from outside: real signals, exit statuses, times.
 */

/** A signal and how long after the program is ready it is sent. */
export interface Delivery {
  readonly signal: Deno.Signal;
  readonly atMs: number;
}

/** What became of a program. */
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

const READY = "ready";

/** Runs a module as a program of its own until it ends. */
export async function run(module: URL, options: RunOptions = {}): Promise<Ending> {
  const { args = [], flags = ["-A"], deliveries = [], timeoutMs = 20_000 } = options;
  const command = ["run", "--no-check", "--quiet", ...flags, module.href, ...args];
  const child = start(command, options);
  const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
  const { text: out, ready } = readUntilClosed(child.stdout);
  const err = new Response(child.stderr).text();
  await ready;
  let last = performance.now();
  const timers = deliveries.map(({ signal, atMs }) =>
    setTimeout(() => {
      last = performance.now();
      child.kill(signal);
    }, atMs)
  );
  const status = await child.status;
  const ending = { out: await out, err: await err, ms: performance.now() - last };
  for (const pending of [timer, ...timers]) clearTimeout(pending);
  return { code: status.signal ? null : status.code, signal: status.signal, ...ending };
}

function start(args: string[], { env = {}, ignored = [] }: RunOptions): Deno.ChildProcess {
  const options = {
    env: { NO_COLOR: "1", ...env },
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

function readUntilClosed(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
): { text: Promise<string>; ready: Promise<void> } {
  const { promise: ready, resolve } = Promise.withResolvers<void>();
  async function read(): Promise<string> {
    let text = "";
    for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      if (text.includes(READY)) resolve();
    }
    resolve();
    return text;
  }
  return { text: read(), ready };
}

/** "exit 130" or "SIGINT": how a program ended, in the words of the table in the README. */
export function describe({ code, signal }: Ending): string {
  return signal ?? `exit ${code}`;
}
