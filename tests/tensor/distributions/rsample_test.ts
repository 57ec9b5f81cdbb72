/** Gradients of numbers that are drawn by gamma distributions and what is made of them. */
import { assert, assertEquals } from "@std/assert";
import { distributions as d, grad, manualSeed, Tensor } from "../../../mod.ts";
import { betaSlope, gammaSlope } from "../../../tensor/ops/special/sample_slopes.ts";
import fixture from "../../fixtures/sample_slopes.json" with { type: "json" };
import { testOnBackends } from "../../opencl.ts";

function near(title: string, found: Tensor, wanted: readonly number[], tolerance: number): void {
  [...found.toHostSync()].map(Number).forEach((x, k) => {
    const error = Math.abs(x - wanted[k]!) / Math.abs(wanted[k]!);
    assert(error <= tolerance, `${title} ${k}: ${x}, ${wanted[k]}`);
  });
}

testOnBackends("gammaSlope and betaSlope are the slopes of distribution functions", () => {
  const { gamma, beta } = fixture;
  for (const [dtype, tolerance] of [["float64", 1e-11], ["float32", 3e-4]] as const) {
    const of = (values: number[]) => Tensor.fromHost(values, { dtype });
    const ofGamma = gammaSlope(of(gamma.a), of(gamma.x));
    near("gamma", ofGamma, gamma.exact, tolerance);
    near("gamma, PyTorch", ofGamma, gamma.pytorch, 4e-3);
    const ofBeta = betaSlope(of(beta.a), of(beta.b), of(beta.x));
    near("beta", ofBeta, beta.exact, tolerance);
    near("beta, PyTorch", ofBeta, beta.pytorch, 4e-3);
  }
});

const N = 20_000;
const leaf = (values: number[]) => Tensor.fromHost(values, { requiresGrad: true });

/** Holds the gradients of a mean over draws against those of its formula. */
function law(
  name: string,
  parameters: number[][],
  make: (...parameters: Tensor[]) => d.Distribution,
  of: (x: Tensor) => Tensor,
  mean: (p: d.Distribution) => Tensor,
): void {
  testOnBackends(`${name}.rsample: gradients of means are those of their formula`, () => {
    manualSeed(11);
    const leaves = parameters.map(leaf), p = make(...leaves), x = p.rsample([N]);
    assertEquals([...x.shape], [N, ...p.batchShape, ...p.eventShape]);
    const found = grad([of(x).mean(0).sum()], leaves), wanted = grad([mean(p).sum()], leaves);
    found.forEach((g, k) => {
      const far = g!.sub(wanted[k]!).abs().max().itemSync();
      assert(far < 0.05 * (0.2 + wanted[k]!.abs().max().itemSync()), `${name} ${k}: ${far}`);
    });
  });
}

const second = (p: d.Distribution) => p.variance.add(p.mean.square());
const square = (x: Tensor) => x.square();
const own = (x: Tensor) => x;
law("Gamma", [[0.3, 2, 40], [1, 3, 10]], (a, r) => new d.Gamma(a!, r!), own, (p) => p.mean);
law("Gamma's square", [[0.5, 2, 9], [1, 3, 5]], (a, r) => new d.Gamma(a!, r!), square, second);
law("Chi2", [[0.7, 3, 20]], (a) => new d.Chi2(a!), own, (p) => p.mean);
law("Beta", [[0.4, 2, 30], [0.6, 5, 20]], (a, b) => new d.Beta(a!, b!), square, second);
law("Dirichlet", [[0.4, 2, 5]], (a) => new d.Dirichlet(a!), square, second);
const student = (...p: Tensor[]) => new d.StudentT(p[0]!, p[1], p[2]);
law("StudentT", [[9, 20], [1, -1], [1, 2]], student, square, second);

testOnBackends("Dirichlet and Beta draw shares where their concentrations are tiny", () => {
  manualSeed(2);
  const a = leaf([0.001, 0.002, 0.001]), x = new d.Dirichlet(a).rsample([2000]);
  assert(x.sum(-1).sub(1).abs().max().itemSync() < 1e-5);
  assert(Math.abs(x.mean(0).toHostSync("float32")[1]! - 0.5) < 0.05);
  const [slope] = grad([x.square().sum()], [a]);
  assertEquals(slope!.isFinite().all().itemSync(), 1);
  const y = new d.Beta(0.001, 0.003).sample([2000]);
  assert(Math.abs(y.mean().itemSync() - 0.25) < 0.05);
});
