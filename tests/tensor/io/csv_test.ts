import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import fc from "fast-check";
import { gzipSync } from "node:zlib";
import { loadCsv, parseCsv } from "../../../tensor/io/csv.ts";
import { FileFormatError } from "../../../tensor/io/core/file_format_error.ts";
import { inFolder } from "../../temporary_folder.ts";
import { assertOnlyFormatErrors } from "./arbitraries.ts";

Deno.test("parseCsv reads rows and columns", () => {
  const table = parseCsv("1,2.5,-3\n4,5e2,.5\n");
  assertEquals(table.shape, [2, 3]);
  assertEquals(table.data, Float32Array.of(1, 2.5, -3, 4, 500, 0.5));
  assertEquals(table.dtype, "float32");
  assertEquals(table.columns, ["0", "1", "2"]);
});

Deno.test("parseCsv takes the columns that are asked for, in that order", () => {
  const text = "name,height,weight\nAda,1.5,60\nBob,1.75,72\n";
  const table = parseCsv(text, { header: true, columns: ["weight", "height"] });
  assertEquals(table.data, Float32Array.of(60, 1.5, 72, 1.75));
  assertEquals(table.columns, ["weight", "height"]);
  assertEquals(parseCsv(text, { header: true, columns: [1] }).data, Float32Array.of(1.5, 1.75));
});

Deno.test("parseCsv follows RFC 4180", () => {
  const text = '\ufeff"a ""x""",b\r\n"1", 2 \r\n\r\n"3\n",4';
  const table = parseCsv(text, { header: true });
  assertEquals(table.columns, ['a "x"', "b"]);
  assertEquals(table.data, Float32Array.of(1, 2, 3, 4));
  assertEquals(parseCsv("1;2\r3;4\r", { delimiter: ";" }).shape, [2, 2]);
  assertEquals(parseCsv("1\t2\n", { delimiter: "\t" }).shape, [1, 2]);
  assertEquals(parseCsv("1|2\n", { delimiter: "|" }).shape, [1, 2]);
});

Deno.test("parseCsv reads a table of no rows", () => {
  assertEquals(parseCsv("").shape, [0, 0]);
  assertEquals(parseCsv("a,b\n", { header: true }).shape, [0, 2]);
  assertEquals(parseCsv("\n\n").shape, [0, 0]);
});

Deno.test("parseCsv keeps each dtype's values or says which one does not fit", () => {
  assertEquals(parseCsv("0,255", { dtype: "uint8" }).data, Uint8Array.of(0, 255));
  assertEquals(parseCsv("-5", { dtype: "int32" }).data, Int32Array.of(-5));
  assertEquals(parseCsv("0.1", { dtype: "float64" }).data, Float64Array.of(0.1));
  assertEquals(parseCsv("nan,-Infinity").data.join(), "NaN,-Infinity");
  assertThrows(() => parseCsv("256", { dtype: "uint8" }), FileFormatError, "no uint8");
  assertThrows(() => parseCsv("1.5", { dtype: "int32" }), FileFormatError, "no int32");
  assertThrows(() => parseCsv("nan", { dtype: "int32" }), FileFormatError, "no int32");
});

Deno.test("parseCsv takes an empty field only when told what it stands for", () => {
  assertThrows(() => parseCsv("1,,3"), FileFormatError, '"missing" says');
  assertEquals(parseCsv("1,,3", { missing: -1 }).data, Float32Array.of(1, -1, 3));
  assertEquals(parseCsv("1,\n2,3", { missing: NaN }).data.join(), "1,NaN,2,3");
});

const refused: Record<string, [text: string, says: string]> = {
  "text among numbers": ["a,b\n1,2\n3,x", 'column "b"'],
  "a line in its message": ["1\n\n2\nx", "Line 4"],
  "lines of different length": ["1,2\n3", "Line 2 has 1 fields: expected 2"],
  "a quote that is not closed": ['1,"2\n3', "Line 1 has a quote"],
  "text behind a quote": ['"1"2,3', "Line 1 has text behind"],
};

for (const [what, [text, says]] of Object.entries(refused)) {
  Deno.test(`parseCsv refuses ${what}`, () => {
    const options = { header: text.startsWith("a,b") };
    assertThrows(() => parseCsv(text, options), FileFormatError, says);
  });
}

Deno.test("parseCsv refuses columns and delimiters that cannot be", () => {
  const other = { header: true, columns: ["c"] };
  const says = 'Cannot read column "c": the table has a, b';
  assertThrows(() => parseCsv("a,b\n1,2", other), RangeError, says);
  assertThrows(() => parseCsv("1,2", { columns: [2] }), RangeError, "Cannot read column 2");
  assertThrows(() => parseCsv("1,2", { delimiter: '"' }), RangeError, "one character");
  assertThrows(() => parseCsv("1,2", { delimiter: "" }), RangeError, "one character");
});

Deno.test("parseCsv gives back every table that was written", () => {
  const number = fc.double({ noNaN: true }).map((value) => value + 0);
  const tables = fc.nat({ max: 4 }).chain((width) =>
    fc.array(fc.array(number, { minLength: width + 1, maxLength: width + 1 }), { minLength: 1 })
  );
  fc.assert(
    fc.property(tables, fc.constantFrom("\n", "\r\n", "\r"), fc.boolean(), (rows, end, quoted) => {
      const field = (value: number) => quoted ? `"${value}"` : String(value);
      const text = rows.map((row) => row.map(field).join(",")).join(end);
      const table = parseCsv(text, { dtype: "float64" });
      assertEquals(table.shape, [rows.length, rows[0]!.length]);
      assertEquals([...table.data].map(String), rows.flat().map(String));
    }),
  );
});

Deno.test("parseCsv answers any text with a FileFormatError or a table", async () => {
  const text = fc.string({ unit: fc.constantFrom(...'01.e-, ;"\r\n\ufeffx'), maxLength: 40 });
  const property = fc.asyncProperty(text, fc.boolean(), (text, header) => {
    return assertOnlyFormatErrors(() => parseCsv(text, { header }));
  });
  await fc.assert(property, { numRuns: 1000 });
});

Deno.test("parseCsv takes a quoted field of many megabytes", () => {
  const text = `"${" ".repeat(2 ** 24)}7"`;
  assertEquals(parseCsv(text).data, Float32Array.of(7));
});

Deno.test("loadCsv reads gzipped files, and says which file is at fault", async () => {
  await inFolder(async (folder) => {
    const path = `${folder}/table.csv.gz`;
    await Deno.writeFile(path, gzipSync("1,2\n3,4\n"));
    assertEquals((await loadCsv(path)).data, Float32Array.of(1, 2, 3, 4));
    await Deno.writeFile(path, Uint8Array.of(0xff, 0xfe, 0x31));
    const { message } = await assertRejects(() => loadCsv(path), FileFormatError, "UTF-8");
    assertEquals(message.includes(path), true);
  });
});
