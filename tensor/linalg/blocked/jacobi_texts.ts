/** The text of one-sided Jacobi rotations of blocks of columns on GPUs. */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { kernelText } from "./block_texts.ts";

/** Columns of a block. */
export const JACOBI_BLOCK = 16;

/** The players of pair `k` of a round of a tournament. */
const pair = (k: string, round: string, players: string, p: string, q: string): string =>
  `const int ${p} = ${k} == 0 ? ${players} - 1 : (${round} + ${k}) % (${players} - 1);
    const int ${q} = ${k} == 0 ? ${round} : (${round} + ${players} - 1 - ${k}) % (${players} - 1);`;

/** The elements of a chunk of rows of a group's columns: what a body does with row `i` and column `j`. */
const eachOfChunk = (body: string): string =>
  `for (int e = id; e < 64 * W; e += ITEMS) {
      const int i = e / W, j = e % W, c = (j < B ? first : second) * B + j % B;
      ${body}
    }`;

/**
 * A round of a tournament of blocks: a pair of blocks a group. The products of their columns are a matrix whose
 * eigenvectors Jacobi's rotations find, a sweep of them in local memory; the columns are multiplied by these.
 * Products are of the first `measured` rows; all rows are turned. Columns shorter than `least` are left as they
 * are: their directions are errors. `before` are the pairs that were not orthogonal in the last sweep: where there
 * are none, all is done. `moved` counts those of this one.
 */
