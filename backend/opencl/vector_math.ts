/**
 * Functions of 16 lanes in OpenCL C. A CPU driver's own are accurate but slow, or compute one lane
 * after the other (PoCL 3.1: erf at a fifth of this speed). Errors stay below what OpenCL allows
 * its built-in functions; NaN, infinities and subnormal numbers come out as they should.
 *
 * A clamp is a comparison and a selection that keep NaN; adding 1.5 * 2^23 rounds to a whole number
 * that is then found in the low bits.
 */
export const vectorMath: Readonly<Record<string, string>> = {
  // x = 2 m ln 2 + r: two factors of 2^m reach subnormal results and infinity without a branch.
  exp_16: `inline float16 exp_16(float16 x) {
  x = select(x, (float16)(-104.0f), x < -104.0f);
  x = select(x, (float16)(89.0f), x > 89.0f);
  const float16 t = x * 0.72134752f + 12582912.0f;
  const float16 m = t - 12582912.0f;
  const float16 r = (x - m * 1.38671875f) - m * -4.2438888e-4f;
  const float16 r2 = r * r;
  float16 p = 0.00019611344f * r + 0.0014104676f;
  p = p * r2 + (0.0083361091f * r + 0.041661259f);
  p = p * r2 + (0.16666614f * r + 0.50000036f);
  p = p * r2 + r + 1.0f;
  const float16 s = as_float16((as_int16(t) << 23) + 0x3f800000);
  return p * s * s;
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
  // (e^2x - 1) / (e^2x + 1), which is 1 in float beyond 9.1.
  tanh_16: `inline float16 tanh_16(float16 x) {
  x = select(x, (float16)(-9.1f), x < -9.1f);
  x = select(x, (float16)(9.1f), x > 9.1f);
  const float16 e = expm1_16(x + x);
  return e / (e + 2.0f);
}`,
  sigmoid_16: "inline float16 sigmoid_16(float16 x) { return 1.0f / (1.0f + exp_16(-x)); }",
  // Below 1 an odd polynomial; above it 1 - erfc, which is a polynomial up to where erf is 1. Even and
  // odd powers are added up apart, for a chain of half the length.
  erf_16: `inline float16 erf_16(float16 x) {
  const float16 a = fabs(x), s = x * x, s2 = s * s;
  float16 p = 7.853857824e-05f * s2 + 5.188327283e-03f;
  float16 p1 = -8.010191959e-04f * s2 + -2.685381100e-02f;
  p = p * s2 + 1.128358543e-01f;
  p1 = p1 * s2 + -3.761262596e-01f;
  p = p1 * s + (p * s2 + 1.283791661e-01f);
  p = p * x + x;
  const float16 u = select(a, (float16)(3.92f), a > 3.92f) - 2.460000038f, u2 = u * u;
  float16 q = 9.053359463e-06f * u2 + -5.124327072e-05f;
  float16 q1 = -2.542559196e-05f * u2 + 3.017066629e-04f;
  q = q * u2 + -3.920645686e-04f;
  q1 = q1 * u2 + -4.622348933e-04f;
  q = q * u2 + 2.964446321e-03f;
  q1 = q1 * u2 + -6.797590759e-03f;
  q = q * u2 + 9.904406965e-03f;
  q1 = q1 * u2 + -9.833017364e-03f;
  q = q * u2 + 6.535829511e-03f;
  q1 = q1 * u2 + -2.656190656e-03f;
  q = q1 * u + (q * u2 + 5.033249618e-04f);
  return select(p, copysign(1.0f - q, x), a >= 1.0f);
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
  // What 1 + x lost is made good in proportion.
  log1p_16: `inline float16 log1p_16(float16 x) {
  const float16 u = 1.0f + x;
  const float16 lost = (x - (u - 1.0f)) / u;
  const float16 v = log_16(u);
  return select(v, v + lost, (u > 0.0f) & (u < INFINITY));
}`,
};
