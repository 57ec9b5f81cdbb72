/**
 * The texts of Cholesky, LU and QR factorizations and of triangular solves; LAPACK's forms of the results.
 *
 * This folder (`kernels/`) has the texts of factorizations. It imports the types of `tensor/ops/custom`,
 * which runs them.
 */
import type { MatrixKernel } from "../../ops/custom/matrix_kernel.ts";

/**
 * The lower factor of the lower triangle; `info` is the first bad pivot, from 1. Rows of the upper factor are
 * computed, which `u` is scratch for: neighbours lie beside each other.
 */
export const choleskyKernel: MatrixKernel = {
  name: "cholesky_factor",
  inputs: { a: "n*n" },
  outputs: { l: "n*n", "int info": "1", u: "n*n" },
  numbers: ["n"],
  text: `
  pairs(i, 0, n, j, 0, n) { u[i * n + j] = a[j * n + i]; }
  int bad = 0;
  for (int k = 0; k < n; k++) {
    sync;
    const T d = u[k * n + k];
    if (!(d > 0) && bad == 0) bad = k + 1;
    const T root = sqrt(d);
    sync;
    each(j, k, n) { u[k * n + j] = u[k * n + j] / root; }
    sync;
    for (int i = k + 1; i < n; i++) {
      const T f = u[k * n + i];
      each(j, i, n) { u[i * n + j] -= f * u[k * n + j]; }
    }
  }
  sync;
  each(i, 0, n) { for (int j = 0; j < n; j++) l[i * n + j] = j <= i ? u[j * n + i] : 0; }
  each(z, 0, 1) { info[z] = bad; }
`,
};

/**
 * P A = L U with both factors in one matrix; `swaps` counts exchanges of rows. With `fill`, a pivot of 0
 * is a tiny number: the factors are those of a matrix nearby.
 */
export const luKernel: MatrixKernel = {
  name: "lu_factor",
  inputs: { a: "m*n" },
  outputs: { lu: "m*n", "int perm": "m", "int swaps": "1", "int info": "1" },
  numbers: ["m", "n", "fill"],
  text: `
  each(i, 0, m) {
    perm[i] = i;
    for (int j = 0; j < n; j++) lu[i * n + j] = a[i * n + j];
  }
  int bad = 0;
  int count = 0;
  const int least = m < n ? m : n;
  sync;
  T scale = 0;
  if (fill) { fold(i, 0, m * n) { scale = fmax(scale, fabs(a[i])); } }
  for (int k = 0; k < least; k++) {
    sync;
    int p = k;
    T best = fabs(lu[k * n + k]);
    for (int i = k + 1; i < m; i++) {
      const T v = fabs(lu[i * n + k]);
      if (v > best) { best = v; p = i; }
    }
    sync;
    if (p != k) {
      count++;
      each(j, 0, n) {
        const T v = lu[k * n + j];
        lu[k * n + j] = lu[p * n + j];
        lu[p * n + j] = v;
      }
      each(z, 0, 1) {
        const int v = perm[k];
        perm[k] = perm[p];
        perm[p] = v;
      }
    }
    sync;
    T d = lu[k * n + k];
    if (d == 0 && bad == 0) bad = k + 1;
    if (fill && d == 0) d = EPS * (scale > 0 ? scale : 1);
    sync;
    each(z, 0, 1) { lu[k * n + k] = d; }
    each(i, k + 1, m) { lu[i * n + k] = d == 0 ? 0 : lu[i * n + k] / d; }
    sync;
    pairs(i, k + 1, m, j, k + 1, n) { lu[i * n + j] -= lu[i * n + k] * lu[k * n + j]; }
  }
  each(z, 0, 1) { swaps[z] = count; info[z] = bad; }
`,
};

/** X of A X = B for a triangle A; a work-item has a column. */
export const triangularKernel: MatrixKernel = {
  name: "triangular_solve",
  inputs: { a: "n*n", b: "n*r" },
  outputs: { x: "n*r" },
  numbers: ["n", "r", "upper", "unit"],
  text: `
  each(c, 0, r) {
    for (int s = 0; s < n; s++) {
      const int i = upper ? n - 1 - s : s;
      T sum = b[i * r + c];
      for (int t = 0; t < s; t++) {
        const int j = upper ? n - 1 - t : t;
        sum -= a[i * n + j] * x[j * r + c];
      }
      x[i * r + c] = unit ? sum : sum / a[i * n + i];
    }
  }
`,
};

/**
 * A = Q R by reflections: R is the upper triangle of `w`, the reflections lie below; `c` columns of their
 * product H1 H2 ... Hk, the last first.
 */
