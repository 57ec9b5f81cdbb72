/** The program of products with packed weights in whole numbers, for every width, as the interpreter runs it. */
import { assert, assertEquals } from "@std/assert";
import { type BlockFormatName, formatTable } from "../../../../../backend/formats/block_formats.ts";
import { withExpressions } from "../../../../../backend/tile/language/expression.ts";
import type { TileKernel } from "../../../../../backend/tile/language/statements.ts";
import type { Gemv } from "../../../../../backend/tile/programs/packed/gemv.ts";
import {
  integerGemv,
  integerMapping,
} from "../../../../../backend/tile/programs/packed/gemv_int16.ts";
import { itemUnit, type Unit, vectorUnit } from "../../../../../backend/tile/units.ts";
import { interpret } from "../../interpreter.ts";
import { errorOf, run, sample } from "./packed_sample.ts";

const units = [vectorUnit(4), vectorUnit(8)];
const names = Object.keys(formatTable) as BlockFormatName[];
const others: readonly BlockFormatName[] = ["Q2_K", "Q3_K", "int8", "float8_e4m3", "float8_e5m2"];

/** Largest error in parts of the sum of absolute values: a block's largest element has 15 bits. */
const ROUNDED = 2 ** -16;

function kernelOf(product: Gemv, unit: Unit, cores = 1): TileKernel {
  let count = 0;
  const mapping = integerMapping(product, unit, cores);
  assert(mapping !== null, `${unit.name} reads ${product.terms} terms of ${product.format}`);
  return withExpressions(() => integerGemv(product, unit, mapping, () => `p${count++}`));
}

Deno.test("integerGemv gives each result once, of all its formats, for every width, with columns that no turn divides", () => {
  for (const unit of units) {
    for (const format of names.filter((name) => !others.includes(name))) {
      const sizes = [[1, 13, 256], [3, 4, 512]];
      // Blocks that no vector of scales divides, and fewer than one has.
      if (formatTable[format].elements === 32) sizes.push([2, 3, 576], [1, 2, 96]);
      for (const [rows, columns, terms] of sizes as [number, number, number][]) {
        const given = sample(format, rows, columns, terms);
        const what = `${format}, ${unit.name}, ${rows} rows`;
        const report = run(kernelOf(given.product, unit), given);
        assertEquals([...report.faults], [], what);
        const error = errorOf(report, given);
        assert(error < ROUNDED, `${what}: off by ${error}`);
      }
    }
  }
});

Deno.test("integerGemv gives a row the same bits beside others as alone", () => {
  for (const [format, terms] of [["Q4_1", 576], ["Q8_0", 96], ["Q5_K", 512]] as const) {
    const given = sample(format, 5, 2, terms), { x } = given.product;
    const together = run(kernelOf(given.product, vectorUnit(4)), given).results;
    for (let row = 0; row < 5; row++) {
      const own = { ...x, offset: x.offset + row * terms, rows: [] };
      const alone = { ...given, product: { ...given.product, rows: 1, x: own } };
      const { results } = run(kernelOf(alone.product, vectorUnit(4)), alone);
      const due = [0, 1].map((column) => together.get(`${row},${column}`));
      assertEquals([results.get("0,0"), results.get("0,1")], due, `${format}, row ${row}`);
    }
  }
});

Deno.test("integerGemv is exact where 16 bits hold x, however large its blocks are beside each other", () => {
  const given = sample("Q8_0", 1, 3, 256);
  // Whole numbers up to the largest one, a power of two for each block.
  const scaled = given.x.map((_, k) => {
    const at = k - 3, whole = at % 32 === 0 ? 32767 : Math.imul(at, 40503) % 32768;
    return whole * 2 ** (at >> 5);
  });
  const exact = { ...given, x: scaled };
  const report = run(kernelOf(given.product, vectorUnit(4)), exact);
  assert(errorOf(report, exact) < 1e-7, `off by ${errorOf(report, exact)}`);
});

Deno.test("integerGemv takes zeros for 0, and gives no number where x has none", () => {
  const { product, x, bytes } = sample("Q4_1", 1, 4, 64);
  const results = (value: (k: number) => number): number[] => {
    const all = x.map((_, k) => value(k - 3));
    const { faults, results } = interpret(kernelOf(product, vectorUnit(4)), {
      x: all.buffer,
      w: bytes.buffer,
    });
    assertEquals([...faults], []);
    return [...results.values()];
  };
  assertEquals(results(() => 0), [0, 0, 0, 0]);
  for (const odd of [NaN, Infinity, -Infinity]) {
    assert(results((k) => k === 40 ? odd : 1).every(Number.isNaN), `${odd}`);
  }
});

Deno.test("integerMapping refuses other formats, units of single numbers, and sizes that it has no room for", () => {
  const { product } = sample("Q4_0", 1, 4, 64);
  const refuses = (changed: Partial<Gemv>, unit: Unit = vectorUnit(8)): boolean =>
    integerMapping({ ...product, ...changed }, unit, 2) === null;
  assertEquals(refuses({}), false);
  for (const format of others) assertEquals(refuses({ format, terms: 256 }), true, format);
  assertEquals(refuses({ terms: 48 }), true, "half a block");
  assertEquals(refuses({ rows: 9 }), true, "more sums than registers");
  assertEquals(refuses({ w: { ...product.w, offset: 16 } }), true, "begins inside a block");
  assertEquals(refuses({ terms: 65536 }), true, "rows that caches do not hold");
  assertEquals(refuses({}, itemUnit("shuffle")), true, "a GPU");
});

Deno.test("integerMapping gives every core columns, and a group as many as make up for its rounding", () => {
  const { product } = sample("Q4_0", 1, 4, 64);
  const groups = (columns: number, cores: number): number =>
    integerMapping({ ...product, columns }, vectorUnit(4), cores)!.groups;
  assertEquals(groups(576, 2), 8);
  assertEquals(groups(49152, 2), 192);
  assert(groups(576, 16) >= 16);
});
