/** Operations on the bits of integers. What they compute is in `ops/`. */
import { dtypes } from "../backend/internal.ts";
import { ElementwiseMethods } from "./elementwise_methods.ts";
import { DTypeError } from "./core/errors.ts";
import { binary, logicalNot, select, type TensorLike } from "./ops/elementwise.ts";
import type { Tensor } from "./tensor.ts";

/** By how many places the elements of a type can be shifted; bytes are shifted as whole numbers. */
const mostPlaces = { int32: 31, int64: 63, uint8: 8 } as const;

/**
 * Bits of integers, two's complement, and of truth values; operands broadcast and meet in one type.
 * None of them has a gradient.
 *
 * @example
 * ```ts
 * import { Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const x = Tensor.fromHost(Int32Array.of(12, -1));
 * assertEquals(await x.bitwiseAnd(10).toArray(), [8, 10]);
 * assertEquals(await x.bitwiseRightShift(2).toArray(), [3, -1]);
 * assertEquals(await x.bitwiseNot().toArray(), [-13, 0]);
 * ```
 */
export abstract class BitwiseMethods extends ElementwiseMethods {
  #self(): Tensor {
    return this as unknown as Tensor;
  }

  /** The bits that both have. @throws {DTypeError} Of floats. */
  bitwiseAnd(b: TensorLike): Tensor {
    return binary("bitwiseAnd", this.#self(), b);
  }

  /** The bits that one has, at least. @throws {DTypeError} Of floats. */
  bitwiseOr(b: TensorLike): Tensor {
    return binary("bitwiseOr", this.#self(), b);
  }

  /** The bits that one has alone. @throws {DTypeError} Of floats. */
  bitwiseXor(b: TensorLike): Tensor {
    return binary("bitwiseXor", this.#self(), b);
  }

  /** The bits that it has not; of truth values `logicalNot`. @throws {DTypeError} Of floats. */
  bitwiseNot(): Tensor {
    const self = this.#self();
    if (this.dtype === "bool") return logicalNot(self);
    return binary("bitwiseXor", self, this.dtype === "uint8" ? 255 : -1);
  }

  /**
   * The bits moved up by `b` places; by as many as the type has, or more, or fewer than 0, nothing is
   * left: 0.
   *
   * @throws {DTypeError} Of floats and truth values.
   */
  bitwiseLeftShift(b: TensorLike): Tensor {
    return this.#shifted("shiftLeft", b, 0);
  }

  /**
   * The bits moved down by `b` places, the sign stays; by as many as the type has, or more, or fewer
   * than 0, the sign alone is left: -1 or 0.
   *
   * @throws {DTypeError} Of floats and truth values.
   */
  bitwiseRightShift(b: TensorLike): Tensor {
    return this.#shifted("shiftRight", b, null);
  }

  /** Shifts by as many places as there are; `beyond` is the result of others, null for the sign. */
  #shifted(name: string, b: TensorLike, beyond: number | null): Tensor {
    const self = this.#self();
    const isNumber = typeof b === "number";
    const meant = isNumber ? this.dtype : binary("bitwiseOr", self, b).dtype;
    if (dtypes[meant].kind !== "int" || isNumber && !Number.isInteger(b)) {
      const by = isNumber ? b : b.dtype;
      throw new DTypeError(
        `Cannot shift the bits of ${this.dtype} by ${by}: both are integers; cast with .cast("int32")`,
      );
    }
    const x = self.cast(meant), most = mostPlaces[meant as keyof typeof mostPlaces];
    if (isNumber) {
      const fits = b >= 0 && b <= most;
      return fits || beyond === null ? binary(name, x, fits ? b : most) : x.fullLike(beyond);
    }
    const by = b.cast(meant), fits = by.ge(0).logicalAnd(by.le(most));
    const shifted = binary(name, x, select(fits, by, beyond === null ? most : 0));
    return beyond === null ? shifted : select(fits, shifted, beyond);
  }
}
