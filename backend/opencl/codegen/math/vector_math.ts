/**
 * Functions of 16 lanes in OpenCL C. A CPU driver's own are accurate but slow, or compute one lane
 * after the other (PoCL 3.1: erf at a fifth of this speed, pow at a thirtieth). Errors stay below what OpenCL
 * allows its built-in functions; NaN, infinities and subnormal numbers come out as they should.
 *
 * A clamp is a comparison and a selection that keep NaN; adding 1.5 * 2^23 (2^52 to doubles) rounds to a
 * whole number that is then found in the low bits. What needs more than 24 bits on the way is computed in
 * doubles; a device without them takes the driver's own function.
 *
 * This folder (`math/`) holds texts of helper functions, and imports nothing.
 */
import { counters } from "./counters.ts";
import { divisions } from "./divisions.ts";
import { exponentials } from "./exponentials.ts";
import { powers } from "./powers.ts";
import { trigonometry } from "./trigonometry.ts";

/** The texts by name; each calls those before it. */
export const vectorMath: Readonly<Record<string, string>> = {
  // Whether one of 16 truth values holds. OpenCL's any() looks at them one after the other (PoCL 3.1).
  any_16: `inline int any_16(int16 v) {
#ifdef CLANG_BUILTINS
  return __builtin_reduce_or(v);
#else
  const int8 a = v.lo | v.hi;
  const int4 b = a.lo | a.hi;
  const int2 c = b.lo | b.hi;
  return c.x | c.y;
#endif
}`,
  // A size with the sign of another number. The compiler takes the liberty to lose that of 0 in copysign().
  with_sign_16: `inline float16 with_sign_16(float16 v, float16 sign) {
  return as_float16((as_int16(v) & 0x7fffffff) | (as_int16(sign) & INT_MIN));
}`,
  ...exponentials,
  ...trigonometry,
  ...powers,
  ...divisions,
  ...counters,
};
