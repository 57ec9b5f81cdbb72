/** Distributions against PyTorch's: densities, entropies, divergences, gradients, and what they draw. */
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { distributions as d, grad, manualSeed, ShapeError, Tensor } from "../../../mod.ts";
import { decode } from "../../conformance/fixture.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { assertNumbers, numbersOf } from "../numbers.ts";
import fixture from "../../fixtures/distributions.json" with { type: "json" };

type Numbers = readonly (number | string)[];

interface Case {
  readonly value: number[];
  readonly parameters: number[][];
  readonly logProb: Numbers;
  readonly slopes: readonly Numbers[];
  readonly mean?: Numbers;
  readonly variance?: Numbers;
  readonly entropy?: Numbers;
  readonly entropySlope?: Numbers;
  readonly mode: Numbers;
  readonly cdf?: Numbers;
  readonly icdf?: Numbers;
  readonly other?: number[][];
  readonly kl?: Numbers;
  readonly klSlopes?: readonly Numbers[];
}

const cases = fixture as unknown as Readonly<Record<string, Case>>;

type Make = (...parameters: Tensor[]) => d.Distribution;

const makers: Readonly<Record<string, Make>> = {
  Bernoulli: (logits) => new d.Bernoulli({ logits: logits! }),
  Geometric: (logits) => new d.Geometric({ logits: logits! }),
  Categorical: (logits) => new d.Categorical({ logits: logits! }),
  OneHotCategorical: (logits) => new d.OneHotCategorical({ logits: logits! }),
  Binomial: (n, logits) => new d.Binomial(n!, { logits: logits! }),
  NegativeBinomial: (n, logits) => new d.NegativeBinomial(n!, { logits: logits! }),
  MultivariateNormal: (loc, scaleTril) =>
    new d.MultivariateNormal(loc!, { scaleTril: scaleTril!.tril() }),
};

function make(name: string, parameters: Tensor[]): d.Distribution {
  const kinds = d as unknown as Record<string, new (...args: Tensor[]) => d.Distribution>;
  return makers[name]?.(...parameters) ?? new kinds[name]!(...parameters);
}

function leaves(values: number[][]): Tensor[] {
  return values.map((v) => Tensor.fromHost(v, { dtype: "float64", requiresGrad: true }));
}

function near(title: string, x: Tensor, expected: Numbers): void {
  assertNumbers(numbersOf(x), expected.map(decode), 1e-9, title);
}

testOnCPU("distributions have PyTorch's densities, moments, entropies and divergences", () => {
  for (const [name, c] of Object.entries(cases)) {
    const own = leaves(c.parameters), p = make(name, own);
    const log = p.logProb(Tensor.fromHost(c.value, { dtype: "float64" }));
    near(`${name}.logProb`, log, c.logProb);
    grad([log.sum()], own).forEach((g, k) => near(`${name} slope ${k}`, g!, c.slopes[k]!));
    if (c.mean) near(`${name}.mean`, p.mean, c.mean);
    if (c.variance) near(`${name}.variance`, p.variance, c.variance);
    if (c.entropy) near(`${name}.entropy`, p.entropy(), c.entropy);
    if (c.entropySlope) {
      const [slope] = grad([p.entropy().sum()], own.slice(1));
      near(`${name}.entropy's slope`, slope!, c.entropySlope);
    }
    near(`${name}.mode`, p.mode, c.mode);
    const at = (values: number[]) => Tensor.fromHost(values, { dtype: "float64" });
    if (c.cdf) near(`${name}.cdf`, p.cdf(at(c.value)), c.cdf);
    if (c.icdf) near(`${name}.icdf`, p.icdf(at([0.2, 0.5, 0.9])), c.icdf);
    if (!c.other) continue;
    const first = leaves(c.parameters), second = leaves(c.other);
    const lost = d.kl(make(name, first), make(name, second));
    near(`kl of ${name}`, lost, c.kl!);
    if (!c.klSlopes) continue;
    const found = grad([lost.sum()], [...first, ...second]);
    found.forEach((g, k) => near(`kl of ${name}, slope ${k}`, g!, c.klSlopes![k]!));
  }
});

