/** Multiplies as a plan says: tables of places, panels, tiles. */
import {
  type MatrixForm,
  matrixProduct,
  packedPanels,
  panelTermsOf,
  TILE_COLUMNS,
} from "../../../tile/programs/panels/matrix_product.ts";
import { TILE_ROWS } from "../../../tile/programs/panels/panel_product.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { HostBlock } from "../../script/runner.ts";
import type { WasmRuntime } from "../runtime.ts";
import { namedCall, type TileCall } from "../tile/tile_call.ts";
import {
  areInFours,
  type Blocks,
  chooseBlocks,
  contiguousAxis,
  COPY_SPEED,
  type ProductPlan,
} from "./contraction_plan.ts";
import type { FusedEpilogue, LineBlocks } from "./fused_epilogue.ts";
import { Tables } from "./tables.ts";

/** Access to the right operand: its place, or a copy in panels. */
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
    const bTerms = right.kind === "table" ? { bTerms: b.rows } : {};
    return { panels, matrices: 0, tables: { bPanels, bBatch: b.batch, ...bTerms } };
  }
  const batch = Int32Array.from(new Set(b.batch)), size = TILE_COLUMNS * k;
  const begins = new Map([...batch].map((place, i) => [place, i * panels * size]));
  return {
    panels,
    matrices: batch.length,
    tables: {
      bPanels: Int32Array.from(places, (p) => p * size),
      bBatch: b.batch.map((place) => begins.get(place)!),
      columns: b.columns,
      terms: b.rows,
      batch,
    },
  };
}

/** Longer sums are added up from long panels: partial sums of 128 elements drift from 128 of them on. */
const MAX_SHORT_SUMS = 1 << 14;

const formOf = ({ a, c, m, k, right }: ProductPlan): MatrixForm => ({
  isInFours: areInFours(a.columns),
  contiguousAxis: contiguousAxis(c),
  isLong: k > MAX_SHORT_SUMS,
  hasTermTable: right.kind === "table",
  rows: Math.min(m, TILE_ROWS),
});

/** Places of rows up to the end of the last tile: the last one again where there are no more. */
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
  readonly #host: GemmHost;
  /** Copies the right operand into panels; null: it is read where it lies. */
  readonly #packing: TileCall | null;
  readonly #product: TileCall;
  readonly #panelFloats: number;
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
    this.#host = host;
    const { a, b, c, m, n, k, batches, right } = plan;
    const { panels, matrices, tables: rightTables } = rightOf(plan), count = matrices * panels;
    this.#panelFloats = count * TILE_COLUMNS * k;
    const tables = this.#tables = new Tables({
      ...{ aRows: wholeTiles(a.rows), aTerms: a.columns, cRows: c.rows },
      ...{ cColumns: c.columns, aBatch: a.batch, cBatch: c.batch },
      ...rightTables,
      ...epilogue?.tables,
    });
    const blocks = chooseBlocks(plan, runtime.threads.size);
    this.#chain = epilogue && epilogue.chain(runtime, tables, lineBlocks(plan, blocks));
    const bStep = right.kind === "steps" ? right.step : TILE_COLUMNS;
    const form = formOf(plan), inFours = areInFours(b.rows);
    const numbers = {
      ...{ ...blocks, ...tables.begins, m, n, k, bStep, panels },
      panelTerms: panelTermsOf(form, k),
    };
    this.#packing = right.kind !== "panels" ? null : namedCall(
      `panels ${inFours}`,
      () => packedPanels(inFours),
      count,
      { numbers, cost: this.#panelFloats / COPY_SPEED },
      runtime,
    );
    this.#product = namedCall(
      `product ${JSON.stringify(form)}`,
      () => matrixProduct(form),
      batches * blocks.rowBlocks * blocks.panelBlocks,
      { numbers, cost: plan.cost },
      runtime,
    );
  }

  /** False, and the result is of no use, where a matrix or the room for a copy is in other memory. */
  run(x: HostBlock, y: HostBlock, z: HostBlock, inputs: readonly HostBlock[]): boolean {
    return this.#tables.place(this.#host, this.#panelFloats, (tables, rest) => {
      const next = this.#chain && this.#chain(inputs, z, tables);
      if (this.#chain && next === null) return false;
      if (this.#packing?.run([y, tables], [rest], this.#host) === false) return false;
      const right = this.#packing ? rest : y;
      return this.#product.run([x, right, tables], [z], this.#host, next);
    });
  }
}
