import { assertEquals } from "@std/assert";
import { withExpressions } from "../../../../../backend/tile/language/expression.ts";
import type { Statement } from "../../../../../backend/tile/language/statements.ts";
import { type Gemv, gemv, gemvMapping } from "../../../../../backend/tile/programs/packed/gemv.ts";
import {
  integerGemv,
  integerMapping,
} from "../../../../../backend/tile/programs/packed/gemv_int16.ts";
import { vectorUnit } from "../../../../../backend/tile/units.ts";
import { loadGroups, partsOf } from "../../../../../backend/cpu/wasm/tile/load_groups.ts";

/** Statements of the innermost loop of a product with blocks of a format. */
function innermost(format: "Q4_1" | "Q8_0", of = floats): readonly Statement[] {
  const terms = of === floats ? 64 : 128, axes = [{ size: terms, step: 1 }];
  const x = { name: "a0", element: "float32", offset: 0, rows: [], terms: axes } as const;
  const w = { name: "a1", blocks: 64, offset: 0 };
  const { body } = withExpressions(() => of({ format, rows: 1, columns: 8, terms, x, w }));
  return lastLoop(body)!;
}

const unit = vectorUnit(4), nameOf = (n: number): string => `size${n}`;
const floats = (product: Gemv) => gemv(product, unit, gemvMapping(product, unit, 8)!, nameOf);
const integers = (product: Gemv) =>
  integerGemv(product, unit, integerMapping(product, unit, 1)!, nameOf);

/** The last loop that has no loop in it. */
function lastLoop(body: readonly Statement[]): readonly Statement[] | undefined {
  const loop = body.findLast((s) => s.s === "for");
  return loop && (lastLoop(loop.body) ?? loop.body);
}

Deno.test("loadGroups has the sixteen bytes of blocks together, and scales by four", () => {
  withExpressions(() => {
    const groups = new Set(loadGroups(innermost("Q4_1")).values());
    const bytes = [...groups].filter(({ kind }) => kind === "bytes");
    // A block of each of the eight columns, and a scale and an offset of each.
    assertEquals(bytes.length, 8);
    for (const { loads } of bytes) {
      assertEquals(loads.map((load) => partsOf(load.args[0]!)[1] % 16), [0, 4, 8, 12]);
      assertEquals(new Set(loads.map((load) => partsOf(load.args[0]!)[0])).size, 1);
    }
    assertEquals([...groups].filter(({ kind }) => kind === "halves").length, 4);
  });
});

Deno.test("loadGroups divides the 32 bytes of a block of Q8_0 in two", () => {
  withExpressions(() => {
    const groups = [...new Set(loadGroups(innermost("Q8_0")).values())];
    assertEquals(groups.filter(({ kind }) => kind === "bytes").length, 16);
    assertEquals(groups.filter(({ kind }) => kind === "halves").length, 2);
  });
});

Deno.test("loadGroups has the sixteen bytes of a block together where they become numbers of 16 bits", () => {
  withExpressions(() => {
    for (const [format, pairs] of [["Q4_1", 4], ["Q8_0", 8]] as const) {
      const body = innermost(format, integers);
      const groups = [...new Set(loadGroups(body).values())].filter(({ kind }) =>
        kind === "shorts"
      );
      assertEquals(groups.length, pairs, format);
      for (const { loads } of groups) {
        const places = loads.map((load) => partsOf(load.args[1]!));
        assertEquals(new Set(places.map(([base]) => base)).size, 1);
        assertEquals(places.map(([, at]) => at % 16), [0, 8]);
      }
    }
  });
});
