/** A word with the space before it, or a mark: tokens do not cross their ends. */
const PIECE = / ?\p{L}+|[^\p{L}]/gu;

/**
 * Words and parts of words, learned from a text by byte-pair encoding: it begins with characters, and
 * joins the two neighbours that are seen most often, again and again (Sennrich et al. 2016).
 */
export class Vocabulary {
  /** The tokens by number: the characters, then what was joined, in this order. */
  readonly tokens: readonly string[];
  readonly #ids: ReadonlyMap<string, number>;
  /** The numbers of pieces that were looked up before. */
  readonly #known = new Map<string, number[]>();

  /** @param size The number of tokens; fewer where nothing is left to join. */
  constructor(text: string, size: number) {
    this.tokens = learned(text, size);
    this.#ids = new Map(this.tokens.map((token, id) => [token, id]));
  }

  /**
   * The numbers of a text.
   *
   * @throws RangeError for a character that is not in the text that was learned.
   */
  encode(text: string): number[] {
    return (text.match(PIECE) ?? []).flatMap((piece) => {
      let ids = this.#known.get(piece);
      if (!ids) this.#known.set(piece, ids = this.#encode(piece));
      return ids;
    });
  }

  #encode(piece: string): number[] {
    const parts = [...piece];
    const id = (token: string) => this.#ids.get(token) ?? Infinity;
    while (parts.length > 1) {
      // What was joined first is joined first.
      const pairs = parts.slice(1).map((part, k) => id(parts[k]! + part));
      const first = Math.min(...pairs);
      if (first === Infinity) break;
      parts.splice(pairs.indexOf(first), 2, this.tokens[first]!);
    }
    return parts.map((part) => {
      const found = this.#ids.get(part);
      if (found !== undefined) return found;
      throw new RangeError(
        `Cannot encode ${JSON.stringify(part)}: the text that was learned does not have it`,
      );
    });
  }
}

/** The characters of the text in the order of their code points, then the joined pairs. */
function learned(text: string, size: number): string[] {
  const tokens = [...new Set(text)].sort();
  const pieces = Map.groupBy(text.match(PIECE) ?? [], (piece) => piece);
  const words = [...pieces].map(([word, { length }]) => ({
    word,
    parts: [...word],
    count: length,
  }));
  /** Counts of two neighbours, by what they make. */
  const seen = new Map<string, number>();
  const note = (parts: readonly string[], count: number) => {
    for (let k = 1; k < parts.length; k++) {
      const pair = parts[k - 1]! + parts[k];
      seen.set(pair, (seen.get(pair) ?? 0) + count);
    }
  };
  for (const { parts, count } of words) note(parts, count);
  while (tokens.length < size) {
    const [best, count] = seen.entries().reduce((a, b) => b[1] > a[1] ? b : a, ["", 0]);
    if (count === 0) break;
    tokens.push(best);
    for (const { word, parts, count } of words) {
      if (!word.includes(best)) continue;
      note(parts, -count);
      join(parts, best);
      note(parts, count);
    }
  }
  return tokens;
}

/** Joins neighbours that make the token. */
function join(parts: string[], token: string): void {
  for (let k = 1; k < parts.length; k++) {
    if (parts[k - 1]! + parts[k] === token) parts.splice(k - 1, 2, token);
  }
}
