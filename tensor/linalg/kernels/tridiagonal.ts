/** The text of eigenvalues and eigenvectors of larger symmetric matrices, by their tridiagonal form. */
import type { MatrixKernel } from "../../ops/custom/matrix_kernel.ts";

/**
 * Householder's reduction, the product of its reflections, then QL sweeps with implicit shifts (EISPACK's
 * tql2). One work-item computes the rotations of a sweep, from `d` and `e`; all turn rows of `z` by them,
 * each its columns: `z` begins as the transposed product, and its rows become the vectors. Of `state` the
 * numbers are the first and last row of the sweep, and those of sweeps. The matrix is scaled to a largest
 * element of 1: what is below the square of the type's precision counts as nothing, since rotations by
 * numbers near the end of the range would not keep lengths. `d` are the values in no order, and the columns of `v` the vectors.
 */
export const tridiagonalKernel: MatrixKernel = {
  name: "tridiagonal_eigen",
  inputs: { a: "n*n" },
  outputs: { d: "n", v: "n*n", w: "n*n", z: "n*n", e: "n", p: "n*2", "int state": "3" },
  numbers: ["n"],
  text: `
  T most = 0;
  for (int i = 0; i < n; i++) {
    fold(j, 0, i + 1) { most = fmax(most, fabs(a[i * n + j])); }
  }
  const T unit = most > 0 ? 1 / most : 1;
  pairs(i, 0, n, j, 0, n) { w[i * n + j] = unit * (j <= i ? a[i * n + j] : a[j * n + i]); }
  for (int k = 0; k + 2 < n; k++) {
    sync;
    // Squares of small elements would lose digits; what is far below them is nothing.
    T size = 0;
    fold(i, k + 1, n) { size = fmax(size, fabs(w[k * n + i])); }
    const T over = size > EPS * EPS * EPS * EPS ? 1 / size : 0;
    T tail = 0;
    fold(i, k + 2, n) { tail += (over * w[k * n + i]) * (over * w[k * n + i]); }
    const T first = w[k * n + k + 1];
    T beta = first;
    T tau = 0;
    if (tail > 0) {
      const T length = size * sqrt((over * first) * (over * first) + tail);
      beta = first > 0 ? -length : length;
      tau = (beta - first) / beta;
    }
    const T head = tail > 0 ? first - beta : 1;
    sync;
    each(i, k + 1, n) { w[k * n + i] = tail > 0 ? w[k * n + i] / head : 0; }
    each(x, 0, 1) { e[k] = beta; }
    sync;
    each(x, 0, 1) { w[k * n + k + 1] = 1; w[(k + 1) * n + k] = tau; }
    sync;
    if (tau != 0) {
      each(j, k + 1, n) {
        T sum = 0;
        for (int i = k + 1; i < n; i++) sum += w[k * n + i] * w[i * n + j];
        p[j] = tau * sum;
      }
      sync;
      T share = 0;
      fold(i, k + 1, n) { share += p[i] * w[k * n + i]; }
      share = share * tau / 2;
      sync;
      each(j, k + 1, n) { p[j] -= share * w[k * n + j]; }
      sync;
      for (int i = k + 1; i < n; i++) {
        const T f = w[k * n + i];
        const T g = p[i];
        each(j, k + 1, n) { w[i * n + j] -= f * p[j] + g * w[k * n + j]; }
      }
    }
  }
  sync;
  each(i, 0, n) { d[i] = w[i * n + i]; }
  each(x, 0, 1) {
    if (n > 1) e[n - 2] = w[(n - 2) * n + n - 1];
    e[n - 1] = 0;
    state[0] = 0;
    state[1] = 0;
    state[2] = 0;
  }
  pairs(i, 0, n, j, 0, n) { v[i * n + j] = i == j ? 1 : 0; }
  for (int k = n - 3; k >= 0; k--) {
    sync;
    const T tau = w[(k + 1) * n + k];
    if (tau != 0) {
      each(j, k + 1, n) {
        T sum = 0;
        for (int i = k + 1; i < n; i++) sum += w[k * n + i] * v[i * n + j];
        p[j] = tau * sum;
      }
      sync;
      for (int i = k + 1; i < n; i++) {
        const T f = w[k * n + i];
        each(j, k + 1, n) { v[i * n + j] -= f * p[j]; }
      }
    }
  }
  sync;
  pairs(i, 0, n, j, 0, n) { z[i * n + j] = v[j * n + i]; }
  int isOpen = n > 1;
  while (isOpen) {
    sync;
    each(x, 0, 1) {
      int low = state[0];
      int high = low;
      while (low < n - 1 && high == low) {
        high = low;
        while (high < n - 1 && fabs(e[high]) > EPS * (fabs(d[high]) + fabs(d[high + 1]) + EPS)) high++;
        if (high == low) { low++; high = low; }
      }
      state[0] = low;
      state[1] = high;
      state[2] = state[2] + 1;
      if (high > low) {
        T g = (d[low + 1] - d[low]) / (2 * e[low]);
        T r = sqrt(g * g + 1);
        g = d[high] - d[low] + e[low] / (g < 0 ? g - r : g + r);
        T s = 1;
        T c = 1;
        T shift = 0;
        int isWhole = 1;
        for (int i = high - 1; i >= low; i--) {
          const T f = s * e[i];
          const T b = c * e[i];
          const T size = fmax(fabs(f), fabs(g));
          r = size > 0 ? size * sqrt((f / size) * (f / size) + (g / size) * (g / size)) : 0;
          e[i + 1] = r;
          if (r == 0) {
            d[i + 1] -= shift;
            e[high] = 0;
            isWhole = 0;
            for (int k = low; k <= i; k++) { p[2 * k] = 1; p[2 * k + 1] = 0; }
            break;
          }
          s = f / r;
          c = g / r;
          g = d[i + 1] - shift;
          r = (d[i] - g) * s + 2 * c * b;
          shift = s * r;
          d[i + 1] = g + shift;
          g = c * r - b;
          p[2 * i] = c;
          p[2 * i + 1] = s;
        }
        if (isWhole) {
          d[low] -= shift;
          e[low] = g;
          e[high] = 0;
        }
      }
    }
    sync;
    const int low = state[0];
    const int high = state[1];
    isOpen = high > low && state[2] < 60 * n;
    each(j, 0, n) {
      T b = z[high * n + j];
      for (int i = high - 1; i >= low; i--) {
        const T c = p[2 * i];
        const T s = p[2 * i + 1];
        const T f = z[i * n + j];
        z[(i + 1) * n + j] = s * f + c * b;
        b = c * f - s * b;
      }
      z[low * n + j] = b;
    }
  }
  sync;
  each(i, 0, n) { d[i] = d[i] / unit; }
  pairs(i, 0, n, j, 0, n) { v[i * n + j] = z[j * n + i]; }
`,
};
