/**
 * Four neighbours of a packed operand at once: the rows of the formats over words of four bytes, so that bits are
 * masked and shifted for all of them together, and each becomes a float by one more step.
 */
import type { BlockReader } from "../../../formats/block_format.ts";
import { type BlockFormatName, formatTable } from "../../../formats/block_formats.ts";
import { add, type E, firstLane, int, lanes, type Place } from "../../language/expression.ts";
import { fadd, float, unpacked, words } from "../../language/values.ts";
import { PackedElement } from "./packed_operand.ts";

/** Elements of a quad. */
export const QUAD = 4;

/** The same byte in all four of a word. */
const inEach = (byte: number): number => byte * 0x01010101;

/** Four bytes that are not negative, and what is taken off each; `shift`: bits that are not shifted out yet. */
class Quad {
  readonly word: E;
  readonly shift: E;
  readonly zero: number;

  constructor(word: E, shift: E = int(0), zero = 0) {
    this.word = word;
    this.shift = shift;
    this.zero = zero;
  }
}

/** A row's value is one for all neighbours, or one for each. */
type Value = E | Quad;

/** A format that has no word of four bytes for its quants. */
class NoQuad extends Error {}

/** Reads the bytes of neighbours as words. */
class QuadReader implements BlockReader<Value> {
  readonly at: E;
  readonly #element: PackedElement;

  constructor(element: PackedElement) {
    this.#element = element;
    this.at = element.at;
  }

  #one(value: Value): E {
    if (value instanceof Quad) throw new NoQuad();
    return value;
  }

  byte = (field: string, index: Value): Value => {
    const at = this.#one(index);
    if (at.width === 1) return this.#element.byte(field, at);
    const word = this.#element.wordAt(field, firstLane(at));
    if (word === null) throw new NoQuad();
    return new Quad(word);
  };
  /** Bytes with a sign are 128 more, without one. */
  int8 = (field: string, index: Value): Value => {
    const bytes = this.byte(field, index);
    return bytes instanceof Quad
      ? new Quad(words("flip", [bytes.word], inEach(128)), int(0), 128)
      : this.#element.int8(field, this.#one(index));
  };
  word = (field: string, index: Value): Value => this.#element.word(field, this.#one(index));
  half = (field: string, index: Value): Value => this.#element.half(field, this.#one(index));
  int = int;
  add = (a: Value, b: Value): Value => {
    if (!(a instanceof Quad)) return b instanceof Quad ? this.add(b, a) : add(a, b);
    if (b instanceof Quad) {
      return new Quad(words("join", [a.word, b.word]), int(0), a.zero + b.zero);
    }
    if (b.op !== "const") throw new NoQuad();
    return new Quad(a.word, a.shift, a.zero - b.value);
  };
  and = (a: Value, mask: number): Value =>
    a instanceof Quad
      ? new Quad(words("mask", [a.word, a.shift], inEach(mask)))
      : this.#element.and(a, mask);
  shiftRight = (a: Value, by: Value): Value =>
    a instanceof Quad
      ? new Quad(a.word, add(a.shift, this.#one(by)))
      : this.#element.shiftRight(a, this.#one(by));
  shiftLeft = (a: Value, by: number): Value =>
    a instanceof Quad ? new Quad(words("left", [a.word], by)) : this.#element.shiftLeft(a, by);
  bit = (a: Value, index: Value): Value => {
    const at = this.#one(index);
    if (a instanceof Quad) return new Quad(words("mask", [a.word, at], inEach(1)));
    return at.width > 1
      ? new Quad(words("spread", [words("mask", [a, firstLane(at)], 15)]))
      : this.#element.bit(a, at);
  };
  below = (a: Value, limit: number, below: Value, above: Value): Value =>
    this.#element.below(this.#one(a), limit, this.#one(below), this.#one(above));
  float = (a: Value): Value => a instanceof Quad ? a : this.#element.float(a);
  fromHalf = (bits: Value): Value => this.#element.fromHalf(this.#one(bits));
  multiply = (a: Value, b: Value): Value => this.#element.multiply(this.#one(a), this.#one(b));
  sum = (a: Value, b: Value): Value => this.#element.sum(this.#one(a), this.#one(b));
}

/**
 * The quants of four neighbours from an element on; null where the format's are made one by one.
 *
 * @param first Which element of all: a multiple of 4.
 */
export function quadOf(
  format: BlockFormatName,
  place: Place,
  blocks: E,
  first: E,
): readonly E[] | null {
  const element = new PackedElement(format, place, blocks, add(first, lanes(QUAD)));
  try {
    const quad = formatTable[format].quant(new QuadReader(element));
    if (!(quad instanceof Quad) || quad.shift.op !== "const" || quad.shift.value !== 0) return null;
    return Array.from({ length: QUAD }, (_, k) => {
      const quant = unpacked(quad.word, k, "uint8");
      return quad.zero === 0 ? quant : fadd(quant, float(-quad.zero));
    });
  } catch (error) {
    if (error instanceof NoQuad) return null;
    throw error;
  }
}
