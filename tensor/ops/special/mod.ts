/**
 * Special functions beside those that are methods of tensors (`lgamma`, `digamma`, `erf`, ...): the names
 * of `torch.special`, in camelCase, and SciPy's `beta`. Each has its gradient.
 *
 * @module
 */
export { i0, i0e, i1, i1e } from "./bessel.ts";
export { frexp, nextafter } from "./floats.ts";
export { betainc } from "./incomplete_beta.ts";
export {
  beta,
  entr,
  gammainc,
  gammaincc,
  logBeta,
  multigammaln,
  zeta,
} from "./incomplete_gamma.ts";
export { erfcx, logit, logNdtr, ndtr, ndtri, xlog1py } from "./normal.ts";
