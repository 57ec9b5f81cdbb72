/**
 * A server of the shape that OpenAI's clients know: `/v1/chat/completions`, streamed or whole, and
 * `/v1/models`. It serves several at once: who asks joins the answers under way, and each step reads the
 * weights once for all. A client that leaves ends its answer, and Ctrl+C ends all.
 *
 *     deno run -A examples/models/chat_server.ts --help
 */
import { InterruptedError, interruptSignal } from "@netcl/netcl";
import {
  type Batch,
  LanguageModel,
  type Message,
  type Sampling,
  type TextEnd,
  type TextStream,
} from "@netcl/netcl/models";
import { optionsWith } from "../flags.ts";
import { modelFlag, modelPath } from "./model_path.ts";
import { runExample } from "../run_example.ts";

/** Content of a turn: a text, or its parts. */
type Content = string | readonly { readonly type: string; readonly text?: string }[];

/** The request of a client; clients send null for what is not asked for, too. */
interface Question {
  readonly messages: readonly { readonly role: string; readonly content: Content }[];
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean | null } | null;
  readonly max_tokens?: number | null;
  readonly max_completion_tokens?: number | null;
  readonly temperature?: number | null;
  readonly top_p?: number | null;
  readonly seed?: number | null;
  readonly stop?: string | string[] | null;
}

/** The options of an answer, without those that were not asked for. */
function optionsOf(question: Question, signal: AbortSignal): Sampling {
  const { max_tokens, max_completion_tokens, temperature, top_p, seed, stop } = question;
  const asked = {
    topP: top_p,
    seed,
    stop: stop === null || stop === undefined ? null : [stop].flat(),
  };
  const given = Object.entries(asked).filter(([, value]) => value !== null && value !== undefined);
  return {
    signal,
    maxTokens: max_completion_tokens ?? max_tokens ?? 256,
    temperature: temperature ?? 0.7,
    ...Object.fromEntries(given),
  };
}

/** The messages of a request, as texts. */
function messagesOf({ messages }: Question): Message[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new TypeError("messages must be an array of { role, content }, one at least");
  }
  return messages.map(({ role, content }) => {
    const parts: Exclude<Content, string> = Array.isArray(content)
      ? content
      : [{ type: "text", text: content as string }];
    const odd = parts.find(({ type, text }) => type !== "text" || typeof text !== "string");
    if (odd || typeof role !== "string") {
      throw new TypeError(
        `a message must have a role and a text: got ${JSON.stringify(odd ?? role)}`,
      );
    }
    return { role, content: parts.map(({ text }) => text).join("") };
  });
}

function failed(status: number, message: string): Response {
  return Response.json({ error: { message, type: "invalid_request_error" } }, { status });
}

/** The end of an answer as OpenAI's clients know it. */
function usageOf({ promptTokens, newTokens }: TextEnd): object {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: newTokens,
    total_tokens: promptTokens + newTokens,
  };
}

/**
 * A body of parts as they come; a client that leaves, at whatever time, aborts. Of an answer that Ctrl+C ends
 * the head has been sent: the last part says it.
 */
function sent(
  parts: AsyncGenerator<string>,
  ended: string,
  left: AbortController,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await parts.next();
        if (done) controller.close();
        else controller.enqueue(encoder.encode(value));
      } catch (error) {
        if (!(error instanceof InterruptedError)) throw error;
        controller.enqueue(encoder.encode(ended));
        controller.close();
      }
    },
    cancel: () => left.abort(),
  });
}

/** An event of a stream. */
const event = (content: object) => `data: ${JSON.stringify(content)}\n\n`;

/** A server's side of one model. */
class ChatServer {
  readonly #batch: Batch;
  readonly #name: string;
  #answers = 0;

  constructor(batch: Batch, name: string) {
    this.#batch = batch;
    this.#name = name;
  }

  async answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/v1/models") {
      return Response.json({ object: "list", data: [{ id: this.#name, object: "model" }] });
    }
    if (pathname !== "/v1/chat/completions") return failed(404, `There is no ${pathname}`);
    if (request.method !== "POST") return failed(405, "Send a POST");
    const left = new AbortController();
    const signal = AbortSignal.any([left.signal, interruptSignal]);
    let pieces: TextStream, question: Question;
    try {
      question = await request.json();
      pieces = this.#batch.generate(messagesOf(question), optionsOf(question, signal));
    } catch (error) {
      return failed(400, (error as Error).message);
    }
    const head = {
      id: `chatcmpl-${++this.#answers}`,
      created: Math.floor(Date.now() / 1000),
      model: this.#name,
    };
    const error = { error: { message: "The server ends", type: "server_error" } };
    const hasUsage = question.stream_options?.include_usage === true;
    const [body, type] = question.stream
      ? [sent(this.#events(head, pieces, hasUsage), event(error), left), "text/event-stream"]
      : [sent(this.#whole(head, pieces), JSON.stringify(error), left), "application/json"];
    return new Response(body, { headers: { "content-type": type } });
  }

  /** The answer as one object. */
  async *#whole(head: object, pieces: TextStream): AsyncGenerator<string> {
    let content = "", next = await pieces.next();
    for (; !next.done; next = await pieces.next()) content += next.value;
    const message = { role: "assistant", content };
    const choices = [{ index: 0, message, finish_reason: next.value.reason }];
    const usage = usageOf(next.value);
    yield JSON.stringify({ ...head, object: "chat.completion", choices, usage });
  }

  /** The answer as events, piece by piece; the last has the usage, where it is asked for. */
  async *#events(head: object, pieces: TextStream, hasUsage: boolean): AsyncGenerator<string> {
    const chunk = (choices: object[], usage: object | null = null) =>
      event({ ...head, object: "chat.completion.chunk", choices, ...hasUsage && { usage } });
    const part = (delta: object, finish_reason: string | null = null) =>
      chunk([{ index: 0, delta, finish_reason }]);
    yield part({ role: "assistant", content: "" });
    let next = await pieces.next();
    for (; !next.done; next = await pieces.next()) yield part({ content: next.value });
    yield part({}, next.value.reason);
    if (hasUsage) yield chunk([], usageOf(next.value));
    yield "data: [DONE]\n\n";
  }
}

await runExample({
  about: "Serves a language model to clients of OpenAI's shape.",
  file: "examples/models/chat_server.ts",
  flags: { model: modelFlag("language"), ...optionsWith({ port: "8000", texts: "8" }) },
}, async ({ model, port, texts }, print) => {
  using lm = await LanguageModel.load(await modelPath(model, "language"));
  using batch = lm.batch({ texts: Number(texts) });
  const chats = new ChatServer(batch, model);
  const server = Deno.serve({
    port: Number(port),
    onListen: ({ port }) => print(`http://localhost:${port}/v1 (Ctrl+C ends it)`),
  }, (request) => chats.answer(request));
  // Answers under way are told that they end; then the server does.
  interruptSignal.addEventListener("abort", () => void server.shutdown(), { once: true });
  await server.finished;
});
