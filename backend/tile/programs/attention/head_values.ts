/**
 * Numbers and matrices of attention as expressions: where the matrices of a group's head lie, masks, dropout,
 * and the places of results.
 *
 * This folder (`attention/`) has the programs of attention. `attention.ts` says what is computed, once, with
 * `softmax.ts`; `item_blocks.ts`, `fragment_blocks.ts` and `lane_blocks.ts` say how blocks of rows and columns are
 * held and multiplied. It imports the language and the folder above.
 */
import { type AttentionKernel, type HeadMatrix, headsOf } from "../../../kernel/attention.ts";
import { cast, element, random } from "../../language/elements.ts";
import { add, divideBy, type E, mul, type Place } from "../../language/expression.ts";
import { above, float, select } from "../../language/values.ts";
import type { Program } from "../../program.ts";
import type { NameOf } from "../kernel_values.ts";

/** A matrix of the group's head. */
export interface Operand {
  readonly place: Place;
  readonly at: HeadMatrix;
  /** Its columns; and its rows, as an argument. */
  readonly features: number;
  readonly length: E;
  /** Index of an element, in the input. */
  index(row: E, column: E): E;
  /** An element, as a float; and as it is. */
  element(row: E, column: E): E;
  raw(row: E, column: E): E;
}

/** The numbers of one kernel. */
export class HeadValues {
  readonly kernel: AttentionKernel;
  readonly p: Program;
  readonly #nameOf: NameOf;
  readonly #inputs: readonly Place[];
  readonly #known = new Map<string, E>();
  /** The number of the head, and its coordinates along the leading axes. */
  #head: E | null = null;
  #coordinates: readonly E[] = [];

  constructor(kernel: AttentionKernel, p: Program, nameOf: NameOf) {
    this.kernel = kernel;
    this.p = p;
    this.#nameOf = nameOf;
    this.#inputs = kernel.inputs.map((dtype, k) => p.input(`a${k}`, dtype));
  }

  #once(key: string, make: () => E): E {
    return this.#known.getOrInsertComputed(key, make);
  }

  /** A size that the launch hands over; equal ones are one argument. */
  size(value: number): E {
    return this.#once(`size ${value}`, () => this.p.size(value));
  }

  /** A step or an offset. */
  step(value: number): E {
    return this.#once(`step ${value}`, () => this.p.step(value));
  }

  /** A number that the launch hands over. */
  number(value: number): E {
    return this.#once(`number ${value}`, () => {
      const name = this.#nameOf({ kind: "constant", value, dtype: "float32" });
      return this.p.argument(name, value, "float");
    });
  }

  get queries(): E {
    return this.size(this.kernel.queries);
  }

  get keys(): E {
    return this.size(this.kernel.keys);
  }

  get head(): E {
    return this.#head!;
  }

  /** Says which head the group computes; its matrices are placed behind. */
  placeHead(head: E): void {
    const { lead } = this.kernel, all: E[] = [];
    this.#head = head;
    let rest = head;
    for (let k = lead.length - 1; k > 0; k--) {
      const [above, own] = divideBy(rest, this.size(lead[k]!));
      all.unshift(this.p.let(own));
      rest = this.p.let(above);
    }
    this.#coordinates = lead.length > 0 ? [rest, ...all] : [];
  }

  /** A matrix of the head. */
  operand(at: HeadMatrix, features: number, length: E): Operand {
    const place = this.#inputs[at.input]!;
    const along = (coordinate: E, step: number): E =>
      step === 1 ? coordinate : mul(coordinate, step === 0 ? 0 : this.step(step));
    const leads = at.lead.map((step, k) => along(this.#coordinates[k]!, step));
    const origin = this.p.let(add(at.offset === 0 ? 0 : this.step(at.offset), ...leads));
    const index = (row: E, column: E): E =>
      add(origin, along(row, at.row), along(column, at.column));
    const raw = (row: E, column: E): E => element(place, index(row, column), at.dtype);
    return {
      place,
      at,
      features,
      length,
      index,
      raw,
      element: (row, column) => {
        const e = raw(row, column);
        return e.kind === "float" ? e : cast(e, at.dtype, "float32");
      },
    };
  }

  /** The matrices that a pass multiplies; the gradient of a backward pass only. */
  operands(): Record<"query" | "key" | "value" | "gradient", Operand> {
    const { query, key, value, backward, features, valueFeatures } = this.kernel;
    const made = (at: HeadMatrix, columns: number, length: E) => this.operand(at, columns, length);
    const v = made(value, valueFeatures, this.keys);
    return {
      query: made(query, features, this.queries),
      key: made(key, features, this.keys),
      value: v,
      gradient: backward ? made(backward.gradient, valueFeatures, this.queries) : v,
    };
  }

  /** The factor of a weight: 0 where it is dropped. */
  kept(query: E, key: E, lanes?: { readonly width: number; readonly step: E }): E {
    const { probability, seed, stream } = this.kernel.dropout!, { p } = this;
    const drawn = this.#once("stream", () => {
      const name = this.#nameOf({ kind: "stream", stream });
      return p.argument(name, stream.value, "int");
    });
    const key0 = this.#once("seed", () => p.step(seed));
    const index = add(mul(add(mul(this.head, this.queries), query), this.keys), key);
    const number = random(index, key0, drawn, lanes);
    const isDropped = above(this.number(probability), number);
    return select(isDropped, float(0), this.number(1 / (1 - probability)));
  }

  /** The index of an element of a row in an output of so many columns; heads have `length` rows. */
  resultIndex(row: E, columns: number, length: E, column: E): E {
    const { isInterleaved, lead } = this.kernel;
    if (!isInterleaved) return add(mul(add(mul(this.head, length), row), columns), column);
    const heads = this.size(lead.at(-1)!);
    const [before, own] = divideBy(this.head, heads);
    return add(mul(add(mul(add(mul(before, length), row), heads), own), columns), column);
  }

  /** The buffer of a call's output; null where nobody reads it. */
  output(output: number): Place | null {
    const at = this.kernel.stored.indexOf(output);
    return at < 0
      ? null
      : { space: "global", buffer: `o${at}`, element: this.kernel.outputs[at]!.dtype };
  }

  get heads(): number {
    return headsOf(this.kernel);
  }
}
