/**
 * Rows of an image in a thread's memory, with the zeros around them: a convolution reads them there without
 * asking for each element whether it exists. Where windows lie two elements apart, a row's even elements come
 * first, then its odd ones, so that four windows read four elements side by side.
 */
import type { FunctionBuilder, Local } from "../assembler.ts";
import { i32, v128 } from "../opcodes.ts";

/** Elements behind a part of a row that vectors may be stored to. */
const SLACK = 8;

/** The sizes of a staged row; lengths are in elements. */
export interface StagedRow {
  /** Parts of a row: 2 where even and odd elements are apart. */
  readonly parts: number;
  /** Zeros before the first element, and elements of the image that are read. */
  readonly before: number;
  readonly width: number;
  /** Elements of a part that windows read. */
  readonly needed: number;
}

/** Elements from the beginning of a part to the next. */
export function partLength({ needed }: StagedRow): number {
  return Math.ceil(needed / 4) * 4 + SLACK;
}

/** Arguments that say where elements lie in a row; they are in bytes. */
export const stagingArguments = ["part", "begin0", "end0", "begin1", "end1", "needed"] as const;

/** The values of {@linkcode stagingArguments}. */
export function stagingNumbers(row: StagedRow): Record<typeof stagingArguments[number], number> {
  const { parts, before, width, needed } = row, numbers = [0, 0, 0, 0];
  for (let k = 0; k < parts; k++) {
    // Every `parts`-th element of the image, from the k-th on.
    const place = before + k, part = place % parts;
    const begin = Math.floor(place / parts), count = Math.ceil(Math.max(0, width - k) / parts);
    numbers[2 * part] = 4 * begin;
    numbers[2 * part + 1] = 4 * (begin + count);
  }
  const [begin0, end0, begin1, end1] = numbers as [number, number, number, number];
  return { part: 4 * partLength(row), begin0, end0, begin1, end1, needed: 4 * needed };
}

/** Writes the code that stages rows. */
export class Staging {
  readonly #f: FunctionBuilder;
  readonly #get: (name: typeof stagingArguments[number]) => Local;
  readonly #parts: number;
  readonly #isOdd: boolean;

  /**
   * @param get The arguments.
   * @param parts Parts of a row.
   * @param isOdd The image's first element is in the second part.
   */
  constructor(
    f: FunctionBuilder,
    get: (name: typeof stagingArguments[number]) => Local,
    parts: number,
    isOdd: boolean,
  ) {
    this.#f = f;
    this.#get = get;
    this.#parts = parts;
    this.#isOdd = isOdd;
  }

  /** A row of zeros at `to`. */
  clear(to: Local): void {
    this.#eachPart((part) => this.#zeros(this.#at(to, part), null, "needed"));
  }

  /** The row of the image that begins at `from`. */
  copy(to: Local, from: Local): void {
    const f = this.#f;
    // Vectors that reach beyond what they are for are stored before what lies there.
    this.#eachPart((part) => this.#zeros(this.#at(to, part), null, `begin${part}`));
    if (this.#parts === 1) {
      const begin = f.i(i32.add, to, this.#get("begin0")),
        end = f.i(i32.add, to, this.#get("end0"));
      const source = f.copy(from);
      this.#vectors(begin, end, (at) => {
        f.store(v128.store, at, f.load(v128.load, source));
        f.step(source, 16);
      });
    } else this.#halves(to, from);
    this.#eachPart((part) => this.#zeros(this.#at(to, part), `end${part}`, "needed"));
  }

  /** Every second element, from the first one and from the second one on. */
  #halves(to: Local, from: Local): void {
    const f = this.#f, [even, odd] = this.#isOdd ? [1, 0] as const : [0, 1] as const;
    const place = (part: 0 | 1): Local =>
      f.i(i32.add, this.#at(to, part), this.#get(`begin${part}`));
    const others = f.copy(place(odd)), source = f.copy(from);
    const end = f.i(i32.add, this.#at(to, even), this.#get(`end${even}`));
    this.#vectors(place(even), end, (at) => {
      const [low, high] = [f.load(v128.load, source), f.load(v128.load, source, 16)];
      f.store(v128.store, at, f.shuffle32(low, high, [0, 2, 4, 6]));
      f.store(v128.store, others, f.shuffle32(low, high, [1, 3, 5, 7]));
      f.step(others, 16);
      f.step(source, 32);
    });
  }

  #eachPart(body: (part: 0 | 1) => void): void {
    for (const part of [0, 1] as const) if (part < this.#parts) body(part);
  }

  #at(row: Local, part: 0 | 1): Local {
    return part === 0 ? row : this.#f.i(i32.add, row, this.#get("part"));
  }

  #zeros(
    part: Local,
    begin: typeof stagingArguments[number] | null,
    end: typeof stagingArguments[number],
  ): void {
    const f = this.#f, first = begin === null ? part : f.i(i32.add, part, this.#get(begin));
    const last = f.i(i32.add, part, this.#get(end));
    this.#vectors(first, last, (at) => f.store(v128.store, at, f.splat(0)));
  }

  #vectors(begin: Local, end: Local, body: (at: Local) => void): void {
    const f = this.#f, at = f.copy(begin);
    f.whileLess(at, end, () => {
      body(at);
      f.step(at, 16);
    }, i32.ltU);
  }
}
