/** Derivatives of functions of tensors: gradients, and products with Jacobians from both sides. */
import { sameShape } from "../../backend/internal.ts";
import { grad as gradientsOf } from "../autograd/autograd.ts";
import { requireTensor } from "../core/apply.ts";
import { transforming } from "../core/calls.ts";
import { neededInputs } from "../core/grad_fn.ts";
import { stateOf } from "../core/internals.ts";
import { isGradEnabled, recording } from "../core/modes/grad_mode.ts";
import { tensorsIn, withTensors } from "../core/nested.ts";
import { shapeError } from "../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, shown, takes } from "../core/rules/options.ts";
import type { Tensor } from "../core/mod.ts";

/** Options of derivatives by arguments. */
export interface ArgumentOptions {
  /** The argument that the derivative is by, from 0, the default, or several: then there is a list of results. */
  argument?: number | readonly number[];
}

/** Options of gradients. */
export interface GradOptions extends ArgumentOptions {
  /** `f` gives a list of its number and something else, which stands behind the gradient. */
  hasAux?: boolean;
}

const argument = {
  takes: "a whole number of at least 0, or a list of these",
  accepts: (value: unknown) =>
    (Array.isArray(value) && value.length > 0 ? value : [value])
      .every((k) => Number.isSafeInteger(k) && k >= 0),
};
const argumentRules: Rules<ArgumentOptions> = { argument };
const gradRules: Rules<GradOptions> = { argument, hasAux: takes.bool };

// deno-lint-ignore no-explicit-any -- functions take what they take
export type Arguments = any[];

/** Something in the shape of the arguments that a derivative is by. */
export type ByArgument<A extends Arguments, O> = O extends { argument: readonly number[] }
  ? A[number][]
  : O extends { argument: infer K extends number } ? A[K]
  : A[0];

/** Checks a function and its options; gives the number of the argument. */
export function argumentOf(
  op: string,
  f: unknown,
  options: ArgumentOptions,
): number | readonly number[] {
  requireValue(op, "f", f, takes.callback);
  checkOptions(op, options, argumentRules);
  return options.argument ?? 0;
}

/** The argument that the derivative is by, or a list of them. */
export function chosen(args: Arguments, which: number | readonly number[]): unknown {
  return typeof which === "number" ? args[which] : which.map((k) => args[k]);
}

/** A call of a function that is differentiated. */
export interface Call {
  /** Its result. */
  readonly value: unknown;
  /** The tensors of it; recorded where they depend on the inputs. */
  readonly outputs: readonly Tensor[];
  /** Stand-ins that it got for the tensors that it is differentiated by. */
  readonly inputs: readonly Tensor[];
  /** True where somebody beside this derivative may differentiate what comes of it. */
  readonly isOuter: boolean;
}

/**
 * Calls `f` with tensors of its own in place of those of some arguments, which it is differentiated by: nobody's
 * `grad` and `requiresGrad` are touched, and a gradient beyond it goes on.
 */
export function callBy<A extends Arguments>(
  op: string,
  f: (...args: A) => unknown,
  args: A,
  which: number | readonly number[],
): Call {
  const isRecorded = isGradEnabled(), list = typeof which === "number" ? [which] : which;
  const given = list.flatMap((k) => tensorsIn(args[k]));
  if (given.length === 0) {
    throw new TypeError(`Cannot ${op} by argument ${which}: there is no tensor in it`);
  }
  return recording(true, () => {
    const inputs = given.map((x) => isRecorded && x.requiresGrad ? x.clone() : leafOf(x));
    const next = inputs.values(), called = [...args];
    for (const k of list) called[k] = withTensors(args[k], () => next.next().value!);
    const value = transforming(() => f(...called as A)), outputs = tensorsIn(value);
    if (outputs.length === 0) requireTensor(`${op} of a function`, value);
    const isOuter = isRecorded && dependsOnOthers(outputs, new Set(inputs));
    return { value, outputs, inputs, isOuter };
  });
}

