/** Neighbours of a packed operand as whole numbers of 16 bits: the rows of the formats over vectors of these. */
import type { BlockReader } from "../../../formats/block_format.ts";
import { type BlockFormatName, formatTable } from "../../../formats/block_formats.ts";
import { add, type E, firstLane, int, type Place } from "../../language/expression.ts";
import { loadShorts, shortBits, shortMask, shortRight, shortSum } from "../../language/values.ts";
import type { PackedElement } from "./packed_operand.ts";

const isShort = ({ kind }: E): boolean => kind === "int16";

/** Reads bytes as vectors of whole numbers; what neighbours have in common stays one number. */
class ShortReader implements BlockReader<E> {
  readonly at: E;
  readonly #element: PackedElement;
  readonly #place: Place;

  constructor(element: PackedElement, place: Place) {
    this.#element = element;
    this.#place = place;
    this.at = element.at;
    this.word = element.word;
    this.half = element.half;
    this.fromHalf = element.fromHalf;
    this.multiply = element.multiply;
    this.sum = element.sum;
    this.below = element.below;
  }

  readonly word: PackedElement["word"];
  readonly half: PackedElement["half"];
  readonly fromHalf: PackedElement["fromHalf"];
  readonly multiply: PackedElement["multiply"];
  readonly sum: PackedElement["sum"];
  readonly below: PackedElement["below"];

  #bytes(field: string, index: E, element: "uint8" | "int8"): E {
    return loadShorts({ ...this.#place, element }, ...this.#element.placeOf(field, index));
  }

  byte = (field: string, index: E): E =>
    index.width > 1 ? this.#bytes(field, index, "uint8") : this.#element.byte(field, index);
  int8 = (field: string, index: E): E =>
    index.width > 1 ? this.#bytes(field, index, "int8") : this.#element.int8(field, index);
  int = int;
  add = (a: E, b: E): E => isShort(a) || isShort(b) ? shortSum([a, b], [1, 1]) : add(a, b);
  and = (a: E, mask: number): E => isShort(a) ? shortMask(a, mask) : this.#element.and(a, mask);
  shiftRight = (a: E, by: E): E => isShort(a) ? shortRight(a, by) : this.#element.shiftRight(a, by);
  shiftLeft = (a: E, by: number): E =>
    isShort(a) ? shortSum([a], [2 ** by]) : this.#element.shiftLeft(a, by);
  bit = (a: E, index: E): E => {
    if (isShort(a)) return shortMask(shortRight(a, index), 1);
    return index.width > 1
      ? shortBits(a, firstLane(index), index.width)
      : this.#element.bit(a, index);
  };
  float = (a: E): E => isShort(a) ? a : this.#element.float(a);
}

/**
 * The quants of neighbours.
 *
 * @param element The first of these, whose index has a lane for each.
 */
export const shortsOf = (format: BlockFormatName, place: Place, element: PackedElement): E =>
  formatTable[format].quant(new ShortReader(element, place));
