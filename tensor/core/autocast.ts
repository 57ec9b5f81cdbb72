/**
 * Mixed precision: products in half precision, what needs range or sums in single. A property of the
 * running task; operations ask here.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { type DType, isFloat } from "../../backend/internal.ts";
import type { Tensor } from "./mod.ts";
import { requireValue, shown, takes } from "./rules/options.ts";

/** The types of half precision. */
export type HalfType = "float16" | "bfloat16";

const active = new AsyncLocalStorage<HalfType | null>();
/** Nobody pays for a look at the task before the first use. */
let everUsed = false;

/**
 * Runs `fn` in mixed precision: matrix products and convolutions of float32 are computed in `dtype`;
 * exponentials, sums, normalizations and losses of half precision in float32. Parameters stay float32
 * and get gradients in float32. Safe across await; call `backward` inside or outside.
 *
 * @param dtype "float16" (with a {@linkcode GradScaler}), "bfloat16", or "float32" for none.
 * @param fn What to run.
 * @returns What `fn` returns.
 *
 * @example
 * ```ts
 * import { amp, nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const layer = new nn.Linear(8, 4);
 * const y = amp.autocast("float16", () => layer.forward(Tensor.ones([2, 8])));
 * assertEquals(y.dtype, "float16");
 * assertEquals(layer.weight.dtype, "float32");
 * ```
 */
export function autocast<T>(dtype: HalfType | "float32", fn: () => T): T {
  if (dtype !== "float16" && dtype !== "bfloat16" && dtype !== "float32") {
    throw new TypeError(
      `Cannot autocast to ${shown(dtype)}: pass "float16", "bfloat16", or "float32" for none`,
    );
  }
  requireValue("autocast", "fn", fn, takes.callback);
  if (dtype === "float32" && !everUsed) return fn();
  everUsed = true;
  return active.run(dtype === "float32" ? null : dtype, fn);
}

/** The type that products are computed in, null for that of their operands. */
export function presentHalfType(): HalfType | null {
  return everUsed ? active.getStore() ?? null : null;
}

/** Runs `fn` with every operation in the type of its operands: gradients have those of the forward. */
export function withoutAutocast<T>(fn: () => T): T {
  return presentHalfType() ? active.run(null, fn) : fn();
}

function isCast(dtype: DType): boolean {
  return isFloat(dtype) && dtype !== "float64";
}

/** The operands of a product: in half precision where that is asked for. */
export function narrowed(a: Tensor, b: Tensor): [Tensor, Tensor] {
  const dtype = presentHalfType();
  return dtype && isCast(a.dtype) && isCast(b.dtype) ? [a.cast(dtype), b.cast(dtype)] : [a, b];
}

/** True for the types of half precision. */
export function isHalf(dtype: DType): boolean {
  return dtype === "float16" || dtype === "bfloat16";
}

/** Half precision converted to single; else the tensor itself. */
export function atLeastSingle(x: Tensor): Tensor {
  return isHalf(x.dtype) ? x.cast("float32") : x;
}

/** The type of what needs range, or adds much up: single precision where half is asked for. */
export function widenedType(dtype: DType): DType {
  return isHalf(dtype) && presentHalfType() ? "float32" : dtype;
}

/** The operand of what needs range, or adds much up. */
export function widened(x: Tensor): Tensor {
  return x.cast(widenedType(x.dtype));
}
