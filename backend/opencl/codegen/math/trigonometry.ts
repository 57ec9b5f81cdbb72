/** Trigonometric functions of 16 lanes and their inverses. */

/** A function of what is left of an angle behind quarters of a circle; angles beyond 1e8 are the driver's. */
const ofQuarters = (name: string, value: string, driver: string, zero = "v"): string =>
  `inline float16 ${name}_16(float16 x) {
#ifdef cl_khr_fp64
  int8 low, high;
  const float8 first = quarter_8(x.lo, &low), last = quarter_8(x.hi, &high);
  const float16 r = (float16)(first, last), z = r * r;
  const int16 q = (int16)(low, high);
${value}
  const int16 far = !(fabs(x) < 1e8f);
  if (any_16(far)) v = select(v, ${driver}, far);
  return ${zero};
#else
  return ${driver};
#endif
}`;

/** Sums lose the sign of 0. */
const KEPT_ZERO = "select(v, x, x == 0.0f)";

const sine = `  float16 s = -1.951524956e-4f * z + 8.332160517e-3f;
  s = s * z - 1.666665461e-1f;
  s = s * z * r + r;`;
const cosine = `  float16 c = 2.443311797e-5f * z - 1.388731592e-3f;
  c = c * z + 4.166664568e-2f;
  c = c * z * z - 0.5f * z + 1.0f;`;
/** PoCL 3.1 computes small lanes wrongly where other lanes are very large: small ones take a series. */
const small = "fabs(x) < 0.0078125f";

/** An inverse function by `p`, asin() of the operand; beyond 1/2 asin(a) = pi / 2 - 2 asin(sqrt((1 - a) / 2)). */
const bySeries = (name: string, operand: string, result: string): string =>
  `inline float16 ${name}_16(float16 x) {
  const float16 a = fabs(x);
  const int16 large = a > 0.5f;
  const float16 z = select(a * a, 0.5f - 0.5f * a, large);
  const float16 p = asin_series_16(select(${operand}, sqrt(z), large), z);
${result}
}`;

export const trigonometry: Readonly<Record<string, string>> = {
  // x = q pi / 2 + r, in doubles: pi / 2 as the sum of 25 bits, whose products are exact, and the rest.
  quarter_8: `inline float8 quarter_8(float8 x, int8* q) {
  const double8 d = convert_double8(x);
  const double8 shifted = d * 0.63661977236758138 + 6755399441055744.0;
  const double8 n = shifted - 6755399441055744.0;
  *q = convert_int8(as_long8(shifted));
  return convert_float8((d - n * 1.57079631090164184570) - n * 1.58932547735281966916e-8);
}`,
  sin_16: ofQuarters(
    "sin",
    `${sine}
${cosine}
  float16 v = as_float16(as_int16(select(s, c, (q & 1) != 0)) ^ ((q & 2) << 30));`,
    `select(sin(x), x - x * x * x * 0.16666667f, ${small})`,
    KEPT_ZERO,
  ),
  cos_16: ofQuarters(
    "cos",
    `${sine}
${cosine}
  float16 v = as_float16(as_int16(select(c, s, (q & 1) != 0)) ^ (((q + 1) & 2) << 30));`,
    `select(cos(x), 1.0f - x * x * 0.5f, ${small})`,
  ),
  tan_16: ofQuarters(
    "tan",
    `  float16 p = 4.376824175e-3f * z + 8.844140436e-5f;
  p = p * z + 1.083666148e-2f;
  p = p * z + 2.128186602e-2f;
  p = p * z + 5.405997756e-2f;
  p = p * z + 1.333266281e-1f;
  p = p * z + 3.333334977e-1f;
  p = p * z * r + r;
  float16 v = select(p, -1.0f / p, (q & 1) != 0);`,
    `select(tan(x), x + x * x * x * 0.33333333f, ${small})`,
    KEPT_ZERO,
  ),
  // asin(s) for s up to 1/2, with z = s^2.
  asin_series_16: `inline float16 asin_series_16(float16 s, float16 z) {
  float16 p = 3.751774146e-2f * z + 1.443772962e-2f;
  p = p * z + 3.180793743e-2f;
  p = p * z + 4.451693053e-2f;
  p = p * z + 7.500504304e-2f;
  p = p * z + 1.666665999e-1f;
  return p * z * s + s;
}`,
  asin_16: bySeries(
    "asin",
    "a",
    `  return with_sign_16(select(p, (1.57079637f - 2.0f * p) - 4.37113883e-8f, large), x);`,
  ),
  acos_16: bySeries(
    "acos",
    "x",
    `  const float16 far = select(p + p, (3.14159274f - (p + p)) - 8.74227766e-8f, x < 0.0f);
  return select((1.57079637f - p) - 4.37113883e-8f, far, large);`,
  ),
  // atan(t) for t from 0 to 1.
  atan_series_16: `inline float16 atan_series_16(float16 t) {
  const float16 z = t * t;
  float16 p = -1.793593889e-3f * z + 1.0914481e-2f;
  p = p * z - 3.1177613e-2f;
  p = p * z + 5.795735952e-2f;
  p = p * z - 8.40343665e-2f;
  p = p * z + 1.09521811e-1f;
  p = p * z - 1.426424079e-1f;
  p = p * z + 1.99985482e-1f;
  p = p * z - 3.333329909e-1f;
  return p * z * t + t;
}`,
  atan_16: `inline float16 atan_16(float16 x) {
  const float16 a = fabs(x);
  const int16 large = a > 1.0f;
  const float16 p = atan_series_16(select(a, 1.0f / a, large));
  return with_sign_16(select(p, (1.57079637f - p) - 4.37113883e-8f, large), x);
}`,
  // By the octant; of two zeros, or two infinities, the quotient is taken for 0, or 1.
  atan2_16: `inline float16 atan2_16(float16 y, float16 x) {
  const float16 a = fabs(x), b = fabs(y);
  const int16 steep = b > a;
  const float16 low = select(b, a, steep), high = select(a, b, steep);
  float16 t = select(low / high, (float16)(0.0f), high == 0.0f);
  t = select(t, (float16)(1.0f), low == INFINITY);
  float16 p = atan_series_16(t);
  p = select(p, (1.57079637f - p) - 4.37113883e-8f, steep);
  p = select(p, (3.14159274f - p) - 8.74227766e-8f, as_int16(x) < 0);
  return select(with_sign_16(p, y), x + y, (x != x) | (y != y));
}`,
};
