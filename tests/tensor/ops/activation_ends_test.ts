/** Activations and their gradients, where numbers are so large that they are those of a straight line. */
import { assertEquals } from "@std/assert";
import { type DType, memory, realizeAll, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";
import { leaf, numbersOf } from "../numbers.ts";

/** The lines of large positive and negative `x`, by their slopes and what is added. */
interface Ends {
  readonly of: (x: Tensor) => Tensor;
  readonly above: readonly [slope: number, value: number];
  readonly below: readonly [slope: number, value: number];
}

const flat = [0, 0] as const, line = [1, 0] as const;

const activations: Readonly<Record<string, Ends>> = {
  tanh: { of: (x) => x.tanh(), above: [0, 1], below: [0, -1] },
  sigmoid: { of: (x) => x.sigmoid(), above: [0, 1], below: flat },
  erf: { of: (x) => x.erf(), above: [0, 1], below: [0, -1] },
  erfc: { of: (x) => x.erfc(), above: flat, below: [0, 2] },
  softplus: { of: (x) => x.softplus(), above: line, below: flat },
  logSigmoid: { of: (x) => x.logSigmoid(), above: flat, below: line },
  silu: { of: (x) => x.silu(), above: line, below: flat },
  mish: { of: (x) => x.mish(), above: line, below: flat },
  gelu: { of: (x) => x.gelu(), above: line, below: flat },
  "gelu by tanh": { of: (x) => x.gelu("tanh"), above: line, below: flat },
  elu: { of: (x) => x.elu(), above: line, below: [0, -1] },
};

/** The largest power of ten of a type, for which a product with a step of a formula has room. */
const largest: Partial<Record<DType, number>> = {
  float16: 4,
  bfloat16: 37,
  float32: 37,
  float64: 300,
};

/** Those whose derivatives take the difference from 1 times `x`: a kernel takes PoCL its time to build. */
const steep = ["tanh", "silu", "mish", "gelu by tanh"];

testOnBackends("activations and their gradients are lines for large numbers", (backend) => {
  for (const [dtype, most] of Object.entries(largest) as [DType, number][]) {
    const powers = Array.from({ length: 132 }, (_, k) => 10 ** (3 + (k >> 1) % (most - 2)));
    const numbers = Float64Array.from(powers, (x, k) => k % 2 === 0 ? x : -x);
    for (const [name, { of, above, below }] of Object.entries(activations)) {
      if (backend === "cl" && (!steep.includes(name) || dtype.endsWith("16"))) continue;
      const x = leaf(Tensor.fromHost(numbers).cast(dtype).realize()), y = of(x);
      y.sum().backward();
      realizeAll([y, x.grad!]);
      const read = (t: Tensor): number[] => numbersOf(t).map((v) => v + 0); // -0 is 0
      const [given, values, slopes] = [read(x.detach()), read(y.detach()), read(x.grad!)];
      const ends = given.map((x) => x > 0 ? above : below);
      assertEquals(slopes, ends.map(([slope]) => slope), `gradient of ${name} (${dtype})`);
      const wanted = ends.map(([slope, value], k) => slope === 0 ? value : given[k]!);
      assertEquals(values, wanted, `${name} (${dtype})`);
    }
  }
});

testOnBackends("leakyRelu keeps no mask behind its gradient", () => {
  const x = leaf(Tensor.rand([1000]).sub(0.5).detach().realize());
  const held = Array.from({ length: 5 }, () => {
    const y = x.leakyRelu(0.1), sum = y.sum();
    sum.backward();
    const gradient = x.grad!;
    x.grad = null;
    for (const tensor of [gradient.realize(), sum, y]) tensor.dispose();
    return memory.stats().requestedBytes;
  });
  assertEquals(held.slice(1), held.slice(1).map(() => held[1]));
});
