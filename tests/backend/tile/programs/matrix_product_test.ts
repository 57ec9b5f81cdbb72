/** Products of matrices, their panels and what follows them, as the interpreter runs them. */
import { assert, assertEquals } from "@std/assert";
import { type LineForm, lineValues } from "../../../../backend/tile/programs/panels/line_values.ts";
import {
  type MatrixForm,
  matrixProduct,
  packedPanels,
  TILE_COLUMNS,
} from "../../../../backend/tile/programs/panels/matrix_product.ts";
import type { TileKernel } from "../../../../backend/tile/language/statements.ts";
import { changed } from "../changed.ts";
import { interpret } from "../interpreter.ts";

type Numbers = Readonly<Record<string, number>>;

/** Runs a program on some buffers, tables in a buffer of their own behind those that are read. */
function run(
  program: TileKernel,
  groups: number,
  inputs: readonly Float32Array<ArrayBuffer>[],
  result: Float32Array<ArrayBuffer>,
  tables: Readonly<Record<string, readonly number[]>>,
  numbers: Numbers,
) {
  const words = Int32Array.from(Object.values(tables).flat()), begins: Record<string, number> = {};
  let begin = 0;
  for (const [name, { length }] of Object.entries(tables)) {
    begins[name] = begin;
    begin += length;
  }
  const buffers = Object.fromEntries([...inputs, words].map((all, k) => [`a${k}`, all.buffer]));
  const sizes = program.sizes.map(({ name }) => ({ name, value: numbers[name] ?? begins[name]! }));
  const { faults } = interpret({ ...program, sizes, groups }, { ...buffers, o0: result.buffer });
  return [...faults.keys()];
}

const upTo = (count: number, step = 1): number[] =>
  Array.from({ length: count }, (_, k) => k * step);
/** Small whole numbers: all sums are exact. */
const whole = (count: number, seed: number): Float32Array<ArrayBuffer> =>
  Float32Array.from({ length: count }, (_, k) => (k + seed) * 7919 % 7 - 3);

interface Sizes {
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/** Steps of the result's rows and columns, and the other facts of a form. */
interface Layout extends Partial<MatrixForm> {
  readonly row: number;
  readonly column: number;
  readonly panelTerms?: number;
  readonly isPacked?: boolean;
}

/** The faults of a product of row-major matrices, and how many of its results are wrong. */
function multiply({ m, n, k }: Sizes, layout: Layout, change = (kernel: TileKernel) => kernel) {
  const { row, column, panelTerms = 8, isPacked = false, ...given } = layout;
  const form: MatrixForm = {
    ...{ isInFours: true, contiguousAxis: "columns", hasTermTable: false, isLong: false },
    ...{ rows: Math.min(m, 6), ...given },
  };
  const a = whole(m * k, 1), b = whole(k * n, 2), result = new Float32Array(m * n);
  const panels = Math.ceil(n / TILE_COLUMNS), faults: string[] = [];
  let right = b;
  if (isPacked) {
    right = new Float32Array(panels * TILE_COLUMNS * k);
    const tables = { columns: upTo(n), terms: upTo(k, n), batch: [0] };
    faults.push(...run(packedPanels(false), panels, [b], right, tables, { n, k, panels }));
  }
  const size = isPacked ? TILE_COLUMNS * k : TILE_COLUMNS;
  const tables = {
    aRows: upTo(Math.ceil(m / 6) * 6).map((r) => k * Math.min(r, m - 1)),
    ...{ aTerms: upTo(k), bPanels: upTo(panels, size), bTerms: upTo(k, n) },
    ...{ cRows: upTo(m, row), cColumns: upTo(n, column), aBatch: [0], bBatch: [0], cBatch: [0] },
  };
  const [blockRows, blockPanels] = [6, 2];
  const [rowBlocks, panelBlocks] = [Math.ceil(m / blockRows), Math.ceil(panels / blockPanels)];
  const numbers = {
    ...{ m, n, k, blockRows, blockPanels, rowBlocks, panelBlocks, panelTerms },
    bStep: isPacked ? TILE_COLUMNS : n,
  };
  const program = change(matrixProduct(form));
  faults.push(...run(program, rowBlocks * panelBlocks, [a, right], result, tables, numbers));
  let wrong = 0;
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let l = 0; l < k; l++) sum += a[i * k + l]! * b[l * n + j]!;
      if (result[i * row + j * column] !== sum) wrong++;
    }
  }
  return { faults: faults.filter((fault) => fault !== "result given twice"), wrong };
}

