/** The programs of products with packed weights, in the order in which they are asked: the first that fits. */
import { FEW_ROWS } from "../../../kernel/forms/packed_product.ts";
import { withExpressions } from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import type { Unit } from "../../units.ts";
import { panelGemm, panelMapping } from "./gemm_int16.ts";
import { type Gemv, gemv, gemvGroups, gemvMapping } from "./gemv.ts";
import { integerGemv, integerMapping } from "./gemv_int16.ts";

/** A program with its mapping. */
export interface PackedProgram {
  readonly groups: number;
  /** Facts that its text depends on, beside numbers that are handed over. */
  readonly key: string;
  /** @param nameOf The name of an argument that hands over a number. */
  write(nameOf: (value: number) => string): TileKernel;
}

/** Units of a device, by what is multiplied. */
export interface PackedUnits {
  readonly cores: number;
  /** Those of whole numbers, for a few rows and for many; null where floats are multiplied. */
  readonly integers: { readonly few: Unit; readonly many: Unit } | null;
  /** That of floats, and the columns whose sums a work-item keeps. */
  readonly floats: Unit;
  readonly columns?: number;
}

/** The program of a product; null where there is none. */
export function packedProgram(
  product: Gemv,
  { cores, integers, floats, columns }: PackedUnits,
): PackedProgram | null {
  const program = integers && integerProgram(product, integers, cores);
  if (program) return program;
  const mapping = gemvMapping(product, floats, columns);
  if (mapping === null) return null;
  const isWhole = product.columns % (floats.down * mapping.columns) === 0;
  return programOf(
    product,
    floats,
    [product.rows, mapping.turn, mapping.columns, isWhole],
    gemvGroups(product, floats, mapping),
    (nameOf) => gemv(product, floats, mapping, nameOf),
  );
}

function integerProgram(
  product: Gemv,
  units: NonNullable<PackedUnits["integers"]>,
  cores: number,
): PackedProgram | null {
  const few = integerMapping(product, units.few, cores), { rows, columns } = product;
  if (few) {
    const key = [rows, few.room, columns % few.turns === 0];
    return programOf(
      product,
      units.few,
      key,
      few.groups,
      (nameOf) => integerGemv(product, units.few, few, nameOf),
    );
  }
  const many = rows > FEW_ROWS ? panelMapping(product, units.many, cores) : null;
  return many &&
    programOf(
      product,
      units.many,
      ["panels", many.vectors],
      many.groups,
      (nameOf) => panelGemm(product, units.many, many, nameOf),
    );
}

function programOf(
  { format, terms, x, w }: Gemv,
  unit: Unit,
  key: readonly unknown[],
  groups: number,
  write: PackedProgram["write"],
): PackedProgram {
  const facts = [format, terms, x.element, x.offset, w.offset, x.rows.length, x.terms.length];
  return {
    groups,
    key: [...facts, ...key, unit.name, unit.unroll].join(),
    write: (nameOf) => withExpressions(() => write(nameOf)),
  };
}
