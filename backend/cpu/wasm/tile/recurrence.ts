/** Recurrent layers on the built-in backend: the tile program in WebAssembly. */
import { gateCounts } from "../../../graph/op.ts";
import { type Recurrence, recurrence } from "../../../tile/programs/lanes/recurrence.ts";
import { NARROW_ROWS } from "../../../tile/programs/panels/panel_product.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { PartialRunner } from "../../script/runner.ts";
import type { WasmRuntime } from "../runtime.ts";
import { callOf } from "./tile_call.ts";

/** Rows that a thread takes through the steps at once: their sums stay in the nearest caches. */
const MAX_ROWS = 12;
/** Rows that are multiplied together, where there are not few. */
const TALL_TILES = [6, 5, 4] as const;
/** Columns that a tile may read at once. */
const COLUMNS = 16;
/** Multiplications of a core in a nanosecond, and nanoseconds for the gates of a feature. */
const SPEED = 25, GATES_COST = 4;
/** Addresses are 32-bit numbers of bytes, and tests compare some as signed ones. */
const MAX_BYTES = 2 ** 31;

/** The runner of a recurrent layer, or null where the sizes do not allow it. */
export function recurrenceRunner(
  kernel: Recurrence,
  runtime: WasmRuntime,
  host: GemmHost,
): PartialRunner | null {
  if (!fits(kernel)) return null;
  const rows = rowsOf(kernel.batch, runtime.threads.size);
  const tile = { step: stepOf(rows), vectors: 1 }, cost = costOf(kernel);
  const form = { rows, lanes: 4, tile, byBlocks: true } as const;
  const call = callOf((nameOf) => recurrence(kernel, form, nameOf), { cost }, runtime);
  return {
    source: `// WebAssembly: a recurrent layer, ${kernel.pass}, ${rows} rows at once`,
    run: (inputs, outputs) => call.run(inputs, outputs, host),
  };
}

/** True when tiles divide the weights, and all addresses are numbers of 32 bits. */
function fits({ columns, output, inputs }: Recurrence): boolean {
  return columns % COLUMNS === 0 && 4 * output.size < MAX_BYTES &&
    inputs.every((dtype) => dtype === "float32");
}

/** The rows of a task: all threads have as many tasks, and no more rows than there may be. */
function rowsOf(batch: number, threads: number): number {
  const turns = Math.ceil(batch / (MAX_ROWS * threads));
  return Math.ceil(batch / (turns * threads));
}

/** The rows of a tile, of which the fewest are wasted: the registers are full, but where there are few. */
function stepOf(rows: number): number {
  if (rows <= NARROW_ROWS) return rows;
  const waste = (height: number): number => Math.ceil(rows / height) * height;
  return TALL_TILES.reduce((best, next) => waste(next) < waste(best) ? next : best);
}

/** About how many nanoseconds it takes on one core. */
function costOf({ steps, batch, features, columns, gates }: Recurrence): number {
  const products = features * columns * gateCounts[gates].gates;
  return steps * batch * (products / SPEED + features * GATES_COST);
}
