/**
 * The texts of Jacobi's methods: eigenvalues of symmetric matrices, and singular values by rotations of
 * columns (Hestenes). A round of a tournament rotates n / 2 pairs at once, each by a work-item; a sweep
 * of n - 1 rounds meets every pair. A rotation is written as a small change, by e = s / (1 + c), as by
 * Rutishauser: it keeps lengths better than c x - s y. Small eigenvalues and singular values keep their digits.
 */
import type { MatrixKernel } from "../../ops/custom/matrix_kernel.ts";

/** Pair `k` of a round: `p` < `q`; `q` may be a player that there is not. */
const pair = `
        int p = k == 0 ? players - 1 : (round + k) % (players - 1);
        int q = k == 0 ? round : (round + players - 1 - k) % (players - 1);
        if (p > q) { const int z = p; p = q; q = z; }`;

/** The tangent and cosine of the angle that takes the product of two columns to 0, by half the cotangent of twice it. */
const angle = (theta: string): string =>
  `const T theta = ${theta};
            const T t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
            const T c = 1 / sqrt(t * t + 1);`;

/** Two columns of a row turned by `s` and `e`; the names are those of the former numbers. */
const turned = (array: string, first: string, second: string): string =>
  `const T ${first} = ${array}[i * n + p];
            const T ${second} = ${array}[i * n + q];
            ${array}[i * n + p] = ${first} - s * (${second} + e * ${first});
            ${array}[i * n + q] = ${second} + s * (${first} - e * ${second});`;

/** Eigenvalues `d` and eigenvectors, the columns of `v`; in no order. */
export const eighKernel: MatrixKernel = {
  name: "symmetric_eigen",
  inputs: { a: "n*n" },
  outputs: { d: "n", v: "n*n", w: "n*n", turn: "2*h", "int busy": "1" },
  numbers: ["n", "h"],
  text: `
  const int players = 2 * h;
  each(i, 0, n) {
    for (int j = 0; j < n; j++) {
      w[i * n + j] = j <= i ? a[i * n + j] : a[j * n + i];
      v[i * n + j] = i == j ? 1 : 0;
    }
  }
  sync;
  T most = 0;
  for (int i = 0; i < n * n; i++) most = fmax(most, fabs(w[i]));
  const T small = most * EPS / n;
  for (int sweep = 0; sweep < 40; sweep++) {
    sync;
    each(z, 0, 1) { busy[z] = 0; }
    for (int round = 0; round < players - 1; round++) {
      sync;
      each(k, 0, h) {${pair}
        T s = 0;
        T e = 0;
        if (q < n) {
          const T off = w[p * n + q];
          if (fabs(off) > small) {
            ${angle("(w[q * n + q] - w[p * n + p]) / (2 * off)")}
            s = t * c;
            e = s / (1 + c);
            busy[0] = 1;
          }
        }
        turn[2 * k] = s;
        turn[2 * k + 1] = e;
      }
      sync;
      each(i, 0, n) {
        for (int k = 0; k < h; k++) {${pair}
          const T s = turn[2 * k];
          const T e = turn[2 * k + 1];
          if (q < n && s != 0) {
            ${turned("w", "x", "y")}
            ${turned("v", "f", "g")}
          }
        }
      }
      sync;
      each(j, 0, n) {
        for (int k = 0; k < h; k++) {${pair}
          const T s = turn[2 * k];
          const T e = turn[2 * k + 1];
          if (q < n && s != 0) {
            const T x = w[p * n + j];
            const T y = w[q * n + j];
            w[p * n + j] = j == q ? 0 : x - s * (y + e * x);
            w[q * n + j] = j == p ? 0 : y + s * (x - e * y);
          }
        }
      }
    }
    sync;
    if (busy[0] == 0) break;
  }
  each(i, 0, n) { d[i] = w[i * n + i]; }
`,
};

/** Orthogonal columns `w` = A V of a matrix with as many rows as columns or more, and their lengths `s`. */
export const svdKernel: MatrixKernel = {
  name: "column_rotations",
  inputs: { a: "m*n" },
  outputs: { w: "m*n", s: "n", v: "n*n", "int busy": "1" },
  numbers: ["m", "n", "h"],
  text: `
  const int players = 2 * h;
  each(i, 0, m) { for (int j = 0; j < n; j++) w[i * n + j] = a[i * n + j]; }
  each(i, 0, n) { for (int j = 0; j < n; j++) v[i * n + j] = i == j ? 1 : 0; }
  sync;
  T most = 0;
  for (int i = 0; i < m * n; i++) most = fmax(most, fabs(a[i]));
  const T unit = most > 0 ? 1 / most : 1;
  for (int sweep = 0; sweep < 40; sweep++) {
    sync;
    each(z, 0, 1) { busy[z] = 0; }
    for (int round = 0; round < players - 1; round++) {
      sync;
      each(k, 0, h) {${pair}
        if (q < n) {
          T x = 0;
          T y = 0;
          T z = 0;
          for (int i = 0; i < m; i++) {
            const T f = w[i * n + p] * unit;
            const T g = w[i * n + q] * unit;
            x += f * f;
            y += g * g;
            z += f * g;
          }
          if (fabs(z) > 2 * EPS * sqrt(x) * sqrt(y) && fabs(z) > EPS * EPS) {
            ${angle("(y - x) / (2 * z)")}
            const T s = t * c;
            const T e = s / (1 + c);
            if (s != 0) busy[0] = 1;
            for (int i = 0; i < m; i++) {
              ${turned("w", "f", "g")}
            }
            for (int i = 0; i < n; i++) {
              ${turned("v", "f", "g")}
            }
          }
        }
      }
    }
    sync;
    if (busy[0] == 0) break;
  }
  each(j, 0, n) {
    T sum = 0;
    for (int i = 0; i < m; i++) sum += (w[i * n + j] * unit) * (w[i * n + j] * unit);
    s[j] = sqrt(sum) / unit;
  }
`,
};
