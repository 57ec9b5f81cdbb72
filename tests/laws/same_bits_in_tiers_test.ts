/**
 * Elementwise programs have the same bits in the tier that serves while kernels are built and in the kernels.
 * Of single functions `backend/opencl/codegen/vector_math_test.ts` says so.
 */
import { assertEquals } from "@std/assert";
import { type BackendName, type DType, Tensor, withDevice } from "../../mod.ts";
import { isPoCL } from "../opencl.ts";

type Unary = (x: Tensor) => Tensor;

const activations = ["mish", "gelu", "silu", "softplus", "logSigmoid", "elu", "hardswish"];

function method(name: string): Unary {
  return (x) => (x as unknown as Record<string, () => Tensor>)[name]!();
}

/** Numbers of all magnitudes and signs, some of them no numbers, and many about 1. */
function values(count: number): Float32Array<ArrayBuffer> {
  const special = [0, -0, 1, -1, Infinity, -Infinity, NaN, 1e-45, -3e-39, 88.7, -104, 39_001, 3e30];
  const bits = new Uint32Array(1), float = new Float32Array(bits.buffer);
  return Float32Array.from({ length: count }, (_, k) => {
    if (k < special.length) return special[k]!;
    if (k % 2 === 0) return 24 * (k / count) - 12;
    bits[0] = Math.imul(k, 0x9e3779b1) >>> 0;
    return float[0]!;
  });
}

/** Value and gradient, bit by bit; NaN is one value. */
function bitsOn(
  backend: BackendName,
  from: Float32Array<ArrayBuffer>,
  f: Unary,
  layout: Unary,
  dtype: DType,
) {
  return withDevice(backend, () => {
    const leaf = Tensor.fromHost(from).cast(dtype).detach();
    leaf.requiresGrad = true;
    const y = f(layout(leaf));
    y.backward(Tensor.ones(y.shape, { dtype }));
    return [y, leaf.grad!].flatMap((t) => {
      const floats = t.cast("float32").toHostSync("float32");
      return [...new Uint32Array(floats.map((x) => Number.isNaN(x) ? NaN : x).buffer)];
    });
  });
}

function holds(name: string, f: Unary, sizes: readonly number[], layout: Unary = (x) => x): void {
  for (const dtype of ["float32", "float16", "bfloat16"] as const) {
    // Conversions cost no kernels of their own in one type.
    if (dtype !== "float32" && sizes.length === 1) continue;
    for (const size of sizes) {
      const from = values(size);
      const [serving, compiled] = (["cpu", "cl"] as const).map((backend) =>
        bitsOn(backend, from, f, layout, dtype)
      );
      const at = serving!.findIndex((bits, k) => bits !== compiled![k]);
      assertEquals(at, -1, `${name} of ${dtype} [${size}]: ${from[at % size]}`);
    }
  }
}

for (const name of activations) {
  Deno.test(`${name} has the same bits in both tiers`, { ignore: !isPoCL }, () => {
    holds(name, method(name), [4099]);
  });
}

Deno.test("pow and atan2 have the same bits in both tiers", { ignore: !isPoCL }, () => {
  holds("pow", (x) => x.pow(x.flip([0])), [4099]);
  holds("atan2", (x) => x.atan2(x.flip([0])), [4099]);
});

Deno.test("a value has the same bits in both tiers wherever it stands, in every type of floats", {
  ignore: !isPoCL,
}, () => {
  const f: Unary = (x) => x.mul(1.7).add(0.3).tanh().mul(x).sub(x.exp().log1p());
  holds("a chain", f, [1, 2, 3, 17, 1000]);
  holds("a transposed chain", f, [33 * 20], (x) => x.reshape([33, 20]).transpose());
  holds("a chain over columns", f, [12], (x) => x.reshape([4, 3]));
  holds("a scalar", f, [1], (x) => x.reshape([]));
  holds("every third", f, [99], (x) => x.reshape([33, 3]).slice([0, 1], [33, 2]));
});
