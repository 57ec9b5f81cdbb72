/** Totals of sums that are added up in blocks: what each addition rounds off is added up beside. */
import type { DType } from "../graph/dtype.ts";
import type { Emitter } from "./emit.ts";

/** Declarations of the values that a total is made with. */
export interface TotalText {
  constant(name: string, text: string): string;
  variable(name: string, text: string): string;
  readonly zero: string;
  /** The value, or 0 where it is NaN. */
  numberOrZero(name: string): string;
}

/** The total of blocks: a variable of its name, and another for what its additions round off. */
export class Total {
  readonly #emitter: Emitter;
  readonly #text: TotalText;
  readonly #name: string;

  constructor(emitter: Emitter, text: TotalText, name: string) {
    this.#emitter = emitter;
    this.#text = text;
    this.#name = name;
  }

  get #lost(): string {
    return `${this.#name}_lost`;
  }

  declare(): void {
    const { variable, zero } = this.#text;
    this.#emitter.line(variable(this.#name, zero));
    this.#emitter.line(variable(this.#lost, zero));
  }

  /** Adds the sum of a block. */
  add(block: string): void {
    const total = this.#name, { constant } = this.#text;
    this.#emitter.open("{");
    this.#emitter.line(constant("next", `${total} + ${block}`));
    this.#emitter.line(constant("added", `next - ${total}`));
    this.#emitter.line(
      `${this.#lost} += (${total} - (next - added)) + (${block} - added);`,
    );
    this.#emitter.line(`${total} = next;`);
    this.#emitter.close();
  }

  /** After the last block. What is lost of a total that is infinite or NaN is NaN. */
  finish(): void {
    this.#emitter.line(`${this.#name} += ${this.#text.numberOrZero(this.#lost)};`);
  }
}

/** Totals of scalars in the language of a dialect. */
export function scalarTotal(
  dialect: {
    declare(dtype: DType, name: string, text: string): string;
    declareMutable(dtype: DType, name: string, text: string): string;
    constant(value: number, dtype: DType): string;
  },
  dtype: DType,
): TotalText {
  const zero = dialect.constant(0, dtype);
  return {
    constant: (name, text) => dialect.declare(dtype, name, text),
    variable: (name, text) => dialect.declareMutable(dtype, name, text),
    zero,
    numberOrZero: (name) => `(${name} == ${name} ? ${name} : ${zero})`,
  };
}
