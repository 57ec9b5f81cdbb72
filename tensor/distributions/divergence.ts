/** Divergences of two distributions, by formula: a row for each kind. */
import type { Tensor } from "../core/tensor.ts";
import { logBeta } from "../ops/special/mod.ts";
import { Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson } from "./discrete.ts";
import type { Distribution } from "./distribution.ts";
import { Beta, Dirichlet, Exponential, Gamma } from "./gamma_family.ts";
import { Laplace, LogNormal, Normal, Uniform } from "./location_scale.ts";
import { Independent } from "./multivariate.ts";

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
    `Cannot take the divergence of ${p?.constructor.name} from ${q?.constructor.name}: there are ` +
      `formulas for two of a kind of ${
        rules.map(({ kind }) => kind.name).join(", ")
      }; else take the ` +
      `mean of p.logProb(x) - q.logProb(x) over x = p.sample([n])`,
  );
}
