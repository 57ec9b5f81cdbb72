import { planningRules } from "../../../../backend/opencl/runtime/device_target.ts";
import { assert, assertEquals } from "@std/assert";
import type { Target, Tuned } from "../../../../backend/kernel/target.ts";
import { innerProductTiles } from "../../../../backend/opencl/templates/gemm/inner_product_gemm.ts";
import { localMemoryTiles } from "../../../../backend/opencl/templates/gemm/local_memory_gemm.ts";
import { registerTiles } from "../../../../backend/opencl/templates/gemm/register_tiled_gemm.ts";
import {
  type ContractionSize,
  isTile,
  keyOf,
  tileOf,
  tunedParts,
} from "../../../../backend/opencl/templates/parts/tiling.ts";

function target(isGpu: boolean, tuned: Record<string, Tuned> = {}, vectorWidth = 16): Target {
  return {
    vectorWidth,
    matrixUnits: null,
    warps: false,
    warpgroups: false,
    narrowEnd: 2 ** 31,
    isGpu,
    localMemory: 48 * 1024,
    computeUnits: 4,
    tuned: new Map(Object.entries(tuned)),
    ...planningRules(isGpu, 4, 1024),
  };
}

function product(
  { kind }: { readonly kind: string },
  m: number,
  n: number,
  k: number,
): ContractionSize {
  return { kind, batch: 1, m, n, k: [k], steps: [k, 1, n, 1] };
}

const cpu = target(false), gpu = target(true);

Deno.test("a GPU's tiles are small enough that there are groups for every unit", () => {
  const side = (n: number) => tileOf(localMemoryTiles, product(localMemoryTiles, n, n, n), gpu).bm;
  assertEquals([64, 512, 1024, 4096].map(side), [32, 32, 64, 128]);
  assertEquals(
    tileOf(localMemoryTiles, { ...product(localMemoryTiles, 512, 512, 512), batch: 64 }, gpu).bm,
    128,
  );
});

Deno.test("a CPU's tiles take few vectors and divide the columns where they can", () => {
  const columns = (n: number) =>
    tileOf(registerTiles, product(registerTiles, 100, n, 9), cpu).columns;
  assertEquals([5, 28, 33, 48].map(columns), [5, 28, 33, 48]);
  assertEquals([64, 144, 784, 80, 256].map(columns), [32, 48, 16, 16, 32]);
  assertEquals([56, 100, 90, 65].map(columns), [28, 16, 30, 16]);
});

Deno.test("a CPU's tile has sums for its registers, and is never larger than the product", () => {
  assertEquals(tileOf(registerTiles, product(registerTiles, 100, 64, 9), cpu), {
    rows: 8,
    columns: 32,
    packed: false,
  });
  assertEquals(tileOf(registerTiles, product(registerTiles, 3, 5, 9), cpu), {
    rows: 2,
    columns: 5,
    packed: false,
  });
  assertEquals(tileOf(registerTiles, product(registerTiles, 100, 16, 9), cpu).rows, 16);
});

Deno.test("rows left over by one height are computed in another", () => {
  const rows = (m: number) => tileOf(registerTiles, product(registerTiles, m, 64, 9), cpu).rows;
  assertEquals([64, 12, 9, 1].map(rows), [8, 4, 4, 1]);
});

Deno.test("a CPU of shorter vectors has tiles for fewer registers", () => {
  const narrow = target(false, {}, 8);
  const tile = (m: number, n: number) => {
    const { rows, columns } = tileOf(registerTiles, product(registerTiles, m, n, 9), narrow);
    return [rows, columns];
  };
  assertEquals([tile(512, 512), tile(64, 784), tile(32, 64)], [[6, 16], [6, 16], [4, 16]]);
  assertEquals([tile(64, 28), tile(64, 10), tile(64, 8)], [[2, 28], [6, 10], [12, 8]]);
  assertEquals(tileOf(innerProductTiles, product(innerProductTiles, 64, 256, 784), narrow), {
    rows: 2,
    columns: 3,
  });
});

Deno.test("columns on pages of their own are packed where they fit in local memory", () => {
  const packed = (m: number, k: number, n = 512, localMemory = cpu.localMemory) =>
    tileOf(registerTiles, product(registerTiles, m, n, k), { ...cpu, localMemory }).packed;
  assertEquals([packed(64, 128), packed(63, 128), packed(64, 8192)], [true, false, false]);
  // Half of the caches has 512 rows of 384 columns, and not 1,536.
  const many = (k: number, n: number) => packed(128, k, n, 2 ** 21);
  assertEquals([many(1536, 384), many(512, 384), many(4096, 128)], [true, false, false]);
  // Caches keep the results of one image of 112 x 112, and not of eight.
  const image = product(registerTiles, 96, 112 ** 2, 16);
  const ofImages = (batch: number) =>
    tileOf(registerTiles, { ...image, batch }, { ...cpu, localMemory: 2 ** 21 }).packed;
  assertEquals([1, 8].map(ofImages), [true, false]);
});

Deno.test("what was tuned for a shape holds for it alone", () => {
  const shape = product(registerTiles, 64, 64, 64), tile = { rows: 4, columns: 48, packed: false };
  const tuned = target(false, { [keyOf(shape)]: { tile, parts: 3 } });
  assertEquals(tileOf(registerTiles, shape, tuned), tile);
  assertEquals(tunedParts(shape, tuned), 3);
  const others: ContractionSize[] = [
    { ...shape, m: 65 },
    { ...shape, n: 65 },
    { ...shape, k: [8, 8] },
    { ...shape, batch: 2 },
    { ...shape, steps: [64, 1, 128, 1] },
  ];
  for (const other of others) {
    assertEquals(tileOf(registerTiles, other, tuned), tileOf(registerTiles, other, cpu));
    assertEquals(tunedParts(other, tuned), null);
  }
});

Deno.test("a tile that the kernel cannot be written for is ignored", () => {
  const shape = product(registerTiles, 64, 64, 64);
  const wrong = [
    null,
    "8x32",
    {},
    { rows: 8, columns: 32 },
    { rows: 8.5, columns: 32, packed: false },
    { rows: -8, columns: 32, packed: false },
    { rows: 65, columns: 32, packed: false },
    { rows: 8, columns: 65, packed: false },
    { rows: 8, columns: 3, packed: false },
    { rows: 8, columns: 32, packed: "no" },
  ];
  for (const tile of wrong) {
    assert(!isTile(registerTiles, tile, shape, cpu), JSON.stringify(tile));
    const tuned = target(false, { [keyOf(shape)]: { tile, parts: "many" } });
    assertEquals(tileOf(registerTiles, shape, tuned), tileOf(registerTiles, shape, cpu));
    assertEquals(tunedParts(shape, tuned), null);
  }
  assert(
    !isTile(registerTiles, { rows: 8, columns: 32, packed: true }, { ...shape, k: [8, 8] }, cpu),
  );
});

Deno.test("a GPU's tile must be divided evenly, and fit in local memory and in a group", () => {
  const shape = product(localMemoryTiles, 512, 512, 512);
  const tile = { bm: 64, bn: 64, bk: 16, tm: 4, tn: 4 };
  assert(isTile(localMemoryTiles, tile, shape, gpu));
  const wrong = [
    { tm: 3 },
    { bn: 66 },
    { bk: 1 },
    { tm: 2, tn: 2 },
    { tm: 6, bm: 96 },
    { bk: 128 },
    { bm: undefined },
  ];
  for (const change of wrong) {
    assert(!isTile(localMemoryTiles, { ...tile, ...change }, shape, gpu), JSON.stringify(change));
  }
});
