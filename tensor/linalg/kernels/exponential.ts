/** The text of the exponential of a matrix. */
import type { MatrixKernel } from "../../ops/custom/matrix_kernel.ts";

/** Scaling to a norm of at most a half, `terms` of the series by Horner, squaring; `w` is scratch. */
export const expmKernel: MatrixKernel = {
  name: "matrix_exponential",
  inputs: { a: "n*n" },
  outputs: { x: "n*n", w: "n*n" },
  numbers: ["n", "terms"],
  text: `
  T norm = 0;
  for (int i = 0; i < n; i++) {
    T sum = 0;
    for (int j = 0; j < n; j++) sum += fabs(a[i * n + j]);
    norm = fmax(norm, sum);
  }
  int squarings = 0;
  T scale = 1;
  while (2 * norm * scale > 1 && squarings < 120) {
    scale = scale / 2;
    squarings++;
  }
  each(i, 0, n) { for (int j = 0; j < n; j++) x[i * n + j] = i == j ? 1 : 0; }
  for (int k = terms; k > 0; k--) {
    sync;
    each(i, 0, n) {
      for (int j = 0; j < n; j++) {
        T sum = 0;
        for (int l = 0; l < n; l++) sum += a[i * n + l] * scale * x[l * n + j];
        w[i * n + j] = sum / k + (i == j ? 1 : 0);
      }
    }
    sync;
    each(i, 0, n) { for (int j = 0; j < n; j++) x[i * n + j] = w[i * n + j]; }
  }
  for (int k = 0; k < squarings; k++) {
    sync;
    each(i, 0, n) {
      for (int j = 0; j < n; j++) {
        T sum = 0;
        for (int l = 0; l < n; l++) sum += x[i * n + l] * x[l * n + j];
        w[i * n + j] = sum;
      }
    }
    sync;
    each(i, 0, n) { for (int j = 0; j < n; j++) x[i * n + j] = w[i * n + j]; }
  }
`,
};
