/** The texts of LU factorizations on GPUs. */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { eachOwn, kernelText, place } from "./block_texts.ts";

/** A panel that a group factors: an item holds some rows of it. */
export interface LUPanel {
  readonly dtype: RealType;
  readonly columns: number;
  /** Work-items of the group, and rows of each. */
  readonly items: number;
  readonly rows: number;
  /** A pivot of 0 is a tiny number, which the kernel then is given. */
  readonly fills: boolean;
}

/** Keys that an item compares at once: their reads wait together. */
const FAN = 16;

/**
 * A magnitude and the seat of its row in one number: the larger magnitude is the larger one, then the lower
 * seat; NaN is none. Doubles give the last 14 of their 52 bits for it.
 */
const keys = {
  float32: `#define KEY(v, seat) ((ulong)as_uint(v) << 32 | (uint)(INT_MAX - (seat)))
#define SEAT(key) (INT_MAX - (int)((key) & 0xffffffff))`,
  float64: `#define KEY(v, seat) (as_ulong(v) & ~(ulong)0x3fff | (ulong)(0x3fff + from - (seat)))
#define SEAT(key) (from + 0x3fff - (int)((key) & 0x3fff))`,
} as const;

/** Statements that make `key` the largest of all items: some become one, until each item sees the rest. */
function largestKey(items: number): string {
  const steps = ["keys[id] = key;"];
  let count = items, room = 0;
  for (; count > FAN; room = 1 - room) {
    const rest = Math.ceil(count / FAN);
    steps.push(`barrier(CLK_LOCAL_MEM_FENCE);
      if (id < ${rest}) {
        #pragma unroll
        for (int s = 1; s < ${FAN}; s++)
          if (id + s * ${rest} < ${count}) key = max(key, keys[${room * items} + id + s * ${rest}]);
        keys[${(1 - room) * items} + id] = key;
      }`);
    count = rest;
  }
  steps.push(`barrier(CLK_LOCAL_MEM_FENCE);
      #pragma unroll
      for (int s = 0; s < ${count}; s++) key = max(key, keys[${room * items} + s]);`);
  return steps.join("\n      ");
}

/**
 * Columns from (from, from) on with exchanges of rows, which stay where they are: each knows its place. Items
 * hold rows whose numbers move on by one a round, so that the column of a round is always their first, and those
 * of L come in behind. `order` are the rows of the matrix in their new order, `state` the number of exchanges
 * and the first pivot of 0, from 1; `inverse` that of L's triangle.
 */
