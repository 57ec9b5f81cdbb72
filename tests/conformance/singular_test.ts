// Suite: alone, quick kernels; takes longer behind others.
/**
 * Values and gradients at corners, poles and ties, and of NaN and infinity: PyTorch's, on every backend.
 * `singular.jsonl` is written by `tests/fixtures/ops/singular.py`.
 */
import { assert, assertEquals } from "@std/assert";
import { nn, realizeAll, Tensor } from "../../mod.ts";
import { testOnBackends } from "../opencl.ts";
import { type Case, decode, readLines, titleOf, type Value } from "./fixture.ts";
import { operations } from "./operations.ts";

const losses = {
  mse: nn.mse,
  l1: nn.l1,
  huber: nn.huber,
  bceWithLogits: nn.bceWithLogits,
} as const;

/** Cases in which netcl has other numbers, with the reason. */
const apart: Readonly<Record<string, string>> = {
  "gelu (singular)": "PyTorch's is NaN at infinity",
  "pow (number -0.5)": "the slope at -infinity is NaN, as the value is",
  "softmax (axis)": "the gradient of a sum of shares is a rounding error",
};

/** Samples whose label is ignored have no influence; in PyTorch a NaN among their logits has. */
function ignoresNaN({ op, args }: Case): boolean {
  return op === "crossEntropy" && (args[0] as { ignoreIndex?: number }).ignoreIndex !== undefined;
}

function tensorOf({ data, shape, dtype }: Value, requiresGrad: boolean): Tensor {
  const numbers = dtype === "int64"
    ? BigInt64Array.from(data, BigInt)
    : Float64Array.from(data, decode);
  return Tensor.fromHost(numbers, { shape, dtype, requiresGrad });
}

function call({ op, args }: Case, inputs: readonly Tensor[]): Tensor[] {
  const loss = losses[op as keyof typeof losses];
  if (!loss) {
    const made = operations[op]!.call(inputs, args);
    return made instanceof Tensor ? [made] : made;
  }
  const { positiveWeight, ...options } = args[0] as { positiveWeight?: number };
  const weight = positiveWeight === undefined
    ? {}
    : { positiveWeight: Tensor.full([], positiveWeight) };
  return [loss(inputs[0]!, inputs[1]!, { ...options, ...weight })];
}

/** Differences of 1 - y * y and its like where y is almost 1 are left to the functions' own tests. */
const CANCELLED = 5e-7;

function problemOf(actual: Tensor, expected: readonly (number | string)[]): string | null {
  const numbers = Array.from(actual.toHostSync(), Number);
  for (const [k, wanted] of expected.map(decode).entries()) {
    const got = numbers[k]!, error = Math.abs(got - wanted);
    if (Object.is(got, wanted) || got === wanted) continue;
    if (!Number.isFinite(wanted) || !(error <= Math.max(1e-5 * Math.abs(wanted), CANCELLED))) {
      return `is ${got} instead of ${wanted} at ${k}`;
    }
  }
  return null;
}

testOnBackends("values and gradients at singular points are PyTorch's", () => {
  const trials = readLines<Case>("singular").filter((c) => !(titleOf(c) in apart)).map((c) => {
    const inputs = c.inputs.map((v, k) => tensorOf(v, Boolean(c.grads?.[k])));
    const outputs = call(c, inputs);
    const smooth = outputs.filter((t) => t.requiresGrad);
    if (smooth.length > 0) smooth.map((t) => t.sum()).reduce((a, b) => a.add(b)).backward();
    return { c, inputs, outputs };
  });
  realizeAll(trials.flatMap(({ outputs }) => outputs));
  const problems = trials.flatMap(({ c, inputs, outputs }) => {
    const found = c.outputs.map((o, k) => problemOf(outputs[k]!, o.data));
    const gradients = ignoresNaN(c) ? [] : (c.grads ?? []).map((g, k) => {
      const text = g && problemOf(inputs[k]!.grad ?? inputs[k]!.zerosLike(), g);
      return text && `gradient ${k} ${text}`;
    });
    return [...found, ...gradients].filter(Boolean).map((text) => `${titleOf(c)} ${text}`);
  });
  assert(problems.length === 0, `${problems.length} of ${trials.length}:\n${problems.join("\n")}`);
});

