/** The texts of QR factorizations on GPUs: reflections of some columns, and what their product does to others. */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { kernelText } from "./block_texts.ts";

/** A panel that a group factors: an item holds some rows of one of its columns. */
export interface QRPanel {
  readonly dtype: RealType;
  readonly columns: number;
  /** Work-items of the group, and rows of each. */
  readonly items: number;
  readonly rows: number;
}

/**
 * Reflections of columns from (from, from) on: `v` has their vectors, `r` the triangle on top, and `turn` the
 * triangle T of H1 H2 ... = I - V T Vᵀ (R. Schreiber, C. Van Loan, 1989). A round a column: its items show it,
 * and all others take their products with it, of which those with former vectors make up T.
 */
export function qrPanelText({ dtype, columns, items, rows }: QRPanel, name: string): string {
  const parameters = `global const T* restrict a, global T* restrict v, global T* restrict r,
  global T* restrict turn, int m, int n, int from, int width`;
  return kernelText(
    dtype,
    name,
    parameters,
    `#define NB ${columns}
#define LANES (ITEMS / NB)
#define R ${rows}
#define TINY ${dtype === "float64" ? "0x1p-1022" : "0x1p-126f"}
  local T shown[R * LANES], sums[LANES * (NB + 1)], sizes[LANES], top[NB], shares[NB], t[NB * NB];
  const int j = get_local_id(0) % NB, lane = get_local_id(0) / NB, rest = m - from;
  const size_t matrix = get_group_id(0);
  a += matrix * m * n;
  v += matrix * rest * NB;
  r += matrix * NB * NB;
  turn += matrix * NB * NB;
  T own[R];
  #pragma unroll
  for (int s = 0; s < R; s++) {
    const int i = lane + s * LANES;
    own[s] = i < rest && j < width ? a[(size_t)(from + i) * n + from + j] : 0;
  }
  for (int e = get_local_id(0); e < NB * NB; e += ITEMS) t[e] = 0;
  for (int c = 0; c < width; c++) {
    T size = 0;
    #pragma unroll
    for (int s = 0; s < R; s++) {
      const int i = lane + s * LANES;
      if (j == c) {
        shown[i] = own[s];
        if (i > c) size = fmax(size, fabs(own[s]));
      }
      if (i == c) top[j] = own[s];
    }
    if (j == c) sizes[lane] = size;
    barrier(CLK_LOCAL_MEM_FENCE);
    size = TINY;
    for (int s = 0; s < LANES; s++) size = fmax(size, sizes[s]);
    const T head = top[c];
    size = fmax(size, fabs(head));
    const T over = 1 / size;
    T sum = 0;
    #pragma unroll
    for (int s = 0; s < R; s++) {
      const int i = lane + s * LANES;
      if (i > c) sum += shown[i] * over * own[s];
    }
    sums[lane * (NB + 1) + j] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    T product = 0, tail = 0;
    for (int s = 0; s < LANES; s++) {
      product += sums[s * (NB + 1) + j];
      tail += sums[s * (NB + 1) + c] * over;
    }
    T beta = head, tau = 0, factor = 0;
    if (tail > 0) {
      const T length = size * sqrt(head * over * (head * over) + tail);
      beta = head > 0 ? -length : length;
      tau = (beta - head) / beta;
      factor = 1 / ((head - beta) * over);
    }
    // The product of this vector with column j.
    const T share = top[j] + product * factor;
    if (lane == 0) shares[j] = share;
    #pragma unroll
    for (int s = 0; s < R; s++) {
      const int i = lane + s * LANES;
      if (j == c) own[s] = i == c ? beta : i > c ? shown[i] * over * factor : own[s];
      else if (j > c && i >= c) own[s] -= tau * share * (i == c ? 1 : shown[i] * over * factor);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_local_id(0); i <= c; i += ITEMS) {
      T all = 0;
      for (int k = i; k < c; k++) all += t[i * NB + k] * shares[k];
      t[i * NB + c] = i == c ? tau : -tau * all;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  #pragma unroll
  for (int s = 0; s < R; s++) {
    const int i = lane + s * LANES;
    if (i < rest) v[(size_t)i * NB + j] = j >= width || i < j ? 0 : i == j ? 1 : own[s];
    if (i < NB) r[i * NB + j] = i <= j && i < rest ? own[s] : 0;
  }
  for (int e = get_local_id(0); e < NB * NB; e += ITEMS) turn[e] = t[e];`,
    items,
  );
}

/** Columns of a group that takes reflections off them. */
export const REFLECTED = 16;

/**
 * A matrix times the product of reflections from the left: that transposed for `factors`, where columns before
 * `end` are those of R. All rows of 16 columns a group: their products with the vectors, then these taken off.
 */
export function reflectText(
  dtype: RealType,
  columns: number,
  factors: boolean,
  name: string,
): string {
  const triangle = factors ? "global const T* restrict r, " : "";
  const parameters = `global const T* restrict a, global const T* restrict v,
  global const T* restrict turn, ${triangle}global T* restrict b, int m, int n, int from, int width`;
  return kernelText(
    dtype,
    name,
    parameters,
    `#define NB ${columns}
  local T parts[16 * 16 * NB], sums[NB * 17], shares[NB * 17];
  const int id = get_local_id(0), q = id % 16, lane = id / 16, tiles = (n + 15) / 16;
  const int rest = m - from, c = get_group_id(0) % tiles * 16 + q;
  const size_t matrix = get_group_id(0) / tiles;
  const bool is_in = c < n;
  a += matrix * m * n;
  b += matrix * m * n;
  v += matrix * rest * NB;
  turn += matrix * NB * NB;
  if (is_in) for (int i = lane; i < from; i += 16) b[(size_t)i * n + c] = a[(size_t)i * n + c];
  a += (size_t)from * n;
  b += (size_t)from * n;
  const int first = c - q, done = ${factors ? "from + width" : "from"};
  if (first + 16 > done) {
    T sum[NB];
    #pragma unroll
    for (int k = 0; k < NB; k++) sum[k] = 0;
    for (int i = lane; i < rest; i += 16) {
      const T value = is_in ? a[(size_t)i * n + c] : 0;
      #pragma unroll
      for (int k = 0; k < NB; k++) sum[k] += v[(size_t)i * NB + k] * value;
    }
    #pragma unroll
    for (int k = 0; k < NB; k++) parts[(lane * NB + k) * 16 + q] = sum[k];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = lane; k < NB; k += 16) {
      T all = 0;
      for (int s = 0; s < 16; s++) all += parts[(s * NB + k) * 16 + q];
      sums[k * 17 + q] = all;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = lane; k < NB; k += 16) {
      T all = 0;
      for (int s = ${factors ? "0; s <= k" : "k; s < NB"}; s++)
        all += turn[${factors ? "s * NB + k" : "k * NB + s"}] * sums[s * 17 + q];
      shares[k * 17 + q] = all;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (int k = 0; k < NB; k++) sum[k] = shares[k * 17 + q];
    if (is_in && c >= done)
      for (int i = lane; i < rest; i += 16) {
        T value = a[(size_t)i * n + c];
        #pragma unroll
        for (int k = 0; k < NB; k++) value -= v[(size_t)i * NB + k] * sum[k];
        b[(size_t)i * n + c] = value;
      }
  }
  if (is_in && c < done)
    for (int i = lane; i < rest; i += 16)
      b[(size_t)i * n + c] = ${
      factors
        ? "c < from ? 0 : i < NB ? r[matrix * NB * NB + i * NB + c - from] : 0"
        : "a[(size_t)i * n + c]"
    };`,
  );
}
