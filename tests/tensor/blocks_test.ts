/** Weights in blocks of few bits: their numbers, and what is computed from them, on both backends. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { type BlockFormatName, DTypeError, manager, nn, ShapeError, Tensor } from "../../mod.ts";
import { backendOf, formatTable } from "../../backend/internal.ts";
import { nodeOf } from "../../tensor/core/internals.ts";
import { testOnBackends } from "../opencl.ts";
import blocks from "../fixtures/blocks/blocks.json" with { type: "json" };

const names = Object.keys(formatTable) as BlockFormatName[];

/** Blocks of a format, and their numbers, as ggml's package has them. */
function sample(name: BlockFormatName): { bytes: Uint8Array; values: Float32Array } {
  const { bytes, values } = blocks[name];
  const read = (text: string) => Uint8Array.fromBase64(text);
  return { bytes: read(bytes), values: new Float32Array(read(values).buffer) };
}

/** A matrix of `n` rows of `k`, made of the sample's blocks in another order for each row. */
function matrixOf(
  name: BlockFormatName,
  n: number,
  k: number,
): { blocks: Tensor; dense: Float32Array<ArrayBuffer> } {
  const { elements } = formatTable[name], { bytes, values } = sample(name);
  const all = values.length / elements, size = bytes.length / all, count = n * k / elements;
  const packed = new Uint8Array(count * size), dense = new Float32Array(n * k);
  for (let at = 0, next = 0; at < count; next += 5) {
    const block = next % all, part = values.subarray(block * elements, (block + 1) * elements);
    // Numbers such as infinity would hide all others.
    if (!part.every((v) => Math.abs(v) < 1e3)) {
      next -= 4;
      continue;
    }
    packed.set(bytes.subarray(block * size, (block + 1) * size), at * size);
    dense.set(part, at++ * elements);
  }
  return { blocks: Tensor.fromBlocks(packed, name), dense };
}

const wave = (count: number, step: number): Float32Array<ArrayBuffer> =>
  Float32Array.from({ length: count }, (_, k) => Math.sin(step * k));

/** x wᵀ in doubles. */
function product(x: Float32Array, w: Float32Array, rows: number, n: number, k: number): number[] {
  return Array.from({ length: rows * n }, (_, at) => {
    const [i, j] = [Math.floor(at / n), at % n];
    let sum = 0;
    for (let p = 0; p < k; p++) sum += x[i * k + p]! * w[j * k + p]!;
    return sum;
  });
}

function assertNear(
  actual: ArrayLike<number | bigint>,
  expected: ArrayLike<number>,
  what: string,
  to = 2e-5,
  more: ArrayLike<number> = [],
): void {
  const scale = Math.max(...Array.from(expected, Math.abs));
  for (let at = 0; at < expected.length; at++) {
    const off = Math.abs(Number(actual[at]) - expected[at]!);
    assert(
      off <= to * scale + (more[at] ?? 0),
      `${what}, ${at}: ${actual[at]} for ${expected[at]}`,
    );
  }
  assertEquals(actual.length, expected.length);
}

testOnBackends("decodeBlocks gives the numbers of ggml's own package, all bits", async () => {
  for (const name of names) {
    const { bytes, values } = sample(name);
    const decoded = Tensor.fromBlocks(bytes, name).decodeBlocks(name, [values.length]);
    const found = await decoded.toHost();
    values.forEach((v, k) => assert(Object.is(found[k], v), `${name}[${k}]: ${found[k]} for ${v}`));
  }
});

/** Formats that processors multiply in whole numbers, however many rows there are. */
const inWholeNumbers: readonly string[] = [
  ...["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"],
];

/** True where a format's products of many rows read blocks on the device in use. */
const readsMany = (name: string): boolean =>
  backendOf(manager.active).target.fusion.packsProducts && inWholeNumbers.includes(name);

/** Errors of results by rounding rows to 16 bits, of elements below 1. */
function roundingOf(dense: Float32Array, rows: number, n: number, k: number): number[] {
  const half = new Float32Array(rows * k).fill(1 / 65534);
  return product(half, dense.map(Math.abs), rows, n, k);
}

testOnBackends(
  "matmul reads blocks in place for up to 8 rows, for more where processors multiply whole numbers, else a copy",
  async () => {
    for (const name of names) {
      const [n, k] = [11, 512], { blocks, dense } = matrixOf(name, n, k);
      // Each format once with one row and once with several; counts of rows with one format.
      for (const rows of name === "Q4_0" ? [1, 3, 8, 9, 70] : [1, 19]) {
        const host = wave(rows * k, 0.37), x = Tensor.fromHost(host, { shape: [rows, k] });
        const y = x.matmul(blocks.decodeBlocks(name, [n, k]).transpose());
        const isRead = !/decode\w*:/.test(y.explain());
        assertEquals(isRead, rows <= 8 || readsMany(name), `${name}, ${rows} rows`);
        const expected = product(host, dense, rows, n, k);
        const rounding = roundingOf(dense, rows, n, k);
        assertNear(await y.toHost(), expected, `${name}, ${rows} rows`, 2e-5, rounding);
      }
    }
  },
);

testOnBackends(
  "matmul multiplies blocks with rows whose terms lie apart, as heads of attention do",
  async () => {
    const [n, heads, k] = [9, 4, 64], { blocks, dense } = matrixOf("Q4_1", n, heads * k);
    const weight = blocks.decodeBlocks("Q4_1", [n, heads * k]);
    for (const rows of [3, 8, 12]) {
      const host = wave(rows * heads * k, 0.13);
      const straight = Tensor.fromHost(host, { shape: [rows, heads, k] });
      const x = straight.transpose(0, 1).contiguous().realize().transpose(0, 1);
      const y = x.reshape([rows, heads * k]).matmul(weight.transpose());
      assertEquals(!/decode\w*:/.test(y.explain()), readsMany("Q4_1"), `${rows} rows`);
      const expected = product(host, dense, rows, n, heads * k);
      const rounding = roundingOf(dense, rows, n, heads * k);
      assertNear(await y.toHost(), expected, `${rows} rows`, 2e-5, rounding);
    }
  },
);

