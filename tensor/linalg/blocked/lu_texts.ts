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
  /** The panel is all of the matrix, and written by rows. */
  readonly isAll: boolean;
  /** Warps reduce whole numbers by an instruction. */
  readonly reduces: boolean;
}

/** The largest number that divides both. */
const gcd = (a: number, b: number): number => b === 0 ? a : gcd(b, a % b);

/** Items that find their largest key together: a warp of NVIDIA's. */
const TEAM = 32;

/**
 * A magnitude and the seat of its row in one number: the larger magnitude is the larger one, then the lower
 * seat. Doubles give the last 14 of their 52 bits for it.
 */
const keys = {
  float32: `#define KEY(v, seat) ((ulong)as_uint(v) << 32 | (uint)(INT_MAX - (seat)))
#define SEAT(key) (INT_MAX - (int)((key) & 0xffffffff))`,
  float64: `#define KEY(v, seat) (as_ulong(v) & ~(ulong)0x3fff | (ulong)(0x3fff + from - (seat)))
#define SEAT(key) (from + 0x3fff - (int)((key) & 0x3fff))`,
} as const;

/** The largest word of a warp, by compute capability 8.0 in one instruction. */
const largestWord = {
  reduction: `asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(v) : "r"(v));`,
  shuffles: `for (int apart = 16; apart > 0; apart /= 2) {
    uint other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(v), "r"(apart));
    v = max(v, other);
  }`,
} as const;

/** Makes `key` the largest of a team, and of all by those of the teams in `found`, whose index is `winner`. */
const teamHelpers = (reduces: boolean): string =>
  `#ifdef __NV_CL_C_VERSION
inline uint largest_word(uint v) {
  ${reduces ? largestWord.reduction : largestWord.shuffles}
  return v;
}
inline ulong largest_key(ulong key) {
  const uint high = key >> 32, top = largest_word(high);
  return (ulong)top << 32 | largest_word(high == top ? (uint)key : 0);
}
#define TEAM_LARGEST key = largest_key(key);
#define LARGEST { \\
    const ulong mine = found[turn][id % TEAM % TEAMS]; \\
    key = largest_key(mine); \\
    winner = largest_word(mine == key ? id % TEAM % TEAMS : 0); \\
  }
#else
#define TEAM_LARGEST { \\
    keys[id] = key; \\
    barrier(CLK_LOCAL_MEM_FENCE); \\
    for (int s = 0; s < TEAM; s++) key = max(key, keys[id / TEAM * TEAM + s]); \\
  }
#define LARGEST { \\
    key = 0; \\
    for (int s = 0; s < TEAMS; s++) \\
      if (found[turn][s] > key) { key = found[turn][s]; winner = s; } \\
  }
#endif`;

/** Items read `own` side by side, all at once, and pass it on until each has its rows, some columns a time. */
const readOwn = `#pragma unroll
  for (int t = 0; t < R; t++)
    #pragma unroll
    for (int j = 0; j < NB; j++) {
      const int e = id + j % PART * ITEMS, column = j / PART * PART + e % PART;
      const int i = from + t * ITEMS + e / PART;
      own[t][j] = i < m && column < width ? a[(size_t)i * n + from + column] : 0;
    }
  #pragma unroll
  for (int t = 0; t < R; t++)
    #pragma unroll
    for (int first = 0; first < NB; first += PART) {
      barrier(CLK_LOCAL_MEM_FENCE);
      #pragma unroll
      for (int j = 0; j < PART; j++) {
        const int e = id + j * ITEMS;
        room[e / PART * (PART + 1) + e % PART] = own[t][first + j];
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      #pragma unroll
      for (int j = 0; j < PART; j++) own[t][first + j] = room[id * (PART + 1) + j];
    }`;

/** The inverse of L's triangle: a column an item, whose numbers move on by one a row. */
const invertLower = `for (int c = id; c < NB; c += ITEMS) {
    T x[NB];
    #pragma unroll
    for (int j = 0; j < NB; j++) x[j] = j == c ? 1 : 0;
    for (int k = 0; k < NB; k++) {
      const T known = x[0];
      inverse[k * NB + c] = known;
      #pragma unroll
      for (int j = 0; j + 1 < NB; j++)
        x[j] = j + 1 < NB - k ? x[j + 1] - lower[(k + 1 + j) * (NB + 1) + k] * known : 0;
    }
  }`;

