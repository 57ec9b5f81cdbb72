/** The program of products with packed weights, for every unit, as the interpreter runs it. */
import { assert, assertEquals } from "@std/assert";
import { type BlockFormatName, formatTable } from "../../../../../backend/formats/block_formats.ts";
import { withExpressions } from "../../../../../backend/tile/language/expression.ts";
import { type Gemv, gemv, gemvMapping } from "../../../../../backend/tile/programs/packed/gemv.ts";
import type { TileKernel } from "../../../../../backend/tile/language/statements.ts";
import { itemUnit, packedUnit, type Unit, vectorUnit } from "../../../../../backend/tile/units.ts";
import { changed, countOf, without } from "../../changed.ts";
import { interpret } from "../../interpreter.ts";
import { errorOf, run, sample } from "./packed_sample.ts";

const units: readonly Unit[] = [
  vectorUnit(4),
  vectorUnit(16),
  itemUnit("shuffle"),
  itemUnit("local"),
  packedUnit("shuffle", 32, 16),
  packedUnit("local", 16, 8),
  packedUnit("shuffle", 128, 4),
];
const names = Object.keys(formatTable) as BlockFormatName[];

function kernelOf(product: Gemv, unit: Unit): TileKernel {
  let count = 0;
  const mapping = gemvMapping(product, unit);
  assert(mapping !== null, `${unit.name} reads ${product.terms} terms of ${product.format}`);
  return withExpressions(() => gemv(product, unit, mapping, () => `p${count++}`));
}

Deno.test("gemv gives each result once, of all formats, on every unit, with sizes that no tile divides", () => {
  for (const unit of units) {
    for (const format of names) {
      for (const [rows, columns, terms] of [[1, 5, 256], [3, 4, 512]] as const) {
        // One format of each kind of bits on larger products.
        if (rows > 1 && !["Q6_K", "Q5_1", "int8"].includes(format)) continue;
        const given = sample(format, rows, columns, terms),
          what = `${format}, ${unit.name}, ${rows} rows`;
        const report = run(kernelOf(given.product, unit), given);
        assertEquals([...report.faults], [], what);
        const error = errorOf(report, given);
        assert(error < 1e-6, `${what}: off by ${error}`);
      }
    }
  }
});

Deno.test("gemv reads no more than its rows where a turn ends behind them", () => {
  for (const unit of [itemUnit("shuffle"), itemUnit("local")]) {
    const given = sample("Q4_0", 1, 3, 96), report = run(kernelOf(given.product, unit), given);
    assertEquals([...report.faults], []);
    assert(errorOf(report, given) < 1e-6);
  }
});

Deno.test("gemv reads x of half types in words, and takes four quants out of a word", () => {
  for (const format of ["Q4_K", "Q5_0", "Q8_0"] as const) {
    const { product, x, bytes } = sample(format, 2, 5, 512);
    const halves = Float16Array.from({ length: 8 + x.length }, (_, k) => k < 8 ? NaN : x[k - 5]!);
    const own = { ...product.x, element: "float16", offset: 8 } as const;
    const kernel = kernelOf({ ...product, x: own }, packedUnit("shuffle", 32, 16));
    const text = JSON.stringify(kernel, (key, value) => key === "next" ? undefined : value);
    assert(text.includes('"op":"words"') && text.includes('"name":"float16"'), format);
    const report = interpret(kernel, { x: halves.buffer, w: bytes.buffer });
    const rounded = { product, bytes, x: Float32Array.from(halves.subarray(5)) };
    assertEquals([...report.faults], []);
    assert(errorOf(report, rounded) < 1e-6, format);
  }
});

Deno.test("Gemv: a unit says where it cannot read the rows of a product", () => {
  const { product } = sample("Q4_0", 1, 4, 64);
  const refuses = (changed: Partial<Gemv>): boolean =>
    gemvMapping({ ...product, ...changed }, vectorUnit(16)) === null;
  assertEquals(refuses({}), false);
  assertEquals(refuses({ terms: 48 }), true, "half a block");
  assertEquals(refuses({ rows: 9 }), true, "more sums than registers");
  assertEquals(refuses({ w: { ...product.w, offset: 16 } }), true, "begins inside a block");
});

Deno.test("Gemv: the interpreter sees each barrier that is taken out", () => {
  const given = sample("Q4_1", 1, 5, 128), kernel = kernelOf(given.product, itemUnit("local"));
  const count = countOf(kernel, "barrier");
  assertEquals(count, 5, "one for each halving of 32");
  for (let n = 0; n < count; n++) {
    const { faults } = run(without(kernel, "barrier", n), given);
    const seen = [...faults.keys()].some((fault) => fault.startsWith("no barrier between"));
    assert(seen, `without barrier ${n}: ${[...faults.keys()]}`);
  }
});

Deno.test("Gemv: the interpreter sees exchanged lanes, results of all items, and items that miss a shuffle", () => {
  const given = sample("Q8_0", 1, 4, 128), kernel = kernelOf(given.product, itemUnit("shuffle"));
  const twice = changed(kernel, (s) => s.s === "shuffle" && s.mask === 8 ? { ...s, mask: 4 } : s);
  assert(errorOf(run(twice, given), given) > 1e-3, "one half is added twice");
  const body = kernel.body.flatMap((s) => s.s === "if" ? s.body : [s]);
  assert(run({ ...kernel, body }, given).faults.has("result given twice"));
  const first = kernel.body.findLast(({ s }) => s === "if");
  assert(first?.s === "if");
  const missed = changed(
    kernel,
    (s) => s.s === "shuffle" ? { s: "if", condition: first.condition, body: [s] } : s,
  );
  assert(run(missed, given).faults.has("shuffle not reached by all"));
});
