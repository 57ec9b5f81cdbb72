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
import { makePacking } from "./packing.ts";
import type { ChainedKernel, WasmKernel, WasmRuntime } from "../runtime.ts";
import { PANEL_BYTES } from "./row_panel.ts";
import { Tables } from "./tables.ts";
import { makeProduct, productArguments, type TileForm } from "./tile.ts";
import { TILE_COLUMNS, TILE_ROWS } from "./tile_store.ts";

/** Address in the memory that WebAssembly sees; null: elsewhere. */
type Address = number | null;

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
  readonly #plan: ProductPlan;
  readonly #runtime: WasmRuntime;
  readonly #host: GemmHost;
  readonly #product: WasmKernel;
  /** Copies the right operand into panels; null: it is read where it lies. */
  readonly #packing: WasmKernel | null;
  readonly #right: Right;
  readonly #tables: Tables;
  /** The product's arguments, tables by where they begin behind the first. */
  readonly #arguments: readonly { readonly value: number; readonly isTable: boolean }[];
  readonly #tasks: number;
  /** Prepares what follows the product in the same parts. */
  readonly #chain: ReturnType<FusedEpilogue["chain"]> | null;

  /** `epilogue`: what follows it, along the lines of {@linkcode lineSymbols}. */
  constructor(
    plan: ProductPlan,
    runtime: WasmRuntime,
    host: GemmHost,
    epilogue: FusedEpilogue | null,
  ) {
    this.#plan = plan;
    this.#runtime = runtime;
    this.#host = host;
    const { a, c, m, n, k, batches, right } = plan;
    this.#product = productKernel(plan, runtime);
    this.#packing = right.kind === "panels" ? packingKernel(plan, runtime) : null;
    this.#right = rightOf(plan);
    this.#tables = new Tables({
      aRows: wholeTiles(a.rows),
      aSums: a.columns,
      cRows: c.rows,
      cColumns: c.columns,
      aBatch: a.batch,
      cBatch: c.batch,
      ...this.#right.tables,
      ...epilogue?.tables,
    });
    const blocks = chooseBlocks(plan, runtime.threads.size);
    this.#chain = epilogue && epilogue.chain(runtime, this.#tables, lineBlocks(plan, blocks));
    this.#tasks = batches * blocks.rowBlocks * blocks.panelBlocks;
    const bStep = right.kind === "steps" ? right.step : 4 * TILE_COLUMNS;
    const numbers: Readonly<Record<string, number>> = { ...blocks, m, n, k, bStep };
    this.#arguments = productArguments.map((name) => {
      const begin = this.#tables.begin(name);
      return { value: begin ?? numbers[name] ?? 0, isTable: begin !== undefined };
    });
  }

  /** False, and nothing is done, where a matrix or the room for a copy is in other memory. */
  run(a: HostBlock, b: HostBlock, c: HostBlock, inputs: readonly HostBlock[]): boolean {
    const { memory } = this.#runtime;
    const place = (block: HostBlock): Address => memory.addressOf(block);
    const left = place(a), right = place(b), result = place(c);
    if (left === null || right === null || result === null) return false;
    return this.#withTables((tables) => {
      const next = this.#chain && this.#chain(inputs, result, tables);
      if (this.#chain && next === null) return false;
      if (this.#packing === null) return this.#multiply(left, right, result, tables, next);
      return this.#withPanels((panels) => {
        this.#pack(this.#packing!, right, panels, tables);
        return this.#multiply(left, panels, result, tables, next);
      });
    });
  }

  #withTables(use: (address: number) => boolean): boolean {
    const { memory } = this.#runtime;
    const { words, bytes } = this.#tables;
    return this.#host.withScratch("float32", words, (block) => {
      const address = memory.addressOf(block);
      if (address === null) return false;
      memory.bytes(address, bytes.length).set(bytes);
      return use(address);
    });
  }

  #withPanels(use: (address: number) => boolean): boolean {
    const { matrices, panels } = this.#right;
    const size = matrices * panels * TILE_COLUMNS * this.#plan.k;
    return this.#host.withScratch("float32", size, (block) => {
      const address = this.#runtime.memory.addressOf(block);
      return address !== null && use(address);
    });
  }

  #pack(packing: WasmKernel, from: number, to: number, tables: number): void {
    const { n, k } = this.#plan;
    const { matrices, panels } = this.#right;
    const [columns, sums, batch] = ["columns", "sums", "batch"]
      .map((name) => tables + this.#tables.begin(name)!);
    this.#runtime.words.set([from, to, columns!, sums!, batch!, n, k, panels]);
    const count = matrices * panels;
    this.#runtime.run(packing, count, 1, count * TILE_COLUMNS * k / COPY_SPEED);
  }

  #multiply(
    a: number,
    b: number,
    c: number,
    tables: number,
    next: ChainedKernel | null,
  ): boolean {
    const { words } = this.#runtime;
    const rowPanels = this.#runtime.hasPrivatePages ? 0 : this.#runtime.threadScratch(PANEL_BYTES);
    if (rowPanels === null) return false;
    this.#arguments.forEach(({ value, isTable }, place) => {
      words[place] = isTable ? tables + value : value;
    });
    words.set([a, b, c, rowPanels]); // the first arguments are addresses
    this.#runtime.run(this.#product, this.#tasks, 1, this.#plan.cost, next);
    return true;
  }
}