export function luPanelText(panel: LUPanel, name: string): string {
  const { dtype, columns, items, rows, fills } = panel;
  const parameters = `global const T* restrict a, global const int* restrict known,
  ${
    fills
      ? "global const T* restrict least, "
      : ""
  }global T* restrict panel, global int* restrict order,
  global T* restrict inverse, global int* restrict state, int m, int n, int from, int width`;
  return kernelText(
    dtype,
    name,
    parameters,
    `#define R ${rows}
#define NB ${columns}
${keys[dtype]}
  local T pivot[NB], lower[NB * (NB + 1)], solved[NB * (NB + 1)];
  local ulong keys[2 * ITEMS];
  const int id = get_local_id(0), rest = m - from;
  const size_t matrix = get_group_id(0);
  a += matrix * m * n;
  panel += matrix * rest * NB;
  order += matrix * rest;
  inverse += matrix * NB * NB;
  T own[R][NB];
  int seat[R];
  #pragma unroll
  for (int t = 0; t < R; t++) {
    const int i = from + id + t * ITEMS;
    seat[t] = i < m ? i : -1;
    #pragma unroll
    for (int j = 0; j < NB; j++) own[t][j] = i < m && j < width ? a[(size_t)i * n + from + j] : 0;
  }
  for (int e = id; e < NB * (NB + 1); e += ITEMS) lower[e] = 0;
  int swaps = known[2 * matrix], bad = known[2 * matrix + 1];
  for (int c = 0; c < NB; c++) {
    const int k = from + c;
    int p = k;
    T d = 1;
    if (c < width) {
      ulong key = 0;
      #pragma unroll
      for (int t = 0; t < R; t++) {
        const T v = fabs(own[t][0]);
        if (seat[t] >= k && v == v) key = max(key, KEY(v, seat[t]));
      }
      ${largestKey(items)}
      // Where all are NaN, the row stays.
      p = key == 0 ? k : SEAT(key);
      #pragma unroll
      for (int t = 0; t < R; t++)
        if (seat[t] == p) {
          #pragma unroll
          for (int j = 0; j < NB; j++) pivot[j] = own[t][j];
        }
      barrier(CLK_LOCAL_MEM_FENCE);
      d = pivot[0];
      if (d == 0 && bad == 0) bad = k + 1;
      ${fills ? "if (d == 0) d = least[matrix];" : ""}
      if (p != k) swaps++;
    }
    #pragma unroll
    for (int t = 0; t < R; t++) {
      const int before = seat[t];
      const bool is_below = c < width && before >= k && before != p;
      if (c < width && before >= k) seat[t] = before == p ? k : before == k ? p : before;
      T first = is_below ? d == 0 ? 0 : own[t][0] / d : own[t][0];
      ${fills ? "if (c < width && before == p) first = d;" : ""}
      #pragma unroll
      for (int j = 0; j + 1 < NB; j++)
        own[t][j] = is_below && j + 1 < NB - c ? own[t][j + 1] - first * pivot[j + 1] : own[t][j + 1];
      own[t][NB - 1] = first;
    }
  }
  #pragma unroll
  for (int t = 0; t < R; t++) {
    const int to = seat[t] - from;
    if (to < 0) continue;
    order[to] = from + id + t * ITEMS;
    #pragma unroll
    for (int j = 0; j < NB; j++) {
      panel[(size_t)to * NB + j] = own[t][j];
      if (to < width && j < to) lower[to * (NB + 1) + j] = own[t][j];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int c = id; c < NB; c += ITEMS)
    for (int i = 0; i < NB; i++) {
      T sum = i == c ? 1 : 0;
      for (int t = c; t < i; t++) sum -= lower[i * (NB + 1) + t] * solved[t * (NB + 1) + c];
      solved[i * (NB + 1) + c] = sum;
      inverse[i * NB + c] = sum;
    }
  if (id == 0) {
    state[2 * matrix] = swaps;
    state[2 * matrix + 1] = bad;
  }`,
    items,
  );
}

/**
 * The matrix behind a panel: rows in their new order, U beside the panel by the inverse of L's triangle, and its
 * product with L taken off the rest; a block a group. `permutation` is the order of all rows so far.
 */
