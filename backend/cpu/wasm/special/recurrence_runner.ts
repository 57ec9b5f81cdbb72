/** Runs recurrent layers in WebAssembly: one kernel for all steps of a pass. */
import { gateCounts } from "../../../graph/op.ts";
import type { RecurrenceOfSizes, SpecialKernel } from "../../../kernel/kernel.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { HostBlock, PartialRunner } from "../../script/runner.ts";
import type { WasmRuntime } from "../runtime.ts";
import { makeRecurrence, recurrenceArguments, type RecurrenceForm } from "./recurrence_text.ts";
import type { TileSize } from "../products/tile_sums.ts";

type Recurrence = SpecialKernel & RecurrenceOfSizes;

/** Rows that a thread takes through the steps at once: their sums stay in the nearest caches. */
const MAX_ROWS = 12;
/** Rows of a tile of two vectors; narrow ones have four. */
const TALL_TILES = [6, 5, 4] as const, MAX_NARROW_ROWS = 3;
/** Columns that a tile may read at once. */
const COLUMNS = 16;
/** Multiplications of a core in a nanosecond, and nanoseconds for the gates of a feature. */
const SPEED = 25, GATES_COST = 4;
/** Addresses are 32-bit numbers of bytes, and tests compare some as signed ones. */
const MAX_BYTES = 2 ** 31;

/** The runner of a recurrent layer, or null where the engine or the sizes do not allow it. */
export function recurrenceRunner(
  kernel: Recurrence,
  runtime: WasmRuntime,
  host: GemmHost,
): PartialRunner | null {
  if (!runtime.hasPrivatePages || !fits(kernel)) return null;
  const { batch, pass } = kernel;
  const blockRows = rowsOf(batch, runtime.threads.size), tile = tileOf(blockRows);
  const form = formOf(kernel, tile, runtime.relaxed);
  const compiled = runtime.named(
    `recurrence ${JSON.stringify(form)}`,
    () => makeRecurrence(form),
  );
  const tables = tablesOf(kernel, tile), rest = scratchBytes(kernel, blockRows, tile);
  const sizes = sizesOf(kernel, blockRows, rest);
  const words = tables.length + rest / 4 * runtime.threads.size;
  const execute = (inputs: readonly HostBlock[], output: HostBlock): boolean =>
    host.withScratch("float32", words, (scratch) => {
      const { memory } = runtime, given = addressesOf(kernel, inputs, output);
      const places = [...Object.values(given), scratch].map((block) => memory.addressOf(block));
      const own = places.at(-1);
      if (own === null || own === undefined || places.includes(null)) return false;
      memory.bytes(own, tables.byteLength).set(new Uint8Array(tables.buffer));
      const numbers: Record<string, number> = {
        ...sizes,
        ...Object.fromEntries(Object.keys(given).map((name, k) => [name, places[k]!])),
        aRows: own,
        aSums: own + 4 * aRowCount(batch, tile),
        scratch: own + tables.byteLength,
      };
      recurrenceArguments.forEach((name, k) => runtime.words[k] = numbers[name] ?? 0);
      runtime.run(compiled, Math.ceil(batch / blockRows), 1, costOf(kernel));
      return true;
    });
  return {
    source: `// WebAssembly: a recurrent layer, ${pass}, ${blockRows} rows at once`,
    run: (inputs, [output]) => execute(inputs, output!),
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

/** The tile that wastes the fewest rows: the registers are full, but where there are few. */
function tileOf(rows: number): TileSize {
  if (rows <= MAX_NARROW_ROWS) return { rows, vectors: 4 };
  const waste = (height: number): number => Math.ceil(rows / height) * height;
  const height = TALL_TILES.reduce((best, next) => waste(next) < waste(best) ? next : best);
  return { rows: height, vectors: 2 };
}

function formOf(kernel: Recurrence, tile: TileSize, relaxed: boolean): RecurrenceForm {
  const { pass, gates, isReverse, planes, inputs } = kernel;
  const hasBias = pass === "forward" && inputs.length > 3;
  return {
    pass,
    gates,
    isReverse,
    planes: pass === "forward" ? planes : 0,
    hasBias,
    tile,
    relaxed,
  };
}

/** Features of a row that the weights are multiplied by. */
function summed({ pass, gates, features }: Recurrence): number {
  return pass === "forward" ? features : gateCounts[gates].gates * features;
}

/** Bytes of a row of the weights. */
function columnBytes({ pass, gates, columns }: Recurrence): number {
  return 4 * columns * (pass === "forward" ? gateCounts[gates].gates : 1);
}

/** Rows in the table: those of the batch, and behind them the last one again up to the end of a tile. */
function aRowCount(batch: number, { rows }: TileSize): number {
  return batch + rows;
}

/** The places of rows and of summed indices, and room up to the next vector. */
function tablesOf(kernel: Recurrence, tile: TileSize): Int32Array {
  const { batch, features, pass, gates } = kernel;
  const step = 4 * features * (pass === "forward" ? 1 : gateCounts[gates].blocks);
  const rows = aRowCount(batch, tile), sums = summed(kernel) + 1;
  const table = new Int32Array(Math.ceil((rows + sums) / 16) * 16);
  for (let row = 0; row < rows; row++) table[row] = Math.min(row, batch - 1) * step;
  for (let k = 0; k < sums; k++) table[rows + k] = 4 * k;
  return table;
}

/** Scratch of a thread: the products, and backward what flows to the states beside them. */
function scratchBytes(kernel: Recurrence, blockRows: number, { rows }: TileSize): number {
  const products = Math.ceil(blockRows / rows) * rows * columnBytes(kernel);
  const beside = kernel.pass === "forward" ? 0 : 2 * blockRows * 4 * kernel.features;
  return Math.ceil((products + beside) / 64) * 64;
}

function sizesOf(kernel: Recurrence, blockRows: number, scratchBytes: number) {
  const { steps, batch, features, isReverse } = kernel;
  const rowBytes = 4 * features, stepBytes = batch * rowBytes;
  return {
    scratchBytes,
    blockRows,
    batch,
    steps,
    rowBytes,
    stepBytes,
    k: summed(kernel),
    columnBytes: columnBytes(kernel),
    planeBytes: (steps + 1) * stepBytes,
    firstStep: isReverse ? steps - 1 : 0,
    direction: isReverse ? -1 : 1,
  };
}

/** The blocks by the names of the module's arguments. */
function addressesOf(
  { pass }: Recurrence,
  inputs: readonly HostBlock[],
  output: HostBlock,
): Readonly<Record<string, HostBlock>> {
  const [a, b, c, d] = inputs as [HostBlock, HostBlock, HostBlock, HostBlock?];
  if (pass === "backward") return { planes: a, gradient: b, weight: c, found: output };
  return { input: a, weight: b, first: c, planes: output, ...(d && { bias: d }) };
}

/** About how many nanoseconds it takes on one core. */
function costOf(kernel: Recurrence): number {
  const { steps, batch, features } = kernel;
  const products = summed(kernel) * columnBytes(kernel) / 4;
  return steps * batch * (products / SPEED + features * GATES_COST);
}
