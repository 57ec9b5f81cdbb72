/** The text of eigenvalues and eigenvectors of general matrices, by their complex Schur form. */
import type { MatrixKernel } from "../../ops/custom/matrix_kernel.ts";

/**
 * Householder's reduction to Hessenberg form, then QR steps with Wilkinson's shift in complex numbers, each
 * as rotations of neighbouring rows, and of columns after them; at last the vectors of the triangle by back
 * substitution. `wr + i wi` are the values; the columns of `vr + i vi` the vectors, of length 1. `info` is
 * not 0 where a value was not found.
 */
export const schurKernel: MatrixKernel = {
  name: "complex_schur",
  inputs: { a: "n*n" },
  outputs: {
    wr: "n",
    wi: "n",
    vr: "n*n",
    vi: "n*n",
    "int info": "1",
    hr: "n*n",
    hi: "n*n",
    zr: "n*n",
    zi: "n*n",
    t: "n*3",
  },
  numbers: ["n"],
  text: `
  each(i, 0, n) {
    for (int j = 0; j < n; j++) {
      hr[i * n + j] = a[i * n + j];
      hi[i * n + j] = 0;
      zr[i * n + j] = i == j ? 1 : 0;
      zi[i * n + j] = 0;
    }
  }
  T size = 0;
  for (int i = 0; i < n * n; i++) size = fmax(size, fabs(a[i]));
  for (int k = 0; k + 2 < n; k++) {
    sync;
    T tail = 0;
    for (int i = k + 2; i < n; i++) tail += hr[i * n + k] * hr[i * n + k];
    const T first = hr[(k + 1) * n + k];
    const T length = sqrt(first * first + tail);
    const T head = first + (first < 0 ? -length : length);
    const T factor = tail == 0 ? 0 : 2 / (head * head + tail);
    sync;
    each(i, k + 1, n) { t[i] = i == k + 1 ? head : hr[i * n + k]; }
    sync;
    if (tail != 0) {
      each(j, 0, n) {
        T sum = 0;
        for (int i = k + 1; i < n; i++) sum += t[i] * hr[i * n + j];
        for (int i = k + 1; i < n; i++) hr[i * n + j] -= factor * sum * t[i];
      }
      sync;
      each(i, 0, n) {
        T sum = 0;
        T own = 0;
        for (int j = k + 1; j < n; j++) {
          sum += hr[i * n + j] * t[j];
          own += zr[i * n + j] * t[j];
        }
        for (int j = k + 1; j < n; j++) {
          hr[i * n + j] -= factor * sum * t[j];
          zr[i * n + j] -= factor * own * t[j];
        }
      }
      sync;
      each(i, k + 2, n) { hr[i * n + k] = 0; }
    }
  }
  int m = n - 1;
  int count = 0;
  int bad = 0;
  while (m > 0 && bad == 0) {
    sync;
    int l = m;
    while (l > 0) {
      const int p = l * n + l;
      const int q = p - n - 1;
      const T below = fabs(hr[p - 1]) + fabs(hi[p - 1]);
      const T around = fabs(hr[p]) + fabs(hi[p]) + fabs(hr[q]) + fabs(hi[q]);
      if (below <= EPS * (around == 0 ? size : around)) break;
      l--;
    }
    sync;
    if (l > 0) { each(z, 0, 1) { hr[l * n + l - 1] = 0; hi[l * n + l - 1] = 0; } }
    if (l == m) {
      m--;
      count = 0;
    } else if (count == 300) {
      bad = m + 1;
    } else {
      count++;
      const int p = m * n + m;
      const int q = p - n - 1;
      const T dr = (hr[q] - hr[p]) / 2;
      const T di = (hi[q] - hi[p]) / 2;
      const T br = hr[p - n] * hr[p - 1] - hi[p - n] * hi[p - 1];
      const T bi = hr[p - n] * hi[p - 1] + hi[p - n] * hr[p - 1];
      const T xr = dr * dr - di * di + br;
      const T xi = 2 * dr * di + bi;
      const T modulus = sqrt(xr * xr + xi * xi);
      T rr = sqrt(fmax(0, (modulus + xr) / 2));
      T ri = sqrt(fmax(0, (modulus - xr) / 2));
      if (xi < 0) ri = -ri;
      if (dr * rr + di * ri < 0) {
        rr = -rr;
        ri = -ri;
      }
      const T er = dr + rr;
      const T ei = di + ri;
      const T under = er * er + ei * ei;
      T sr = hr[p];
      T si = hi[p];
      if (under > 0) {
        sr -= (br * er + bi * ei) / under;
        si -= (bi * er - br * ei) / under;
      }
      if (count % 10 == 0) sr = hr[p] + fabs(hr[p - 1]) + fabs(hi[p - 1]);
      sync;
      each(i, l, m + 1) {
        hr[i * n + i] -= sr;
        hi[i * n + i] -= si;
      }
      for (int k = l; k < m; k++) {
        sync;
        const int f = k * n + k;
        const T ar = hr[f];
        const T ai = hi[f];
        const T cr = hr[f + n];
        const T ci = hi[f + n];
        const T upper = sqrt(ar * ar + ai * ai);
        const T whole = sqrt(upper * upper + cr * cr + ci * ci);
        const T cosine = whole == 0 ? 1 : upper / whole;
        const T ur = upper == 0 ? 1 : ar / upper;
        const T ui = upper == 0 ? 0 : ai / upper;
        const T sine = whole == 0 ? 0 : (cr * ur + ci * ui) / whole;
        const T sinei = whole == 0 ? 0 : (ci * ur - cr * ui) / whole;
        sync;
        each(z, 0, 1) {
          t[3 * k] = cosine;
          t[3 * k + 1] = sine;
          t[3 * k + 2] = sinei;
        }
        each(j, k, n) {
          const int e = k * n + j;
          const T gr = hr[e];
          const T gi = hi[e];
          const T or = hr[e + n];
          const T oi = hi[e + n];
          hr[e] = cosine * gr + sine * or + sinei * oi;
          hi[e] = cosine * gi + sine * oi - sinei * or;
          hr[e + n] = cosine * or - sine * gr + sinei * gi;
          hi[e + n] = cosine * oi - sine * gi - sinei * gr;
        }
      }
      sync;
      each(i, 0, n) {
        for (int k = l; k < m; k++) {
          const T cosine = t[3 * k];
          const T sine = t[3 * k + 1];
          const T sinei = t[3 * k + 2];
          const int e = i * n + k;
          if (i <= k + 1) {
            const T gr = hr[e];
            const T gi = hi[e];
            const T or = hr[e + 1];
            const T oi = hi[e + 1];
            hr[e] = cosine * gr + sine * or - sinei * oi;
            hi[e] = cosine * gi + sine * oi + sinei * or;
            hr[e + 1] = cosine * or - sine * gr - sinei * gi;
            hi[e + 1] = cosine * oi - sine * gi + sinei * gr;
          }
          const T yr = zr[e];
          const T yi = zi[e];
          const T nr = zr[e + 1];
          const T ni = zi[e + 1];
          zr[e] = cosine * yr + sine * nr - sinei * ni;
          zi[e] = cosine * yi + sine * ni + sinei * nr;
          zr[e + 1] = cosine * nr - sine * yr - sinei * yi;
          zi[e + 1] = cosine * ni - sine * yi + sinei * yr;
        }
      }
      sync;
      each(i, l, m + 1) {
        hr[i * n + i] += sr;
        hi[i * n + i] += si;
      }
    }
  }
  sync;
  each(z, 0, 1) { info[z] = bad; }
  each(j, 0, n) {
    const T lr = hr[j * n + j];
    const T li = hi[j * n + j];
    wr[j] = lr;
    wi[j] = fabs(li) <= 4 * n * EPS * size ? 0 : li;
    for (int i = n - 1; i >= 0; i--) {
      T sumr = 0;
      T sumi = 0;
      for (int k = i + 1; k <= j; k++) {
        sumr += hr[i * n + k] * vr[k * n + j] - hi[i * n + k] * vi[k * n + j];
        sumi += hr[i * n + k] * vi[k * n + j] + hi[i * n + k] * vr[k * n + j];
      }
      T fr = lr - hr[i * n + i];
      const T fi = li - hi[i * n + i];
      if (fabs(fr) + fabs(fi) < EPS * size) fr = EPS * size;
      const T under = fr * fr + fi * fi;
      vr[i * n + j] = i > j ? 0 : i == j ? 1 : (sumr * fr + sumi * fi) / under;
      vi[i * n + j] = i >= j ? 0 : (sumi * fr - sumr * fi) / under;
    }
  }
  sync;
  each(j, 0, n) {
    T sum = 0;
    for (int i = 0; i < n; i++) {
      T sumr = 0;
      T sumi = 0;
      for (int k = 0; k <= j; k++) {
        sumr += zr[i * n + k] * vr[k * n + j] - zi[i * n + k] * vi[k * n + j];
        sumi += zr[i * n + k] * vi[k * n + j] + zi[i * n + k] * vr[k * n + j];
      }
      hr[i * n + j] = sumr;
      hi[i * n + j] = sumi;
      sum += sumr * sumr + sumi * sumi;
    }
    const T length = sqrt(sum);
    for (int i = 0; i < n; i++) {
      vr[i * n + j] = hr[i * n + j] / length;
      vi[i * n + j] = hi[i * n + j] / length;
    }
  }
`,
};
