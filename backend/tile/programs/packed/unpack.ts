/** A copy of packed elements as floats, for products that read each of them often. */
import { type BlockFormatName, formatTable } from "../../../formats/block_formats.ts";
import { valueOf } from "../../../formats/block_format.ts";
import { add, int, mul } from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import { lt, truth } from "../../language/values.ts";
import { Program } from "../../program.ts";
import type { Unit } from "../../units.ts";
import { PackedElement, placesOf, turnOf, waysOf } from "./packed_operand.ts";

/** Elements that are copied, with sizes. */
export interface Unpack {
  readonly format: BlockFormatName;
  /** Number of elements. */
  readonly count: number;
  /** The name of the bytes, their blocks, and the first element. */
  readonly w: { readonly name: string; readonly blocks: number; readonly offset: number };
}

/** Turns of a work-item of a CPU: to start a group takes as long as some. */
const CPU_TURNS = 32;

/** True when a unit can copy elements: whole blocks, in whole turns. */
export function canUnpack({ format, count, w }: Unpack, unit: Unit): boolean {
  const { elements } = formatTable[format];
  return count % elements === 0 && w.offset % elements === 0 &&
    count / waysOf(format) % turnOf(format, unit) === 0;
}

/**
 * The kernel of a copy; its results are vectors of neighbours by their first element, or single ones.
 *
 * @param nameOf The name of an argument that hands over a number.
 */
export function unpack(
  { format, count, w }: Unpack,
  unit: Unit,
  nameOf: (value: number) => string,
): TileKernel {
  const p = new Program(unit, nameOf), { elements } = formatTable[format];
  const turn = turnOf(format, unit), turns = unit.width > 1 ? CPU_TURNS : 1;
  const items = unit.across * unit.down, bytes = count / waysOf(format);
  const groups = Math.ceil(bytes / (items * turns * turn));
  const place = p.input(w.name, "uint8"), [blocks, end] = [p.size(w.blocks), p.size(bytes)];
  const offset = w.offset === 0 ? int(0) : p.size(w.offset, elements);
  const item = add(mul(p.group, items), mul(p.down, unit.across), p.across);
  p.loop(int(turns), (at) => {
    const own = mul(add(mul(item, turns), at), turn);
    const isInside = bytes % (items * turns * turn) === 0 ? truth(true) : lt(own, end);
    p.when(isInside, () => {
      for (const { element, lane } of placesOf(format, unit, own)) {
        const packed = new PackedElement(format, place, blocks, add(offset, element, lane));
        p.give(
          [lane.op === "const" ? add(element, lane) : element],
          valueOf(formatTable[format], packed),
        );
      }
    });
  });
  return p.finish(`unpack_${format}`, groups);
}
