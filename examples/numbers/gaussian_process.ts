// A Gaussian process fitted by gradients: how smooth noisy points are, and what lies between them.
import { linalg, manualSeed, noGrad, optim, Tensor } from "@netcl/netcl";

manualSeed(3);
const doubles = { dtype: "float64" } as const, noise = 0.1;
const x = Tensor.rand([60, 1], doubles).mul(6).realize();
const y = x.sin().add(Tensor.randn([60, 1], doubles).mul(noise)).realize();

// Logarithms of the length over which values are alike, of their spread, and of the noise.
const logs = Tensor.fromHost([0, 0, -1], { ...doubles, requiresGrad: true });
const [length, spread, error] = [0, 1, 2].map((k) => () => logs.slice(k).exp());

function covariance(a: Tensor, b: Tensor): Tensor {
  return a.cdist(b).div(length!()).square().mul(-0.5).exp().mul(spread!().square());
}

function factor(): Tensor {
  return linalg.cholesky(covariance(x, x).add(Tensor.eye(60, doubles).mul(error!().square())));
}

/** The negative logarithm of how likely the points are. */
function loss(): Tensor {
  const l = factor(), z = linalg.solveTriangular(l, y, { upper: false });
  return z.square().sum().mul(0.5).add(linalg.diagonal(l).log().sum());
}

const optimizer = new optim.Adam([logs], { lr: 0.1 });
for (let step = 1; step <= 100; step++) {
  using value = loss();
  optimizer.zeroGrad();
  value.backward();
  optimizer.step();
  if (step % 25 === 0) console.log(`step ${step}: loss ${(await value.item()).toFixed(3)}`);
}
console.log(`noise ${(await error!().item()).toFixed(3)}, of ${noise}`);

const at = Tensor.linspace(0.5, 5.5, 6, doubles).reshape([6, 1]);
const [mean, deviation] = noGrad(() => {
  const l = factor(), between = covariance(x, at);
  const z = linalg.solveTriangular(l, between, { upper: false });
  const mean = z.transpose().matmul(linalg.solveTriangular(l, y, { upper: false }));
  return [mean, spread!().square().sub(z.square().sum(0)).sqrt()];
});
const rows = Tensor.concat([at, mean!, deviation!.reshape([6, 1]), at.sin()], 1);
for (const row of await rows.toArray() as number[][]) {
  const [place, value, width, truth] = row.map((v) => v.toFixed(3));
  console.log(`f(${place}) = ${value} +- ${width}, in truth ${truth}`);
}
