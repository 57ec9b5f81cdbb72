/**
 * An operand in blocks of few bits as expressions: the rows of the formats, read as vectors of neighbours
 * or out of words of four bytes.
 *
 * This folder (`packed/`) has programs of such operands; it imports `tile/`, `formats/` and forms of `kernel/`.
 */
import { type BlockReader, fieldPlaces } from "../../../formats/block_format.ts";
import { type BlockFormatName, formatTable } from "../../../formats/block_formats.ts";
import {
  add,
  div,
  type E,
  type Element,
  int,
  lanes,
  mod,
  mul,
  type Place,
  sub,
} from "../../language/expression.ts";
import {
  bit,
  choose,
  fadd,
  float,
  fmul,
  fromHalf,
  lane,
  load,
  loadFrom,
  loadVector,
  lowBits,
  lt,
  shiftRight,
  signed,
  toFloat,
  words,
} from "../../language/values.ts";
import type { Unit } from "../../units.ts";

/** The elements of one place of a packed operand. */
export class PackedElement implements BlockReader<E> {
  readonly at: E;
  readonly #block: E;
  readonly #place: Place;
  readonly #blocks: E;
  readonly #before: E;
  readonly #places: ReturnType<typeof fieldPlaces>;

  /**
   * @param place The bytes.
   * @param blocks How many blocks there are.
   * @param index Which element of all; lanes are neighbours.
   * @param before Blocks that it is counted behind: a number that does not change in a loop.
   */
  constructor(format: BlockFormatName, place: Place, blocks: E, index: E, before = int(0)) {
    const { elements } = formatTable[format];
    this.#place = place;
    this.#blocks = blocks;
    this.#before = before;
    this.#places = fieldPlaces(formatTable[format]);
    this.#block = div(index, elements);
    this.at = mod(index, elements);
  }

  /** The place of the field of the first block, and that of a byte from there on. */
  placeOf(field: string, index: E): readonly [base: E, offset: E] {
    const { start, bytes } = this.#places[field]!;
    const base = add(mul(this.#blocks, start), mul(this.#before, bytes));
    return [base, add(mul(this.#block, bytes), index)];
  }

  #addressOf(field: string, index: E): E {
    return add(...this.placeOf(field, index));
  }

  /** A number of several bytes. */
  #loaded(element: Element, bytes: number, field: string, index: E): E {
    const [base, offset] = this.placeOf(field, mul(index, bytes)).map((at) => div(at, bytes));
    const place = { ...this.#place, element };
    return this.#before.op === "const"
      ? load(place, add(base!, offset!))
      : loadFrom(place, base!, offset!);
  }

  /** The word that has a byte, out of four words or one, and which byte it is there; null where that is not known. */
  #wordWith(address: E): readonly [word: E, byte: number] | null {
    const all = { ...this.#place, element: "uint32" } as const;
    for (const count of [4, 1]) {
      const within = mod(address, 4 * count);
      if (within.op !== "const") continue;
      const { value } = within, first = div(sub(address, value), 4);
      return [lane(loadVector(all, first, count), Math.floor(value / 4)), value % 4];
    }
    return null;
  }

  /** The word of four bytes from one on; null where words do not begin there. */
  wordAt(field: string, index: E): E | null {
    const [word, byte] = this.#wordWith(this.#addressOf(field, index)) ?? [null, 0];
    return byte === 0 ? word : null;
  }

  /** A byte of a word, where it is known which; neighbours share the words. */
  byte = (field: string, index: E): E => {
    const address = this.#addressOf(field, index);
    const [word, byte] = address.width > 1 ? [null, 0] : this.#wordWith(address) ?? [null, 0];
    if (word !== null) return mod(div(word, 2 ** (8 * byte)), 256);
    return load(this.#place, address);
  };
  int8 = (field: string, index: E): E => {
    const address = this.#addressOf(field, index);
    return address.width > 1
      ? load({ ...this.#place, element: "int8" }, address)
      : signed(this.byte(field, index));
  };
  word = (field: string, index: E): E => this.#loaded("uint32", 4, field, index);
  half = (field: string, index: E): E => this.#loaded("float16", 2, field, index);
  int = int;
  add = (a: E, b: E): E => add(a, b);
  and = (a: E, mask: number): E =>
    Number.isInteger(Math.log2(mask + 1))
      ? lowBits(a, Math.log2(mask + 1))
      : words("mask", [a, int(0)], mask);
  shiftRight = shiftRight;
  bit = bit;
  shiftLeft = (a: E, by: number): E => mul(a, 2 ** by);
  below = (a: E, limit: number, below: E, above: E): E => choose(lt(a, limit), below, above);
  float = (a: E): E => a.op === "const" ? float(a.value) : toFloat(a);
  fromHalf = fromHalf;
  multiply = fmul;
  sum = fadd;
}

/** Elements in a byte. */
export const waysOf = (format: BlockFormatName): number =>
  2 ** (formatTable[format].packedBits?.count ?? 0);

/** Bytes that a work-item of a CPU takes in a turn: whole blocks, or parts of large ones. */
const MAX_TURN = 32;

/** Bytes that a work-item decodes in a turn. */
export function turnOf(format: BlockFormatName, unit: Unit): number {
  if (unit.width === 1) return unit.run;
  const { elements } = formatTable[format];
  return elements === 1 ? MAX_TURN : Math.min(elements / waysOf(format), MAX_TURN);
}

/** A vector of elements, or one of the neighbours that a work-item reads together. */
export interface PackedPlace {
  /** The first of the neighbours. */
  readonly element: E;
  /** The lanes, or which neighbour it is. */
  readonly lane: E;
}

/**
 * The elements that a work-item decodes in a turn: those of its bytes, counted without those of scales.
 *
 * @param byte Where its bytes begin.
 */
export function placesOf(format: BlockFormatName, unit: Unit, byte: E): PackedPlace[] {
  const { width } = unit, vectors = turnOf(format, unit) / width;
  const places = (way: number): PackedPlace[] =>
    Array.from(
      { length: vectors },
      (_, k) =>
        width > 1
          ? { element: elementOf(format, add(byte, k * width), way), lane: lanes(width) }
          : { element: elementOf(format, byte, way), lane: int(k) },
    );
  return Array.from({ length: waysOf(format) }, (_, way) => places(way)).flat();
}

/** The element `way` of a byte. */
function elementOf(format: BlockFormatName, byte: E, way: number): E {
  const { bit, count } = formatTable[format].packedBits ?? { bit: 0, count: 0 };
  const low = lowBits(byte, bit), high = div(byte, 2 ** bit);
  return add(mul(high, 2 ** (bit + count)), way * 2 ** bit, low);
}
