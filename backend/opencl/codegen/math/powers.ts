/** Functions with the result's logarithm in doubles: powers of floats and integers, erfc. */
export const powers: Readonly<Record<string, string>> = {
  // A factor times 2^p, rounded once, subnormal results, too.
  exp2_8: `#ifdef cl_khr_fp64
inline float8 exp2_8(double8 p, double8 factor) {
  p = select(p, (double8)(160.0), p > 160.0);
  p = select(p, (double8)(-160.0), p < -160.0);
  const double8 shifted = p + 6755399441055744.0;
  const double8 f = p - (shifted - 6755399441055744.0);
  double8 e = 1.5353360636091685e-4 * f + 1.3398874866777735e-3;
  e = e * f + 9.6184373663985891e-3;
  e = e * f + 5.5503324696933788e-2;
  e = e * f + 2.4022647913499179e-1;
  e = e * f + 6.9314720285597153e-1;
  e = e * f + 1.0;
  return convert_float8(factor * as_double8(as_long8(e) + (as_long8(shifted) << 52)));
}
#endif`,
  // (2^k m)^y, where m is within a factor sqrt(2) of 1 and r about 1 / (1 + m): the logarithm to base 2 is
  // k + s l(s^2), s = (m - 1) / (m + 1).
  power_8: `#ifdef cl_khr_fp64
inline float8 power_8(float8 k, float8 m, float8 r, float8 y) {
  const double8 d = convert_double8(m), q = convert_double8(r);
  const double8 first = (d - 1.0) * q, s = first + first * (1.0 - (d + 1.0) * q), z = s * s;
  double8 p = 0.28290238896444203 * z + 0.31990554835674145;
  p = p * z + 0.41220925582459372;
  p = p * z + 0.57707794233207188;
  p = p * z + 0.96179669411345747;
  p = p * z + 2.8853900817778499;
  return exp2_8(convert_double8(y) * (p * s + convert_double8(k)), 1.0);
}
#endif`,
  // Signs, and what IEEE 754 says of 0, 1, infinity and NaN.
  pow_16: `inline float16 pow_16(float16 x, float16 y) {
#ifdef cl_khr_fp64
  const float16 a = fabs(x);
  const int16 tiny = a < 1.17549435e-38f;
  const int16 i = as_int16(select(a, a * 8388608.0f, tiny)) + 0x004afb0d;
  const float16 k = convert_float16((i >> 23) - select((int16)(127), (int16)(150), tiny));
  const float16 m = as_float16((i & 0x007fffff) + 0x3f3504f3), r = 1.0f / (1.0f + m);
  float16 v = (float16)(power_8(k.lo, m.lo, r.lo, y.lo), power_8(k.hi, m.hi, r.hi, y.hi));
  const int16 grows = (a == 0.0f) == (y < 0.0f);
  const float16 end = select((float16)(0.0f), (float16)(INFINITY), grows);
  v = select(v, end, (a == 0.0f) | (a == INFINITY));
  const float16 half_y = 0.5f * y;
  const int16 whole = trunc(y) == y, odd = whole & (trunc(half_y) != half_y);
  v = as_float16(as_int16(v) ^ (as_int16(x) & odd & INT_MIN));
  v = select(v, (float16)(NAN), (x < 0.0f) & (a < INFINITY) & ~whole);
  v = select(v, x + y, (x != x) | (y != y));
  const int16 one = (x == 1.0f) | (y == 0.0f) | ((a == 1.0f) & (fabs(y) == INFINITY));
  return select(v, (float16)(1.0f), one);
#else
  return pow(x, y);
#endif
}`,
  // By squares; a power below 0 is 0 but of 1 and -1.
  int_pow_16: `inline int16 int_pow_16(int16 a, int16 b) {
  const int16 unit = (a == 1) | (a == -1);
  int16 r = 1, left = select(b, select((int16)(0), b & 1, unit), b < 0);
  const int16 none = (b < 0) & ~unit;
  while (any_16(left)) {
    r = select(r, r * a, (left & 1) != 0);
    a *= a;
    left >>= 1;
  }
  return select(r, (int16)(0), none);
}`,
  // t 2^(p(t) - x^2 log2(e)) with t = 1 / (1 + x / 2), from 0 to where floats end: W. Press et al., Numerical
  // Recipes, with a polynomial of degree 10. 2 - v for numbers below 0.
  erfc_8: `#ifdef cl_khr_fp64
inline float8 erfc_8(float8 x) {
  double8 a = convert_double8(fabs(x));
  a = select(a, (double8)(11.0), a > 11.0);
  const double8 t = 1.0 / (1.0 + 0.5 * a);
  double8 p = -0.19791946519414197 * t + 1.3643051392416237;
  p = p * t - 3.9304521262122236;
  p = p * t + 5.9898767467521958;
  p = p * t - 5.020919194386674;
  p = p * t + 2.3507570269527291;
  p = p * t - 1.0086438465201124;
  p = p * t + 0.32178653862604684;
  p = p * t + 0.51195183678860479;
  p = p * t + 1.4450912592867697;
  p = p * t - 1.8258339067834046;
  return exp2_8(p - a * a * 1.4426950408889634, t);
}
#endif`,
  erfc_16: `inline float16 erfc_16(float16 x) {
#ifdef cl_khr_fp64
  const float16 v = (float16)(erfc_8(x.lo), erfc_8(x.hi));
  return select(select(v, 2.0f - v, x < 0.0f), x, x != x);
#else
  return erfc(x);
#endif
}`,
};