const N = 20_000;

testOnCPU("what distributions draw has their mean and variance", () => {
  for (const [name, c] of Object.entries(cases)) {
    if (!c.mean || name === "Cauchy" || name === "StudentT") continue;
    manualSeed(3);
    const p = make(name, leaves(c.parameters)), x = p.sample([N]);
    assertEquals([...x.shape], [N, ...p.batchShape, ...p.eventShape], name);
    assertEquals(x.requiresGrad, false);
    // Five deviations of a mean of so many.
    const far = x.mean(0).sub(p.mean).div(p.variance.div(N).sqrt()).abs().max().itemSync();
    assert(far < 5, `${name}: ${far} deviations`);
    const ratio = x.variance(0).div(p.variance).sub(1).abs().max().itemSync();
    assert(ratio < (name === "LogNormal" ? 2 : 0.15), `${name}: ${ratio}`);
  }
});

testOnBackends("numbers drawn by rsample carry gradients to the parameters", () => {
  manualSeed(1);
  const loc = Tensor.fromHost([1, 2], { requiresGrad: true });
  const scale = Tensor.fromHost([0.5, 2], { requiresGrad: true });
  const x = new d.Normal(loc, scale).rsample([4]);
  const [ofLoc, ofScale] = grad([x.sum()], [loc, scale]);
  assertEquals(ofLoc!.toHostSync(), Float32Array.of(4, 4));
  const unit = x.sub(loc).div(scale).sum(0).toHostSync();
  ofScale!.toHostSync().forEach((g, k) => assertAlmostEquals(Number(g), Number(unit[k]), 1e-4));
  assertThrows(() => new d.Poisson(scale).rsample(), Error, "Cannot rsample Poisson");
  const vector = new d.Independent(new d.Normal(loc, scale), 1);
  assertEquals([vector.batchShape, vector.eventShape, vector.logProb(x).shape], [[], [2], [4]]);
});

testOnBackends("icdf takes drawn shares to the distribution, and cdf back", () => {
  manualSeed(5);
  const locations = [new d.Normal(1, 2), new d.Laplace(0, 1), new d.Gumbel(0, 2)];
  for (const p of [...locations, new d.Exponential(3)]) {
    // Kolmogorov and Smirnov: shares of what is drawn are even.
    const n = 4000, shares = p.cdf(p.sample([n])).sort(0).values;
    const even = Tensor.arange(1, n + 1, 1, { dtype: "float32" }).div(n);
    const distance = shares.sub(even).abs().max().itemSync();
    assert(distance < 1.95 / Math.sqrt(n), `${p.constructor.name}: ${distance}`);
    const some = Tensor.fromHost([0.1, 0.5, 0.99]);
    assertNumbers(numbersOf(p.cdf(p.icdf(some))), [0.1, 0.5, 0.99], 1e-5, p.constructor.name);
  }
});

Deno.test("distributions refuse what is none", () => {
  // As PyTorch, probabilities of 0 and 1 are a little inside.
  const sure = new d.Bernoulli({ probs: Tensor.fromHost([0, 1]) });
  assertNumbers(numbersOf(sure.logProb(Tensor.fromHost([0, 1]))), [0, 0], 1e-6);
  assertThrows(() => sure.cdf(Tensor.ones([2])), Error, "no formula");
  const poisson = new d.Poisson(2);
  assertThrows(() => d.kl(poisson, new d.Normal(0, 1)), TypeError, "Poisson");
  assertThrows(() => new d.Normal(0, -1), RangeError, "scale");
  assertThrows(() => new d.Normal(Tensor.ones([2]), Tensor.ones([3])), ShapeError, "broadcast");
  assertThrows(() => new d.Bernoulli({}), TypeError, "one of them");
  assertThrows(() => d.kl(new d.Normal(0, 1), new d.Cauchy(0, 1)), TypeError, "Cauchy");
  const drawn = new d.Categorical({ probs: Tensor.fromHost([0, 1]) }).sample([3]);
  assertEquals(drawn.toHostSync(), Int32Array.of(1, 1, 1));
});