const right = { faults: [], wrong: 0 };

Deno.test("matrixProduct has the sums of all tiles, whole ones and others, wherever results lie", () => {
  const cases: readonly (readonly [Sizes, Layout])[] = [
    [{ m: 12, n: 16, k: 8 }, { row: 16, column: 1 }],
    [{ m: 13, n: 24, k: 19 }, { row: 24, column: 1, hasTermTable: true }],
    [{ m: 8, n: 21, k: 11 }, { row: 21, column: 1, isPacked: true }],
    [{ m: 2, n: 16, k: 20 }, { row: 16, column: 1 }],
    [{ m: 14, n: 16, k: 17 }, { row: 1, column: 14, contiguousAxis: "rows" }],
    [{ m: 4, n: 8, k: 9 }, { row: 1, column: 4, contiguousAxis: "rows" }],
    [{ m: 3, n: 16, k: 9 }, { row: 1, column: 3, contiguousAxis: "rows" }],
    [{ m: 7, n: 16, k: 17 }, { row: 1, column: 7, contiguousAxis: "nothing", isInFours: false }],
  ];
  for (const [sizes, layout] of cases) {
    assertEquals(multiply(sizes, layout), right, JSON.stringify([sizes, layout]));
  }
});

Deno.test("matrixProduct: the interpreter sees a panel that is not filled, and rows in fours that are not", () => {
  const sizes = { m: 6, n: 8, k: 8 }, layout = { row: 8, column: 1 };
  const unfilled = multiply(
    sizes,
    layout,
    (kernel) => changed(kernel, (s) => s.s === "fill" ? null : s),
  );
  assert(
    unfilled.faults.some((fault) => fault.startsWith("read before write")),
    `${unfilled.faults}`,
  );
  const shifted = multiply(
    sizes,
    layout,
    (kernel) => changed(kernel, (s) => s.s === "fill" ? { ...s, rows: s.rows.toReversed() } : s),
  );
  assert(shifted.wrong > 0);
});

Deno.test("lineValues goes over lines of results, with loads along them and one a line", () => {
  const form: LineForm = {
    exprs: [
      { op: "contracted", dtype: "float32" },
      { op: "load", load: 0, dtype: "float32" },
      { op: "load", load: 1, dtype: "float32" },
      { op: "constant", value: 0, dtype: "float32" },
      { op: "primitive", fn: "add", args: [0, 1], dtype: "float32" },
      { op: "primitive", fn: "mul", args: [4, 2], dtype: "float32" },
      { op: "primitive", fn: "maximum", args: [5, 3], dtype: "float32" },
    ],
    ...{ areAlong: [true, false], acrossIsInner: true },
  };
  const [across, along] = [5, 11], size = across * along;
  const sums = whole(size, 3), beside = whole(along, 4), each = whole(across, 5);
  const result = sums.slice();
  const tables = {
    ...{ resultBatch: [0], resultLines: upTo(across, along), load0Batch: [0] },
    ...{ load0Lines: upTo(across, 0), load1Batch: [0], load1Lines: upTo(across) },
  };
  const numbers = {
    ...{ across, acrossBlock: 2, acrossBlocks: 3, along, alongBlock: 6, alongBlocks: 2 },
    constant0: -1,
  };
  const faults = run(lineValues(form), 6, [beside, each], result, tables, numbers);
  assertEquals(faults, []);
  const wanted = sums.map((sum, k) =>
    Math.max((sum + beside[k % along]!) * each[Math.floor(k / along)]!, -1)
  );
  // A product may be -0.
  assertEquals([...result].map((value) => value + 0), [...wanted].map((value) => value + 0));
});
