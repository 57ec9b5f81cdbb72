import { assertEquals } from "@std/assert";
import { withExpressions } from "../../../../../backend/tile/language/expression.ts";
import type { Statement } from "../../../../../backend/tile/language/statements.ts";
import { gemv, gemvMapping } from "../../../../../backend/tile/programs/gemv.ts";
import { vectorUnit } from "../../../../../backend/tile/units.ts";
import { indexOf, loadGroups } from "../../../../../backend/cpu/wasm/tile/load_groups.ts";

/** Statements of the innermost loop of a product with blocks of a format. */
function innermost(format: "Q4_1" | "Q8_0"): readonly Statement[] {
  const x = { name: "a0", element: "float32", offset: 0, step: 0 } as const;
  const w = { name: "a1", blocks: 64, offset: 0 };
  const product = { format, rows: 1, columns: 8, terms: 64, x, w } as const;
  const unit = vectorUnit(4), mapping = gemvMapping(product, unit, 8)!;
  const { body } = withExpressions(() => gemv(product, unit, mapping, (n) => `size${n}`));
  const loop = body.find((s) => s.s === "for")!;
  return (loop as Statement & { readonly s: "for" }).body;
}

Deno.test("loadGroups has the sixteen bytes of blocks together, and scales by four", () => {
  withExpressions(() => {
    const groups = new Set(loadGroups(innermost("Q4_1")).values());
    const bytes = [...groups].filter(({ kind }) => kind === "bytes");
    // A block of each of the eight columns, and a scale and an offset of each.
    assertEquals(bytes.length, 8);
    for (const { loads } of bytes) {
      assertEquals(loads.map((load) => indexOf(load)[1] % 16), [0, 4, 8, 12]);
      assertEquals(new Set(loads.map((load) => indexOf(load)[0])).size, 1);
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
