/** The text that joins two parts of a tridiagonal matrix: J. Cuppen's method of divide and conquer (1981). */
import type { MatrixKernel } from "../../ops/custom/matrix_kernel.ts";

/** Numbers that are kept: those that count in the vector, and are not the same as another. */
const deflation = `
  int count = 0;
  int gone = 0;
  int turns = 0;
  int last = n;
  for (int at = 0; at < n; at++) {
    const int j = order[at];
    if (rho * fabs(z[j]) <= small) {
      left[gone] = j;
      gone++;
    } else if (last == n) {
      last = j;
    } else {
      const T length = sqrt(z[last] * z[last] + z[j] * z[j]);
      const T c = z[j] / length;
      const T s = -z[last] / length;
      const T f = own[last];
      const T g = own[j];
      if (fabs((g - f) * c * s) <= small) {
        z[j] = length;
        pair[2 * turns] = last;
        pair[2 * turns + 1] = j;
        turn[2 * turns] = c;
        turn[2 * turns + 1] = s;
        turns++;
        own[last] = f * c * c + g * s * s;
        own[j] = f * s * s + g * c * c;
        left[gone] = last;
        gone++;
      } else {
        kept[count] = last;
        count++;
      }
      last = j;
    }
  }
  if (last < n) {
    kept[count] = last;
    count++;
  }`;

/**
 * The root behind pole `r`, as a distance from the nearer one of its two: a sum with one pole left and one right
 * is fitted to both sides each round (R.-C. Li, "Solving secular equations stably and efficiently", 1993), and
 * the middle of what is left taken where that leads out of it.
 */
const root = `
    const int isLast = r == count - 1;
    T high = rho * squares;
    if (r + 1 < count) high = pole[r + 1] - pole[r];
    T low = 0;
    T mu = high / 2;
    int origin = r;
    T f = over;
    fold(c, 0, count) { f += z[c] * (z[c] / (pole[c] - pole[r] - mu)); }
    if (f >= 0) {
      high = mu;
    } else if (isLast) {
      low = mu;
    } else {
      origin = r + 1;
      low = -mu;
      high = 0;
    }
    mu = (low + high) / 2;
    const T base = pole[origin];
    each(c, 0, count) { gap[r * n + c] = pole[c] - base; }
    for (int round = 0; round < 100; round++) {
      T lower = 0;
      T upper = 0;
      T lowerSlope = 0;
      T upperSlope = 0;
      fold(c, 0, r + 1) {
        lower += z[c] * (z[c] / (gap[r * n + c] - mu));
        lowerSlope += (z[c] / (gap[r * n + c] - mu)) * (z[c] / (gap[r * n + c] - mu));
      }
      fold(c, r + 1, count) {
        upper += z[c] * (z[c] / (gap[r * n + c] - mu));
        upperSlope += (z[c] / (gap[r * n + c] - mu)) * (z[c] / (gap[r * n + c] - mu));
      }
      f = over + lower + upper;
      if (!(fabs(f) > EPS * (over - lower + upper))) break;
      if (f < 0) low = mu;
      else high = mu;
      const T first = gap[r * n + r] - mu;
      T next = mu;
      if (isLast) {
        next = mu + first + first * first * lowerSlope / (f - first * lowerSlope);
      } else {
        const T second = gap[r * n + r + 1] - mu;
        const T a = (first + second) * f - first * second * (lowerSlope + upperSlope);
        const T b = first * second * f;
        const T c = f - first * lowerSlope - second * upperSlope;
        const T d = sqrt(fabs(a * a - 4 * b * c));
        next = mu + (a > 0 ? 2 * b / (a + d) : (a - d) / (2 * c));
      }
      if (!(next > low && next < high)) next = (low + high) / 2;
      const T change = fabs(next - mu);
      mu = next;
      if (change <= EPS * fabs(mu)) break;
    }
    each(c, 0, count) { gap[r * n + c] -= mu; }
    x[r] = base + mu;`;

