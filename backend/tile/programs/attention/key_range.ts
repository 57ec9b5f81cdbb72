/** The keys that queries see: all, those before a query, those of a cache that are filled; and parts of them. */
import { add, div, divideBy, type E, int, min, mul, sub } from "../../language/expression.ts";
import { all, choose, lt, truth } from "../../language/values.ts";
import type { HeadValues } from "./head_values.ts";

/** Keys from one to before another one. */
export interface Keys {
  readonly from: E;
  readonly to: E;
}

/** Rows of queries of a group, keys of a turn, and the number of parts that keys are cut in. */
export interface KeyBlocks {
  readonly rows: number;
  readonly columns: number;
  readonly parts: number;
}

/** The keys of a head's queries. */
export class KeyRange {
  readonly #values: HeadValues;
  readonly #blocks: KeyBlocks;
  /** Distance of a query's own key from its number, and the number of keys up to that which it sees. */
  readonly #shift: E;
  readonly #window: E | null;

  /** Behind the place of the head. */
  constructor(values: HeadValues, blocks: KeyBlocks) {
    const { filled } = values.kernel, { p, length, queries } = values;
    this.#values = values;
    this.#blocks = blocks;
    this.#shift = filled ? p.let(sub(length, queries)) : int(0);
    this.#window = filled && filled.window !== null ? values.size(filled.window) : null;
  }

  /** The first key that a query does not see any more, whether or not it is there. */
  #end(query: E): E {
    const { kernel, length } = this.#values;
    return kernel.isCausal ? add(query, 1, this.#shift) : length;
  }

  #begin(query: E): E {
    return this.#window === null ? int(0) : sub(this.#end(query), this.#window);
  }

  /**
   * True where a query sees a key.
   *
   * @param isThere Whether the key is known to be there.
   */
  sees(query: E, key: E, isThere: boolean): E {
    const { kernel, length } = this.#values;
    return all([
      isThere ? truth(true) : lt(key, length),
      kernel.isCausal ? lt(key, this.#end(query)) : truth(true),
      this.#window === null ? truth(true) : lt(sub(this.#begin(query), 1), key),
    ]);
  }

  /**
   * Conditions under which some query does not see all keys of a turn that begins with a key.
   *
   * @param top The first of the queries; `bottom`: the last.
   * @param isExact Whether no turn has a key behind the last.
   */
  edges(first: E, top: E, bottom: E, isExact: boolean): E[] {
    const { kernel, length } = this.#values, last = add(first, this.#blocks.columns - 1);
    return [
      ...isExact ? [] : [lt(sub(length, 1), last)],
      ...kernel.isCausal ? [lt(sub(this.#end(top), 1), last)] : [],
      ...this.#window === null ? [] : [lt(first, this.#begin(bottom))],
    ];
  }

  /** The keys that the queries of a group see, from row `row0` on. */
  ofRows(row0: E): Keys {
    const { kernel, length, p } = this.#values, { rows } = this.#blocks;
    const to = kernel.isCausal ? min(length, add(row0, rows, this.#shift)) : length;
    if (this.#window === null) return { from: int(0), to };
    const from = p.let(this.#begin(row0));
    return { from: p.let(choose(lt(from, 0), 0, from)), to: p.let(to) };
  }

  /** Turns of the keys of a group, and of a part of them: at least one. */
  #turns({ from, to }: Keys): readonly [turns: E, ofPart: E] {
    const { p } = this.#values, { columns, parts } = this.#blocks;
    const turns = p.let(div(add(sub(to, from), columns - 1), columns));
    const [each] = divideBy(add(turns, parts - 1), this.#values.size(parts)), own = p.let(each);
    return [turns, p.let(choose(lt(own, 1), 1, own))];
  }

  /** The keys of a part; there may be none. */
  part(keys: Keys, part: E): Keys {
    const { p } = this.#values, { columns, parts } = this.#blocks;
    if (parts === 1) return keys;
    const stretch = mul(this.#turns(keys)[1], columns);
    const from = p.let(add(keys.from, mul(part, stretch)));
    return { from, to: p.let(min(keys.to, add(from, stretch))) };
  }

  /** Number of the parts that have keys. */
  filledParts(row0: E): E {
    const { p } = this.#values, [turns, ofPart] = this.#turns(this.ofRows(row0));
    return p.let(divideBy(add(turns, ofPart, -1), ofPart)[0]);
  }
}
