/** The programs that are measured, as child processes that answer requests. */
import type { PeerName, Work } from "./works.ts";
import { fileURLToPath } from "node:url";

const here = (path: string) => fileURLToPath(new URL(`./peers/${path}`, import.meta.url));
const threads = String(navigator.hardwareConcurrency);
const environment = {
  NO_COLOR: "1",
  OMP_NUM_THREADS: threads,
  OPENBLAS_NUM_THREADS: threads,
  PYTHONDONTWRITEBYTECODE: "1",
};
const oneThread = { OMP_NUM_THREADS: "1" };

/** The command that starts a peer. */
interface Recipe {
  /** Tried in turn; the first that answers is it. */
  readonly commands: (device: string) => readonly (readonly string[])[];
  /** Environments to measure it in; the best counts. By default one, with all threads. */
  readonly settings?: readonly Record<string, string>[];
}

const python = (file: string, ...args: string[]) =>
  ["python3", "/usr/bin/python3"].map((command) => [command, here(file), ...args]);

/** Without this package's configuration, so that what peers import stays out of its lock file. */
const deno = (file: string) => [
  [Deno.execPath(), "run", "-A", "--no-check", "--no-config", "--no-lock", here(file)],
];

/** With this package's configuration, for it writes its graphs by netcl. */
const withNetcl = (file: string) => [
  [Deno.execPath(), "run", "-A", "--no-check", "--no-lock", here(file)],
];

const recipes: Record<PeerName | "netcl", Recipe> = {
  netcl: { commands: (device) => [[Deno.execPath(), "run", "-A", here("netcl.ts"), device]] },
  numpy: { commands: () => python("numpy_peer.py") },
  torch: {
    commands: (device) => python("torch_peer.py", device),
    // Which is best depends on the work, and on what else the machine does.
    settings: [{}, { OMP_WAIT_POLICY: "PASSIVE" }, oneThread],
  },
  // Compiling takes a minute a model, so in one setting.
  "torch-compile": { commands: (device) => python("torch_peer.py", device, "compile") },
  // Replayed CUDA graphs: PyTorch's fastest mode where the host is what limits.
  "torch-graphs": { commands: (device) => python("torch_peer.py", device, "graphs") },
  onednn: {
    commands: () => [["sh", here("compiled.sh"), here("onednn.c"), "-ldnnl"]],
    settings: [{}, { OMP_WAIT_POLICY: "PASSIVE" }],
  },
  machine: { commands: () => [["sh", here("compiled.sh"), here("machine.c")]] },
  tfjs: { commands: () => deno("tfjs.ts") },
  "jax-js": { commands: () => deno("jax.ts") },
  onnxruntime: {
    commands: () => withNetcl("onnxruntime.ts"),
    // Threads that wait in a loop are faster on an idle machine, and slower on a busy one.
    settings: [{}, { ORT_SPINNING: "0" }],
  },
};

/** The names of all peers. */
export const peerNames = Object.keys(recipes).filter((name) => name !== "netcl") as PeerName[];

/** A peer's answer for a work: seconds or a count, or why it has none. */
export interface Answer {
  readonly work: string;
  readonly value?: number;
  readonly unit?: "s" | "count";
  readonly error?: string;
}

async function* lines(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split("\n");
    rest = parts.pop()!;
    yield* parts.filter((line) => line.startsWith("{"));
  }
}

/** A running peer. */
export class Peer {
  readonly #child: Deno.ChildProcess;
  readonly #answers: AsyncGenerator<string>;
  readonly #requests: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #complaints: Promise<string>;
  #ended = false;
  /** Its own name, with its version. */
  title = "";

  constructor(command: readonly string[], env: Record<string, string>) {
    const [program, ...args] = command;
    this.#child = new Deno.Command(program!, {
      args,
      env: { ...environment, ...env },
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#answers = lines(this.#child.stdout);
    this.#requests = this.#child.stdin.getWriter();
    this.#complaints = new Response(this.#child.stderr).text();
  }

  /** Waits until it is loaded; throws what it said where it does not load. */
  async ready(): Promise<this> {
    this.title = (await this.#next() as { peer: string }).peer;
    return this;
  }

  /** Measures a work; a peer that has ended answers with an error. */
  async measure(work: Work, samples: number, milliseconds: number): Promise<Answer> {
    const request = [work.kind, work.size, samples, milliseconds, work.variant ?? ""].join(" ");
    try {
      await this.#requests.write(new TextEncoder().encode(request.trim() + "\n"));
      return await this.#next() as Answer;
    } catch (error) {
      return { work: work.kind, error: error instanceof Error ? error.message : String(error) };
    }
  }

  async #next(): Promise<unknown> {
    const { value, done } = await this.#answers.next();
    if (!done) return JSON.parse(value);
    this.#ended = true;
    const complaints = (await this.#complaints).trim().split("\n");
    const telling = complaints.find((line) => /error:/i.test(line)) ?? complaints.at(-1);
    throw new Error(telling || "it ended early");
  }

  /** Ends it. */
  async close(): Promise<void> {
    if (!this.#ended) await this.#requests.close();
    await this.#child.status;
  }
}

/**
 * Starts a peer in each of its settings.
 *
 * @throws {Error} Where it is not installed or does not load; the message says why.
 */
export async function start(name: PeerName | "netcl", device: string): Promise<Peer[]> {
  const recipe = recipes[name], { commands } = recipe;
  // A GPU's works do not depend on how the host's threads wait.
  const settings = device === "gpu" ? [{}] : recipe.settings ?? [{}];
  let problem: unknown;
  for (const command of commands(device)) {
    try {
      return await Promise.all(settings.map((env) => new Peer(command, env).ready()));
    } catch (error) {
      problem = error;
    }
  }
  throw problem;
}
