/** Binary operations written as functions, for a number on the left. What they compute is in `ops/`. */
import { binary, type TensorLike } from "./ops/elementwise.ts";
import { ProductMethods } from "./product_methods.ts";
import type { Tensor } from "./tensor.ts";

/**
 * `Tensor.sub(1, x)` where `x.sub(1)` has it the other way round. Either operand may be a number; a
 * tensor keeps its type beside one, as in the methods of these names.
 *
 * @example
 * ```ts
 * import { Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.fromHost([1, 2, 4]);
 * assertEquals(await Tensor.sub(1, x).toArray(), [0, -1, -3]);
 * assertEquals(await Tensor.div(1, x).toArray(), [1, 0.5, 0.25]);
 * assertEquals(await Tensor.pow(2, x).toArray(), [2, 4, 16]);
 * ```
 */
export abstract class ReversedMethods extends ProductMethods {
  /** `a - b`. */
  static sub(a: TensorLike, b: TensorLike): Tensor {
    return binary("sub", a, b);
  }

  /** `a / b`; of integers in float32. */
  static div(a: TensorLike, b: TensorLike): Tensor {
    return binary("div", a, b);
  }

  /** `a` to the power of `b`. */
  static pow(a: TensorLike, b: TensorLike): Tensor {
    return binary("pow", a, b);
  }

  /** What is left of `a` when it is divided by `b`, with the sign of `b`. */
  static remainder(a: TensorLike, b: TensorLike): Tensor {
    return binary("remainder", a, b);
  }

  /** `a / b`, rounded down. */
  static floorDivide(a: TensorLike, b: TensorLike): Tensor {
    return binary("floorDivide", a, b);
  }

  /** The angle of the point (`b`, `a`), in radians from -pi to pi. */
  static atan2(a: TensorLike, b: TensorLike): Tensor {
    return binary("atan2", a, b);
  }
}