testOnBackends("a product of blocks has bias, activation and scales in its kernel", async () => {
  const [n, k] = [70, 64], { blocks, dense } = matrixOf("int8", n, k);
  const scales = wave(n, 0.9).map((v) => 0.01 * (2 + v));
  const bias = wave(n, 0.4), host = wave(2 * k, 0.11);
  const y = Tensor.fromHost(host, { shape: [2, k] })
    .matmul(blocks.decodeBlocks("int8", [n, k]).transpose())
    .mul(Tensor.fromHost(scales)).add(Tensor.fromHost(bias)).relu();
  const expected = product(host, dense, 2, n, k)
    .map((v, at) => Math.max(0, v * scales[at % n]! + bias[at % n]!));
  assertNear(await y.toHost(), expected, "int8 with scales");
});

testOnBackends("vectors, batches of one, halves and doubles multiply with blocks", async () => {
  const [n, k] = [6, 256], { blocks, dense } = matrixOf("Q4_K", n, k), host = wave(k, 0.21);
  const weight = blocks.decodeBlocks("Q4_K", [n, k]), expected = product(host, dense, 1, n, k);
  assertNear(await weight.matmul(Tensor.fromHost(host)).toHost(), expected, "matrix by vector");
  const x = Tensor.fromHost(host, { shape: [1, 1, k] });
  assertNear(await x.matmul(weight.transpose()).toHost(), expected, "batch of one");
  const accuracy = { float16: 2e-3, bfloat16: 2e-2, float64: 1e-12 } as const;
  for (const dtype of ["float16", "bfloat16", "float64"] as const) {
    if (!backendOf(x.device).capabilities.dtypes.has(dtype)) continue;
    const y = x.cast(dtype).matmul(blocks.decodeBlocks("Q4_K", [n, k], dtype).transpose());
    assertEquals(y.dtype, dtype);
    const found = await (dtype === "float64" ? y : y.cast("float32")).toHost();
    assertNear(found, expected, dtype, accuracy[dtype]);
  }
});

testOnBackends("embedding decodes the rows that it picks", async () => {
  const { blocks, dense } = matrixOf("Q6_K", 9, 256);
  const ids = Tensor.fromHost(new Int32Array([8, 0, 8]));
  const rows = blocks.decodeBlocks("Q6_K", [9, 256]).embedding(ids);
  const expected = [8, 0, 8].flatMap((row) => [...dense.subarray(row * 256, (row + 1) * 256)]);
  assertNear(await rows.toHost(), expected, "rows");
  assert(!/writes float32 \[9, 256\]/.test(rows.explain()));
});

testOnBackends("gradients pass through blocks, which stay packed", async () => {
  const [n, k] = [5, 64], { blocks, dense } = matrixOf("Q5_1", n, k), host = wave(3 * k, 0.3);
  const x = Tensor.fromHost(host, { shape: [3, k], requiresGrad: true });
  const weight = blocks.decodeBlocks("Q5_1", [n, k]);
  const g = wave(3 * n, 0.8);
  x.matmul(weight.transpose()).mul(Tensor.fromHost(g, { shape: [3, n] })).sum().backward();
  const expected = Array.from({ length: 3 * k }, (_, at) => {
    let sum = 0;
    for (let j = 0; j < n; j++) sum += g[Math.floor(at / k) * n + j]! * dense[j * k + at % k]!;
    return sum;
  });
  assertNear(await x.grad!.toHost(), expected, "gradient");
  assertEquals(nodeOf(weight).isLeaf, false, "nobody asked for the numbers themselves");
});

Deno.test("layers hold blocks as buffers and are saved with them", async () => {
  class Packed extends nn.Module {
    weight = matrixOf("Q8_0", 4, 32).blocks;
    forward(x: Tensor): Tensor {
      return x.matmul(this.weight.decodeBlocks("Q8_0", [4, 32]).transpose());
    }
  }
  const layer = new Packed(), x = Tensor.fromHost(wave(32, 0.5), { shape: [1, 32] });
  const before = await layer.forward(x).toArray();
  const other = new Packed();
  other.loadStateDict(layer.stateDict());
  assertEquals(await other.forward(x).toArray(), before);
});

Deno.test("blocks that do not fit are refused", () => {
  const bytes = new Uint8Array(34);
  // deno-lint-ignore no-explicit-any -- what a caller without types may pass
  const wrong: any = "Q9_9";
  assertThrows(() => Tensor.fromBlocks(bytes, wrong), TypeError, "Q4_K");
  const few = "34 bytes are no multiple of the 18";
  assertThrows(() => Tensor.fromBlocks(bytes, "Q4_0"), ShapeError, few);
  const blocks = Tensor.fromBlocks(bytes, "Q8_0");
  assertThrows(() => blocks.decodeBlocks("Q8_0", [2, 16]), ShapeError, "multiple of the 32");
  assertThrows(() => blocks.decodeBlocks("Q8_0", [2, 32]), ShapeError, "takes 68 bytes, not 34");
  assertThrows(() => blocks.decodeBlocks("Q8_0", [32], "int32"), DTypeError, "floating");
  assertThrows(() => blocks.cast("int32").decodeBlocks("Q8_0", [32]), DTypeError, "int32");
});
