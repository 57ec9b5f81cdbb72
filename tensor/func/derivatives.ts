/** Derivatives of functions of tensors: gradients, and products with Jacobians from both sides. */
import { sameShape } from "../../backend/internal.ts";
import { grad as gradientsOf } from "../autograd/autograd.ts";
import { requireTensor } from "../core/apply.ts";
import { neededInputs } from "../core/grad_fn.ts";
import { stateOf } from "../core/internals.ts";
import { isGradEnabled, recording } from "../core/modes/grad_mode.ts";
import { tensorsIn, withTensors } from "../core/nested.ts";
import { shapeError } from "../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, shown, takes } from "../core/rules/options.ts";
import type { TensorsOf } from "../core/arguments.ts";
import type { Tensor } from "../core/tensor.ts";

/** Options of derivatives by one argument. */
export interface ArgumentOptions {
  /** The argument that the derivative is by, from 0, the default. */
  argument?: number;
}

const argumentRules: Rules<ArgumentOptions> = { argument: takes.whole };

// deno-lint-ignore no-explicit-any -- functions take what they take
export type Arguments = any[];

/** Checks a function and its options; gives the number of the argument. */
export function argumentOf(op: string, f: unknown, options: ArgumentOptions): number {
  requireValue(op, "f", f, takes.callback);
  checkOptions(op, options, argumentRules);
  return options.argument ?? 0;
}

/** A call of a function that is differentiated. */
export interface Call {
  /** Its results; recorded where it depends on the tensors. */
  readonly value: Tensor;
  /** Stand-ins that it got for the tensors that it is differentiated by. */
  readonly inputs: readonly Tensor[];
  /** True where somebody beside this derivative may differentiate what comes of it. */
  readonly isOuter: boolean;
}

/**
 * Calls `f` with tensors of its own in place of those of one argument, which it is differentiated by: nobody's
 * `grad` and `requiresGrad` are touched, and a gradient beyond it goes on.
 */
export function callBy<A extends Arguments>(
  op: string,
  f: (...args: A) => Tensor,
  args: A,
  which: readonly number[],
): Call {
  const isRecorded = isGradEnabled();
  const given = which.flatMap((k) => tensorsIn(args[k]));
  if (given.length === 0) {
    throw new TypeError(`Cannot ${op} by argument ${which}: there is no tensor in it`);
  }
  return recording(true, () => {
    const inputs = given.map((x) => isRecorded && x.requiresGrad ? x.clone() : leafOf(x));
    const next = inputs.values();
    const called = args.map((arg, k) =>
      which.includes(k) ? withTensors(arg, () => next.next().value!) : arg
    );
    const value = f(...called as A);
    requireTensor(`${op} of a function`, value);
    return { value, inputs, isOuter: isRecorded && dependsOnOthers(value, new Set(inputs)) };
  });
}

function leafOf(x: Tensor): Tensor {
  const leaf = x.detach();
  leaf.requiresGrad = true;
  return leaf;
}

/** True where it is computed from something that requires a gradient, beside these leaves. */
function dependsOnOthers(value: Tensor, inputs: ReadonlySet<Tensor>): boolean {
  const found = new Set([value]);
  for (const tensor of found) {
    const { gradFn, requiresGrad } = stateOf(tensor);
    if (gradFn !== null) { for (const input of neededInputs(gradFn)) found.add(input); }
    else if (requiresGrad && !inputs.has(tensor)) return true;
  }
  return false;
}

/** The gradients of a call's inputs; zeros where the value does not depend on them. */
export function gradientsIn({ value, inputs }: Call, seed: Tensor, createGraph: boolean): Tensor[] {
  if (!value.requiresGrad) return inputs.map((input) => input.zerosLike());
  return gradientsOf([value], inputs, { gradients: [seed], createGraph, retainGraph: true });
}

/** Results of a call, for those who are not to differentiate it. */
function valueOf({ value, isOuter }: Call): Tensor {
  return isOuter ? value : value.detach();
}