function leafOf(x: Tensor): Tensor {
  const leaf = x.detach();
  leaf.requiresGrad = true;
  return leaf;
}

/** True where they are computed from something that requires a gradient, beside these leaves. */
function dependsOnOthers(values: readonly Tensor[], inputs: ReadonlySet<Tensor>): boolean {
  const found = new Set(values);
  for (const tensor of found) {
    const { gradFn, requiresGrad } = stateOf(tensor);
    if (gradFn !== null) { for (const input of neededInputs(gradFn)) found.add(input); }
    else if (requiresGrad && !inputs.has(tensor)) return true;
  }
  return false;
}

/** The gradients of a call's inputs, of those of its outputs; zeros where these do not depend on them. */
export function gradientsIn(
  { outputs, inputs }: Call,
  seeds: readonly Tensor[],
  createGraph: boolean,
): Tensor[] {
  const used = outputs.map((_, k) => k).filter((k) => outputs[k]!.requiresGrad);
  if (used.length === 0) return inputs.map((input) => input.zerosLike());
  const gradients = used.map((k) => seeds[k]!);
  return gradientsOf(used.map((k) => outputs[k]!), inputs, {
    gradients,
    createGraph,
    retainGraph: true,
  });
}

/** A value with these tensors, in its own shape. */
export function shapedLike(value: unknown, tensors: readonly unknown[]): unknown {
  const next = tensors.values();
  return withTensors(value, () => next.next().value as Tensor);
}

/** Results of a call, for those who are not to differentiate it. */
function valueOf({ value, outputs, isOuter }: Call): unknown {
  return isOuter ? value : shapedLike(value, outputs.map((x) => x.detach()));
}

/**
 * A function that gives the gradient of `f`, whose result is one number.
 *
 * @param f The function; its arguments may be tensors, or tensors in arrays and plain objects, and what
 * the gradient is, is shaped like the argument. With `hasAux` it gives a list of its number and something else.
 * @param options Which argument, or arguments.
 * @returns Gives the gradient, or a list of gradients, or with `hasAux` a list of these and the other.
 * @throws {ShapeError} When called, and `f` gives more than one number.
 *
 * @example
 * ```ts
 * import { func, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const third = func.grad(func.grad(func.grad((x: Tensor) => x.pow(4))));
 * assertEquals(await third(Tensor.fromHost(2)).item(), 48);
 * ```
 */
export function grad<A extends Arguments, X, O extends GradOptions>(
  f: (...args: A) => readonly [Tensor, X],
  options: O & { hasAux: true },
): (...args: A) => [gradient: ByArgument<A, O>, aux: X];
export function grad<A extends Arguments, const O extends GradOptions = GradOptions>(
  f: (...args: A) => Tensor,
  options?: O,
): (...args: A) => ByArgument<A, O>;
export function grad(
  f: (...args: Arguments) => unknown,
  options: GradOptions = {},
): (...args: Arguments) => unknown {
  const both = valueAndGrad(f as () => Tensor, options) as (
    ...args: Arguments
  ) => [unknown, unknown];
  return (...args) => {
    const [value, gradient] = both(...args);
    return options.hasAux ? [gradient, (value as unknown[])[1]] : gradient;
  };
}

/**
 * As {@linkcode grad}, with the value of `f` in front of the gradient.
 *
 * @throws {ShapeError} When called, and `f` gives more than one number.
 */
