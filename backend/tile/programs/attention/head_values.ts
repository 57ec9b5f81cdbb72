/**
 * Numbers and matrices of attention as expressions: where the matrices of a group's head lie, masks, dropout,
 * and the places of results.
 *
 * This folder (`attention/`) has the programs of attention. `attention.ts` says what is computed, once, with
 * `softmax.ts`; `item_blocks.ts`, `fragment_blocks.ts` and `lane_blocks.ts` say how blocks of rows and columns are
 * held and multiplied. It imports the language and the folder above.
 */
import { type AttentionKernel, type HeadMatrix, headsOf } from "../../../kernel/attention.ts";
import { ZERO_BYTE } from "../../../graph/attention.ts";
import { cast, element, random } from "../../language/elements.ts";
import {
  add,
  alignmentOf,
  ALIGNMENTS,
  div,
  divideBy,
  type E,
  int,
  isMultiple,
  make,
  min,
  mul,
  type Place,
} from "../../language/expression.ts";
import { above, fadd, float, select } from "../../language/values.ts";
import type { Program } from "../../program.ts";
import type { NameOf } from "../kernel_values.ts";

/** A matrix of the group's head. */
export interface Operand {
  readonly place: Place;
  readonly at: HeadMatrix;
  /** Its columns; and its rows, as an argument. */
  readonly features: number;
  readonly length: E;
  /** The number that stands for 0 in rows of bytes; 0 in others. */
  readonly zero: number;
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
  #filled: E | null = null;

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

  /** A step or an offset, with what is known to divide it: rows of whole pieces are read by pieces. */
  step(value: number): E {
    return this.#once(`step ${value}`, () => this.p.step(value, alignmentOf(value)));
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

  /** The number of keys that are there: of a cache, those that are filled. */
  get length(): E {
    return this.#filled ?? this.keys;
  }

  get head(): E {
    return this.#head!;
  }

  /** Says which head the group computes; its matrices are placed behind. */
  placeHead(head: E): void {
    const { lead, filled } = this.kernel, all: E[] = [];
    this.#head = head;
    let rest = head;
    for (let k = lead.length - 1; k > 0; k--) {
      const [above, own] = divideBy(rest, this.size(lead[k]!));
      all.unshift(this.p.let(own));
      rest = this.p.let(above);
    }
    this.#coordinates = lead.length > 0 ? [rest, ...all] : [];
    if (filled) this.#filled = this.p.let(min(this.#number(filled.at), this.keys));
  }

  /** The only element of a matrix of whole numbers that are not negative. */
  #number(at: HeadMatrix): E {
    const { place, index } = this.operand(at, 1, int(1));
    return make("load", "int", [index(int(0), int(0))], {
      place,
      value: 1,
      range: [0, 2 ** 31 - 1],
    });
  }

  /** A matrix of the head. */
  operand(at: HeadMatrix, features: number, length: E, zero = 0): Operand {
    const place = this.#inputs[at.input]!;
    const along = (coordinate: E, step: number): E =>
      step === 1 ? coordinate : mul(coordinate, step === 0 ? 0 : this.step(step));
    const leads = at.lead.map((step, k) => along(this.#coordinates[k]!, step));
    const first = add(at.offset === 0 ? 0 : this.step(at.offset), ...leads);
    // Behind a name it would not be known what divides it.
    const whole = ALIGNMENTS.find((by) => isMultiple(first, by)) ?? 1;
    const origin = mul(this.p.let(div(first, whole)), whole);
    const index = (row: E, column: E): E =>
      add(origin, along(row, at.row), along(column, at.column));
    const raw = (row: E, column: E): E => element(place, index(row, column), at.dtype);
    return {
      place,
      at,
      features,
      length,
      zero,
      index,
      raw,
      element: (row, column) => {
        const e = raw(row, column);
        const number = e.kind === "float" ? e : cast(e, at.dtype, "float32");
        return zero === 0 ? number : fadd(number, float(-zero));
      },
    };
  }

  /** The matrices that a pass multiplies; the gradient of a backward pass only. */
  operands(): Record<"query" | "key" | "value" | "gradient", Operand> {
    const { query, key, value, backward, features, valueFeatures, filled } = this.kernel;
    const zero = filled?.scales ? ZERO_BYTE : 0;
    const v = this.operand(value, valueFeatures, this.length, zero);
    return {
      query: this.operand(query, features, this.queries),
      key: this.operand(key, features, this.length, zero),
      value: v,
      gradient: backward ? this.operand(backward.gradient, valueFeatures, this.queries) : v,
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
