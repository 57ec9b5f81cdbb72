/**
 * Gamma and Dirichlet numbers whose gradients go to the concentrations, with the share below each number
 * held (`ops/special/sample_slopes.ts`). As in PyTorch, these gradients have none of their own.
 */
import type { Shape } from "../../backend/internal.ts";
import { result } from "../core/apply.ts";
import { compute } from "../core/operations.ts";
import { Tensor } from "../class/tensor.ts";
import { betaSlope, gammaSlope } from "../ops/special/sample_slopes.ts";
import { like } from "./distribution.ts";

function gammaNumbersOf(concentration: Tensor, shape: Shape): Tensor {
  const a = concentration.expand([...shape]), x = Tensor.gamma(a.detach(), shape, like(a));
  return result("gamma", [a], x, (g, x) => [g.mul(gammaSlope(a, x))]);
}

/** Numbers of gamma distributions of scale 1. */
export function gammaNumbers(concentration: Tensor, shape: Shape): Tensor {
  return compute(gammaNumbersOf, concentration, shape);
}

function dirichletNumbersOf(concentration: Tensor, shape: Shape): Tensor {
  const a = concentration.expand([...shape]), x = Tensor.dirichlet(a.detach(), shape, like(a));
  return result("dirichlet", [a], x, (g, x) => {
    // A share moves as a beta number does, and takes from the others in proportion.
    const others = a.detach().sum(-1, { keepDims: true }).sub(a.detach());
    const mean = g.mul(x).sum(-1, { keepDims: true });
    return [g.sub(mean).mul(betaSlope(a, others, x))];
  });
}

/** Shares of a whole along the last axis. */
export function dirichletNumbers(concentration: Tensor, shape: Shape): Tensor {
  return compute(dirichletNumbersOf, concentration, shape);
}