testOnBackends("the gradient of elu lives as long as its exponential", () => {
  const x = Tensor.fromHost([-20, -80, -6], { requiresGrad: true });
  x.elu().sum().backward();
  [-20, -80, -6].forEach((at, k) => {
    const got = Number(x.grad!.toHostSync()[k]);
    assert(Math.abs(got / Math.exp(at) - 1) < 1e-5, `${got} at ${at}`);
  });
});

testOnBackends("ignored samples have no influence, whatever their logits are", () => {
  const logits = Tensor.fromHost([1, 2, NaN, Infinity, -Infinity, NaN], {
    shape: [3, 2],
    requiresGrad: true,
  });
  const labels = Tensor.fromHost(Int32Array.of(0, -1, -1));
  const loss = logits.crossEntropy(labels, { ignoreIndex: -1 });
  loss.backward();
  assert(Math.abs(loss.itemSync() - Math.log(1 + Math.E)) < 1e-6);
  assertEquals(Array.from(logits.grad!.toHostSync(), Number).slice(2), [0, 0, 0, 0]);
});

const MAX = 2147483647, MIN = -2147483648;
const edges = [NaN, Infinity, -Infinity, 1.9, -1.9, 300, -1],
  beyond = [2 ** 31, -3e9, 1e10, 9.3e18];
const numbers = [...edges, ...beyond, -1e20, -0.5];
/** Whole parts, held at the bounds; NaN is 0. uint8 has the low 8 bits of what is finite. */
const casts = {
  int32: [0, MAX, MIN, 1, -1, 300, -1, MAX, MIN, MAX, MAX, MIN, 0],
  uint8: [0, 0, 0, 1, 255, 44, 255, 0, 0, 0, 0, 0, 0],
  bool: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
} as const;

testOnBackends("casts of NaN, infinities and large numbers are the same everywhere", () => {
  for (const from of ["float32", "float64"] as const) {
    // One element is computed by itself, many in vectors.
    for (const copies of [1, 40]) {
      const data = Float64Array.from(Array(copies).fill(numbers).flat());
      const x = Tensor.fromHost(data, { dtype: from });
      for (const [to, expected] of Object.entries(casts)) {
        const got = Array.from(x.cast(to as "int32").toHostSync(), Number);
        assertEquals(got, Array(copies).fill(expected).flat(), `${from} to ${to}`);
      }
      const wide = x.cast("int64").toHostSync("int64");
      assertEquals(
        wide.slice(0, 6),
        BigInt64Array.of(0n, 2n ** 63n - 1n, -(2n ** 63n), 1n, -1n, 300n),
      );
      assertEquals(
        wide.slice(9, 12),
        BigInt64Array.of(10_000_000_000n, 2n ** 63n - 1n, -(2n ** 63n)),
      );
    }
  }
});

testOnBackends("losses of mixed types have PyTorch's types", () => {
  const types = ["float32", "float16", "bfloat16", "float64"] as const;
  const promoted = (a: string, b: string): string =>
    a === b ? a : a === "float64" || b === "float64" ? "float64" : "float32";
  for (const a of types) {
    for (const b of types) {
      const x = Tensor.full([2], 0.5, { dtype: a, requiresGrad: true }),
        y = Tensor.full([2], 1, { dtype: b });
      for (const reduction of ["mean", "none"] as const) {
        assertEquals(nn.mse(x, y, { reduction }).dtype, promoted(a, b));
        assertEquals(nn.l1(x, y, { reduction }).dtype, promoted(a, b));
        assertEquals(nn.huber(x, y, { reduction }).dtype, a);
        assertEquals(nn.bceWithLogits(x, y, { reduction }).dtype, b);
      }
      const loss = nn.huber(x, y).cast("float32").add(nn.bceWithLogits(x, y).cast("float32"));
      loss.backward();
      assertEquals(x.grad!.dtype, a);
      assert(Math.abs(loss.itemSync() - 0.125 - 0.474077) < 2e-3);
    }
  }
});
