import { Tensor } from "@netcl/netcl";

/** A text as a model sees it: numbers, one a character. */
export class Corpus {
  /** The characters by number, in the order of their code points. */
  readonly characters: readonly string[];
  /** (length): the text itself, int32. */
  readonly ids: Tensor;
  readonly #text: string;

  /** @param characters Those that the text may have. Default: those that it has. */
  constructor(text: string, characters = [...new Set(text)].sort()) {
    this.characters = characters;
    this.#text = text;
    this.ids = Tensor.fromHost(this.encode(text)).realize();
  }

  /** The number of characters of the text. */
  get length(): number {
    return this.ids.size;
  }

  /**
   * The numbers of a text.
   *
   * @throws RangeError for a character that is not in the text that was learned.
   */
  encode(text: string): Int32Array<ArrayBuffer> {
    return Int32Array.from(text, (character) => {
      const id = this.characters.indexOf(character);
      if (id >= 0) return id;
      throw new RangeError(
        `Cannot encode ${JSON.stringify(character)}: the text that was learned does not have it`,
      );
    });
  }

  /** The beginning, that share of the text, and the rest, with the same numbers for characters. */
  split(share: number): [beginning: Corpus, rest: Corpus] {
    const end = Math.round(share * this.#text.length);
    const part = (text: string) => new Corpus(text, [...this.characters]);
    return [part(this.#text.slice(0, end)), part(this.#text.slice(end))];
  }

  /** Passages from anywhere in the text, (count, length). */
  draw(count: number, length: number): Tensor {
    const starts = Tensor.randint(0, this.length - length + 1, [count, 1], { dtype: "int32" });
    const places = starts.add(Tensor.arange(0, length, 1, { dtype: "int32" }));
    return this.ids.indexSelect(0, places);
  }
}
