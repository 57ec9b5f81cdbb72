/** The texts of Cholesky factorizations on GPUs. */
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

/** The block in `room`, which begins in row `from`: its factor and the inverse of it; the first bad pivot. */
const factorBlock = `barrier(CLK_LOCAL_MEM_FENCE);
  ${eliminate(true)}
  ${
  eachEliminated(`factor[i * N + j] = j <= i ? own[p][q] : 0;
      factor[N * N + i * N + j] = j <= i ? inverse[p][q] : 0;`)
}
  if (get_local_id(0) == 0) info[0] = before != 0 ? before : bad > 0 ? from + bad : 0;`;

/** Factors the first block: `factor` is it and its inverse, `info` its first bad pivot, from 1. */
export function firstBlockText(dtype: RealType, name: string): string {
  const parameters =
    "global const T* restrict a, global T* restrict factor, global int* restrict info, int n";
  return kernelText(
    dtype,
    name,
    parameters,
    `  local T room[N * PITCH];
  ${eliminationMemory}
  ${place}
  const size_t matrix = get_group_id(0);
  a += matrix * n * n;
  factor += matrix * 2 * N * N;
  info += matrix;
  const int from = 0, before = 0;
  ${eachElement("room[i * PITCH + j] = i < n && j <= i ? a[(size_t)i * n + j] : i == j ? 1 : 0;")}
  ${factorBlock}`,
  );
}

/** The rows below a factored block by its inverse, transposed: a block a group. */
export function belowText(dtype: RealType, name: string): string {
  const parameters = `global const T* restrict a, global const T* restrict factor,
  global T* restrict below, int n, int from`;
  return kernelText(
    dtype,
    name,
    parameters,
    `  local T left[N * PITCH], right[N * PITCH];
  ${place}
  const int blocks = (n - from - 1) / N;
  const size_t matrix = get_group_id(0) / blocks;
  const int block = get_group_id(0) % blocks, first = from + N * (block + 1);
  a += matrix * n * n;
  factor += matrix * 2 * N * N + N * N;
  below += (matrix * blocks + block) * N * N;
  ${
      eachElement(`left[i * PITCH + j] = first + i < n ? a[(size_t)(first + i) * n + from + j] : 0;
    right[j * PITCH + i] = factor[i * N + j];`)
    }
  barrier(CLK_LOCAL_MEM_FENCE);
  T sum[S][S] = { { 0 } };
  ${addProduct("left", "right")}
  ${eachOwn("below[i * N + j] = sum[p][q];")}`,
  );
}

/**
 * A step: what was done before is copied, a block's columns come from its factor and from the rows below, whose
 * product is taken off the rest. The group of the next block factors that at once.
 */
export function stepText(dtype: RealType, name: string): string {
  const parameters = `global const T* restrict a, global const T* restrict done,
  global const T* restrict below, global const int* restrict known, global T* restrict b,
  global T* restrict factor, global int* restrict info, int n, int last`;
  return kernelText(
    dtype,
    name,
    parameters,
    `  local T left[N * PITCH], right[N * PITCH];
  ${eliminationMemory}
  ${place}
  const int blocks = (n + N - 1) / N, rest = blocks - last - 1;
  const size_t matrix = get_group_id(0) / (blocks * blocks);
  // The next block takes longest: its group is the first.
  const int group = (get_group_id(0) + (last + 1) * (blocks + 1)) % (blocks * blocks);
  const int ri = group / blocks, cj = group % blocks;
  a += matrix * n * n;
  b += matrix * n * n;
  done += matrix * 2 * N * N;
  below += matrix * rest * N * N;
  factor += matrix * 2 * N * N;
  if (ri < cj || cj <= last) {
    ${
      eachElement(`const int r = ri * N + i, c = cj * N + j;
    if (r >= n || c >= n) continue;
    b[(size_t)r * n + c] = c > r ? 0
      : cj < last ? a[(size_t)r * n + c]
      : ri == last ? done[i * N + j]
      : below[((ri - last - 1) * N + i) * N + j];`)
    }
    if (rest == 0 && ri == last && cj == last) {
      if (get_local_id(0) == 0) info[matrix] = known[matrix];
      ${eachElement("factor[e] = factor[N * N + e] = 0;")}
    }
    return;
  }
  ${
      eachElement(`left[i * PITCH + j] = below[((ri - last - 1) * N + i) * N + j];
    right[j * PITCH + i] = below[((cj - last - 1) * N + i) * N + j];`)
    }
  barrier(CLK_LOCAL_MEM_FENCE);
  T sum[S][S] = { { 0 } };
  ${addProduct("left", "right")}
  const bool is_next = ri == last + 1 && cj == last + 1;
  if (is_next) barrier(CLK_LOCAL_MEM_FENCE);
  ${
      eachOwn(`const int r = ri * N + i, c = cj * N + j;
      const bool is_in = r < n && c <= r;
      const T value = is_in ? a[(size_t)r * n + c] - sum[p][q] : i == j ? 1 : 0;
      if (r < n && c < n) b[(size_t)r * n + c] = is_in ? value : 0;
      if (is_next) left[i * PITCH + j] = value;`)
    }
  if (is_next) {
    const int from = (last + 1) * N, before = known[matrix];
    local T* room = left;
    info += matrix;
    ${factorBlock}
  }`,
  );
}
