/** Matrices of derivatives: each row, or column, is a sample of one batched product with the Jacobian. */
import type { Shape } from "../../backend/internal.ts";
import { isGradEnabled } from "../core/modes/grad_mode.ts";
import { Tensor } from "../class/tensor.ts";
import { requireTensor } from "../core/apply.ts";
import {
  argumentOf,
  type ArgumentOptions,
  type Arguments,
  callBy,
  grad,
  gradientsIn,
  jvp,
} from "./derivatives.ts";
import { vmap } from "./vmap.ts";

/** The vectors of the standard basis, each of a shape: (size, ...shape). */
function basis({ size, shape, dtype, device }: Tensor): Tensor {
  return Tensor.eye(size, { dtype, device }).reshape([size, ...shape]);
}

function shapes(y: Tensor, x: Tensor): Shape {
  return [...y.shape, ...x.shape];
}

/**
 * A function that gives the Jacobian of `f`, all derivatives of its result by an argument, in reverse mode:
 * a product with the transposed Jacobian for each number that `f` gives.
 *
 * @param f The function; the argument is a tensor.
 * @param options Which argument.
 * @returns Gives the shape of the result, with that of the argument behind it.
 *
 * @example
 * ```ts
 * import { func, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const jacobian = func.jacrev((x: Tensor) => x.square());
 * assertEquals(await jacobian(Tensor.fromHost([1, 2])).toArray(), [[2, 0], [0, 4]]);
 * ```
 */
export function jacrev<A extends Arguments>(
  f: (...args: A) => Tensor,
  options: ArgumentOptions = {},
): (...args: A) => Tensor {
  const argument = argumentOf("jacrev", f, options);
  return (...args) => {
    requireTensor("jacrev", args[argument], " for the argument");
    const call = callBy("jacrev", f, args, [argument]), { value, inputs } = call;
    const rows = vmap((seed: Tensor) =>
      gradientsIn(call, seed, isGradEnabled() && call.isOuter)[0]!
    );
    return rows(basis(value)).reshape(shapes(value, inputs[0]!));
  };
}

/**
 * As {@linkcode jacrev}, in forward mode: a product with the Jacobian for each number of the argument, which is
 * less work where these are fewer than what `f` gives.
 */
export function jacfwd<A extends Arguments>(
  f: (...args: A) => Tensor,
  options: ArgumentOptions = {},
): (...args: A) => Tensor {
  const argument = argumentOf("jacfwd", f, options);
  return (...args) => {
    const x = args[argument] as Tensor;
    requireTensor("jacfwd", x, " for the argument");
    const of = (at: Tensor) => f(...args.with(argument, at) as A);
    const columns = vmap((tangent: Tensor) => jvp(of, [x], [tangent])[1], { outAxis: -1 });
    const found = columns(basis(x));
    return found.reshape([...found.shape.slice(0, -1), ...x.shape]);
  };
}

/** The Jacobian in reverse mode: another name of {@linkcode jacrev}, which says more of it. */
export function jacobian<A extends Arguments>(
  f: (...args: A) => Tensor,
  options: ArgumentOptions = {},
): (...args: A) => Tensor {
  return jacrev(f, options);
}

/**
 * A function that gives the Hessian of `f`, whose result is one number: all second derivatives by an argument.
 *
 * @param f The function; the argument is a tensor.
 * @param options Which argument.
 * @returns Gives the shape of the argument, twice.
 *
 * @example
 * ```ts
 * import { func, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const hessian = func.hessian((x: Tensor) => x.prod());
 * assertEquals(await hessian(Tensor.fromHost([2, 3])).toArray(), [[0, 1], [1, 0]]);
 * ```
 */
export function hessian<A extends Arguments>(
  f: (...args: A) => Tensor,
  options: ArgumentOptions = {},
): (...args: A) => Tensor {
  return jacrev(grad(f, options) as (...args: A) => Tensor, options);
}