export function valueAndGrad<A extends Arguments, X, O extends GradOptions>(
  f: (...args: A) => readonly [Tensor, X],
  options: O & { hasAux: true },
): (...args: A) => [value: [value: Tensor, aux: X], gradient: ByArgument<A, O>];
export function valueAndGrad<A extends Arguments, const O extends GradOptions = GradOptions>(
  f: (...args: A) => Tensor,
  options?: O,
): (...args: A) => [value: Tensor, gradient: ByArgument<A, O>];
export function valueAndGrad(
  f: (...args: Arguments) => unknown,
  options: GradOptions = {},
): (...args: Arguments) => [unknown, unknown] {
  const op = "take the gradient";
  requireValue(op, "f", f, takes.callback);
  checkOptions(op, options, gradRules);
  const which = options.argument ?? 0;
  return (...args) => {
    const call = callBy(op, f, args, which);
    const first = options.hasAux ? (call.value as unknown[])[0] : call.value;
    requireTensor(`${op} of a function`, first);
    if (first.size !== 1) {
      throw shapeError(op)`
        Cannot ${op} of a function that gives shape ${first.shape}: it must give one number;
        func.jacobian takes others`;
    }
    const number = { ...call, outputs: [first] };
    const found = gradientsIn(number, [first.onesLike()], call.isOuter);
    return [valueOf(call), shapedLike(chosen(args, which), found)];
  };
}

/**
 * The value of `f` at `x`, and the function that takes a cotangent of the value to those of the arguments:
 * the product with the Jacobian from the left. It may be called several times.
 *
 * @param f The function; it may take and give tensors in arrays and plain objects.
 * @param x Where.
 * @throws {ShapeError} From the function, when the cotangent has not the shape of the value.
 *
 * @example
 * ```ts
 * import { func, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const [value, back] = func.vjp((x: Tensor) => x.square(), Tensor.fromHost([1, 2]));
 * assertEquals(await value.toArray(), [1, 4]);
 * const [gradient] = back(Tensor.fromHost([1, 10]));
 * assertEquals(await gradient.toArray(), [2, 40]);
 * ```
 */
export function vjp<A extends Arguments, R>(
  f: (...x: A) => R,
  ...x: A
): [value: R, back: (cotangent: R) => A] {
  requireValue("vjp", "f", f, takes.callback);
  const call = callBy("vjp", f, x, x.map((_, k) => k));
  return [valueOf(call) as R, (cotangent) => {
    const seeds = tensorsLike("vjp", "cotangent", cotangent, call.outputs);
    const isOuter = isGradEnabled() && (call.isOuter || seeds.some((g) => g.requiresGrad));
    return shapedLike(x, gradientsIn(call, seeds, isOuter)) as A;
  }];
}

/** The tensors in a value, of the shapes of others. */
function tensorsLike(
  op: string,
  what: string,
  value: unknown,
  like: readonly Tensor[],
): Tensor[] {
  const given = tensorsIn(value);
  if (given.length !== like.length) {
    if (like.length === 1) requireTensor(op, value, ` for the ${what}`);
    throw new TypeError(
      `Cannot ${op} with ${given.length} tensors as ${what}: pass ${like.length}, one for each`,
    );
  }
  given.forEach((x, k) => requireLike(op, what, x, like[k]!));
  return given;
}

function requireLike(op: string, what: string, given: Tensor, like: Tensor): void {
  if (sameShape(given.shape, like.shape)) return;
  throw shapeError(op)`
    Cannot ${op} with a ${what} of shape ${given.shape}: it must have the shape ${like.shape}`;
}

/**
 * The value of `f` at `x`, and its change along `tangents`: the product with the Jacobian from the right.
 * It is the derivative of {@linkcode vjp} by the cotangent, which that depends on linearly (J. Townsend,
 * A new trick for calculating Jacobian vector products, 2017).
 *
 * @param f The function; it may take and give tensors in arrays and plain objects.
 * @param x Where: its arguments.
 * @param tangents One for each of `x`, of its shape.
 * @throws {ShapeError} When a tangent has not the shape of its argument.
 *
 * @example
 * ```ts
 * import { func, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.fromHost([1, 2]), along = Tensor.fromHost([1, 10]);
 * const [value, tangent] = func.jvp((x: Tensor) => x.square(), [x], [along]);
 * assertEquals([await value.toArray(), await tangent.toArray()], [[1, 4], [2, 40]]);
 * ```
 */
