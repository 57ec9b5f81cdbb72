/** Sorting and running results of rows of every length, on CPU devices and as GPUs compute them. */
import { assert, assertEquals } from "@std/assert";
import { backendOf } from "../../../backend/internal.ts";
import { type DType, manager, memory, profiler, Tensor } from "../../../mod.ts";
import { withDeviceType } from "../../backend/opencl/fixture.ts";
import { testOnBackends, testOpenCL } from "../../opencl.ts";

/** Numbers with many equal ones, zeros of both signs, infinities and NaN. */
function numbers(size: number): Float32Array<ArrayBuffer> {
  const special = [NaN, Infinity, -Infinity, 0, -0];
  const value = (k: number) => special[(k * 31) % 97] ?? ((k * 7919) % 1013) / 8 - 60;
  return Float32Array.from({ length: size }, (_, k) => value(k));
}

/** The order that PyTorch promises: stable, NaN the largest. */
function ordered(row: readonly number[], descending: boolean): number[] {
  const compare = (a: number, b: number): number =>
    Number.isNaN(a) || Number.isNaN(b)
      ? Number(Number.isNaN(a)) - Number(Number.isNaN(b))
      : a - b || 0;
  const sign = descending ? -1 : 1;
  const at = (k: number): number => row[k]!;
  // Infinity - Infinity is NaN, which means equal.
  return [...row.keys()].sort((i, j) =>
    (at(i) === at(j) ? 0 : sign * compare(at(i), at(j))) || i - j
  );
}

async function sortsRows(dtype: DType, rows: number, length: number): Promise<void> {
  const x = Tensor.fromHost(numbers(rows * length), { shape: [rows, length] });
  const whole = dtype === "float32" || dtype === "float16" || dtype === "bfloat16";
  const cast = whole
    ? x.cast(dtype)
    : x.eq(x).logicalAnd(x.abs().lt(60)).where(x.abs(), 7).cast(dtype);
  const values = await cast.toFloat32();
  for (const descending of [false, true]) {
    const found = await cast.argsort(1, { descending }).toArray() as (number | bigint)[][];
    for (let row = 0; row < rows; row++) {
      const expected = ordered([...values.subarray(row * length, (row + 1) * length)], descending);
      assertEquals(found[row]!.map(Number), expected, `${dtype} ${rows}x${length} ${descending}`);
    }
  }
}

async function sorts(): Promise<void> {
  for (const [rows, length] of [[3, 1], [2, 16], [5, 17], [1, 100], [2, 2049], [1, 5000]]) {
    await sortsRows("float32", rows!, length!);
  }
  for (const dtype of ["float16", "bfloat16", "int32", "int64", "uint8"] as const) {
    await sortsRows(dtype, 2, 333);
  }
}

testOnBackends("argsort is stable, and NaN the largest, at every length and type", sorts);

/** `isBuilt`: kernels are compiled for each number and type, so there are few. */
async function selects(isBuilt: boolean): Promise<void> {
  const types = isBuilt
    ? ["float32", "int64"] as const
    : ["float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool"] as const;
  const sizes = isBuilt ? [[5, 333]] as const : [[3, 1], [2, 16], [5, 333], [1, 5000]] as const;
  for (const [rows, length] of sizes) {
    const x = Tensor.fromHost(numbers(rows * length), { shape: [rows, length] });
    const whole = x.eq(x).logicalAnd(x.abs().lt(60)).where(x.abs(), 7);
    for (const dtype of types) {
      const cast = (dtype.includes("float") ? x : whole).cast(dtype);
      for (const k of [8, 128, 129].filter((k) => k <= length && !(isBuilt && k === 128))) {
        for (const largest of [false, true]) {
          const { values, indices } = cast.topk(k, 1, { largest });
          const expected = cast.argsort(1, { descending: largest }).slice(null, [0, k]);
          const what = `${k} of ${dtype} ${rows}x${length} ${largest}`;
          assertEquals(await indices.toArray(), await expected.toArray(), what);
          assertEquals(await values.toArray(), await cast.gather(1, expected).toArray(), what);
        }
      }
    }
  }
}

testOnBackends("topk begins a sorted row, at every length and type", (backend) => {
  return selects(backend === "cl");
});

