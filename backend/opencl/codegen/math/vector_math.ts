/**
 * Functions of 16 lanes in OpenCL C that a CPU driver has not, or not as quick: of floats as every writer has
 * them (`lane_text.ts`), of integers, quotients, random numbers.
 *
 * This folder (`math/`) holds texts of helper functions; it imports `backend/codegen/functions` and, for blocks
 * of few bits, `backend/formats`.
 */
import { counters } from "./counters.ts";
import { divisions } from "./divisions.ts";
import { laneHelpers } from "./lane_text.ts";
import { powers } from "./powers.ts";

/** The texts by name; each calls those before it. */
export const vectorMath: Readonly<Record<string, string | (() => string)>> = {
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
  ...laneHelpers,
  ...powers,
  ...divisions,
  ...counters,
};
