/**
 * The texts of larger symmetric matrices: their tridiagonal form, and the eigenvalues and eigenvectors of its
 * parts. They are for one work-item a group, as a processor has it, whose rounds of `each` lie in vectors.
 */
import type { MatrixKernel } from "../../ops/custom/matrix_kernel.ts";

/** Rows that are turned together: what all of them are turned by is read once. */
const ROWS = [0, 1, 2, 3];

/** Statements for rows from `i` on: `w` less the former reflection, and its product with the present one. */
const turnedRows = (rows: readonly number[]): string => `
      ${
  rows.map((r) =>
    `const T f${r} = u[i + ${r}];
      const T g${r} = p[i + ${r}];
      const T h${r} = v[i + ${r}];`
  ).join("\n")
}
      each(j, start, n) {
        const T x = p[j];
        const T y = u[j];
        ${
  rows.map((r) =>
    `const T z${r} = w[(i + ${r}) * n + j] - (f${r} * x + g${r} * y);
        w[(i + ${r}) * n + j] = z${r};`
  ).join("\n")
}
        q[j] += ${rows.map((r) => `h${r} * z${r}`).join(" + ")};
      }`;

/**
 * Householder's reduction of the lower triangle: `d` and `e` are the diagonal and what stands beside it, and row
 * k of `w` has reflection k behind its diagonal, whose factor is `tau[k]`. A reflection turns the matrix when
 * the next one is multiplied by it, so that each step reads and writes the matrix once. The matrix is scaled to
 * a largest element of 1: what is below the square of the type's precision counts as nothing, since rotations by
 * numbers near the end of the range would not keep lengths. The form is divided into parts of `s` rows, of
 * `m` in all: what stands between two is taken off the diagonal at both, and rows behind the matrix have values
 * beyond all others.
 */
export const reductionKernel: MatrixKernel = {
  name: "tridiagonal_form",
  inputs: { a: "n*n" },
  outputs: {
    w: "n*n",
    tau: "n",
    d: "m",
    e: "m",
    scale: "1",
    p: "n",
    q: "n",
    v: "n",
    u: "n",
  },
  numbers: ["n", "m", "s"],
  text: `
  T most = 0;
  for (int i = 0; i < n; i++) {
    fold(j, 0, i + 1) { most = fmax(most, fabs(a[i * n + j])); }
  }
  const T unit = most > 0 ? 1 / most : 1;
  pairs(i, 0, n, j, 0, n) { w[i * n + j] = unit * (j <= i ? a[i * n + j] : a[j * n + i]); }
  each(j, 0, n) { p[j] = 0; u[j] = 0; v[j] = 0; tau[j] = 0; }
  for (int k = 0; k < n; k++) {
    // Vectors begin where a cache line does; what stands left of the matrix is read by nobody.
    const int start = k - k % 16;
    const T f = u[k];
    const T g = p[k];
    each(j, start, n) { w[k * n + j] -= f * p[j] + g * u[j]; }
    d[k] = w[k * n + k];
    e[k] = 0;
    if (k + 1 < n) e[k] = w[k * n + k + 1];
    // Squares of small elements would lose digits; what is far below them is nothing.
    T size = 0;
    fold(j, k + 1, n) { size = fmax(size, fabs(w[k * n + j])); }
    const T over = size > EPS * EPS * EPS * EPS ? 1 / size : 0;
    T tail = 0;
    fold(j, k + 2, n) { tail += (over * w[k * n + j]) * (over * w[k * n + j]); }
    const T first = e[k];
    T head = 1;
    T share = 0;
    if (tail > 0) {
      const T length = size * sqrt((over * first) * (over * first) + tail);
      const T beta = first > 0 ? -length : length;
      head = first - beta;
      share = (beta - first) / beta;
      e[k] = beta;
    }
    tau[k] = share;
    each(j, start, n) { v[j] = tail > 0 ? w[k * n + j] / head : 0; q[j] = 0; }
    for (int j = start; j <= k; j++) v[j] = 0;
    if (k + 1 < n) v[k + 1] = 1;
    int i = k + 1;
    while (i + ${ROWS.length} <= n) {${turnedRows(ROWS)}
      i += ${ROWS.length};
    }
    while (i < n) {${turnedRows([0])}
      i++;
    }
    T product = 0;
    fold(j, k + 1, n) { product += q[j] * v[j]; }
    product = share * share * product / 2;
    each(j, start, n) {
      p[j] = share * q[j] - product * v[j];
      u[j] = v[j];
      w[k * n + j] = v[j];
    }
  }
  T bound = 0;
  T beside = 0;
  fold(i, 0, n) { bound = fmax(bound, fabs(d[i])); beside = fmax(beside, fabs(e[i])); }
  bound += 2 * beside;
  for (int i = n; i < m; i++) { d[i] = bound + 1; e[i] = 0; }
  for (int i = s; i < m; i += s) {
    d[i - 1] -= fabs(e[i - 1]);
    d[i] -= fabs(e[i - 1]);
  }
  scale[0] = unit;
`,
};

/**
 * Values `x`, in no order, and the vectors of tridiagonal matrices, the rows of `z`: QL sweeps with implicit shifts
 * (EISPACK's tql2). Rotations of a sweep are computed first, from `x` and `y`; then all columns are turned.
 */
export const sweepsKernel: MatrixKernel = {
  name: "tridiagonal_sweeps",
  inputs: { d: "n", e: "n" },
  outputs: { x: "n", z: "n*n", y: "n", p: "n*2" },
  numbers: ["n"],
  text: `
  each(i, 0, n) { x[i] = d[i]; y[i] = i + 1 < n ? e[i] : 0; }
  pairs(i, 0, n, j, 0, n) { z[i * n + j] = i == j ? 1 : 0; }
  int low = 0;
  int high = 0;
  for (int sweep = 0; sweep < 60 * n; sweep++) {
    high = low;
    while (low < n - 1 && high == low) {
      high = low;
      while (high < n - 1 && fabs(y[high]) > EPS * (fabs(x[high]) + fabs(x[high + 1]) + EPS)) high++;
      if (high == low) { low++; high = low; }
    }
    if (high == low) break;
    T g = (x[low + 1] - x[low]) / (2 * y[low]);
    T r = sqrt(g * g + 1);
    g = x[high] - x[low] + y[low] / (g < 0 ? g - r : g + r);
    T s = 1;
    T c = 1;
    T shift = 0;
    int isWhole = 1;
    for (int i = high - 1; i >= low; i--) {
      const T f = s * y[i];
      const T b = c * y[i];
      const T size = fmax(fabs(f), fabs(g));
      r = size > 0 ? size * sqrt((f / size) * (f / size) + (g / size) * (g / size)) : 0;
      y[i + 1] = r;
      if (r == 0) {
        x[i + 1] -= shift;
        y[high] = 0;
        isWhole = 0;
        for (int k = low; k <= i; k++) { p[2 * k] = 1; p[2 * k + 1] = 0; }
        break;
      }
      s = f / r;
      c = g / r;
      g = x[i + 1] - shift;
      r = (x[i] - g) * s + 2 * c * b;
      shift = s * r;
      x[i + 1] = g + shift;
      g = c * r - b;
      p[2 * i] = c;
      p[2 * i + 1] = s;
    }
    if (isWhole) {
      x[low] -= shift;
      y[low] = g;
      y[high] = 0;
    }
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
`,
};
