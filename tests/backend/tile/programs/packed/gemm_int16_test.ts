/** The program of products of many rows with packed weights in whole numbers, as the interpreter runs it. */
import { assert, assertEquals } from "@std/assert";
import { formatTable } from "../../../../../backend/formats/block_formats.ts";
import { withExpressions } from "../../../../../backend/tile/language/expression.ts";
import type { TileKernel } from "../../../../../backend/tile/language/statements.ts";
import { panelGemm, panelMapping } from "../../../../../backend/tile/programs/packed/gemm_int16.ts";
import type { Gemv } from "../../../../../backend/tile/programs/packed/gemv.ts";
import { itemUnit, type Unit, vectorUnit } from "../../../../../backend/tile/units.ts";
import { errorOf, run, sample } from "./packed_sample.ts";

const formats = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"] as const;

/** Largest error in parts of the sum of absolute values: a block's largest element has 15 bits. */
const ROUNDED = 2 ** -16;

function kernelOf(product: Gemv, unit: Unit, cores = 1): TileKernel {
  let count = 0;
  const mapping = panelMapping(product, unit, cores);
  assert(mapping !== null, `${unit.name} reads ${product.terms} terms of ${product.format}`);
  return withExpressions(() => panelGemm(product, unit, mapping, () => `p${count++}`));
}

Deno.test("panelGemm gives each result once, of all formats, for every width, with rows and columns that no tile divides", () => {
  for (const unit of [vectorUnit(4), vectorUnit(8), vectorUnit(16)]) {
    for (const format of formats) {
      const terms = formatTable[format].elements === 32 ? 96 : 256;
      const given = sample(format, 19, 6, terms), what = `${format}, ${unit.name}`;
      const report = run(kernelOf(given.product, unit, 2), given);
      assertEquals([...report.faults], [], what);
      const error = errorOf(report, given);
      assert(error < ROUNDED, `${what}: off by ${error}`);
    }
  }
});

Deno.test("panelGemm goes through rows and columns in several groups", () => {
  // Rows of so many terms are divided among groups.
  const given = sample("Q4_0", 17, 3, 8192), { product } = given;
  const { groups, across, tileRows } = panelMapping(product, vectorUnit(4), 2)!;
  assertEquals([groups, across, tileRows], [2, 1, 16]);
  const report = run(kernelOf(product, vectorUnit(4), 2), given);
  assertEquals([...report.faults], []);
  assert(errorOf(report, given) < ROUNDED);
  const wide = panelMapping({ ...product, columns: 576, terms: 576 }, vectorUnit(8), 2)!;
  assertEquals([wide.across, wide.groups], [2, 2]);
});

Deno.test("panelGemm reads x whose rows or terms lie apart", () => {
  const given = sample("Q4_1", 12, 5, 128), { product, x } = given;
  // Heads of 64 terms, as attention gives them: (heads, rows, terms), of two texts.
  const moved = new Float32Array(x.length);
  for (let row = 0; row < 12; row++) {
    for (let k = 0; k < 128; k++) {
      const [text, own] = [Math.floor(row / 6), row % 6];
      const to = text * 768 + (k >> 6) * 384 + own * 64 + k % 64;
      moved[3 + to] = x[3 + row * 128 + k]!;
    }
  }
  const factor = {
    ...product.x,
    rows: [{ size: 2, step: 768 }, { size: 6, step: 64 }],
    terms: [{ size: 2, step: 384 }, { size: 64, step: 1 }],
  };
  const kernel = kernelOf({ ...product, x: factor }, vectorUnit(4));
  const report = run(kernel, { ...given, x: moved });
  assertEquals([...report.faults], []);
  assert(errorOf(report, given) < ROUNDED);
});

Deno.test("panelMapping refuses other formats, units of single numbers, and blocks that are cut", () => {
  const { product } = sample("Q4_0", 16, 4, 64);
  const refuses = (changed: Partial<Gemv>, unit: Unit = vectorUnit(8)): boolean =>
    panelMapping({ ...product, ...changed }, unit, 2) === null;
  assertEquals(refuses({}), false);
  assertEquals(refuses({ format: "Q2_K", terms: 256 }), true);
  assertEquals(refuses({ w: { ...product.w, offset: 16 } }), true, "begins inside a block");
  assertEquals(refuses({ terms: 32768 }), true, "rows that caches do not hold");
  assertEquals(refuses({}, itemUnit("shuffle")), true, "a GPU");
  const halves = { ...product.x, terms: [{ size: 4, step: 160 }, { size: 16, step: 1 }] };
  assertEquals(refuses({ x: halves }), true, "a block lies apart");
});