export function luUpdateText(dtype: RealType, columns: number, name: string): string {
  const parameters = `global const T* restrict a, global const T* restrict panel,
  global const int* restrict order, global const T* restrict inverse, global const int* restrict known,
  global T* restrict b, global int* restrict permutation, int m, int n, int from, int width`;
  return kernelText(
    dtype,
    name,
    parameters,
    `#define NB ${columns}
  local T left[N * (NB + 1)], given[NB * PITCH], right[NB * PITCH], turn[NB * NB];
  ${place}
  const int rows = (m + N - 1) / N, tiles = (n + N - 1) / N, end = from + width;
  const size_t matrix = get_group_id(0) / (rows * tiles);
  const int ri = get_group_id(0) / tiles % rows, cj = get_group_id(0) % tiles, id = get_local_id(0);
  a += matrix * m * n;
  b += matrix * m * n;
  panel += matrix * (m - from) * NB;
  order += matrix * (m - from);
  inverse += matrix * NB * NB;
  if (cj == 0 && id < N && ri * N + id < m) {
    const int r = ri * N + id;
    permutation[matrix * m + r] = known[matrix * m + (r < from ? r : order[r - from])];
  }
  T sum[S][S] = { { 0 } };
  const bool is_new = (ri + 1) * N > from && (cj + 1) * N > end;
  if (is_new) {
    for (int e = id; e < N * NB; e += ITEMS) {
      const int i = e / NB, k = e % NB, r = ri * N + i;
      left[i * (NB + 1) + k] = r >= end && r < m ? panel[(size_t)(r - from) * NB + k] : 0;
    }
    for (int e = id; e < NB * N; e += ITEMS) {
      const int k = e / N, j = e % N, c = cj * N + j;
      given[k * PITCH + j] = k < width && c >= end && c < n ? a[(size_t)order[k] * n + c] : 0;
    }
    for (int e = id; e < NB * NB; e += ITEMS) turn[e] = inverse[e];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = id; e < NB * N; e += ITEMS) {
      const int k = e / N, j = e % N;
      T all = 0;
      for (int t = 0; t <= k; t++) all += turn[k * NB + t] * given[t * PITCH + j];
      right[k * PITCH + j] = all;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < NB; k++) {
      T f[S], g[S];
      for (int p = 0; p < S; p++) {
        f[p] = left[(ti + 16 * p) * (NB + 1) + k];
        g[p] = right[k * PITCH + tj + 16 * p];
      }
      for (int p = 0; p < S; p++)
        for (int q = 0; q < S; q++) sum[p][q] += f[p] * g[q];
    }
  }
  ${
      eachOwn(`const int r = ri * N + i, c = cj * N + j;
      if (r >= m || c >= n) continue;
      const size_t to = (size_t)r * n + c;
      if (r < from) b[to] = a[to];
      else if (c >= from && c < end) b[to] = panel[(size_t)(r - from) * NB + c - from];
      else if (c >= end && r < end) b[to] = right[(r - from) * PITCH + j];
      else b[to] = a[(size_t)order[r - from] * n + c] - sum[p][q];`)
    }`,
  );
}

/** Systems of few equations that a group solves. */
export interface SmallSolve {
  readonly dtype: RealType;
  /** Most rows, and right sides of a group. */
  readonly side: number;
  readonly columns: number;
  readonly items: number;
}

/** X of P⁻¹ L U X = B: a matrix a group, and some right sides. */
export function smallSolveText({ dtype, side, columns, items }: SmallSolve, name: string): string {
  const parameters = `global const T* restrict lu, global const int* restrict order,
  global const T* restrict b, global T* restrict x, int n, int r`;
  return kernelText(
    dtype,
    name,
    parameters,
    `#define SIDE ${side}
#define C ${columns}
  local T f[SIDE * (SIDE + 1)], y[SIDE * C];
  const int id = get_local_id(0), tiles = (r + C - 1) / C, first = get_group_id(0) % tiles * C;
  const size_t matrix = get_group_id(0) / tiles;
  lu += matrix * n * n;
  order += matrix * n;
  b += matrix * n * r;
  x += matrix * n * r;
  for (int e = id; e < n * n; e += ITEMS) f[e / n * (SIDE + 1) + e % n] = lu[e];
  for (int e = id; e < n * C; e += ITEMS) {
    const int c = first + e % C;
    y[e] = c < r ? b[(size_t)order[e / C] * r + c] : 0;
  }
  for (int k = 0; k + 1 < n; k++) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = id + (k + 1) * C; e < n * C; e += ITEMS)
      y[e] -= f[e / C * (SIDE + 1) + k] * y[k * C + e % C];
  }
  for (int k = n - 1; k >= 0; k--) {
    barrier(CLK_LOCAL_MEM_FENCE);
    const T over = f[k * (SIDE + 1) + k];
    for (int e = id; e < (k + 1) * C; e += ITEMS) {
      const int i = e / C, c = first + e % C;
      const T value = y[k * C + e % C] / over;
      if (i < k) y[e] -= f[i * (SIDE + 1) + k] * value;
      else if (c < r) x[(size_t)k * r + c] = value;
    }
  }`,
    items,
  );
}