/**
 * Values `x` and vectors of two parts beside each other, whose values are `d` and whose vectors the rows of `q`, and of
 * what stands between them, `e`. The vectors are rows of `v` in terms of those of the first part, and behind all
 * of these in terms of the second part's. What does not change is left out of the equation, by rotations where
 * two values are the same (J. Dongarra, D. Sorensen, 1987); the vectors are those of the numbers `z` that the
 * roots are exact for, and so orthogonal (M. Gu, S. Eisenstat, 1994).
 */
export const mergeKernel: MatrixKernel = {
  name: "tridiagonal_merge",
  inputs: { d: "2*h", q: "2*h*h", e: "1" },
  outputs: {
    x: "2*h",
    v: "4*h*h",
    gap: "4*h*h",
    pole: "2*h",
    z: "2*h",
    own: "2*h",
    turn: "4*h",
    turned: "2*h",
    "int order": "2*h",
    "int kept": "2*h",
    "int left": "2*h",
    "int place": "2*h",
    "int pair": "4*h",
  },
  numbers: ["h"],
  text: `
  const int n = 2 * h;
  const T rho = 2 * fabs(e[0]);
  const T sign = e[0] < 0 ? -1 : 1;
  const T share = 1 / sqrt((T)2);
  for (int i = 0; i < h; i++) {
    z[i] = share * q[i * h + h - 1];
    z[h + i] = share * sign * q[h * h + i * h];
    place[i] = i;
    place[h + i] = n * h + i;
  }
  each(i, 0, n) { own[i] = d[i]; }
  T most = 0;
  T largest = 0;
  for (int i = 0; i < n; i++) {
    const T f = d[i];
    int at = i;
    while (at > 0) {
      if (!(d[order[at - 1]] > f)) break;
      order[at] = order[at - 1];
      at--;
    }
    order[at] = i;
    if (z[i] != 0) most = fmax(most, fabs(f));
    largest = fmax(largest, fabs(z[i]));
  }
  const T small = 4 * EPS * fmax(most, largest);
  ${deflation}
  // Those that are kept come first, in order.
  each(c, 0, n) { turned[c] = z[c]; }
  for (int c = 0; c < count; c++) {
    pole[c] = own[kept[c]];
    z[c] = turned[kept[c]];
  }
  T squares = 0;
  fold(c, 0, count) { squares += z[c] * z[c]; }
  const T over = 1 / rho;
  for (int r = 0; r < count; r++) {${root}
  }
  each(c, 0, count) { turned[c] = 1; }
  for (int r = 0; r < count; r++) {
    const T here = pole[r];
    each(c, 0, r) { turned[c] *= gap[r * n + c] / (pole[c] - here); }
    turned[r] *= gap[r * n + r];
    each(c, r + 1, count) { turned[c] *= gap[r * n + c] / (pole[c] - here); }
  }
  for (int c = 0; c < count; c++) {
    const T length = sqrt(fabs(turned[c]));
    turned[c] = z[c] < 0 ? -length : length;
  }
  each(i, 0, 2 * n * h) { v[i] = 0; }
  for (int r = 0; r < count; r++) {
    T length = 0;
    each(c, 0, count) { gap[r * n + c] = turned[c] / gap[r * n + c]; }
    fold(c, 0, count) { length += gap[r * n + c] * gap[r * n + c]; }
    length = 1 / sqrt(length);
    for (int c = 0; c < count; c++) v[place[kept[c]] + r * h] = length * gap[r * n + c];
  }
  for (int k = 0; k < gone; k++) {
    v[place[left[k]] + (count + k) * h] = 1;
    x[count + k] = own[left[k]];
  }
  for (int r = 0; r < n; r++) {
    for (int k = turns - 1; k >= 0; k--) {
      const int first = place[pair[2 * k]] + r * h;
      const int second = place[pair[2 * k + 1]] + r * h;
      const T f = v[first];
      const T g = v[second];
      const T c = turn[2 * k];
      const T s = turn[2 * k + 1];
      v[first] = c * f - s * g;
      v[second] = s * f + c * g;
    }
  }
`,
};
