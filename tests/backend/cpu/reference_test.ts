import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { chooseStrategy, type Strategy } from "../../../backend/cpu/strategy/strategy.ts";
import { applyPrimitive } from "../../../backend/cpu/reference/reference_primitives.ts";
import { renderScript } from "../../../backend/cpu/script/primitives.ts";
import { accepts, type PrimitiveName, primitives } from "../../../backend/graph/primitives.ts";
import * as scalar from "../../../backend/graph/scalar.ts";
import { type DType, nn, Tensor, withDevice } from "../../../mod.ts";
import { assertAgree, compute, filled, learned, reference } from "./strategies.ts";
import { testOnCPU } from "../../opencl.ts";
import { setVariables } from "../../variables.ts";

const dtypes = ["float32", "float64", "bfloat16", "int32", "int64", "uint8", "bool"] as const;
const numbers = [0, -0, 1, -1, 2, 3, -7, 0.5, -2.5, 100, 1e10, NaN, Infinity, -Infinity];
const whole = numbers.filter(Number.isInteger);

/** The operands that a type has, from few numbers. */
function operandsOf(dtype: DType): (number | bigint)[] {
  if (dtype === "float64" || dtype === "float32" || dtype === "bfloat16") return numbers;
  if (dtype === "int64") return whole.map(BigInt);
  if (dtype === "bool") return [0, 1];
  return whole.map((n) => dtype === "uint8" ? n & 255 : n | 0);
}

/** A shift is by less than the width. */
function secondOf(name: string, dtype: DType): (number | bigint)[] {
  if (!name.startsWith("shift")) return operandsOf(dtype);
  return dtype === "int64" ? [0n, 1n, 5n] : dtype === "bool" ? [0] : [0, 1, 5];
}

Deno.test("every scalar function of the reference agrees with its generated text", () => {
  const names = Object.keys(scalar).join();
  for (const name of Object.keys(primitives) as PrimitiveName[]) {
    const { arity, isTest } = primitives[name];
    for (const dtype of dtypes.filter((d) => accepts(name, d))) {
      const type = isTest ? "bool" : dtype;
      const parameters = ["a", "b", "c"].slice(0, arity);
      const text = renderScript(name, parameters, dtype, type);
      const generated = new Function(
        "scalar",
        `const { ${names} } = scalar;
        return (${parameters}) => ${text};`,
      )(scalar) as (...operands: unknown[]) => unknown;
      for (const a of name === "where" ? [0, 1] : operandsOf(dtype)) {
        for (const b of secondOf(name, dtype)) {
          const operands = [a, b, operandsOf(dtype)[1]!];
          const found = applyPrimitive(name, operands, dtype, type);
          const message = `${name}(${operands}) of ${dtype}`;
          assertEquals(`${found}`, `${generated(...operands.slice(0, arity))}`, message);
        }
      }
    }
  }
});

Deno.test("the reference refuses operands that a function does not take", () => {
  assertThrows(() => applyPrimitive("exp", [1n], "int64", "int64"), TypeError, "int64");
  assertThrows(() => applyPrimitive("bitAnd", [1, 2], "float32", "float32"), TypeError, "bitAnd");
});

Deno.test("an element that reduces its indices still reads by its own", () => {
  // The indices come first, then the walk over all of them, then what is read by them.
  using at = Tensor.fromHost(Int32Array.of(3, 1, 0, 2));
  using table = Tensor.fromHost([10, 20, 30, 40]);
  const made = () => {
    const places = at.mul(1);
    return places.max().ge(0).where(places, 0).add(table.gather(0, places));
  };
  assertEquals(compute(reference, made()), [43, 21, 10, 32]);
  assertAgree(made);
});

type Step = (t: Tensor, other: Tensor) => Tensor;

