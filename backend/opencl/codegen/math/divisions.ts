/** Quotients and remainders of 16 lanes, of floats and of integers. */

/** Integers by the nearest quotient in doubles, which is exact: what is left says how to round it. */
const ofIntegers = (name: string, driver: string, result: string): string =>
  `inline int16 ${name}_16(int16 a, int16 b) {
#ifdef cl_khr_fp64
  int16 n = (int16)(nearest_8(a.lo, b.lo), nearest_8(a.hi, b.hi));
  const int16 r = a - n * b;
${result}
  return select(v, (int16)(0), b == 0);
#else
  int lanes[16], others[16];
  vstore16(a, 0, lanes);
  vstore16(b, 0, others);
  for (int k = 0; k < 16; ++k) lanes[k] = ${driver}(lanes[k], others[k]);
  return vload16(0, lanes);
#endif
}`;

export const divisions: Readonly<Record<string, string>> = {
  // n = round(a / b), and a - n b, which is a float: the product is not rounded.
  near_16: `inline float16 near_16(float16 a, float16 b, float16* n) {
  *n = rint(a / b);
  return fma(-*n, b, a);
}`,
  // Where a quotient has too many bits for that, or is none.
  far_16:
    "inline int16 far_16(float16 a, float16 b) { return !(fabs(a / b) < 4194304.0f) | (fabs(b) == INFINITY); }",
  // Python's remainder: the sign is that of the divisor.
  apart_16:
    "inline int16 apart_16(float16 r, float16 b) { return (r != 0.0f) & ((r < 0.0f) != (b < 0.0f)); }",
  float_mod_16: `inline float16 float_mod_16(float16 a, float16 b) {
  float16 n, r = near_16(a, b, &n);
  const int16 far = far_16(a, b);
  if (any_16(far)) r = select(r, fmod(a, b), far);
  r = select(r, with_sign_16(r, a), r == 0.0f);
  return select(r, r + b, apart_16(r, b));
}`,
  float_floordiv_16: `inline float16 float_floordiv_16(float16 a, float16 b) {
  float16 n, r = near_16(a, b, &n);
  const int16 far = far_16(a, b);
  if (any_16(far)) {
    r = select(r, fmod(a, b), far);
    n = select(n, (a - r) / b, far);
  }
  n += convert_float16(apart_16(r, b));
  n = select(rint(n), with_sign_16((float16)(0.0f), a / b), n == 0.0f);
  return select(n, a / b, b == 0.0f);
}`,
  nearest_8: `#ifdef cl_khr_fp64
inline int8 nearest_8(int8 a, int8 b) {
  return convert_int8(as_long8(convert_double8(a) / convert_double8(b) + 6755399441055744.0));
}
#endif`,
  int_div_16: ofIntegers(
    "int_div",
    "safe_div_int",
    `  const int16 over = (r != 0) & ((r < 0) != (a < 0));
  const int16 v = n + select((int16)(0), select((int16)(-1), (int16)(1), (a < 0) != (b < 0)), over);`,
  ),
  int_floordiv_16: ofIntegers(
    "int_floordiv",
    "safe_floordiv_int",
    "  const int16 v = n + ((r != 0) & ((r < 0) != (b < 0)));",
  ),
  int_mod_16: ofIntegers(
    "int_mod",
    "safe_mod_int",
    "  const int16 v = select(r, r + b, (r != 0) & ((r < 0) != (b < 0)));",
  ),
};
