import { Tensor } from "@netcl/netcl";
import type { Vocabulary } from "./vocabulary.ts";

/** A text as a model sees it: numbers, one a token. */
export class Corpus {
  /** (length): the text itself, int32. */
  readonly ids: Tensor;
  readonly #numbers: Int32Array<ArrayBuffer>;

  /** @param text The text, or the numbers of its tokens. */
  constructor(text: string | Int32Array<ArrayBuffer>, readonly vocabulary: Vocabulary) {
    this.#numbers = typeof text === "string" ? Int32Array.from(vocabulary.encode(text)) : text;
    this.ids = Tensor.fromHost(this.#numbers).realize();
  }

  /** The number of tokens of the text. */
  get length(): number {
    return this.ids.size;
  }

  /** The beginning, that share of the text, and the rest. */
  split(share: number): [beginning: Corpus, rest: Corpus] {
    const end = Math.round(share * this.length);
    const part = (from: number, until: number) =>
      new Corpus(this.#numbers.slice(from, until), this.vocabulary);
    return [part(0, end), part(end, this.length)];
  }

  /** Passages from anywhere in the text, (count, length). */
  draw(count: number, length: number): Tensor {
    const starts = Tensor.randint(0, this.length - length + 1, [count, 1], { dtype: "int32" });
    const places = starts.add(Tensor.arange(0, length, 1, { dtype: "int32" }));
    return this.ids.indexSelect(0, places);
  }
}
