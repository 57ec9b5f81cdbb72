/** Matrices of derivatives: each row, or column, is a sample of one batched product with the Jacobian. */
import { isGradEnabled } from "../core/modes/grad_mode.ts";
import { Tensor } from "../class/tensor.ts";
import { requireTensor } from "../core/apply.ts";
import { tensorsIn } from "../core/nested.ts";
import {
  argumentOf,
  type ArgumentOptions,
  type Arguments,
  type ByArgument,
  callBy,
  chosen,
  gradientsIn,
  jvp,
  shapedLike,
} from "./derivatives.ts";
import { vmap } from "./vmap.ts";

/**
 * Derivatives of what a function gives by its arguments: for each tensor of the result something in the shape of
 * the argument, in which each tensor has the axes of the result and then its own.
 */
export type Jacobian<R, By> = R extends Tensor ? By
  : { readonly [K in keyof R]: Jacobian<R[K], By> };

/** The vectors of the standard basis, each of a shape: (size, ...shape). */
function basis({ size, shape, dtype, device }: Tensor): Tensor {
  return Tensor.eye(size, { dtype, device }).reshape([size, ...shape]);
}

/**
 * A function that gives the Jacobian of `f`, all derivatives of its result by an argument, in reverse mode:
 * a product with the transposed Jacobian for each number that `f` gives.
 *
 * @param f The function; it may take and give tensors in arrays and plain objects.
 * @param options Which argument, or arguments.
 * @returns Gives the shape of the result, with that of the argument behind it; of several tensors a
 * {@linkcode Jacobian}.
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
export function jacrev<
  A extends Arguments,
  R,
  const O extends ArgumentOptions = ArgumentOptions,
>(
  f: (...args: A) => R,
  options: O & ArgumentOptions = {} as O & ArgumentOptions,
): (...args: A) => Jacobian<R, ByArgument<A, O>> {
  const which = argumentOf("jacrev", f, options);
  return (...args) => {
    const call = callBy("jacrev", f, args, which), { outputs, inputs } = call;
    const createGraph = isGradEnabled() && call.isOuter;
    const rowsOf = (y: Tensor): Tensor[] => {
      const pull = (seed: Tensor) => gradientsIn({ ...call, outputs: [y] }, [seed], createGraph);
      return y.size === 1 ? pull(y.detach().onesLike()) : vmap(pull)(basis(y));
    };
    const parts = outputs.map((y) => {
      const rows = rowsOf(y).map((row, k) => row.reshape([...y.shape, ...inputs[k]!.shape]));
      return shapedLike(chosen(args, which), rows);
    });
    return shapedLike(call.value, parts) as Jacobian<R, ByArgument<A, O>>;
  };
}

/**
 * As {@linkcode jacrev}, in forward mode: a product with the Jacobian for each number of the argument, which is
 * less work where these are fewer than what `f` gives.
 */
export function jacfwd<
  A extends Arguments,
  R,
  const O extends ArgumentOptions = ArgumentOptions,
>(
  f: (...args: A) => R,
  options: O & ArgumentOptions = {} as O & ArgumentOptions,
): (...args: A) => Jacobian<R, ByArgument<A, O>> {
  const which = argumentOf("jacfwd", f, options);
  return (...args) => {
    const by = chosen(args, which), inputs = tensorsIn(by);
    if (inputs.length === 0) requireTensor("jacfwd", by, " for the argument");
    const of = (at: unknown): R => {
      const called = [...args];
      if (typeof which === "number") called[which] = at;
      else which.forEach((k, place) => called[k] = (at as unknown[])[place]);
      return f(...called as A);
    };
    // The changes of all results along all directions of an input, directions last.
    const columns = inputs.map((x, place) => {
      const zeros = inputs.map((input) => input.zerosLike());
      const push = (direction: Tensor): R => {
        const tangents = zeros.with(place, direction);
        return jvp(of, [by], [shapedLike(by, tangents)])[1];
      };
      return vmap(push, { outAxis: -1 })(basis(x));
    });
    const parts = tensorsIn(columns[0]).map((_, at) =>
      shapedLike(
        by,
        columns.map((column, k) => {
          const found = tensorsIn(column)[at]!;
          return found.reshape([...found.shape.slice(0, -1), ...inputs[k]!.shape]);
        }),
      )
    );
    return shapedLike(columns[0], parts) as Jacobian<R, ByArgument<A, O>>;
  };
}

/** The Jacobian in reverse mode: another name of {@linkcode jacrev}, which says more of it. */
export function jacobian<
  A extends Arguments,
  R,
  const O extends ArgumentOptions = ArgumentOptions,
>(
  f: (...args: A) => R,
  options: O & ArgumentOptions = {} as O & ArgumentOptions,
): (...args: A) => Jacobian<R, ByArgument<A, O>> {
  return jacrev(f, options);
}

/**
 * A function that gives the Hessian of `f`: all second derivatives by an argument.
 *
 * @param f The function; the argument may be tensors in arrays and plain objects.
 * @param options Which argument, or arguments.
 * @returns Gives the shape of the result, with that of the argument twice behind it.
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
export function hessian<
  A extends Arguments,
  R,
  const O extends ArgumentOptions = ArgumentOptions,
>(
  f: (...args: A) => R,
  options: O & ArgumentOptions = {} as O & ArgumentOptions,
): (...args: A) => Jacobian<Jacobian<R, ByArgument<A, O>>, ByArgument<A, O>> {
  return jacrev(jacrev(f, options), options);
}