export function jvp<A extends Arguments, R>(
  f: (...x: A) => R,
  x: readonly [...A],
  tangents: readonly [...A],
): [value: R, tangent: R] {
  requireValue("jvp", "f", f, takes.callback);
  requireValue("jvp", "x", x, takes.list);
  requireValue("jvp", "tangents", tangents, takes.list);
  if (x.length !== tangents.length) {
    throw new TypeError(
      `Cannot jvp with ${
        shown(tangents.length)
      } tangents of ${x.length} arguments: pass one for each`,
    );
  }
  const along = tensorsLike("jvp", "tangent", tangents, tensorsIn(x));
  const { value, tangent } = linearOf("jvp", f, [...x] as unknown as A);
  return [value, tangent(along)];
}

/**
 * The value of `f` at `x`, and its tangents as a function of those of the arguments: {@linkcode jvp} for many
 * tangents, whose first half is computed once.
 *
 * @param f The function; it may take and give tensors in arrays and plain objects.
 * @param x Where.
 * @throws {ShapeError} From the function, when a tangent has not the shape of its argument.
 */
export function linearize<A extends Arguments, R>(
  f: (...x: A) => R,
  ...x: A
): [value: R, tangent: (...tangents: A) => R] {
  requireValue("linearize", "f", f, takes.callback);
  const { value, tangent } = linearOf("linearize", f, x), given = tensorsIn(x);
  return [
    value,
    (...tangents) => tangent(tensorsLike("linearize", "tangent", tangents, given)),
  ];
}

/** The value, and the product with the Jacobian from the right. */
function linearOf<A extends Arguments, R>(
  op: string,
  f: (...x: A) => R,
  x: A,
): { value: R; tangent: (along: readonly Tensor[]) => R } {
  const call = callBy(op, f, x, x.map((_, k) => k)), { outputs } = call;
  // Whole numbers do not change.
  const cotangents = outputs.map((out) => out.requiresGrad ? leafOf(out.zerosLike()) : null);
  const live = cotangents.filter((g) => g !== null);
  const pulled = recording(
    true,
    () => gradientsIn(call, cotangents.map((g, k) => g ?? outputs[k]!), true),
  );
  const used = pulled.map((_, k) => k).filter((k) => pulled[k]!.requiresGrad);
  const tangent = (along: readonly Tensor[]): R => {
    const createGraph = isGradEnabled() && (call.isOuter || along.some((t) => t.requiresGrad));
    const gradients = used.map((k) => along[k]!), options = { createGraph, retainGraph: true };
    const found = used.length === 0 ? [] : recording(
      true,
      () => gradientsOf(used.map((k) => pulled[k]!), live, { gradients, ...options }),
    );
    const changes = cotangents.map((g, k) => {
      const change = g === null ? undefined : found[live.indexOf(g)];
      return change ?? outputs[k]!.detach().zerosLike();
    });
    return shapedLike(call.value, changes) as R;
  };
  return { value: valueOf(call) as R, tangent };
}

/**
 * The product of the Hessian of `f`, whose result is one number, with a vector: the gradient's change along
 * it. No matrix is made.
 *
 * @param f The function; its argument may be tensors in arrays and plain objects.
 * @param x Where.
 * @param vector Shaped like `x`.
 * @throws {ShapeError} When the vector has not the shape of `x`, or `f` gives more than one number.
 *
 * @example
 * ```ts
 * import { func, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.fromHost([1, 2]), v = Tensor.fromHost([1, 0]);
 * const product = func.hvp((x: Tensor) => x.pow(3).sum(), x, v);
 * assertEquals(await product.toArray(), [6, 0]);
 * ```
 */
export function hvp<X>(f: (x: X) => Tensor, x: X, vector: X): X {
  const [, back] = vjp(grad(f) as (x: X) => X, x);
  return back(vector)[0];
}