/** The row of the pivot, which its item shows to all. */
const takePivot = (fills: boolean): string =>
  `ulong key = 0;
      #pragma unroll
      for (int t = 0; t < R; t++) {
        const T v = fabs(own[t][0]);
        // Where all are NaN, the row stays.
        if (seat[t] >= k) key = max(key, v == v ? KEY(v, seat[t]) : seat[t] == k ? 1 : 0);
      }
      TEAM_LARGEST
      const int shown = key == 0 ? -2 : key == 1 ? k : SEAT(key);
      if (id % TEAM == 0) found[turn][id / TEAM] = key;
      #pragma unroll
      for (int t = 0; t < R; t++)
        if (seat[t] == shown) {
          #pragma unroll
          for (int j = 0; j < NB; j++) room[(turn * TEAMS + id / TEAM) * NB + j] = own[t][j];
        }
      barrier(CLK_LOCAL_MEM_FENCE);
      int winner = 0;
      LARGEST
      p = key == 1 ? k : SEAT(key);
      #if NB % 4 == 0
      #pragma unroll
      for (int j = 0; j < NB; j += 4) {
        const T4 four = memory[((turn * TEAMS + winner) * NB + j) / 4];
        row[j] = four.x;
        row[j + 1] = four.y;
        row[j + 2] = four.z;
        row[j + 3] = four.w;
      }
      #else
      #pragma unroll
      for (int j = 0; j < NB; j++) row[j] = room[(turn * TEAMS + winner) * NB + j];
      #endif
      d = row[0];
      #pragma unroll
      for (int j = 0; j < NB; j++) row[j] = j < NB - c ? row[j] : 0;
      if (d == 0 && bad == 0) bad = k + 1;
      ${fills ? "if (d == 0) d = least[matrix];" : ""}
      if (p != k) swaps++;`;

/** A round's column of L, and its product with the pivot's row taken off the rest. */
const moveOn = (fills: boolean): string =>
  `#pragma unroll
    for (int t = 0; t < R; t++) {
      const int before = seat[t];
      const bool is_left = c < width && before >= k;
      if (is_left) seat[t] = before == p ? k : before == k ? p : before;
      T first = own[t][0];
      if (is_left && before != p) {
        first = d == 0 ? 0 : first / d;
        #pragma unroll
        for (int j = 0; j + 1 < NB; j++) own[t][j] = own[t][j + 1] - first * row[j + 1];
      } else {
        ${fills ? "if (is_left) first = d;" : ""}
        #pragma unroll
        for (int j = 0; j + 1 < NB; j++) own[t][j] = own[t][j + 1];
      }
      own[t][NB - 1] = first;
    }`;

/**
 * Columns from (from, from) on with exchanges of rows, which stay where they are: each knows its place. Items
 * hold rows whose numbers move on by one a round, so that the column of a round is always their first, and those
 * of L come in behind. A round has one barrier: each team shows the row that has its largest number, and all take
 * that of the best team. `order` are the rows of the matrix in their new order, `state` the number of exchanges
 * and the first pivot of 0, from 1; `inverse` that of L's triangle. The panel is written by columns.
 */
export function luPanelText(panel: LUPanel, name: string): string {
  const { dtype, columns, items, rows, fills, isAll, reduces } = panel;
  const part = gcd(columns, dtype === "float64" ? 4 : 8), teams = Math.ceil(items / TEAM);
  const beside = items * (dtype === "float64" ? 1 : 2);
  const numbers = Math.max(items * (part + 1), columns * (2 * teams + columns + 1) + beside);
  const parameters = `global const T* restrict a, global const int* restrict known,
  ${
    fills
      ? "global const T* restrict least, "
      : ""
  }global T* restrict panel, global int* restrict order,
  global T* restrict inverse, global int* restrict state, int m, int n, int from, int width`;
  return `${teamHelpers(reduces)}
${
    kernelText(
      dtype,
      name,
      parameters,
      `#define R ${rows}
#define NB ${columns}
#define PART ${part}
#define TEAM ${TEAM}
#define TEAMS ${teams}
${keys[dtype]}
  local T4 memory[${Math.ceil(numbers / 4)}];
  local ulong found[2][TEAMS];
  local T* room = (local T*)memory;
  // Rows of teams, of two rounds; L's triangle; a key of each item.
  local T* lower = room + 2 * TEAMS * NB;
  local ulong* keys = (local ulong*)(lower + NB * (NB + 1));
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
  }
  ${readOwn}
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int e = id; e < NB * (NB + 1); e += ITEMS) lower[e] = 0;
  int swaps = known[2 * matrix], bad = known[2 * matrix + 1];
  for (int c = 0; c < NB; c++) {
    const int k = from + c, turn = c % 2;
    int p = k;
    T d = 1, row[NB];
    if (c < width) {
      ${takePivot(fills)}
    }
    ${moveOn(fills)}
  }
  #pragma unroll
  for (int t = 0; t < R; t++) {
    const int to = seat[t] - from;
    if (to < 0) continue;
    order[to] = from + id + t * ITEMS;
    #pragma unroll
    for (int j = 0; j < NB; j++) {
      panel[${isAll ? "(size_t)to * NB + j" : "j * rest + to"}] = own[t][j];
      if (to < width && j < to) lower[to * (NB + 1) + j] = own[t][j];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  ${invertLower}
  if (id == 0) {
    state[2 * matrix] = swaps;
    state[2 * matrix + 1] = bad;
  }`,
      items,
    )
  }`;
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
      const int i = e % N, k = e / N, r = ri * N + i;
      left[i * (NB + 1) + k] = r >= end && r < m ? panel[k * (m - from) + r - from] : 0;
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
      else if (c >= from && c < end) b[to] = panel[(c - from) * (m - from) + r - from];
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
