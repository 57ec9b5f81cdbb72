/** Divergences of two distributions, by formula: a row for each kind. */
import type { Tensor } from "../core/mod.ts";
import { diagonal, solveTriangular } from "../linalg/mod.ts";
import { logBeta } from "../ops/special/mod.ts";
import {
  Bernoulli,
  Binomial,
  Categorical,
  Geometric,
  OneHotCategorical,
  Poisson,
} from "./discrete.ts";
import type { Distribution } from "./distribution.ts";
import { Beta, Dirichlet, Exponential, Gamma } from "./gamma_family.ts";
import { Cauchy, EULER, Gumbel, Laplace, Normal, Uniform } from "./location_scale.ts";
import { HalfNormal, LogNormal } from "./normal_family.ts";
import { Independent, MultivariateNormal } from "./multivariate.ts";

interface Rule {
  readonly kind: abstract new (...args: never[]) => Distribution;
  readonly divergence: (p: never, q: never) => Tensor;
}

function rule<D extends Distribution>(
  kind: abstract new (...args: never[]) => D,
  divergence: (p: D, q: D) => Tensor,
): Rule {
  return { kind, divergence };
}

function ofBernoulli(p: Bernoulli | Geometric, q: Bernoulli | Geometric): Tensor {
  const difference = p.logits.sub(q.logits);
  return p.probs.mul(difference).sub(p.logits.softplus()).add(q.logits.softplus());
}

function ofDirichlet({ concentration: a }: Dirichlet, { concentration: b }: Dirichlet): Tensor {
  const total = a.sum(-1), logFactor = total.lgamma().sub(b.sum(-1).lgamma());
  const parts = b.lgamma().sub(a.lgamma());
  const slopes = a.sub(b).mul(a.digamma().sub(total.digamma().unsqueeze(-1)));
  return logFactor.add(parts.add(slopes).sum(-1));
}

const rules: readonly Rule[] = [
  rule(Normal, (p, q) => {
    const ratio = p.variance.div(q.variance), moved = p.loc.sub(q.loc).div(q.scale).square();
    return ratio.add(moved).sub(1).sub(ratio.log()).mul(0.5);
  }),
  rule(LogNormal, (p, q) => kl(p.base, q.base)),
  rule(Laplace, (p, q) => {
    const ratio = p.scale.div(q.scale), distance = p.loc.sub(q.loc).abs();
    const near = ratio.mul(distance.div(p.scale).neg().exp());
    return near.add(distance.div(q.scale)).sub(ratio.log()).sub(1);
  }),
  rule(Uniform, (p, q) => {
    const isWithin = q.low.le(p.low).logicalAnd(q.high.ge(p.high));
    return isWithin.where(q.entropy().sub(p.entropy()), Infinity);
  }),
  rule(Exponential, (p, q) => {
    const ratio = q.rate.div(p.rate);
    return ratio.sub(1).sub(ratio.log());
  }),
  rule(Gamma, (p, q) => {
    const { concentration: a, rate: r } = p, { concentration: b, rate: s } = q;
    return b.mul(r.div(s).log()).add(b.lgamma()).sub(a.lgamma())
      .add(a.sub(b).mul(a.digamma())).add(s.sub(r).mul(a.div(r)));
  }),
  rule(Beta, (p, q) => {
    const { concentration1: a, concentration0: b } = p, total = a.add(b).digamma();
    const first = a.sub(q.concentration1).mul(a.digamma().sub(total));
    const second = b.sub(q.concentration0).mul(b.digamma().sub(total));
    return logBeta(q.concentration1, q.concentration0).sub(logBeta(a, b)).add(first).add(second);
  }),
  rule(Dirichlet, ofDirichlet),
  rule(Bernoulli, ofBernoulli),
  rule(Geometric, (p, q) => ofBernoulli(p, q).div(p.probs)),
  rule(Categorical, (p, q) => {
    const { probs } = p;
    return probs.eq(0).where(0, probs.mul(p.logits.sub(q.logits))).sum(-1);
  }),
  rule(OneHotCategorical, (p, q) => kl(p.base, q.base)),
  rule(Poisson, (p, q) => p.rate.xlogy(p.rate.div(q.rate)).sub(p.rate.sub(q.rate))),
  rule(Binomial, (p, q) => {
    const each = ofBernoulli(
      new Bernoulli({ logits: p.logits }),
      new Bernoulli({ logits: q.logits }),
    );
    // What q cannot draw has no share in it; of fewer trials there is no formula.
    const { totalCount: n } = p, same = n.eq(q.totalCount).where(n.mul(each), NaN);
    return n.gt(q.totalCount).where(Infinity, same);
  }),
  rule(Cauchy, (p, q) => {
    const distance = p.loc.sub(q.loc).square().add(p.scale.add(q.scale).square());
    return distance.div(p.scale.mul(q.scale).mul(4)).log();
  }),
  rule(Gumbel, (p, q) => {
    const ratio = p.scale.div(q.scale), moved = p.loc.sub(q.loc).div(q.scale);
    const far = ratio.add(1).lgamma().sub(moved).exp();
    return moved.sub(ratio.log()).add(ratio.mul(EULER)).add(far).sub(1 + EULER);
  }),
  rule(HalfNormal, (p, q) => kl(p.base, q.base)),
  rule(MultivariateNormal, (p, q) => {
    const n = p.eventShape[0]!, [a, b] = [p.scaleTril, q.scaleTril];
    const spread = solveTriangular(b, a, { upper: false }).square().sum([-2, -1]);
    const distance = p.loc.sub(q.loc).unsqueeze(-1);
    const moved = solveTriangular(b, distance, { upper: false }).square().sum([-2, -1]);
    const growth = diagonal(b).log().sum(-1).sub(diagonal(a).log().sum(-1));
    return spread.add(moved).sub(n).mul(0.5).add(growth);
  }),
  rule(Independent, (p, q) => p.sumOf(kl(p.base, q.base))),
];

/**
 * The divergence of Kullback and Leibler of `p` from `q`, in nats: what is lost where `q` is taken for `p`.
 *
 * @throws {TypeError} When there is no formula for the two.
 * @example
 * ```ts
 * import { distributions as d } from "@netcl/netcl";
 *
 * const lost = d.kl(new d.Normal(0, 1), new d.Normal(1, 1));
 * console.assert(Math.abs(await lost.item() - 0.5) < 1e-6);
 * ```
 */
export function kl(p: Distribution, q: Distribution): Tensor {
  const found = rules.find(({ kind }) => p instanceof kind && q instanceof kind);
  if (found) return found.divergence(p as never, q as never);
  throw new TypeError(
    `Cannot take the divergence of ${p?.constructor?.name} from ${q?.constructor?.name}: there are ` +
      `formulas for two of a kind of ${
        rules.map(({ kind }) => kind.name).join(", ")
      }; else take the ` +
      `mean of p.logProb(x) - q.logProb(x) over x = p.sample([n])`,
  );
}
