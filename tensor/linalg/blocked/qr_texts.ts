/** The texts of QR factorizations on GPUs: reflections of some columns, and what their product does to others. */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { kernelText } from "./block_texts.ts";

/** A panel that a group factors: an item holds some of its rows. */
export interface QRPanel {
  readonly dtype: RealType;
  readonly columns: number;
  /** Work-items of the group, and rows of each. */
  readonly items: number;
  readonly rows: number;
}

/** Numbers that a group joins at a time in local memory. */
export const MAX_PARTS = { float32: 8192, float64: 4096 } as const;
/** Numbers of a column that an item joins at a time. */
const FAN = 16;

/** Statements that join `sum[j]` of all items for each column: all of them then see `total[j]`. */
const joined = (join: (a: string, b: string) => string): string =>
  `#pragma unroll
    for (int j = 0; j < NB; j++) parts[j * ITEMS + id] = sum[j];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = id; e < NB * FEW; e += ITEMS) {
      const int j = e / FEW, first = e % FEW;
      T all = parts[j * ITEMS + first];
      #pragma unroll
      for (int s = 1; s < ${FAN}; s++) all = ${join("all", "parts[j * ITEMS + first + s * FEW]")};
      few[j * (FEW + 1) + first] = all;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = id; j < NB; j += ITEMS) {
      T all = few[j * (FEW + 1)];
      for (int s = 1; s < FEW; s++) all = ${join("all", "few[j * (FEW + 1) + s]")};
      total[j] = all;
    }
    barrier(CLK_LOCAL_MEM_FENCE);`;

/**
 * Reflections of columns from (from, from) on: `v` has their vectors, `r` the triangle on top, and `turn` the
 * triangle T of H1 H2 ... = I - V T Vᵀ (R. Schreiber, C. Van Loan, 1989). Items hold rows, whose numbers move on
 * by one a round, so that the column of a round is always their first, and vectors come in behind. In a round
 * the products of all columns with it are joined; those with former vectors make up T. A column is scaled by
 * its largest element, beyond which no reflection brings it.
 */
export function qrPanelText({ dtype, columns, items, rows }: QRPanel, name: string): string {
  const parameters = `global const T* restrict a, global T* restrict v, global T* restrict r,
  global T* restrict turn, int m, int n, int from, int width`;
  return kernelText(
    dtype,
    name,
    parameters,
    `#define NB ${columns}
#define FEW (ITEMS / ${FAN})
#define R ${rows}
#define TINY ${dtype === "float64" ? "0x1p-1022" : "0x1p-126f"}
  local T parts[NB * ITEMS], few[NB * (FEW + 1)], total[NB], scales[NB], top[2][NB], t[NB * NB];
  const int id = get_local_id(0), rest = m - from;
  const size_t matrix = get_group_id(0);
  a += matrix * m * n;
  v += matrix * rest * NB;
  r += matrix * NB * NB;
  turn += matrix * NB * NB;
  T own[R][NB], sum[NB];
  #pragma unroll
  for (int j = 0; j < NB; j++) sum[j] = TINY;
  #pragma unroll
  for (int s = 0; s < R; s++) {
    const int i = id + s * ITEMS;
    #pragma unroll
    for (int j = 0; j < NB; j++) {
      own[s][j] = i < rest && j < width ? a[(size_t)(from + i) * n + from + j] : 0;
      sum[j] = fmax(sum[j], fabs(own[s][j]));
    }
  }
  for (int e = id; e < NB * NB; e += ITEMS) t[e] = 0;
  ${joined((a, b) => `fmax(${a}, ${b})`)}
  for (int j = id; j < NB; j += ITEMS) scales[j] = total[j];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int c = 0; c < NB; c++) {
    const T scale = scales[c], over = 1 / scale;
    local T* head = top[c % 2];
    T x[R];
    #pragma unroll
    for (int j = 0; j < NB; j++) sum[j] = 0;
    #pragma unroll
    for (int s = 0; s < R; s++) {
      const int i = id + s * ITEMS;
      x[s] = i > c ? own[s][0] * over : 0;
      #pragma unroll
      for (int j = 0; j < NB; j++) {
        if (i == c) head[j] = own[s][j];
        sum[j] += x[s] * own[s][j];
      }
    }
    ${joined((a, b) => `${a} + ${b}`)}
    const T tail = total[0] * over, alpha = head[0];
    T beta = alpha, tau = 0, factor = 0;
    if (tail > 0) {
      const T length = scale * sqrt(alpha * over * (alpha * over) + tail);
      beta = alpha > 0 ? -length : length;
      tau = (beta - alpha) / beta;
      factor = 1 / ((alpha - beta) * over);
    }
    // Products of this vector with those behind it, and with former ones.
    for (int i = id; i <= c; i += ITEMS) {
      T all = 0;
      for (int k = i; k < c; k++) {
        const int j = NB - c + k;
        all += t[i * NB + k] * (head[j] + total[j] * factor);
      }
      t[i * NB + c] = i == c ? tau : -tau * all;
    }
    #pragma unroll
    for (int j = 0; j < NB; j++) sum[j] = j < NB - c ? tau * (head[j] + total[j] * factor) : 0;
    #pragma unroll
    for (int s = 0; s < R; s++) {
      const int i = id + s * ITEMS;
      const T y = i == c ? 1 : x[s] * factor, first = i == c ? beta : i > c ? y : own[s][0];
      #pragma unroll
      for (int j = 0; j + 1 < NB; j++) own[s][j] = own[s][j + 1] - sum[j + 1] * y;
      own[s][NB - 1] = first;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  #pragma unroll
  for (int s = 0; s < R; s++) {
    const int i = id + s * ITEMS;
    #pragma unroll
    for (int j = 0; j < NB; j++) {
      if (i < rest) v[(size_t)i * NB + j] = j >= width || i < j ? 0 : i == j ? 1 : own[s][j];
      if (i < NB) r[i * NB + j] = i <= j && i < rest ? own[s][j] : 0;
    }
  }
  for (int e = id; e < NB * NB; e += ITEMS) turn[e] = t[e];`,
    items,
  );
}

