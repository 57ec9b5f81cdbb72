/** The text of Fourier transforms of rows. */
import type { MatrixKernel } from "../ops/custom/matrix_kernel.ts";

/**
 * A transform by Stockham's method, which needs no reordering: a stage of radix `p` joins `p` transforms
 * of `l` elements to one of `p l`. `c` and `s` are cosine and sine of 2 π k / n; `sign` is -1 forward.
 */
export const fftKernel: MatrixKernel = {
  name: "fourier_rows",
  inputs: { re: "n", im: "n", "shared c": "n", "shared s": "n" },
  outputs: { yr: "n", yi: "n", zr: "n", zi: "n" },
  numbers: ["n", "sign"],
  text: `
  int stages = 0;
  int rest = n;
  int p = 4;
  while (rest > 1) {
    if (p == 4 && rest % 4 != 0) p = 2;
    if (p == 2 && rest % 2 != 0) p = 3;
    while (rest % p != 0) p += 2;
    rest = rest / p;
    stages++;
  }
  T* ar = stages % 2 == 0 ? yr : zr;
  T* ai = stages % 2 == 0 ? yi : zi;
  T* br = stages % 2 == 0 ? zr : yr;
  T* bi = stages % 2 == 0 ? zi : yi;
  each(i, 0, n) { ar[i] = re[i]; ai[i] = im[i]; }
  int l = 1;
  p = 4;
  for (int stage = 0; stage < stages; stage++) {
    if (p == 4 && (n / l) % 4 != 0) p = 2;
    if (p == 2 && (n / l) % 2 != 0) p = 3;
    while ((n / l) % p != 0) p += 2;
    const int r = n / l / p;
    sync;
    if (p == 4) {
      pairs(j, 0, l, k, 0, r) {
        const int t = j * r;
        const int x = j * 4 * r + k;
        const T c1 = c[t];
        const T s1 = sign * s[t];
        const T c2 = c[2 * t];
        const T s2 = sign * s[2 * t];
        const T c3 = c[3 * t];
        const T s3 = sign * s[3 * t];
        const T r0 = ar[x];
        const T i0 = ai[x];
        const T r1 = ar[x + r] * c1 - ai[x + r] * s1;
        const T i1 = ar[x + r] * s1 + ai[x + r] * c1;
        const T r2 = ar[x + 2 * r] * c2 - ai[x + 2 * r] * s2;
        const T i2 = ar[x + 2 * r] * s2 + ai[x + 2 * r] * c2;
        const T r3 = ar[x + 3 * r] * c3 - ai[x + 3 * r] * s3;
        const T i3 = ar[x + 3 * r] * s3 + ai[x + 3 * r] * c3;
        const int y = j * r + k;
        const int o = l * r;
        br[y] = r0 + r2 + (r1 + r3);
        bi[y] = i0 + i2 + (i1 + i3);
        br[y + o] = r0 - r2 - sign * (i1 - i3);
        bi[y + o] = i0 - i2 + sign * (r1 - r3);
        br[y + 2 * o] = r0 + r2 - (r1 + r3);
        bi[y + 2 * o] = i0 + i2 - (i1 + i3);
        br[y + 3 * o] = r0 - r2 + sign * (i1 - i3);
        bi[y + 3 * o] = i0 - i2 - sign * (r1 - r3);
      }
    } else {
      pairs(j, 0, l, k, 0, r) {
        for (int q = 0; q < p; q++) {
          const int f = q * l + j;
          int at = 0;
          T x = 0;
          T y = 0;
          for (int h = 0; h < p; h++) {
            const T u = ar[(j * p + h) * r + k];
            const T v = ai[(j * p + h) * r + k];
            const T d = sign * s[at];
            x += u * c[at] - v * d;
            y += u * d + v * c[at];
            at += f * r;
            if (at >= n) at -= n;
          }
          br[f * r + k] = x;
          bi[f * r + k] = y;
        }
      }
    }
    l *= p;
    T* tr = ar;
    ar = br;
    br = tr;
    T* ti = ai;
    ai = bi;
    bi = ti;
  }
`,
};
