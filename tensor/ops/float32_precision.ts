/** Precision of float32 products: one setting for the program, as in PyTorch. */
import type { Float32Precision } from "../../backend/internal.ts";
import { shown } from "../core/rules/options.ts";

const precisions: readonly string[] = ["highest", "high", "medium"] satisfies Float32Precision[];

let current: Float32Precision = "highest";

/**
 * Says how products of float32 (matrix products and convolutions) may be computed from now on, also
 * those of a later `backward`.
 *
 * - "highest" (the default) keeps float32's accuracy, in whatever way is fastest on a device.
 * - "high" and "medium" may round the operands to TF32, which has 11 significant bits, or to two numbers of
 *   bfloat16, which have 16: one product instead of three on NVIDIA devices from compute capability 8.0 on,
 *   three instead of six on those of 9.0, the same as "highest" elsewhere.
 *
 * Sums are float32 in any case.
 *
 * @param precision The precision.
 * @throws {TypeError} When it is none of these.
 *
 * @example
 * ```ts
 * import { getFloat32Precision, setFloat32Precision } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * setFloat32Precision("high");
 * assertEquals(getFloat32Precision(), "high");
 * setFloat32Precision("highest");
 * ```
 */
export function setFloat32Precision(precision: Float32Precision): void {
  if (!precisions.includes(precision)) {
    throw new TypeError(
      `Cannot set the precision of products to ${shown(precision)}: pass ${
        precisions.map((name) => `"${name}"`).join(", ")
      }`,
    );
  }
  current = precision;
}

/** Precision of float32 products. */
export function getFloat32Precision(): Float32Precision {
  return current;
}