/** Columns of a group that takes reflections off them. */
export const REFLECTED = 16;

/** Reflections that a group takes off columns. */
export interface Reflecting {
  readonly dtype: RealType;
  readonly columns: number;
  /** Work-items of the group. */
  readonly items: number;
  /** The matrix times their product transposed, of which columns before `end` are those of R. */
  readonly factors: boolean;
}

/** A body for each vector's element `w` of row `i`, four of them read at once, and its number. */
const eachVector = (columns: number, body: (w: string, k: number) => string): string =>
  Array.from(
    { length: columns / 4 },
    (_, q) =>
      `{ const T4 w = *(global const T4*)(v + (size_t)i * NB + ${4 * q}); ${
        [..."xyzw"].map((part, k) => body(`w.${part}`, 4 * q + k)).join(" ")
      } }`,
  ).join("\n        ");

/** Joins what the lanes have of each sum in \`parts\`, which has room for that of PARTS lanes. */
const joinLanes = `for (int g = LANES / PARTS - 1; g >= 0; g--) {
      if (lane / PARTS == g) {
        #pragma unroll
        for (int k = 0; k < NB; k++) parts[(lane % PARTS * NB + k) * 16 + q] = sum[k];
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      if (g > 0) {
        if (lane / PARTS == g - 1) {
          #pragma unroll
          for (int k = 0; k < NB; k++) sum[k] += parts[(lane % PARTS * NB + k) * 16 + q];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
      }
    }
    for (int k = lane; k < NB; k += LANES) {
      T all = 0;
      #pragma unroll
      for (int s = 0; s < PARTS; s++) all += parts[(s * NB + k) * 16 + q];
      sums[k * 17 + q] = all;
    }
    barrier(CLK_LOCAL_MEM_FENCE);`;

/**
 * A matrix times the product of reflections from the left. All rows of 16 columns a group: their products with
 * the vectors, then these taken off.
 */
export function reflectText({ dtype, columns, items, factors }: Reflecting, name: string): string {
  const triangle = factors ? "global const T* restrict r, " : "";
  const parameters = `global const T* restrict a, global const T* restrict v,
  global const T* restrict turn, ${triangle}global T* restrict b, int m, int n, int from, int width`;
  const room = MAX_PARTS[dtype] / (REFLECTED * columns);
  return kernelText(
    dtype,
    name,
    parameters,
    `#define NB ${columns}
#define LANES (ITEMS / 16)
#define PARTS ${Math.min(items / REFLECTED, room)}
  local T parts[PARTS * 16 * NB], sums[NB * 17], shares[NB * 17];
  const int id = get_local_id(0), q = id % 16, lane = id / 16, tiles = (n + 15) / 16;
  const int rest = m - from, c = get_group_id(0) % tiles * 16 + q;
  const size_t matrix = get_group_id(0) / tiles;
  const bool is_in = c < n;
  a += matrix * m * n;
  b += matrix * m * n;
  v += matrix * rest * NB;
  turn += matrix * NB * NB;
  if (is_in) for (int i = lane; i < from; i += LANES) b[(size_t)i * n + c] = a[(size_t)i * n + c];
  a += (size_t)from * n;
  b += (size_t)from * n;
  const int first = c - q, done = ${factors ? "from + width" : "from"};
  if (first + 16 > done) {
    T sum[NB];
    #pragma unroll
    for (int k = 0; k < NB; k++) sum[k] = 0;
    #pragma unroll 4
    for (int i = lane; i < rest; i += LANES) {
      const T value = is_in ? a[(size_t)i * n + c] : 0;
      ${eachVector(columns, (w, k) => `sum[${k}] += ${w} * value;`)}
    }
    ${joinLanes}
    for (int k = lane; k < NB; k += LANES) {
      T all = 0;
      for (int s = ${factors ? "0; s <= k" : "k; s < NB"}; s++)
        all += turn[${factors ? "s * NB + k" : "k * NB + s"}] * sums[s * 17 + q];
      shares[k * 17 + q] = all;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (int k = 0; k < NB; k++) sum[k] = shares[k * 17 + q];
    if (is_in && c >= done)
      #pragma unroll 4
      for (int i = lane; i < rest; i += LANES) {
        T value = a[(size_t)i * n + c];
        ${eachVector(columns, (w, k) => `value -= ${w} * sum[${k}];`)}
        b[(size_t)i * n + c] = value;
      }
  }
  if (is_in && c < done)
    for (int i = lane; i < rest; i += LANES)
      b[(size_t)i * n + c] = ${
      factors
        ? "c < from ? 0 : i < NB ? r[matrix * NB * NB + i * NB + c - from] : 0"
        : "a[(size_t)i * n + c]"
    };`,
    items,
  );
}
