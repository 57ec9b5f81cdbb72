/** Keeping gradients small, on the device: nothing waits for their size. */
import type { DeviceHandle } from "../../backend/internal.ts";
import { observedCall } from "../core/operations.ts";
import { computeWithNext } from "../core/pending_work.ts";
import { withoutGrad } from "../core/modes/grad_mode.ts";
import type { Tensor } from "../core/mod.ts";
import { requireParameters } from "./optimizer/requirements.ts";
import { checkOptions, requireValue, type Rules, takes } from "../core/rules/options.ts";
import { exposed, gradientOf, replaceGradient } from "../core/internals.ts";

/** Added to the norm before it divides, as in PyTorch. */
const TINY = 1e-6;

const clipRules: Rules<{ normType?: number }> = { normType: takes.positiveOrInfinite };

function withGradient(op: string, parameters: readonly Tensor[]): Tensor[] {
  requireParameters(op, parameters);
  const list = parameters.filter((parameter) => gradientOf(parameter) !== null);
  if (list.length > 0) return list;
  throw new Error(`Cannot ${op}: no parameter has a gradient; call backward() first`);
}

function changeGradient(parameter: Tensor, change: (gradient: Tensor) => Tensor): void {
  replaceGradient(parameter, exposed(change(gradientOf(parameter)!)));
}

/**
 * Scales all gradients by one number, so that together they are no longer than `maxNorm`; shorter ones
 * stay.
 *
 * @param parameters Whose gradients.
 * @param maxNorm The most that their norm may be.
 * @param options `normType`: 2 (default), another order, or Infinity for the largest element.
 * @returns The norm before, a scalar on the first parameter's device, computed with the next step.
 * @throws {Error} When there is no gradient.
 *
 * @example
 * ```ts
 * import { optim, Tensor } from "@netcl/netcl";
 * import { assert, assertAlmostEquals } from "@std/assert";
 *
 * const x = Tensor.fromHost([3, 4], { requiresGrad: true });
 * x.mul(x).sum().mul(0.5).backward();
 * assertAlmostEquals(await optim.clipGradNorm([x], 1).item(), 5, 1e-5);
 * assert(await x.grad!.allClose(Tensor.fromHost([0.6, 0.8])));
 * ```
 */
export function clipGradNorm(
  parameters: readonly Tensor[],
  maxNorm: number,
  options: { normType?: number } = {},
): Tensor {
  requireValue("clip gradients", "maxNorm", maxNorm, takes.positiveOrInfinite);
  checkOptions("clip gradients", options, clipRules);
  return observedCall("compute", clipNorm, undefined, [parameters, maxNorm, options]) as Tensor;
}

function clipNorm(
  parameters: readonly Tensor[],
  maxNorm: number,
  options: { normType?: number },
): Tensor {
  const list = withGradient("clip gradients", parameters);
  return withoutGrad(() => {
    const norm = normOf(list.map((parameter) => gradientOf(parameter)!), options.normType ?? 2);
    const factor = norm.add(TINY).reciprocal().mul(maxNorm).clamp(undefined, 1).contiguous();
    const factors = new Map<DeviceHandle, Tensor>();
    for (const parameter of list) {
      const { device } = parameter;
      if (!factors.has(device)) factors.set(device, factor.to(device));
      changeGradient(parameter, (gradient) => gradient.mul(factors.get(device)!));
    }
    computeWithNext(norm);
    return norm;
  });
}

function normOf(gradients: readonly Tensor[], order: number): Tensor {
  const { device } = gradients[0]!;
  const parts = gradients.map((gradient) => {
    const wide = gradient.cast("float32");
    return (order === Infinity ? wide.abs().max() : powerSum(wide, order)).to(device);
  });
  if (order === Infinity) return parts.reduce((a, b) => a.maximum(b));
  const total = parts.reduce((a, b) => a.add(b));
  return order === 2 ? total.sqrt() : total.pow(1 / order);
}

function powerSum(x: Tensor, order: number): Tensor {
  return (order === 2 ? x.square() : x.abs().pow(order)).sum();
}

/**
 * Cuts every element of the gradients to `[-limit, limit]`.
 *
 * @param parameters Whose gradients.
 * @param limit The largest absolute value.
 * @throws {Error} When there is no gradient.
 */
export function clipGradValue(parameters: readonly Tensor[], limit: number): void {
  requireValue("clip gradients", "limit", limit, takes.positiveOrInfinite);
  observedCall("compute", clipValue, undefined, [parameters, limit]);
}

function clipValue(parameters: readonly Tensor[], limit: number): void {
  withoutGrad(() => {
    for (const parameter of withGradient("clip gradients", parameters)) {
      changeGradient(parameter, (gradient) => gradient.clamp(-limit, limit));
    }
  });
}