export function jacobiText(dtype: RealType, name: string): string {
  const parameters = `global const T* restrict z, global const T* restrict least,
  global const int* restrict before, global const int* restrict known, global T* restrict y,
  global int* restrict moved, int rows, int measured, int n, int players, int round, int is_first,
  int is_open`;
  return kernelText(
    dtype,
    name,
    parameters,
    `#define B 16
#define W 32
#define EPS ${dtype === "float64" ? "0x1p-52" : "0x1p-23f"}
#define IS_OPEN(f, g, h) (fabs(h) > limit * sqrt(f) * sqrt(g) && (f) > small && (g) > small)
  local T room[64 * (W + 1)], gram[W * (W + 1)], turn[W * (W + 1)], sines[B], shares[B];
  local int is_any;
  const int id = get_local_id(0), pairs = players / 2, k = get_group_id(0) % pairs;
  const size_t matrix = get_group_id(0) / pairs;
  ${pair("k", "round", "players", "first", "second")}
  z += matrix * rows * n;
  y += matrix * rows * n;
  before += matrix * pairs;
  moved += matrix * pairs;
  bool is_done = !is_open;
  if (is_done) for (int s = 0; s < pairs; s++) if (before[s] > 0) is_done = false;
  T sum[4][4] = { { 0 } };
  if (id == 0) is_any = 0;
  if (!is_done) {
    const int part = id / 64, u = id % 64 / 8 * 4, v = id % 8 * 4;
    for (int start = 0; start < measured; start += 64) {
      barrier(CLK_LOCAL_MEM_FENCE);
      ${
      eachOfChunk(
        "room[i * (W + 1) + j] = start + i < measured && c < n ? z[(size_t)(start + i) * n + c] : 0;",
      )
    }
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int i = 16 * part; i < 16 * part + 16; i++) {
        T f[4], g[4];
        for (int s = 0; s < 4; s++) { f[s] = room[i * (W + 1) + u + s]; g[s] = room[i * (W + 1) + v + s]; }
        for (int s = 0; s < 4; s++) for (int t = 0; t < 4; t++) sum[s][t] += f[s] * g[t];
      }
    }
    for (int turns = 0; turns < 4; turns++) {
      barrier(CLK_LOCAL_MEM_FENCE);
      if (part == turns)
        for (int s = 0; s < 4; s++)
          for (int t = 0; t < 4; t++) {
            const int at = (u + s) * (W + 1) + v + t;
            gram[at] = turns == 0 ? sum[s][t] : gram[at] + sum[s][t];
          }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const T limit = fmax((T)2, sqrt((T)measured) / 4) * EPS, small = least[matrix] * least[matrix];
    for (int e = id; e < W * W; e += ITEMS) {
      const int i = e / W, j = e % W;
      turn[i * (W + 1) + j] = i == j ? 1 : 0;
      if (i < j && IS_OPEN(gram[i * (W + 2)], gram[j * (W + 2)], gram[i * (W + 1) + j])) is_any = 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    is_done = is_any == 0;
    if (!is_done)
      for (int inner = 0; inner < W - 1; inner++) {
        if (id < B) {
          ${pair("id", "inner", "W", "p", "q")}
          const T f = gram[p * (W + 2)], g = gram[q * (W + 2)], h = gram[p * (W + 1) + q];
          T sine = 0, share = 0;
          if (IS_OPEN(f, g, h)) {
            const T theta = (g - f) / (2 * h);
            const T tangent = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
            const T cosine = 1 / sqrt(tangent * tangent + 1);
            sine = tangent * cosine;
            share = sine / (1 + cosine);
          }
          sines[id] = sine;
          shares[id] = share;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        {
          const int a = id / B, b = id % B;
          ${pair("a", "inner", "W", "p", "q")}
          ${pair("b", "inner", "W", "r", "s")}
          const T sa = sines[a], ea = shares[a], sb = sines[b], eb = shares[b];
          const T f = gram[p * (W + 1) + r], g = gram[q * (W + 1) + r];
          const T h = gram[p * (W + 1) + s], l = gram[q * (W + 1) + s];
          const T f1 = f - sa * (g + ea * f), g1 = g + sa * (f - ea * g);
          const T h1 = h - sa * (l + ea * h), l1 = l + sa * (h - ea * l);
          const bool is_own = a == b && sa != 0;
          gram[p * (W + 1) + r] = f1 - sb * (h1 + eb * f1);
          gram[p * (W + 1) + s] = is_own ? 0 : h1 + sb * (f1 - eb * h1);
          gram[q * (W + 1) + r] = is_own ? 0 : g1 - sb * (l1 + eb * g1);
          gram[q * (W + 1) + s] = l1 + sb * (g1 - eb * l1);
          for (int i = a; i < W; i += B) {
            const T x = turn[i * (W + 1) + r], w = turn[i * (W + 1) + s];
            turn[i * (W + 1) + r] = x - sb * (w + eb * x);
            turn[i * (W + 1) + s] = w + sb * (x - eb * w);
          }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
      }
  }
  if (id == 0) moved[k] = (is_first ? 0 : known[matrix * pairs + k]) + (is_done ? 0 : 1);
  if (is_done) {
    for (int start = 0; start < rows; start += 64) {
      ${
      eachOfChunk(
        "if (start + i < rows && c < n) y[(size_t)(start + i) * n + c] = z[(size_t)(start + i) * n + c];",
      )
    }
    }
    return;
  }
  for (int start = 0; start < rows; start += 64) {
    barrier(CLK_LOCAL_MEM_FENCE);
    ${
      eachOfChunk(
        "room[i * (W + 1) + j] = start + i < rows && c < n ? z[(size_t)(start + i) * n + c] : 0;",
      )
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int i = id / 8, v = id % 8 * 4;
    T low[4] = { 0 }, high[4] = { 0 };
    for (int j = 0; j < W; j++) {
      const T f = room[i * (W + 1) + j], g = room[(i + 32) * (W + 1) + j];
      for (int t = 0; t < 4; t++) {
        const T turned = turn[j * (W + 1) + v + t];
        low[t] += f * turned;
        high[t] += g * turned;
      }
    }
    for (int t = 0; t < 4; t++) {
      const int j = v + t, c = (j < B ? first : second) * B + j % B, r = start + i;
      if (c < n && r < rows) y[(size_t)r * n + c] = low[t];
      if (c < n && r + 32 < rows) y[(size_t)(r + 32) * n + c] = high[t];
    }
  }`,
  );
}
