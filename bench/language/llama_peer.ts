/** llama.cpp, as the Python package llama-cpp-python has it, in a child process that answers requests. */
import { fileURLToPath } from "node:url";
import type { TextTimes } from "./measure.ts";

const program = fileURLToPath(new URL("./llama_peer.py", import.meta.url));

/** A running llama.cpp with a model. */
export class LlamaPeer implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #requests: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #answers: ReadableStreamDefaultReader<string>;
  readonly #complaints: Promise<string>;
  #rest = "";
  /** Its name, with its version. */
  title = "";

  private constructor(python: string, file: string, way: string, threads: number) {
    this.#child = new Deno.Command(python, {
      args: [program, file, way, String(threads)],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#complaints = new Response(this.#child.stderr).text();
    this.#requests = this.#child.stdin.getWriter();
    this.#answers = this.#child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** Starts it; null, with a word, where it is not installed. */
  static async start(python: string, file: string, threads: number): Promise<LlamaPeer | null> {
    // Where matrix units are named and not there, it ends with the first text: then without them.
    let reason = "";
    for (const way of ["as it is", "plain"]) {
      const peer = new LlamaPeer(python, file, way, threads);
      const title = await peer.#answer(), first = title && await peer.#ask(8, 4);
      if (first) {
        peer.title = String(title.title);
        return peer;
      }
      const { code } = await peer.#child.status;
      reason = (await peer.#complaints).trim().split("\n").at(-1) || `it ended with status ${code}`;
    }
    console.log(`left out: llama.cpp: ${python}: ${reason}`);
    return null;
  }

  /** Reads a prompt and writes behind it. */
  async text(prompt: number, tokens: number): Promise<TextTimes> {
    const times = await this.#ask(prompt, tokens);
    if (times === null) throw new Error("llama.cpp ended early");
    return times as unknown as TextTimes;
  }

  async #ask(prompt: number, tokens: number): Promise<Record<string, unknown> | null> {
    await this.#requests.write(new TextEncoder().encode(`${prompt} ${tokens}\n`));
    return await this.#answer();
  }

  async #answer(): Promise<Record<string, unknown> | null> {
    const line = await this.#line();
    return line === null ? null : JSON.parse(line);
  }

  async #line(): Promise<string | null> {
    while (!this.#rest.includes("\n")) {
      const { value, done } = await this.#answers.read();
      if (done) return null;
      this.#rest += value;
    }
    const at = this.#rest.indexOf("\n"), line = this.#rest.slice(0, at);
    this.#rest = this.#rest.slice(at + 1);
    return line;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#requests.close();
    await this.#child.status;
  }
}
