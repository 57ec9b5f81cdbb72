/** Exponentials and logarithms of 16 lanes, and what is made of them. */
export const exponentials: Readonly<Record<string, string>> = {
  // x = n ln 2 + r: e^r, and n in the low bits of t.
  exp_parts_16: `inline float16 exp_parts_16(float16 x, int16* t) {
  const float16 shifted = x * 1.44269504f + 12582912.0f;
  const float16 n = shifted - 12582912.0f;
  const float16 r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  *t = as_int16(shifted);
  float16 p = 8.31251312e-3f * r + 4.18902189e-2f;
  p = p * r + 1.66671142e-1f;
  p = p * r + 4.99992311e-1f;
  p = p * r + 1.0f;
  return p * r + 1.0f;
}`,
  // Two factors, whose product is 2^n, reach subnormal results and infinity. A product that becomes 0
  // takes a processor a hundred times as long as others: masked scores are zeros without one.
  exp_any_16: `inline float16 exp_any_16(float16 x) {
  const int16 none = x < -104.0f;
  x = select(x, (float16)(0.0f), none);
  x = select(x, (float16)(89.0f), x > 89.0f);
  int16 t;
  const float16 p = exp_parts_16(x, &t);
  const int16 whole = t << 23, first = (t >> 1) << 23;
  const float16 y = p * as_float16(first + 0x3f800000) * as_float16(whole - first + 0x3f800000);
  return select(y, (float16)(0.0f), none);
}`,
  // Where all results are normal numbers n is added to the exponent, with the same value.
  exp_16: `inline float16 exp_16(float16 x) {
  if (any_16(!(fabs(x) < 87.0f))) return exp_any_16(x);
  int16 t;
  const float16 p = exp_parts_16(x, &t);
  return as_float16(as_int16(p) + (t << 23));
}`,
  // x = n ln 2 + r: 2^n (e^r - 1) + (2^n - 1), by halves so that 2^128 is not met on the way.
  expm1_16: `inline float16 expm1_16(float16 x) {
  float16 c = select(x, (float16)(-18.0f), x < -18.0f);
  c = select(c, (float16)(89.0f), c > 89.0f);
  const float16 t = c * 1.44269504f + 12582912.0f;
  const float16 n = t - 12582912.0f;
  const float16 r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
  float16 p = 0.0013882510f * r + 0.0083665801f;
  p = p * r + 0.041667201f;
  p = p * r + 0.16666543f;
  p = p * r + 0.5f;
  p = p * (r * r) + r;
  const float16 s = as_float16((as_int16(t) << 23) + 0x3f000000);
  const float16 e = p * s + (s - 0.5f);
  return e + e;
}`,
  // (e^2x - 1) / (e^2x + 1). Beyond 9.02 it is 1 in float, which a quotient, rounded to 2.5 units of the
  // last place, need not be: derivatives take the difference from 1 times x.
  tanh_16: `inline float16 tanh_16(float16 x) {
  const float16 e = expm1_16(x + x), one = as_float16((as_int16(x) & (int)0x80000000) | 0x3f800000);
  return select(e / (e + 2.0f), one, fabs(x) > 9.02f);
}`,
  sigmoid_16: "inline float16 sigmoid_16(float16 x) { return 1.0f / (1.0f + exp_16(-x)); }",
  // x p(x^2) / q(x^2), fitted up to 3.925, where erf is 1; within 5 units of the last place, and never
  // above 1. Even and odd powers are added up apart: shorter chains, smaller errors.
  erf_16: `inline float16 erf_16(float16 x) {
  float16 c = select(x, (float16)(-3.925f), x < -3.925f);
  c = select(c, (float16)(3.925f), c > 3.925f);
  const float16 s = c * c, s2 = s * s;
  float16 p = 2.84843816e-4f * s2 + 5.27693480e-2f;
  float16 p1 = 2.04602293e-6f * s2 + 3.77256679e-3f;
  p = p * s2 + 1.12837911f;
  p1 = p1 * s2 + 1.90594167e-1f;
  float16 q = 1.16386171e-3f * s2 + 1.14182889e-1f;
  float16 q1 = 3.80477431e-5f * s2 + 1.49832312e-2f;
  q = q * s2 + 1.0f;
  q1 = q1 * s2 + 5.02242386e-1f;
  float16 y = c * (p1 * s + p) / (q1 * s + q);
  y = select(y, (float16)(-1.0f), y < -1.0f);
  return select(y, (float16)(1.0f), y > 1.0f);
}`,
  // What logarithms share: x = 2^k (1 + f) with f in [sqrt(1/2) - 1, sqrt(2) - 1], and log(1 + f) as
  // f - c. The coefficients are those of fdlibm's logf (Sun Microsystems, 1993).
  log_parts_16: `inline float16 log_parts_16(float16 x, float16* k, float16* c) {
  const int16 tiny = x < 1.17549435e-38f;
  const int16 i = as_int16(select(x, x * 8388608.0f, tiny)) + 0x004afb0d;
  *k = convert_float16((i >> 23) - select((int16)(127), (int16)(150), tiny));
  const float16 f = as_float16((i & 0x007fffff) + 0x3f3504f3) - 1.0f;
  const float16 s = f / (2.0f + f);
  const float16 z = s * s, h = 0.5f * f * f;
  float16 r = 0.24279078841f * z + 0.28498786688f;
  r = r * z + 0.40000972152f;
  r = (r * z + 0.66666662693f) * z;
  *c = h - s * (h + r);
  return f;
}`,
  // The value v of a logarithm at x, or what it is at 0, infinity and where there is none.
  log_value_16: `inline float16 log_value_16(float16 x, float16 v) {
  const float16 none = select(x, (float16)(NAN), x < 0.0f);
  const float16 odd = select(none, (float16)(-INFINITY), x == 0.0f);
  return select(odd, v, (x > 0.0f) & (x < INFINITY));
}`,
  log_16: `inline float16 log_16(float16 x) {
  float16 k, c;
  const float16 f = log_parts_16(x, &k, &c);
  return log_value_16(x, k * 0.693359375f - ((c - k * -2.12194440e-4f) - f));
}`,
  log2_16: `inline float16 log2_16(float16 x) {
  float16 k, c;
  const float16 f = log_parts_16(x, &k, &c);
  return log_value_16(x, k + ((f - c) * 4.4269504e-1f + (f - c)));
}`,
  // Adds back what 1 + x has rounded off, divided by 1 + x.
  log1p_16: `inline float16 log1p_16(float16 x) {
  const float16 u = 1.0f + x;
  const float16 lost = (x - (u - 1.0f)) / u;
  const float16 v = log_16(u);
  return select(v, v + lost, (u > 0.0f) & (u < INFINITY));
}`,
  // As fdlibm's log10f: the first 12 bits of log(1 + f) are multiplied without an error.
  log10_16: `inline float16 log10_16(float16 x) {
  float16 k, c;
  const float16 f = log_parts_16(x, &k, &c);
  const float16 high = as_float16(as_int16(f - c) & (int)0xfffff000u);
  const float16 low = (f - high) - c;
  const float16 rest = k * 7.9034151668e-7f + (low + high) * -3.1689971365e-5f;
  return log_value_16(x, ((rest + low * 4.3432617188e-1f) + high * 4.3432617188e-1f) + k * 3.0102920532e-1f);
}`,
  // Half of e^x, from 0 on: infinity only where hyperbolic functions are infinite.
  half_exp_16: `inline float16 half_exp_16(float16 x) {
  x = select(x, (float16)(90.0f), x > 90.0f);
  int16 t;
  const float16 p = exp_parts_16(x, &t);
  const int16 whole = t << 23, first = (t >> 1) << 23;
  return p * as_float16(first + 0x3f800000) * as_float16(whole - first + 0x3f000000);
}`,
  cosh_16: `inline float16 cosh_16(float16 x) {
  const float16 half_exp = half_exp_16(fabs(x));
  return half_exp + 0.25f / half_exp;
}`,
  // Up to 1 a series, where the difference would cancel.
  sinh_16: `inline float16 sinh_16(float16 x) {
  const float16 a = fabs(x), z = x * x, half_exp = half_exp_16(a);
  float16 p = 2.816957505e-6f * z + 1.983615873e-4f;
  p = p * z + 8.333350063e-3f;
  p = p * z + 1.66666665e-1f;
  const float16 v = select(half_exp - 0.25f / half_exp, p * z * a + a, a < 1.0f);
  return with_sign_16(v, x);
}`,
  // log(a + sqrt(a^2 + 1)), which is log(2 a) where a^2 would overflow.
  asinh_16: `inline float16 asinh_16(float16 x) {
  const float16 a = fabs(x), z = a * a;
  const int16 large = a >= 268435456.0f;
  const float16 u = select(a + z / (1.0f + sqrt(z + 1.0f)), a, large);
  const float16 v = log1p_16(u) + select((float16)(0.0f), (float16)(0.69314718f), large);
  return with_sign_16(v, x);
}`,
  acosh_16: `inline float16 acosh_16(float16 x) {
  const float16 t = x - 1.0f;
  const int16 large = x >= 268435456.0f;
  const float16 u = select(t + sqrt(t * (t + 2.0f)), x, large);
  const float16 v = log1p_16(u) + select((float16)(0.0f), (float16)(0.69314718f), large);
  return select(v, (float16)(NAN), x < 1.0f);
}`,
  atanh_16: `inline float16 atanh_16(float16 x) {
  const float16 a = fabs(x);
  return with_sign_16(0.5f * log1p_16((a + a) / (1.0f - a)), x);
}`,
};
