/** Multiplies as a plan says: tables of offsets, panels, tiles. */
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { HostBlock } from "../../script/runner.ts";
import {
  areInFours,
  type Blocks,
  chooseBlocks,
  contiguousAxis,
  COPY_SPEED,
  isContiguous,
  type ProductPlan,
} from "./contraction_plan.ts";
import type { FusedEpilogue, LineBlocks } from "./fused_epilogue.ts";
import { KernelCall } from "./kernel_call.ts";
import { makePacking, packArguments } from "./packing.ts";
import type { WasmKernel, WasmRuntime } from "../runtime.ts";
import { PANEL_BYTES } from "./row_panel.ts";
import { Tables } from "./tables.ts";
import { makeProduct, productArguments, type TileForm } from "./tile.ts";
import { TILE_COLUMNS, TILE_ROWS } from "./tile_store.ts";

/** Access to the right operand: its address, or a copy in panels. */
interface Right {
  /** Panels of a matrix. */
  readonly panels: number;
  /** Different matrices: broadcast ones are copied once. */
  readonly matrices: number;
  readonly tables: Readonly<Record<string, Int32Array>>;
}

function rightOf({ b, n, k, right }: ProductPlan): Right {
  const panels = Math.ceil(n / TILE_COLUMNS);
  const places = Array.from({ length: panels }, (_, p) => p);
  if (right.kind !== "panels") {
    const bPanels = Int32Array.from(places, (p) => b.columns[p * TILE_COLUMNS]!);
    const bSums = right.kind === "table" ? { bSums: b.rows } : {};
    return { panels, matrices: 0, tables: { bPanels, bBatch: b.batch, ...bSums } };
  }
  const batch = Int32Array.from(new Set(b.batch));
  const panelBytes = 4 * TILE_COLUMNS * k;
  const begins = new Map([...batch].map((offset, i) => [offset, i * panels * panelBytes]));
  return {
    panels,
    matrices: batch.length,
    tables: {
      bPanels: Int32Array.from(places, (p) => p * panelBytes),
      bBatch: b.batch.map((offset) => begins.get(offset)!),
      columns: b.columns,
      sums: b.rows,
      batch,
    },
  };
}

/** The kernel of a plan's tiles. */
function productKernel({ a, c, m, k, right }: ProductPlan, runtime: WasmRuntime): WasmKernel {
  const form: TileForm = {
    sumsAreInFours: areInFours(a.columns),
    contiguousAxis: contiguousAxis(c),
    isLong: k > MAX_SHORT_SUMS,
    hasSumTable: right.kind === "table",
    rows: Math.min(m, TILE_ROWS),
    relaxed: runtime.relaxed,
    hasPrivatePage: runtime.hasPrivatePages,
  };
  return runtime.named(`product ${JSON.stringify(form)}`, () => makeProduct(form));
}

/** The kernel that copies a plan's right operand into panels. */
function packingKernel({ b }: ProductPlan, runtime: WasmRuntime): WasmKernel {
  const axis = isContiguous(b.columns) ? "columns" : areInFours(b.rows) ? "sums" : "nothing";
  return runtime.named(`packing ${axis}`, () => makePacking(axis));
}

/** Longer sums are added up from long panels: partial sums of 128 elements drift from 128 of them on. */
const MAX_SHORT_SUMS = 1 << 14;

/** Offsets of rows up to the end of the last tile: the last one again where there are no more. */
function wholeTiles(rows: Int32Array): Int32Array {
  const count = Math.ceil(rows.length / TILE_ROWS) * TILE_ROWS;
  return Int32Array.from({ length: count }, (_, i) => rows[Math.min(i, rows.length - 1)]!);
}

/** The blocks of a product as lines of its result, along rows or columns. */
function lineBlocks({ c, m, n }: ProductPlan, blocks: Blocks): LineBlocks {
  const rows = { count: m, block: blocks.blockRows, blocks: blocks.rowBlocks };
  const block = TILE_COLUMNS * blocks.blockPanels;
  const columns = { count: n, block, blocks: blocks.panelBlocks };
  return contiguousAxis(c) === "columns"
    ? { across: rows, along: columns, acrossIsInner: false }
    : { across: columns, along: rows, acrossIsInner: true };
}

/** Runs one product. */
export class ProductRunner {
  readonly #runtime: WasmRuntime;
  readonly #host: GemmHost;
  /** Copies the right operand into panels; null: it is read where it lies. */
  readonly #packing: KernelCall | null;
  readonly #product: KernelCall;
  readonly #panelBytes: number;
  readonly #tables: Tables;
  /** Prepares what follows the product in the same parts. */
  readonly #chain: ReturnType<FusedEpilogue["chain"]> | null;

  /** `epilogue`: what follows it, along the lines of {@linkcode lineSymbols}. */
  constructor(
    plan: ProductPlan,
    runtime: WasmRuntime,
    host: GemmHost,
    epilogue: FusedEpilogue | null,
  ) {
    this.#runtime = runtime;
    this.#host = host;
    const { a, c, m, n, k, batches, right } = plan, isPacked = right.kind === "panels";
    const { panels, matrices, tables: rightTables } = rightOf(plan), count = matrices * panels;
    this.#panelBytes = 4 * count * TILE_COLUMNS * k;
    const tables = this.#tables = new Tables({
      aRows: wholeTiles(a.rows),
      aSums: a.columns,
      cRows: c.rows,
      cColumns: c.columns,
      aBatch: a.batch,
      cBatch: c.batch,
      ...rightTables,
      ...epilogue?.tables,
    });
    const blocks = chooseBlocks(plan, runtime.threads.size);
    this.#chain = epilogue && epilogue.chain(runtime, tables, lineBlocks(plan, blocks));
    const bStep = right.kind === "steps" ? right.step : 4 * TILE_COLUMNS;
    const numbers = { ...blocks, m, n, k, bStep, panels }, common = { tables, numbers, grain: 1 };
    this.#packing = isPacked
      ? new KernelCall(runtime, {
        ...{ ...common, kernel: packingKernel(plan, runtime), names: packArguments },
        ...{ range: count, cost: count * TILE_COLUMNS * k / COPY_SPEED },
      })
      : null;
    this.#product = new KernelCall(runtime, {
      ...{ ...common, kernel: productKernel(plan, runtime), names: productArguments },
      ...{ range: batches * blocks.rowBlocks * blocks.panelBlocks, cost: plan.cost },
    });
  }

  /** False, and nothing is done, where a matrix or the room for a copy is in other memory. */
  run(x: HostBlock, y: HostBlock, z: HostBlock, inputs: readonly HostBlock[]): boolean {
    const { memory, hasPrivatePages } = this.#runtime;
    const [a, from, c] = [x, y, z].map((block) => memory.addressOf(block));
    if (a == null || from == null || c == null) return false;
    return this.#tables.place(memory, this.#host, this.#panelBytes, (tables, to) => {
      const rowPanels = hasPrivatePages ? 0 : this.#runtime.threadScratch(PANEL_BYTES);
      const next = this.#chain && this.#chain(inputs, c, tables);
      if (rowPanels === null || this.#chain && next === null) return false;
      this.#packing?.run({ from, to }, tables);
      const b = this.#packing ? to : from;
      this.#product.run({ a, b, c, rowPanels }, tables, next);
      return true;
    });
  }
}
