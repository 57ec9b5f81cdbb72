/** Text that several kernels of this folder have in common. */

/**
 * Sets `found` to the logarithm of `v ** s * exp(-v) / gamma(s + 1)`, for `s` above 0 and `v` above 0: by
 * Stirling's series, and where both are near and large by the series of their distance, which keeps digits
 * that the difference of large logarithms would lose (C. Loader, 2000).
 */
export function logPoisson(s: string, v: string, found: string): string {
  return `
    T z = ${s};
    T rising = 1;
    while (z < 12) {
      z += 1;
      rising *= z;
    }
    const T w = 1 / (z * z);
    const T stirling = ((T)1 / 12 - w * ((T)1 / 360 - w * ((T)1 / 1260 - w * ((T)1 / 1680 - w / 1188)))) / z;
    const T mu = (${v} - z) / z;
    T distance = log(${v} / z) - mu;
    if (fabs(mu) < (T)1 / 2) {
      const T r = mu / (2 + mu);
      T power = r;
      T sum = 0;
      for (int k = 1; k < 18; k++) {
        power *= r * r;
        sum += 2 * power / (2 * k + 1);
      }
      distance = sum - mu * r;
    }
    const T ${found} = z * distance - stirling - log(2 * PI * z) / 2 + log(rising) - (z - ${s}) * log(${v});
`;
}