export const qrKernel: MatrixKernel = {
  name: "qr_factor",
  inputs: { a: "m*n" },
  outputs: { w: "m*n", tau: "t", q: "m*c" },
  numbers: ["m", "n", "c", "t"],
  text: `
  each(i, 0, m) { for (int j = 0; j < n; j++) w[i * n + j] = a[i * n + j]; }
  for (int k = 0; k < t; k++) {
    sync;
    T most = 0;
    for (int i = k; i < m; i++) most = fmax(most, fabs(w[i * n + k]));
    T s = 0;
    if (most > 0) {
      for (int i = k + 1; i < m; i++) s += (w[i * n + k] / most) * (w[i * n + k] / most);
    }
    const T alpha = w[k * n + k];
    T beta = alpha;
    T f = 0;
    if (s > 0) {
      const T norm = most * sqrt((alpha / most) * (alpha / most) + s);
      beta = alpha > 0 ? -norm : norm;
      f = (beta - alpha) / beta;
    }
    sync;
    each(i, k + 1, m) { if (s > 0) w[i * n + k] = w[i * n + k] / (alpha - beta); }
    each(z, 0, 1) { tau[k] = f; w[k * n + k] = beta; }
    sync;
    each(j, k + 1, n) {
      T d = w[k * n + j];
      for (int i = k + 1; i < m; i++) d += w[i * n + k] * w[i * n + j];
      d *= f;
      w[k * n + j] -= d;
      for (int i = k + 1; i < m; i++) w[i * n + j] -= w[i * n + k] * d;
    }
  }
  sync;
  each(j, 0, c) {
    for (int i = 0; i < m; i++) q[i * c + j] = i == j ? 1 : 0;
    for (int k = t - 1; k >= 0; k--) {
      T d = q[k * c + j];
      for (int i = k + 1; i < m; i++) d += w[i * n + k] * q[i * c + j];
      d *= tau[k];
      q[k * c + j] -= d;
      for (int i = k + 1; i < m; i++) q[i * c + j] -= w[i * n + k] * d;
    }
  }
`,
};

/** Statements for columns from `j` on: their products with reflection k, and themselves less their shares of it. */
const reflectedColumns = (columns: readonly number[]): string => `
      ${
  columns.map((c) =>
    `T d${c} = w[(j + ${c}) * m + k];
      const T f${c} = j + ${c} > k ? f : 0;`
  ).join("\n")
}
      fold(i, k + 1, m) {
        ${columns.map((c) => `d${c} += w[k * m + i] * w[(j + ${c}) * m + i];`).join("\n")}
      }
      sync;
      each(x, 0, 1) {
        ${
  columns.map((c) =>
    `products[j + ${c}] = d${c};
        if (j + ${c} != k) w[(j + ${c}) * m + k] -= f${c} * d${c};`
  ).join("\n")
}
      }
      if (j + ${columns.length} > k + 1) {
        each(i, k + 1, m) {
          const T v = w[k * m + i];
          ${columns.map((c) => `w[(j + ${c}) * m + i] -= f${c} * d${c} * v;`).join("\n")}
        }
      }`;

/** Columns whose products with a reflection are added up side by side. */
const COLUMNS = [0, 1, 2, 3];

/**
 * Reflections of few columns of many rows, which lie beside each other: the matrix is transposed. `w` has R and the
 * vectors as `w` of the kernel above, transposed, and `t` the triangle T of H1 H2 ... = I - V T Vᵀ.
 */
export const panelKernel: MatrixKernel = {
  name: "qr_panel_columns",
  inputs: { a: "n*m" },
  outputs: { w: "n*m", t: "n*n", products: "n" },
  numbers: ["m", "n"],
  text: `
  each(i, 0, n * m) { w[i] = a[i]; }
  each(i, 0, n * n) { t[i] = 0; }
  for (int k = 0; k < n; k++) {
    sync;
    T most = 0;
    fold(i, k, m) { most = fmax(most, fabs(w[k * m + i])); }
    T s = 0;
    if (most > 0) {
      fold(i, k + 1, m) { s += (w[k * m + i] / most) * (w[k * m + i] / most); }
    }
    const T alpha = w[k * m + k];
    T beta = alpha;
    T f = 0;
    if (s > 0) {
      const T norm = most * sqrt((alpha / most) * (alpha / most) + s);
      beta = alpha > 0 ? -norm : norm;
      f = (beta - alpha) / beta;
    }
    sync;
    if (s > 0) {
      each(i, k + 1, m) { w[k * m + i] = w[k * m + i] / (alpha - beta); }
    }
    each(x, 0, 1) { w[k * m + k] = beta; }
    sync;
    int j = 0;
    while (j + ${COLUMNS.length} <= n) {${reflectedColumns(COLUMNS)}
      j += ${COLUMNS.length};
    }
    while (j < n) {${reflectedColumns([0])}
      j++;
    }
    sync;
    each(l, 0, k + 1) {
      T sum = 0;
      for (int c = l; c < k; c++) sum += t[l * n + c] * products[c];
      t[l * n + k] = l == k ? f : -f * sum;
    }
  }
`,
};
