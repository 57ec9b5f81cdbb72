/**
 * Distributions, with the names of `torch.distributions`: `sample`, `rsample`, `logProb`, `entropy`, and
 * `kl` of two.
 *
 * @module
 */
export {
  Bernoulli,
  Binomial,
  Categorical,
  type Chances,
  Geometric,
  NegativeBinomial,
  OneHotCategorical,
  Poisson,
} from "./discrete.ts";
export { Distribution } from "./distribution.ts";
export { kl } from "./divergence.ts";
export { Beta, Chi2, Dirichlet, Exponential, Gamma, StudentT } from "./gamma_family.ts";
export { Cauchy, Gumbel, Laplace, LocationScale, Normal, Uniform } from "./location_scale.ts";
export { HalfNormal, LogNormal } from "./normal_family.ts";
export { Independent, MultivariateNormal, type Spread } from "./multivariate.ts";
