/** Layouts of matrix units, beside what their vendors say: products have no other witness without the device. */
import { assertEquals } from "@std/assert";
import { type E, int } from "../../../backend/tile/language/expression.ts";
import type { MatrixUnitName } from "../../../backend/tile/language/statements.ts";
import {
  type MatrixUnit,
  matrixUnits,
  type OperandLayout,
} from "../../../backend/tile/matrix_units.ts";

type Place = readonly [row: number, column: number];
type Lanes = readonly (readonly Place[])[];

/** Made by AMD's calculator: the left operand, the right one, the sums. */
const amd: Readonly<Record<string, Readonly<Record<"A" | "B" | "D", Lanes>>>> = JSON.parse(
  await Deno.readTextFile(new URL("../../fixtures/matrix_units/amd.json", import.meta.url)),
);

const placeOf = ([row, column]: readonly [E, E]): Place => [row.value, column.value];

/** Row or column, and term of each element of a work-item's words. */
const elementsOf = ({ words, elements, at }: OperandLayout, lane: number): Place[] =>
  Array.from({ length: words * elements }, (_, n) => {
    const [row, term] = placeOf(at(int(lane), Math.floor(n / elements)));
    return [row, term + n % elements];
  });

const sumsOf = ({ sums, sum }: MatrixUnit, lane: number): Place[] =>
  Array.from({ length: sums }, (_, register) => placeOf(sum(int(lane), register)));

/** The term that a unit has for each term of an instruction, of which a work-item's elements from `first` on are. */
function termsOf(unit: MatrixUnit, layout: OperandLayout, vendor: Lanes, first: number): number[] {
  const terms: number[] = [];
  vendor.forEach((places, lane) =>
    places.forEach(([row, term], n) => {
      const [own, ownTerm] = elementsOf(layout, lane)[first + n]!;
      assertEquals(own, row, `lane ${lane}, element ${n}`);
      assertEquals(terms[term] ?? ownTerm, ownTerm, `lane ${lane}, element ${n}`);
      terms[term] = ownTerm;
    })
  );
  assertEquals(vendor.length, unit.lanes);
  return terms;
}

Deno.test("matrixUnits: AMD's lie as AMD's calculator says, but for the order of terms, which both operands share", () => {
  for (const [device, { A, B, D }] of Object.entries(amd)) {
    const unit = matrixUnits[`${device}_f16` as MatrixUnitName], each = A[0]!.length;
    const columnsFirst = B.map((lane) => lane.map(([k, column]): Place => [column, k]));
    const all = Array.from({ length: unit.terms / 16 }, (_, n) => {
      const terms = termsOf(unit, unit.left, A, n * each);
      assertEquals(termsOf(unit, unit.right, columnsFirst, n * each), terms, device);
      return terms;
    });
    const sorted = all.flat().toSorted((a, b) => a - b);
    assertEquals(sorted, Array.from({ length: unit.terms }, (_, k) => k), device);
    D.forEach((places, lane) => assertEquals(sumsOf(unit, lane), places, `${device} ${lane}`));
  }
});

Deno.test("matrixUnits: Intel's lie as the specification of the extension says", () => {
  for (const lanes of [8, 16] as const) {
    const unit = matrixUnits[`dpas${lanes}_f16`];
    assertEquals([unit.rows, unit.columns, unit.terms], [8, lanes, 16]);
    for (let lane = 0; lane < lanes; lane++) {
      // a.s<row>: a row; of 8 work-items each has two terms of it in an int, of 16 one in a short.
      const own = lanes === 8 ? [2 * lane, 2 * lane + 1] : [lane];
      const a = Array.from({ length: 8 }, (_, row) => own.map((term): Place => [row, term])).flat();
      assertEquals(elementsOf(unit.left, lane), a);
      // b.s<n>: terms 2 n and 2 n + 1 of the work-item's column.
      const b = Array.from({ length: 16 }, (_, term): Place => [lane, term]);
      assertEquals(elementsOf(unit.right, lane), b);
      // acc.s<row>: a row of its column.
      assertEquals(sumsOf(unit, lane), Array.from({ length: 8 }, (_, row): Place => [row, lane]));
    }
  }
});

Deno.test("matrixUnits: words that are read together have neighbouring terms of one row", () => {
  for (const [name, { lanes, left, right, bytes }] of Object.entries(matrixUnits)) {
    for (const layout of [left, right]) {
      assertEquals(layout.elements * bytes <= 4, true, name);
      const count = layout.together * layout.elements;
      for (let lane = 0; lane < lanes; lane++) {
        elementsOf(layout, lane).forEach(([row, term], n, all) => {
          const [firstRow, firstTerm] = all[n - n % count]!;
          assertEquals([row, term], [firstRow, firstTerm + n % count], name);
          assertEquals(firstTerm % count, 0, name);
        });
      }
    }
  }
});
