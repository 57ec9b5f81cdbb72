import { Template } from "npm:@huggingface/jinja@0.5.11";
import type { Rule } from "../../../ffi/host/option_rules.ts";

/** One turn of a chat. */
export interface Message {
  /** Speaker: "system", "user", "assistant". */
  role: string;
  /** The text. */
  content: string;
  /** Other fields that the model's template reads, such as `tool_calls` or `name`. */
  readonly [field: string]: unknown;
}

/** Variables of a chat's template by name. */
export type TemplateVariables = Readonly<Record<string, unknown>>;

/** The messages of a chat. */
export const messageList: Rule = {
  takes: "an array of messages { role, content }, both strings",
  accepts: (value) =>
    Array.isArray(value) &&
    value.every((message) =>
      typeof message?.role === "string" && typeof message.content === "string"
    ),
};

/** Writes chats as a model was taught to read them. */
export class ChatTemplate {
  readonly #template: Template;
  readonly #tokens: Readonly<Record<string, string>>;

  /**
   * Reads a template.
   *
   * @param source In Jinja.
   * @param tokens The texts of special tokens by the names that templates give them.
   */
  constructor(source: string, tokens: Readonly<Record<string, string>> = {}) {
    this.#template = new Template(source);
    this.#tokens = tokens;
  }

  /** The text of a chat, up to where the model answers. */
  render(messages: readonly Message[], variables: TemplateVariables = {}): string {
    return this.#template.render({
      ...this.#tokens,
      ...variables,
      messages: messages.map((message) => ({ ...message })),
      add_generation_prompt: true,
    });
  }
}
