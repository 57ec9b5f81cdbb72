// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
/** Samplers: quantiles of what is drawn beside those of the distributions, and who refuses what. */
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { compile, DTypeError, manualSeed, ShapeError, Tensor } from "../../../../mod.ts";
import { testOnBackends, testOnCPU } from "../../../opencl.ts";

const N = 40_000;
const shares = [0.05, 0.25, 0.5, 0.75, 0.95];

/** A draw, and its distribution function at a number. */
const samplers: Readonly<Record<string, [draw: () => Tensor, below: (x: number) => number]>> = {
  exponential: [() => Tensor.exponential([N], { rate: 2 }), (x) => 1 - Math.exp(-2 * x)],
  laplace: [
    () => Tensor.laplace(1, 2, [N]),
    (x) => x < 1 ? Math.exp((x - 1) / 2) / 2 : 1 - Math.exp((1 - x) / 2) / 2,
  ],
  cauchy: [() => Tensor.cauchy(1, 2, [N]), (x) => 0.5 + Math.atan((x - 1) / 2) / Math.PI],
  gumbel: [() => Tensor.gumbel(1, 2, [N]), (x) => Math.exp(-Math.exp((1 - x) / 2))],
  // Sums of exponential numbers.
  "gamma of 3": [() => Tensor.gamma(3, [N]), (x) => 1 - Math.exp(-x) * (1 + x + x * x / 2)],
  "gamma of 1": [() => Tensor.gamma(Tensor.ones([N])), (x) => 1 - Math.exp(-x)],
  // The square of a normal number, halved: its share below x is that of the normal within.
  "gamma of a half": [
    () => Tensor.gamma(0.5, [N]),
    (x) => Tensor.fromHost(Math.sqrt(x)).erf().itemSync(),
  ],
  // Of 2 degrees its distribution function is algebraic.
  "studentT of 2": [() => Tensor.studentT(2, [N]), (x) => (1 + x / Math.sqrt(2 + x * x)) / 2],
  "truncatedNormal from 0.5 to 3": [
    () => Tensor.truncatedNormal(0.5, 3, [N]),
    (x) => {
      const below = (x: number) => Tensor.fromHost(x / Math.SQRT2).erf().itemSync();
      return (below(x) - below(0.5)) / (below(3) - below(0.5));
    },
  ],
  "beta of 2 and 1": [() => Tensor.beta(2, 1, [N]), (x) => x * x],
  "a share of three": [
    () => Tensor.dirichlet(Tensor.ones([3]), [N, 3]).slice(null, 0),
    (x) => 1 - (1 - x) ** 2,
  ],
};

for (const [name, [draw, below]] of Object.entries(samplers)) {
  testOnBackends(`quantiles of what is drawn are those of the distribution: ${name}`, () => {
    manualSeed(5);
    const found = draw().quantile(shares).toHostSync("float32");
    // Four deviations of a quantile's share of so many.
    shares.forEach((share, k) =>
      assertAlmostEquals(below(found[k]!), share, 4 * Math.sqrt(0.25 / N))
    );
  });
}

/** Shares of whole numbers, each from that of the number before it. */
const counts: Readonly<
  Record<string, [draw: () => Tensor, first: number, next: (k: number) => number]>
> = {
  "poisson of 3": [() => Tensor.poisson(3, [N]), Math.exp(-3), (k) => 3 / k],
  "poisson of 14": [() => Tensor.poisson(Tensor.full([N], 14)), Math.exp(-14), (k) => 14 / k],
  "binomial of 9 and 0.7": [
    () => Tensor.binomial(9, 0.7, [N]),
    0.3 ** 9,
    (k) => (10 - k) / k * 0.7 / 0.3,
  ],
  "binomial of 40 and 0.4": [
    () => Tensor.binomial(Tensor.full([N], 40), 0.4),
    0.6 ** 40,
    (k) => (41 - k) / k * 0.4 / 0.6,
  ],
};

for (const [name, [draw, first, next]] of Object.entries(counts)) {
  testOnBackends(`whole numbers are drawn as often as they should be: ${name}`, () => {
    manualSeed(5);
    const found = draw().cast("int32").bincount({ minLength: 40 }).div(N).toHostSync();
    let share = first;
    for (let k = 0; k < 40; k++) {
      if (k > 0) share *= next(k);
      // Five deviations of a share of so many.
      const bound = 5 * Math.sqrt(Math.max(share, 1 / N) / N);
      assertAlmostEquals(Number(found[k]), share, bound);
    }
  });
}

testOnBackends("logNormal numbers have a normal logarithm", () => {
  manualSeed(5);
  const logarithms = Tensor.logNormal(1, 0.5, [N]).log();
  assertAlmostEquals(logarithms.mean().itemSync(), 1, 0.02);
  assertAlmostEquals(logarithms.std().itemSync(), 0.5, 0.02);
});

testOnBackends("samplers draw anew in each step of a loop, and the same from one seed", () => {
  const step = compile((x: Tensor) => Tensor.gamma(x).add(Tensor.exponential([4])).sum());
  const run = (): number[] => {
    manualSeed(7);
    return [1, 2, 3].map(() => step(Tensor.full([4], 2)).itemSync());
  };
  const first = run();
  assertEquals(new Set(first).size, 3);
  assertEquals(run(), first);
});

testOnCPU("samplers take types and shapes, and refuse what is no distribution", () => {
  const x = Tensor.gamma(Tensor.fromHost([1, 2]), [3, 2], { dtype: "float16" });
  assertEquals([x.shape, x.dtype, x.requiresGrad], [[3, 2], "float16", false]);
  assertEquals(Tensor.exponential([2], { requiresGrad: true }).requiresGrad, true);
  assertEquals(Tensor.exponential([0]).size, 0);
  assert(Tensor.gamma(1e-3, [1000]).ge(0).all().itemSync());
  assertThrows(() => Tensor.exponential([2], { rate: 0 }), RangeError, "rate");
  assertThrows(() => Tensor.gamma(-1, [2]), RangeError, "alpha");
  assertThrows(() => Tensor.laplace(0, 0, [2]), RangeError, "scale");
  assertThrows(() => Tensor.logNormal(0, -1, [2]), RangeError, "std");
  assertThrows(() => Tensor.gamma(Tensor.ones([3]), [2]), ShapeError, "[2]");
  assertThrows(() => Tensor.exponential([2], { dtype: "int32" }), DTypeError, "int32");
});
