/** Programs that tests of all writers run, and their results as JavaScript. */
import type { MatrixProgram } from "../../../backend/matrix/language.ts";
import { parseMatrixText } from "../../../backend/matrix/parse.ts";
import { matrixScript } from "../../../backend/matrix/script.ts";

/** A program of an input and an output of `n` rows and columns, and whole numbers beside it. */
export function programOf(text: string, dtype: MatrixProgram["dtype"]): MatrixProgram {
  const size = ({ n }: Readonly<Record<string, number>>) => n! * n!;
  const array = (name: string, isWhole = false) => ({ name, isWhole, isShared: false, size });
  return {
    name: "tested",
    dtype,
    arrays: [array("a"), array("y"), array("k", true)],
    numbers: ["n"],
    constants: { EPS: dtype === "float32" ? 2 ** -23 : 2 ** -52 },
    body: parseMatrixText(text),
  };
}

/** Results of JavaScript for matrices one behind the other. */
export function scriptResults(program: MatrixProgram, a: number[], n: number) {
  const y = new Array<number>(a.length).fill(0), k = new Array<number>(a.length).fill(0);
  const script = matrixScript(program), size = n * n;
  for (let at = 0; at < a.length; at += size) {
    const [ys, ks] = [new Array<number>(size).fill(0), new Array<number>(size).fill(0)];
    script(a.slice(at, at + size), ys, ks, n);
    y.splice(at, size, ...ys);
    k.splice(at, size, ...ks);
  }
  return { y, k };
}

/** Programs by the form that they have. */
export const texts: Record<string, string> = {
  "rows in lanes":
    "each(j, 0, n) { for (int i = 0; i < n; i++) y[i * n + j] = 2 * a[i * n + j] - j; }",
  "columns in lanes":
    "each(i, 0, n) { for (int j = 0; j < n; j++) y[i * n + j] = a[j * n + i] / 3; }",
  "backwards": "each(i, 0, n) { y[n - 1 - i] = a[i]; }",
  "pairs": "pairs(i, 0, n, j, 1, n) { y[i * n + j] = i < j ? a[i * n + j] : -a[j * n + i]; }",
  "pairs that depend": "pairs(i, 0, n, j, 0, i) { y[i * n + j] = a[j]; }",
  "sums": `
    T sum = 1;
    T most = 0;
    fold(i, 0, n * n) { sum += a[i] * a[i]; most = fmax(most, fabs(a[i])); }
    each(i, 0, n) { y[i] = sum - most; }`,
  "sums of rows":
    "each(i, 0, n) { T s = 0; fold(j, 0, n) { s -= a[i * n + j]; } y[i] = sqrt(fabs(s)); }",
  "a way of each lane":
    "each(i, 0, n) { if (a[i] > 0) { y[i] = a[i]; k[i] = 1; } else { y[i] = EPS; } }",
  "whole numbers": `
    int count = 0;
    for (int i = 0; i < n * n; i++) { if (a[i] > 0 && i % 2 == 0 || i == 3) count++; }
    each(z, 0, 1) { k[0] = count; k[1] = (int)(a[0] * 8); k[n] = -count / 2; }`,
  "loops that end": `
    int at = 0;
    while (at < n) { if (a[at] < 0) { at += 2; if (a[at] > 0) break; } at++; }
    for (int i = 0; i < n; i++) { if (i == 2) { if (at > 0) break; } k[i] = i + 1; }
    y[0] = at;`,
  "arrays by choice": `
    T* from = n % 2 == 0 ? a : y;
    T* to = y;
    for (int s = 0; s < 2; s++) { sync; each(i, 0, n) { to[i + n * s] += from[i] + s; } }`,
  "names again": `
    for (int i = 0; i < n; i++) { const T f = a[i]; each(j, 0, n) { y[i * n + j] = f * a[j]; } }
    for (int i = 1; i < n; i++) { const T f = y[i]; each(j, i, n) { y[j * n + i] -= f * a[j * n + i - 1]; } }`,
};
