/** Programs of vectors of four whose sizes are arguments by name: those of one form are one kernel. */
import { add, type E, make, type Place, variable, type Whole } from "../../language/expression.ts";
import { everySecond } from "../../language/values.ts";
import { Program } from "../../program.ts";
import { vectorUnit } from "../../units.ts";

/** Floats of a vector. */
export const VECTOR = 4;

const LOWEST = -(2 ** 31), HIGHEST = 2 ** 31;

/** Numbers, buffers and tables of such a program. */
export class Numbered {
  readonly p: Program = new Program(vectorUnit(VECTOR), () => "");
  readonly #inputs: readonly Place[];
  readonly #numbers = new Map<string, E>();
  #tables: Place | null = null;

  /** So many buffers of floats are read; behind them is one of tables, where there are some. */
  constructor(inputs: number) {
    this.#inputs = Array.from({ length: inputs }, (_, k) => this.p.input(`a${k}`, "float32"));
  }

  /** The buffer of an operand. */
  input(number: number): Place {
    return this.#inputs[number]!;
  }

  /** The buffer of a result. */
  output(number: number): Place {
    return { space: "global", buffer: `o${number}`, element: "float32" };
  }

  /** A number of a launch. */
  number(name: string, low = 0): E {
    return this.#numbers.getOrInsertComputed(name, () => {
      this.p.argument(name, 0, "int");
      return variable(name, [low, HIGHEST]);
    });
  }

  /** A number that may be negative. */
  step(name: string): E {
    return this.number(name, LOWEST);
  }

  /** A place in a table, which begins at the number of its name. */
  table(name: string, index: Whole): { readonly table: Place; readonly at: E } {
    this.#tables ??= this.p.input(`a${this.#inputs.length}`, "int32");
    return { table: this.#tables, at: add(this.number(name), index) };
  }

  /** An entry of a table. */
  entry(name: string, index: Whole): E {
    const { table: place, at } = this.table(name, index);
    return make("element", "int", [at], { place, width: 1, range: [LOWEST, HIGHEST] });
  }

  /** Four vectors of four neighbours as vectors of first, second, ... ones. */
  transposed([a, b, c, d]: readonly E[]): E[] {
    const { p } = this;
    const halves = ([0, 1] as const).map((odd) =>
      [p.let(everySecond(a!, b!, odd)), p.let(everySecond(c!, d!, odd))] as const
    );
    return [0, 1, 2, 3].map((k) => p.let(everySecond(...halves[k % 2]!, k >> 1 ? 1 : 0)));
  }
}