testOnBackends("topk of other axes and of nothing", async () => {
  const x = Tensor.fromHost([[1, 5], [4, 2], [3, 3]]);
  assertEquals(await x.topk(2, 0).values.toArray(), [[4, 5], [3, 3]]);
  assertEquals(await x.topk(2, 0, { largest: false }).indices.toArray(), [[0, 1], [2, 2]]);
  assertEquals(x.topk(0, 1).values.shape, [3, 0]);
  assertEquals(Tensor.zeros([0, 5]).topk(3, 1).indices.shape, [0, 3]);
});

testOnBackends("a few of many are found without sorting all", (backend) => {
  if (backendOf(manager.default(backend)).capabilities.selection.maxPlaces === 0) return;
  const x = Tensor.rand([64, 256]).realize();
  profiler.reset();
  x.topk(8).indices.realize();
  assert(profiler.counters().bytesMoved < 64 * 256 * 4, `${profiler.counters().bytesMoved}`);
});

testOpenCL("argsort as GPUs compute it is the same", () => withDeviceType("gpu", sorts));

/** Running results in float64, by the definition. */
function running(row: readonly number[], join: (a: number, b: number) => number): number[] {
  let so: number | null = null;
  return row.map((x) => so = so === null ? x : join(so, x));
}

async function scansRows(rows: number, length: number): Promise<void> {
  const host = Float32Array.from({ length: rows * length }, (_, k) => Math.sin(k * 0.37));
  const x = Tensor.fromHost(host, { shape: [rows, length] });
  const ways = [
    ["cumsum", x.cumsum(1), (a: number, b: number) => a + b],
    ["cummax", x.cummax(1).values, Math.max],
    ["cumprod", x.mul(0.01).add(1).cumprod(1), (a: number, b: number) => a * b],
  ] as const;
  for (const [name, found, join] of ways) {
    const values = await found.toHost("float32");
    const given = name === "cumprod" ? host.map((v) => v * 0.01 + 1) : host;
    for (let row = 0; row < rows; row++) {
      const expected = running([...given.subarray(row * length, (row + 1) * length)], join);
      const most = expected.reduce((a, b) => Math.max(a, Math.abs(b)), 1);
      expected.forEach((v, k) => {
        const error = Math.abs(values[row * length + k]! - v);
        const within = name === "cumprod" ? 1e-4 * Math.abs(v) : 4e-6 * most;
        assert(error <= within, `${name} ${rows}x${length} [${row}, ${k}]: ${error}`);
      });
    }
  }
  const ones = Tensor.ones([rows, length], { dtype: "int32" }).cumsum(1);
  assertEquals(Number(await ones.slice(null, [length - 1, length]).max().item()), length);
  const whole = Array.from(await ones.toHost("int64"), Number);
  whole.forEach((v, k) => assertEquals(v, k % length + 1));
}

async function scans(): Promise<void> {
  for (const [rows, length] of [[3, 1], [4, 63], [2, 64], [3, 1025], [2, 4097], [1, 40_001]]) {
    await scansRows(rows!, length!);
  }
}

testOnBackends("running results are right at every length", scans);

testOpenCL("running results as GPUs compute them are right", () => withDeviceType("gpu", scans));

testOnBackends("running sums of half types, and of NaN and infinities", async () => {
  const x = Tensor.fromHost([1, 2, Infinity, 3, NaN, 1]);
  assertEquals(await x.cumsum(0).toArray(), [1, 3, Infinity, Infinity, NaN, NaN]);
  const half = Tensor.ones([40_000]).mul(0.001).cast("float16").cumsum(0);
  const last = await half.slice([39_999, 40_000]).cast("float32").toHost();
  assert(Math.abs(Number(last[0]) - 40) < 0.1, `${last}`);
});

testOnBackends("sort, topk and gather leave nothing when their results are disposed of", () => {
  const x = Tensor.rand([64]).realize(), before = memory.stats().currentAllocated;
  for (const ordered of [x.sort(0), x.topk(3)]) {
    ordered.values.realize().dispose();
    ordered.indices.dispose();
  }
  assertEquals(memory.stats().currentAllocated, before);
});
