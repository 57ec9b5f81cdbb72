/** The accumulators of a tile of sums of products. */
import type { Blocks } from "../../kernel/accumulation.ts";
import { Total, type TotalText } from "../../codegen/total.ts";
import type { Emitter } from "../../codegen/emit.ts";

/** Totals of floats or vectors of them. */
export function totalText(type: string): TotalText {
  const isVector = /\d$/.test(type);
  return {
    constant: (name, text) => `const ${type} ${name} = ${text};`,
    variable: (name, text) => `${type} ${name} = ${text};`,
    zero: "0",
    numberOrZero: (name) =>
      isVector
        ? `select(${name}, (${type})(0), ${name} != ${name})`
        : `(${name} == ${name} ? ${name} : 0)`,
  };
}

/**
 * Variables that products are added to. Long sums are added up in blocks: then these hold the sum of a
 * block, and at the end the total.
 */
export class TileSums {
  readonly blocks: Blocks | null;
  readonly #emitter: Emitter;
  readonly #type: string;
  readonly #names: readonly string[];
  readonly #totals: readonly Total[];

  /** @param type What OpenCL C calls the type of the variables. */
  constructor(emitter: Emitter, type: string, names: readonly string[], blocks: Blocks | null) {
    this.#emitter = emitter;
    this.#type = type;
    this.#names = names;
    this.blocks = blocks;
    const text = totalText(type);
    this.#totals = blocks ? names.map((name) => new Total(emitter, text, `${name}_total`)) : [];
  }

  declare(): void {
    for (const total of this.#totals) total.declare();
    this.#emitter.line(`${this.#type} ${this.#names.map((name) => `${name} = 0`).join(", ")};`);
  }

  /** Before the terms of a block. */
  begin(): void {
    for (const name of this.#names) this.#emitter.line(`${name} = 0;`);
  }

  /** After the terms of a block. */
  end(): void {
    this.#totals.forEach((total, k) => total.add(this.#names[k]!));
  }

  /** After all terms. */
  finish(): void {
    this.#totals.forEach((total, k) => {
      total.finish();
      this.#emitter.line(`${this.#names[k]} = ${this.#names[k]}_total;`);
    });
  }
}
