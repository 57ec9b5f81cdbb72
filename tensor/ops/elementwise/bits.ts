/** The bits of integers, two's complement, and of truth values. */
import { dtypes } from "../../../backend/internal.ts";
import { dtypeError } from "../../core/rules/errors.ts";
import type { Tensor } from "../../core/mod.ts";
import { binary, logicalNot, select } from "./elementwise.ts";
import type { TensorLike } from "../../core/arguments.ts";

/** The bits that it has not; of truth values `logicalNot`. */
export function bitwiseNot(x: Tensor): Tensor {
  if (x.dtype === "bool") return logicalNot(x);
  const { lowest, highest } = dtypes[x.dtype];
  return binary("bitwiseXor", x, lowest === 0 ? Number(highest) : -1);
}

/** The bits moved up by `b` places; 0 where that is more than there are. */
export function bitwiseLeftShift(x: Tensor, b: TensorLike): Tensor {
  return shifted("shiftLeft", x, b, 0);
}

/** The bits moved down by `b` places; the sign stays. */
export function bitwiseRightShift(x: Tensor, b: TensorLike): Tensor {
  return shifted("shiftRight", x, b, null);
}

/** Shifts by as many places as there are; `beyond` is the result of others, null for the sign. */
function shifted(
  name: "shiftLeft" | "shiftRight",
  a: Tensor,
  b: TensorLike,
  beyond: number | null,
): Tensor {
  const isNumber = typeof b === "number";
  const meant = isNumber ? a.dtype : binary("bitwiseOr", a, b).dtype;
  if (dtypes[meant].kind !== "int" || isNumber && !Number.isInteger(b)) {
    const by = isNumber ? b : b.dtype;
    throw dtypeError(name)`
      Cannot shift the bits of ${a.dtype} by ${by}: both are integers; cast with .cast("int32")`;
  }
  const x = a.cast(meant), { bytes, lowest } = dtypes[meant];
  // All bits of a number without a sign may go; they are shifted in a wider type.
  const most = 8 * bytes - (lowest === 0 ? 0 : 1);
  if (isNumber) {
    const fits = b >= 0 && b <= most;
    return fits || beyond === null ? binary(name, x, fits ? b : most) : x.fullLike(beyond);
  }
  const by = b.cast(meant), fits = by.ge(0).logicalAnd(by.le(most));
  const values = binary(name, x, select(fits, by, beyond === null ? most : 0));
  return beyond === null ? values : select(fits, values, beyond);
}
