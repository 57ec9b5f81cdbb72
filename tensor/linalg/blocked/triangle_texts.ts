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
