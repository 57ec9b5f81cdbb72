/**
 * The common part of texts of blocked factorizations on GPUs: a block is a square that a group of 16 x 16
 * work-items holds, each a square part of it.
 *
 * This folder (`blocked/`) has factorizations by many groups: matrices change block by block, each step
 * writes a new one, and no number comes back to the host. It imports `tensor/ops/custom`.
 */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";

/** Rows and columns of a block: two of them have room in 48 KiB of local memory. */
export const blockSides = { float32: 64, float64: 32 } as const;

/** Work-items of a group that has a block. */
export const BLOCK_ITEMS = 256;

/** The head of a kernel: its element type, the numbers of a block, the place of an item. */
export function kernelText(
  dtype: RealType,
  name: string,
  parameters: string,
  body: string,
  items = BLOCK_ITEMS,
): string {
  const N = blockSides[dtype];
  return `${dtype === "float64" ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" : ""}
#define T ${dtype === "float64" ? "double" : "float"}
#define T4 ${dtype === "float64" ? "double4" : "float4"}
#define N ${N}
#define S ${N / 16}
#define PITCH ${N + 1}
#define ITEMS ${items}
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void ${name}(${parameters}) {
${body}
}
`;
}

/** The place of an item among 16 x 16. */
export const place = "const int ti = get_local_id(0) / 16, tj = get_local_id(0) % 16;";

/** Elements of a block by all items: what a body does with row `i` and column `j`. */
export const eachElement = (body: string): string =>
  `for (int e = get_local_id(0); e < N * N; e += ITEMS) {
    const int i = e / N, j = e % N;
    ${body}
  }`;

/** `sum` plus the product of two blocks in local memory; the parts of an item lie 16 apart. */
export const addProduct = (left: string, right: string): string =>
  `for (int k = 0; k < N; k++) {
    T f[S], g[S];
    #pragma unroll
    for (int p = 0; p < S; p++) {
      f[p] = ${left}[(ti + 16 * p) * PITCH + k];
      g[p] = ${right}[k * PITCH + tj + 16 * p];
    }
    #pragma unroll
    for (int p = 0; p < S; p++)
      #pragma unroll
      for (int q = 0; q < S; q++) sum[p][q] += f[p] * g[q];
  }`;

/** The elements of an item's part: what a body does with `sum[p][q]` in row `i` and column `j`. */
export const eachOwn = (body: string): string =>
  `#pragma unroll
  for (int p = 0; p < S; p++)
    #pragma unroll
    for (int q = 0; q < S; q++) {
      const int i = ti + 16 * p, j = tj + 16 * q;
      ${body}
    }`;

/** Elements of a block as {@linkcode eliminate} leaves them: those of an item, `own[p][q]`, lie side by side. */
export const eachEliminated = (body: string): string =>
  `#pragma unroll
  for (int p = 0; p < S; p++)
    #pragma unroll
    for (int q = 0; q < S; q++) {
      const int i = S * ti + p, j = S * tj + q;
      ${body}
    }`;

/** Local memory of {@linkcode eliminate}, declared where the kernel begins. */
export const eliminationMemory = "local T column[2][S][N], row[2][S][N];";

/** The factor of a positive square of S columns in `d`, and one over its diagonal; `bad` as below. */
const factorSquare = `#pragma unroll
    for (int k = 0; k < S; k++) {
      if (!(d[k][k] > 0) && bad == 0) bad = S * b + k + 1;
      d[k][k] = sqrt(d[k][k]);
      over[k][k] = 1 / d[k][k];
      #pragma unroll
      for (int p = k + 1; p < S; p++) {
        d[p][k] *= over[k][k];
        #pragma unroll
        for (int q = k + 1; q <= p; q++) d[p][q] -= d[p][k] * d[q][k];
      }
    }`;

/** Columns of an item's rows, or of those that its columns are, times the inverse of the square's factor. */
const overSquare = (name: string, first: string): string =>
  `T ${name}[S][S];
      #pragma unroll
      for (int p = 0; p < S; p++)
        #pragma unroll
        for (int k = 0; k < S; k++) {
          ${name}[p][k] = 0;
          #pragma unroll
          for (int l = 0; l <= k; l++) ${name}[p][k] += column[turn][l][${first} + p] * over[k][l];
        }`;

/**
 * The inverse of the lower triangle in `room`; with `factors` of its Cholesky factor, which `own` becomes. A
 * round, and a barrier, for S columns: who owns them, and the rows of what becomes the inverse, shows them, and
 * all take their share off. `bad` is the first column whose pivot is not positive, from 1.
 */
export const eliminate = (factors: boolean): string =>
  `T own[S][S], inverse[S][S];
  #pragma unroll
  for (int p = 0; p < S; p++)
    #pragma unroll
    for (int q = 0; q < S; q++) {
      own[p][q] = room[(S * ti + p) * PITCH + S * tj + q];
      inverse[p][q] = S * ti + p == S * tj + q ? 1 : 0;
    }
  int bad = 0;
  for (int b = 0; b < N / S; b++) {
    const int turn = b % 2;
    #pragma unroll
    for (int p = 0; p < S; p++)
      #pragma unroll
      for (int q = 0; q < S; q++) {
        if (tj == b) column[turn][q][S * ti + p] = own[p][q];
        if (ti == b) row[turn][p][S * tj + q] = inverse[p][q];
      }
    barrier(CLK_LOCAL_MEM_FENCE);
    T d[S][S], over[S][S], y[S][S];
    #pragma unroll
    for (int p = 0; p < S; p++)
      #pragma unroll
      for (int q = 0; q <= p; q++) d[p][q] = column[turn][q][S * b + p];
    ${
    factors ? factorSquare : `#pragma unroll
    for (int k = 0; k < S; k++) over[k][k] = 1 / d[k][k];`
  }
    #pragma unroll
    for (int k = 0; k < S; k++)
      #pragma unroll
      for (int i = k + 1; i < S; i++) {
        T sum = 0;
        #pragma unroll
        for (int l = k; l < i; l++) sum += d[i][l] * over[l][k];
        over[i][k] = -sum * over[i][i];
      }
    #pragma unroll
    for (int k = 0; k < S; k++)
      #pragma unroll
      for (int q = 0; q < S; q++) {
        y[k][q] = 0;
        #pragma unroll
        for (int l = 0; l <= k; l++) y[k][q] += over[k][l] * row[turn][l][S * tj + q];
        if (ti == b) inverse[k][q] = y[k][q];
        ${factors ? "if (ti == b && tj == b && q <= k) own[k][q] = d[k][q];" : ""}
      }
    if (ti > b) {
      ${factors ? overSquare("f", "S * ti") : ""}
      #pragma unroll
      for (int p = 0; p < S; p++)
        #pragma unroll
        for (int q = 0; q < S; q++) {
          ${factors ? "if (tj == b) own[p][q] = f[p][q];" : ""}
          #pragma unroll
          for (int k = 0; k < S; k++)
            inverse[p][q] -= ${factors ? "f[p][k]" : "column[turn][k][S * ti + p]"} * y[k][q];
        }
      ${
    factors
      ? `if (tj > b) {
        ${overSquare("g", "S * tj")}
        #pragma unroll
        for (int p = 0; p < S; p++)
          #pragma unroll
          for (int q = 0; q < S; q++)
            #pragma unroll
            for (int k = 0; k < S; k++) own[p][q] -= f[p][k] * g[q][k];
      }`
      : ""
  }
    }
  }`;
