/** llama.cpp, as the Python package llama-cpp-python has it, in a child process that answers requests. */
import { fileURLToPath } from "node:url";
import type { TextTimes } from "./measure.ts";

const program = fileURLToPath(new URL("./llama_cpp.py", import.meta.url));

/** A running llama.cpp with a model. */
export class LlamaPeer implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #requests: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #answers: ReadableStreamDefaultReader<string>;
  #rest = "";
  /** Its name, with its version. */
  title = "";

  private constructor(python: string, file: string) {
    this.#child = new Deno.Command(python, {
      args: [program, file],
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    this.#requests = this.#child.stdin.getWriter();
    this.#answers = this.#child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** Starts it; null, with a word, where it is not installed. */
  static async start(python: string, file: string): Promise<LlamaPeer | null> {
    const peer = new LlamaPeer(python, file);
    const first = await peer.#line();
    if (first === null) {
      console.log(`left out: llama.cpp: ${python} cannot run it; "pip install llama-cpp-python"`);
      await peer.#child.status;
      return null;
    }
    peer.title = JSON.parse(first).title;
    return peer;
  }

  /** Reads a prompt and writes behind it. */
  async text(prompt: number, tokens: number): Promise<TextTimes> {
    await this.#requests.write(new TextEncoder().encode(`${prompt} ${tokens}\n`));
    const line = await this.#line();
    if (line === null) throw new Error("llama.cpp ended early");
    return JSON.parse(line);
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
