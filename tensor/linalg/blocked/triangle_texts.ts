/** The texts of triangular systems on GPUs. */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import {
  addProduct,
  eachElement,
  eachEliminated,
  eachOwn,
  eliminate,
  eliminationMemory,
  kernelText,
  place,
} from "./block_texts.ts";

/** The inverses of the diagonal blocks: a block a group. Upper ones are turned by half, and are lower then. */
export function inversesText(dtype: RealType, name: string): string {
  const parameters =
    "global const T* restrict a, global T* restrict inverses, int n, int upper, int unit";
  return kernelText(
    dtype,
    name,
    parameters,
    `  local T room[N * PITCH];
  ${eliminationMemory}
  ${place}
  const int blocks = (n + N - 1) / N, from = get_group_id(0) % blocks * N;
  a += (size_t)(get_group_id(0) / blocks) * n * n;
  inverses += (size_t)get_group_id(0) * N * N;
  ${
      eachElement(`const int r = from + (upper ? N - 1 - i : i), c = from + (upper ? N - 1 - j : j);
    const bool is_read = r < n && c < n && (j < i || j == i && !unit);
    room[i * PITCH + j] = is_read ? a[(size_t)r * n + c] : i == j ? 1 : 0;`)
    }
  barrier(CLK_LOCAL_MEM_FENCE);
  ${eliminate(false)}
  ${
      eachEliminated(`const int at = upper ? (N - 1 - i) * N + N - 1 - j : i * N + j;
      inverses[at] = j <= i ? inverse[p][q] : 0;`)
    }`,
  );
}

/** A step: a block of the solution, by the inverse, and what it contributes to the blocks that come later. */
export function solveStepText(dtype: RealType, name: string): string {
  const parameters = `global const T* restrict a, global const T* restrict inverses,
  global const T* restrict x, global T* restrict y, int n, int r, int upper, int now`;
  return kernelText(
    dtype,
    name,
    parameters,
    `  local T left[N * PITCH], right[N * PITCH];
  ${place}
  const int blocks = (n + N - 1) / N, tiles = (r + N - 1) / N;
  const size_t matrix = get_group_id(0) / (blocks * tiles);
  const int ri = get_group_id(0) / tiles % blocks, cj = get_group_id(0) % tiles;
  a += matrix * n * n;
  inverses += (matrix * blocks + now) * N * N;
  x += matrix * n * r;
  y += matrix * n * r;
  const bool is_done = upper ? ri > now : ri < now;
  T sum[S][S] = { { 0 } };
  if (!is_done) {
    ${
      eachElement(`const int row = now * N + i, column = cj * N + j;
    left[i * PITCH + j] = inverses[e];
    right[i * PITCH + j] = row < n && column < r ? x[(size_t)row * r + column] : 0;`)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    ${addProduct("left", "right")}
  }
  if (!is_done && ri != now) {
    barrier(CLK_LOCAL_MEM_FENCE);
    ${eachOwn("right[i * PITCH + j] = sum[p][q];\n      sum[p][q] = 0;")}
    ${
      eachElement(`const int row = ri * N + i, column = now * N + j;
    left[i * PITCH + j] = row < n && column < n ? a[(size_t)row * n + column] : 0;`)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    ${addProduct("left", "right")}
  }
  ${
      eachOwn(`const int row = ri * N + i, column = cj * N + j;
      const size_t at = (size_t)row * r + column;
      if (row < n && column < r) y[at] = ri == now ? sum[p][q] : x[at] - sum[p][q];`)
    }`,
  );
}

/** Blocks that a step for single right sides solves. */
export const VECTOR_BLOCKS = 4;

/** `sums` of 16 parts each in local memory: `from` with a block of rows N or n apart, by a vector in local memory. */
const addVector = (from: string, apart: string, vector: string, guard: string): string =>
  `#pragma unroll
  for (int p = 0; p < S; p++)
    #pragma unroll
    for (int q = 0; q < S; q++) {
      const int i = ti + 16 * p, j = tj + 16 * q;
      if (${guard}) sum[p] += ${from}[(size_t)i * ${apart} + j] * ${vector}[j];
    }`;

/** Items write their `sum`, and those of a block's rows have `all`. */
const addParts = `barrier(CLK_LOCAL_MEM_FENCE);
      for (int p = 0; p < S; p++) {
        parts[(ti + 16 * p) * 17 + tj] = sum[p];
        sum[p] = 0;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      all = 0;
      if (id < N)
        for (int t = 0; t < 16; t++) all += parts[id * 17 + t];`;

/**
 * A step for single right sides: some blocks of the solution, which each group finds for itself, and what they
 * contribute to its block of those that come later.
 */
export function vectorStepText(dtype: RealType, name: string): string {
  const parameters = `global const T* restrict a, global const T* restrict inverses,
  global const T* restrict x, global T* restrict y, int n, int r, int upper, int first`;
  return kernelText(
    dtype,
    name,
    parameters,
    `#define MOST ${VECTOR_BLOCKS}
  local T known[MOST * N], parts[N * 17];
  ${place}
  const int blocks = (n + N - 1) / N, id = get_local_id(0), count = min(MOST, blocks - first);
  const size_t matrix = get_group_id(0) / (blocks * r);
  const int ri = get_group_id(0) / r % blocks, column = get_group_id(0) % r, row = ri * N + id;
  a += matrix * n * n;
  inverses += matrix * blocks * N * N;
  x += matrix * n * r + column;
  y += matrix * n * r + column;
  T sum[S], all = 0;
  for (int p = 0; p < S; p++) sum[p] = 0;
  const bool is_now = ri >= first && ri < first + count;
  if (is_now || (upper ? ri < first : ri > first)) {
    for (int e = id; e < count * N; e += ITEMS)
      known[e] = first * N + e < n ? x[(size_t)(first * N + e) * r] : 0;
    for (int s = 0; s < count; s++) {
      const int now = upper ? count - 1 - s : s, at = first + now;
      for (int t = 0; t < s; t++) {
        const int before = upper ? count - 1 - t : t, top = at * N, left = (first + before) * N;
        const global T* block = a + (size_t)top * n + left;
        const local T* vector = known + before * N;
        ${addVector("block", "n", "vector", "top + i < n && left + j < n")}
      }
      ${addParts}
      if (id < N) known[now * N + id] -= all;
      barrier(CLK_LOCAL_MEM_FENCE);
      const global T* block = inverses + (size_t)at * N * N;
      const local T* vector = known + now * N;
      ${addVector("block", "N", "vector", "true")}
      ${addParts}
      if (id < N) known[now * N + id] = all;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (is_now) all = id < N ? -known[(ri - first) * N + id] : 0;
    else {
      for (int t = 0; t < count; t++) {
        const int top = ri * N, left = (first + t) * N;
        const global T* block = a + (size_t)top * n + left;
        const local T* vector = known + t * N;
        ${addVector("block", "n", "vector", "top + i < n && left + j < n")}
      }
      ${addParts}
    }
  }
  if (id < N && row < n) y[(size_t)row * r] = is_now ? -all : x[(size_t)row * r] - all;`,
  );
}
