/** Attention to the keys that are filled, against the formula over all keys with a mask. */
import { assert } from "@std/assert";
import { manualSeed, Tensor } from "../../../../mod.ts";
import {
  filledAttention,
  type FilledAttentionOptions,
} from "../../../../tensor/nn/attention/filled_attention.ts";
import { testOnBackends } from "../../../opencl.ts";

interface Case {
  readonly options?: Partial<FilledAttentionOptions>;
  readonly dtype?: "float32" | "float16" | "bfloat16";
  /** Keys and values are bytes, with the scale of each row. */
  readonly isBytes?: boolean;
}

/** Batch, heads of keys, heads of queries for each, queries, keys, features of both. */
type Sizes = readonly [number, number, number, number, number, number];

const causal = { options: { isCausal: true } }, isBytes = true;
const capped = { options: { isCausal: true, window: 7, cap: 2 } };

const cases: Readonly<Record<string, [sizes: Sizes, lengths: number[], one?: Case]>> = {
  "one query a head": [[2, 2, 3, 1, 20, 16], [1, 20]],
  "odd sizes": [[2, 1, 1, 1, 9, 5], [3, 9]],
  "several stretches": [[3, 2, 1, 1, 600, 32], [600, 257, 1]],
  "queries at the last places": [[2, 1, 2, 11, 300, 16], [11, 300], causal],
  "many queries": [[2, 1, 2, 41, 300, 16], [41, 300], causal],
  "many queries in a window, bytes": [[1, 2, 1, 20, 150, 16], [130], {
    options: { isCausal: true, window: 30 },
    isBytes,
  }],
  "a window and a cap": [[2, 1, 2, 5, 300, 16], [8, 290], capped],
  "a window at the end": [[1, 2, 2, 1, 300, 8], [290], { options: { window: 40 } }],
  float16: [[2, 2, 3, 1, 300, 16], [4, 300], { dtype: "float16" }],
  bfloat16: [[1, 2, 2, 3, 40, 16], [33], { dtype: "bfloat16" }],
  "bytes in lanes": [[3, 2, 3, 1, 600, 32], [600, 257, 1], { isBytes }],
  "bytes, odd sizes, a window and a cap": [[2, 1, 2, 5, 300, 12], [8, 290], { ...capped, isBytes }],
  "bytes with queries in float16": [[1, 2, 2, 3, 40, 16], [33], { dtype: "float16", isBytes }],
};

/** Rows of a cache with the numbers that they stand for. */
function drawn(shape: number[], dtype: Case["dtype"] & string, isBytes: boolean, open: Tensor) {
  if (!isBytes) {
    const numbers = Tensor.randn(shape).cast(dtype);
    return { numbers, rows: open.where(numbers, NaN).realize(), scales: null };
  }
  const rows = Tensor.randint(0, 256, shape, { dtype: "uint8" }).realize();
  const scales = Tensor.rand([...shape.slice(0, -1), 1]).div(64);
  const numbers = rows.cast("float32").sub(128).mul(scales);
  return { numbers, rows, scales: open.where(scales, NaN).realize() };
}

/** The same by operations on whole matrices. */
function composed(
  [q, k, v]: readonly [Tensor, Tensor, Tensor],
  lengths: Tensor,
  { scale, isCausal, window, cap }: FilledAttentionOptions,
): Tensor {
  const [l, s] = [q.shape.at(-2)!, k.shape.at(-2)!];
  const row = q.indexLike([l, 1]).sub(isCausal ? l - 1 : 0), column = q.indexLike([s]);
  const place = lengths.sub(1).add(isCausal ? row : row.mul(0));
  const far = place.sub(column), seen = far.ge(0).logicalAnd(far.lt(window ?? s));
  const plain = q.cast("float32").matmul(k.cast("float32").transpose()).mul(scale);
  const scores = cap === null ? plain : plain.div(cap).tanh().mul(cap);
  return seen.where(scores, -Infinity).softmax(-1).matmul(v.cast("float32"));
}

for (const [name, [sizes, lengths, one = {}]] of Object.entries(cases)) {
  const { options, dtype = "float32", isBytes = false } = one;
  testOnBackends(`filledAttention looks at what is filled: ${name}`, async () => {
    manualSeed(1);
    const [n, heads, group, l, s, e] = sizes;
    const q = Tensor.randn([n, heads, group, l, e]).cast(dtype);
    const filled = Tensor.fromHost(Int32Array.from(lengths), { shape: [n, 1, 1, 1, 1] });
    const all = { scale: 0.5, isCausal: false, window: null, cap: null, ...options };
    // What is not filled yet is not looked at, whatever it is.
    const isOpen = q.indexLike([s, 1]).lt(filled);
    const [k, v] = [0, 1].map(() => drawn([n, heads, 1, s, e], dtype, isBytes, isOpen));
    const found = filledAttention(q, k!, v!, filled, all);
    const due = composed([q, k!.numbers, v!.numbers], filled, all);
    const far = await found.cast("float32").sub(due).abs().max().item();
    const bound = dtype === "float32" ? 2e-6 : dtype === "float16" ? 3e-3 : 2e-2;
    assert(far <= bound, `${far}`);
  });
}
