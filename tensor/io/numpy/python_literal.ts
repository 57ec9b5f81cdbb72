import { FileFormatError, shown } from "../core/file_format_error.ts";

/** Result of {@link parsePythonLiteral}: a dict is a Map, a tuple or list an array. */
export type PythonValue =
  | string
  | number
  | boolean
  | null
  | PythonValue[]
  | Map<PythonValue, PythonValue>;

// A header's dict holds a tuple; what is nested deeper than a few levels is not one.
const MAX_DEPTH = 8;
const TOKEN =
  /\s*(?:(?<punctuation>[{}()[\],:])|'(?<single>[^'\\\n]*)'|"(?<double>[^"\\\n]*)"|(?<number>\d+)L?|(?<word>[A-Za-z_]+)|(?<end>$))/y;
const words = new Map<string, PythonValue>([["True", true], ["False", false], ["None", null]]);
const closing: Partial<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

/**
 * Reads a Python literal as it stands in .npy headers: dicts, tuples, lists, strings without
 * escapes, whole numbers, True, False and None. Nothing is evaluated.
 *
 * @param text The literal and nothing after it but white space.
 */
export function parsePythonLiteral(text: string): PythonValue {
  const reader = new LiteralReader(text);
  const value = reader.value(0);
  reader.expect("");
  return value;
}

class LiteralReader {
  readonly #text: string;
  #at = 0;
  #token!: { readonly kind: string; readonly text: string };

  constructor(text: string) {
    this.#text = text;
    this.#advance();
  }

  #advance(): void {
    TOKEN.lastIndex = this.#at;
    const match = TOKEN.exec(this.#text);
    if (!match) throw this.#error();
    const [kind, text] = Object.entries(match.groups!).find(([, found]) => found !== undefined)!;
    this.#token = { kind, text };
    this.#at = TOKEN.lastIndex;
  }

  #error(): FileFormatError {
    return new FileFormatError(
      `The header is no Python literal: unexpected text near ${shown(this.#text.slice(this.#at))}`,
    );
  }

  #isAt(punctuation: string): boolean {
    return this.#token.kind === "punctuation" && this.#token.text === punctuation;
  }

  /** Moves past one punctuation mark, or checks the end of the text for "". */
  expect(punctuation: string): void {
    if (punctuation === "" ? this.#token.kind !== "end" : !this.#isAt(punctuation)) {
      throw this.#error();
    }
    if (punctuation !== "") this.#advance();
  }

  value(depth: number): PythonValue {
    if (depth > MAX_DEPTH) throw new FileFormatError("The header is nested too deep");
    const { kind, text } = this.#token;
    if (kind === "punctuation") return this.#collection(text, depth);
    if (kind === "end" || (kind === "word" && !words.has(text))) throw this.#error();
    this.#advance();
    if (kind === "number") return Number(text);
    return kind === "word" ? words.get(text)! : text;
  }

  #collection(open: string, depth: number): PythonValue {
    const close = closing[open];
    if (close === undefined) throw this.#error();
    this.#advance();
    const items: PythonValue[] = [];
    const dict = new Map<PythonValue, PythonValue>();
    let commas = 0;
    while (!this.#isAt(close)) {
      const item = this.value(depth + 1);
      if (open === "{") {
        this.expect(":");
        dict.set(item, this.value(depth + 1));
      } else {
        items.push(item);
      }
      if (this.#isAt(close)) break;
      this.expect(",");
      commas++;
    }
    this.#advance();
    if (open === "{") return dict;
    // (3) is the number 3; (3,) is a tuple.
    return open === "(" && items.length === 1 && commas === 0 ? items[0]! : items;
  }
}