/**
 * A function that gives the gradient of `f`, whose result is one number.
 *
 * @param f The function; its argument may be a tensor, or tensors in arrays and plain objects, and what
 * the gradient is, is shaped like it.
 * @param options Which argument.
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
export function grad<A extends Arguments>(
  f: (...args: A) => Tensor,
  options: ArgumentOptions = {},
): (...args: A) => A[0] {
  const both = valueAndGrad(f, options);
  return (...args) => both(...args)[1];
}

/**
 * As {@linkcode grad}, with the value of `f` in front of the gradient.
 *
 * @throws {ShapeError} When called, and `f` gives more than one number.
 */
export function valueAndGrad<A extends Arguments>(
  f: (...args: A) => Tensor,
  options: ArgumentOptions = {},
): (...args: A) => [value: Tensor, gradient: A[0]] {
  const op = "take the gradient", argument = argumentOf(op, f, options);
  return (...args) => {
    const call = callBy(op, f, args, [argument]), { value } = call;
    if (value.size !== 1) {
      throw shapeError(op)`
        Cannot ${op} of a function that gives shape ${value.shape}: it must give one number;
        func.jacobian takes others`;
    }
    const found = gradientsIn(call, value.onesLike(), call.isOuter).values();
    return [valueOf(call), withTensors(args[argument], () => found.next().value!)];
  };
}

/**
 * The value of `f` at `x`, and the function that takes a cotangent of the value to those of the arguments:
 * the product with the Jacobian from the left. It may be called several times.
 *
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
export function vjp<Inputs extends Tensor[]>(
  f: (...x: Inputs) => Tensor,
  ...x: Inputs
): [value: Tensor, back: (cotangent: Tensor) => TensorsOf<Inputs>] {
  requireValue("vjp", "f", f, takes.callback);
  const call = callBy("vjp", f, x, x.map((_, k) => k));
  return [valueOf(call), (cotangent) => {
    requireLike("vjp", "cotangent", cotangent, call.value);
    const isOuter = isGradEnabled() && (call.isOuter || cotangent.requiresGrad);
    return gradientsIn(call, cotangent, isOuter) as TensorsOf<Inputs>;
  }];
}

function requireLike(op: string, what: string, given: Tensor, like: Tensor): void {
  requireTensor(op, given, ` for the ${what}`);
  if (sameShape(given.shape, like.shape)) return;
  throw shapeError(op)`
    Cannot ${op} with a ${what} of shape ${given.shape}: it must have that of the value,
    ${like.shape}`;
}

/**
 * The value of `f` at `x`, and its change along `tangents`: the product with the Jacobian from the right.
 * It is the derivative of {@linkcode vjp} by the cotangent, which that depends on linearly (J. Townsend,
 * A new trick for calculating Jacobian vector products, 2017).
 *
 * @param f The function.
 * @param x Where.
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
export function jvp<Inputs extends Tensor[]>(
  f: (...x: Inputs) => Tensor,
  x: Readonly<Inputs>,
  tangents: Readonly<Inputs>,
): [value: Tensor, tangent: Tensor] {
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
  x.forEach((each, k) => requireLike("jvp", "tangent", tangents[k]!, each));
  const call = callBy("jvp", f, [...x] as Inputs, x.map((_, k) => k));
  const isOuter = isGradEnabled() && (call.isOuter || tangents.some((t) => t.requiresGrad));
  return [valueOf(call), recording(true, () => tangentOf(call, tangents, isOuter))];
}

function tangentOf(call: Call, tangents: readonly Tensor[], createGraph: boolean): Tensor {
  const cotangent = call.value.zerosLike();
  cotangent.requiresGrad = true;
  const pulled = gradientsIn(call, cotangent, true);
  const used = pulled.map((_, k) => k).filter((k) => pulled[k]!.requiresGrad);
  if (used.length === 0) return call.value.detach().zerosLike();
  const gradients = used.map((k) => tangents[k]!);
  return gradientsOf(used.map((k) => pulled[k]!), [cotangent], { gradients, createGraph })[0]!;
}

/**
 * The product of the Hessian of `f`, whose result is one number, with a vector: the gradient's change along
 * it. No matrix is made.
 *
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
export function hvp(f: (x: Tensor) => Tensor, x: Tensor, vector: Tensor): Tensor {
  const [, back] = vjp(grad(f), x), [product] = back(vector);
  return product;
}