/** Operations that may follow each other in a random graph of matrices. */
const steps: Readonly<Record<string, Step>> = {
  add: (t, o) => t.add(o),
  mul: (t, o) => t.mul(o),
  sub: (t, o) => t.sub(o),
  maximum: (t, o) => t.maximum(o),
  neg: (t) => t.neg(),
  "a third": (t) => t.cast("float32").mul(1 / 3).cast(t.dtype),
  less: (t, o) => t.lt(o).cast(t.dtype),
  flip: (t) => t.flip(1),
  pad: (t) => t.pad([[1, 0], [0, 2]], 3).slice([1, null], [0, t.shape[1]!]),
  rows: (t) => t.sum(1, { keepDims: true }).add(t).cast(t.dtype),
  columns: (t) => t.max(0, { keepDims: true }).sub(t),
  product: (t) => t.prod(1, { keepDims: true }).add(t).cast(t.dtype),
  place: (t) => t.argmax(1, { keepDims: true }).cast(t.dtype).add(t),
  total: (t) => t.cumsum(1).cast(t.dtype),
  sorted: (t) => t.gather(1, t.argsort(1)),
  scattered: (t) => t.scatterAdd(1, t.argsort(1, { descending: true }), t),
  // Held within bounds: the exponential makes much of the rounding of large floats. Doubles stay
  // doubles: what is rounded to float32 between agrees to float32's accuracy only.
  softmax: (t) => {
    const x = t.dtype === "float64" ? t : t.cast("float32");
    return x.mul(0.01).clamp(-5, 5).softmax(1).cast(t.dtype);
  },
  matmul: (t) => t.matmul(t.transpose()).matmul(t),
};

Deno.test("on random graphs the fast strategies agree with the reference", () => {
  const graphs = fc.record({
    shape: fc.tuple(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 9 })),
    dtype: fc.constantFrom<DType>("float32", "float64", "int32", "int64", "uint8"),
    names: fc.array(fc.constantFrom(...Object.keys(steps)), { minLength: 1, maxLength: 4 }),
    seed: fc.integer({ min: 0, max: 22 }),
  });
  withDevice("cpu", () => {
    fc.assert(
      fc.property(graphs, ({ shape, dtype, names, seed }) => {
        assertAgree(() => {
          const other = filled(shape, dtype, seed + 5);
          return names.reduce((t, name) => steps[name]!(t, other), filled(shape, dtype, seed));
        });
      }),
      { numRuns: 150 },
    );
  });
});

testOnCPU("kernels that scatter, fold and pool agree with the reference, gradients too", () => {
  const image = filled([2, 3, 8, 9], "float32", 1), weight = filled([4, 3, 3, 2], "float32", 2);
  const gradientOf = (loss: (x: Tensor, w: Tensor) => Tensor, which: 0 | 1): Tensor => {
    const leaves = [image, weight].map((t) => learned(t.detach())) as [Tensor, Tensor];
    loss(...leaves).backward();
    return leaves[which].grad!;
  };
  const convolve = (x: Tensor, w: Tensor): Tensor => x.conv2d(w, { padding: 1, stride: 2 });
  assertAgree(() => convolve(image, weight).relu());
  assertAgree(() => gradientOf((x, w) => convolve(x, w).relu().sum(), 0));
  assertAgree(() => gradientOf((x, w) => convolve(x, w).relu().sum(), 1));
  assertAgree(() => new nn.MaxPool2d(2).forward(image));
  assertAgree(() => gradientOf((x) => new nn.MaxPool2d(2).forward(x).sum(), 0));
});

testOnCPU("the empty sum is 0, the empty product 1", () => {
  using sum = Tensor.zeros([2, 0]).sum(1);
  using product = Tensor.zeros([2, 0]).prod(1);
  assertEquals(compute(reference, sum), [0, 0]);
  assertEquals(compute(reference, product), [1, 1]);
});

testOnCPU("the reference remembers an index out of range for the next read", () => {
  const indices = Tensor.fromHost(new Int32Array([0, 5])).reshape([1, 2]);
  using picked = filled([1, 3], "float32", 1).gather(1, indices);
  assertThrows(() => compute(reference, picked), RangeError, "5");
  using after = Tensor.ones([2]).add(1);
  assertEquals(compute(reference, after), [2, 2]);
});

testOnCPU("nothing is generated for the reference", () => {
  using t = Tensor.ones([3]).add(1);
  const generator = globalThis.Function;
  try {
    globalThis.Function = class {
      constructor() {
        throw new Error("generated");
      }
    } as unknown as FunctionConstructor;
    assertEquals(compute(reference, t), [2, 2, 2]);
  } finally {
    globalThis.Function = generator;
  }
});

Deno.test("NETCL_CPU picks the strategy, and says what it may hold", () => {
  const choose = (name: string): Strategy => {
    using _variables = setVariables({ NETCL_CPU: name });
    return chooseStrategy();
  };
  assertEquals(choose("reference").name, "reference");
  assertEquals(choose("fast").isReference, false);
  assertEquals(choose("wasm").name, "WebAssembly SIMD");
  assertThrows(() => choose("quick"), RangeError, 'NETCL_CPU is "quick"');
});
