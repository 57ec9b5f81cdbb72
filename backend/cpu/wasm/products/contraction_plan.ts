/** Plan of a contraction: the operand that lies in vectors, the copies, the cuts. */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import type { Contraction, LoopKernel } from "../../../kernel/kernel.ts";
import { type ContiguousAxis, TILE_COLUMNS } from "../../../tile/programs/panels/matrix_product.ts";
import { TILE_ROWS } from "../../../tile/programs/panels/panel_product.ts";

/** Rows and panels of a block: its operands stay in a core's caches. */
const BLOCK_ROWS = 96, BLOCK_PANELS = 32;
/** Fewer panels are not worth the copy of their rows; but for threads that would have nothing to do. */
const GOOD_PANELS = 16, MIN_PANELS = 4;
/** Multiplications of a block of good size, about 15 microseconds: at the end no thread waits long. */
const BLOCK_WORK = 400_000;
/** Multiplications of a block: fewer are not worth one of their own. */
const MIN_BLOCK_WORK = 40_000;
/** Multiplications that a core does in a nanosecond, and elements that it copies. */
const SPEED = 27;
export const COPY_SPEED = 2;
/** Nanoseconds to copy an element of the left operand to a tile's panel: along its rows, and from tables. */
const TURN_COST = 0.1, GATHER_COST = 0.2;
/** Nanoseconds that looking up a summed index in a table adds to a multiplication. */
const TABLE_COST = 0.004;
/** Bytes of an operand that is read row by row: a larger one takes too many pages. */
const MAX_STRIDED_BYTES = 2 ** 19;
/** A larger one than this is in no near cache: panels of it are worth their copy for so many rows. */
const MAX_NEAR_BYTES = 2 ** 17, MIN_PANEL_ROWS = 320;

/** An operand or the result as places of elements. */
export interface ProductOperand {
  readonly rows: Int32Array;
  readonly columns: Int32Array;
  readonly batch: Int32Array;
}

/** Places of elements over symbols in row-major order. */
export function offsetsOf(
  kernel: LoopKernel,
  index: AffineExpr,
  symbols: readonly number[],
): Int32Array {
  let offsets = Int32Array.of(0);
  for (const s of symbols) {
    const size = kernel.sizes[s]!, step = coefficient(index, s);
    const next = new Int32Array(offsets.length * size);
    for (let k = 0, at = 0; k < offsets.length; k++) {
      for (let i = 0; i < size; i++) next[at++] = offsets[k]! + i * step;
    }
    offsets = next;
  }
  return offsets;
}

/** True when elements lie side by side. */
export function isContiguous(offsets: Int32Array): boolean {
  return offsets.every((offset, k) => offset === offsets[0]! + k);
}

/** True when every four elements, and the rest, lie side by side. */
export function areInFours(offsets: Int32Array): boolean {
  return offsets.every((offset, k) => offset === offsets[k - k % 4]! + k % 4);
}

/** Nanoseconds to store an element of a tile. */
const storeCosts = { columns: 0.1, rows: 0.3, nothing: 2 } as const;

/** Side-by-side axis of a result. */
export function contiguousAxis({ rows, columns }: ProductOperand): ContiguousAxis {
  if (isContiguous(columns)) return "columns";
  const areRows = rows.every((offset, i) => offset === rows[i - i % TILE_ROWS]! + i % TILE_ROWS);
  return areRows ? "rows" : "nothing";
}

/** The step between offsets, or null where it changes. */
function stepOf(offsets: Int32Array): number | null {
  const step = offsets.length > 1 ? offsets[1]! - offsets[0]! : 0;
  return offsets.every((offset, k) => offset === offsets[0]! + k * step) ? step : null;
}

/**
 * Columns of the right operand: at equal steps from one summed index to the next, where a
 * table says, or copied into panels first.
 */
export type RightForm =
  | { readonly kind: "steps"; readonly step: number }
  | { readonly kind: "table" }
  | { readonly kind: "panels" };

/** True when the columns of each panel lie side by side. */
function panelsAreContiguous(columns: Int32Array): boolean {
  return columns.length % TILE_COLUMNS === 0 &&
    columns.every((offset, j) => offset === columns[j - j % TILE_COLUMNS]! + j % TILE_COLUMNS);
}

/** True when an operand of so many bytes is read row by row for `m` rows of the other. */
function isReadInPlace(nbytes: number, m: number): boolean {
  if (m <= 4 * TILE_ROWS) return true;
  return nbytes < (m < MIN_PANEL_ROWS ? MAX_STRIDED_BYTES : MAX_NEAR_BYTES);
}

/** Access to the right operand for `m` rows, and its nanoseconds beside the product. */
function chooseRight(b: ProductOperand, m: number): { right: RightForm; cost: number } {
  const n = b.columns.length, k = b.rows.length, step = stepOf(b.rows);
  const isStraight = panelsAreContiguous(b.columns);
  const isNear = step !== null && isReadInPlace(4 * Math.abs(step) * k, m);
  if (isStraight && isNear) return { right: { kind: "steps", step }, cost: 0 };
  const copying = n * k / COPY_SPEED, finding = m * n * k * TABLE_COST;
  if (isStraight && step === null && finding < copying) {
    return { right: { kind: "table" }, cost: finding };
  }
  return { right: { kind: "panels" }, cost: copying };
}

/** One way to compute a contraction: which operand's elements are spread, which lies in vectors. */
export interface ProductPlan {
  /** The second operand is on the left. */
  readonly isSwapped: boolean;
  readonly a: ProductOperand;
  readonly b: ProductOperand;
  readonly c: ProductOperand;
  readonly batches: number;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Access of tiles to the columns of b. */
  readonly right: RightForm;
  readonly cost: number;
}

/** The plan of one way round. */
export function planSides(
  kernel: LoopKernel,
  c: Contraction,
  target: AffineExpr,
  isSwapped: boolean,
): ProductPlan {
  const [left, right] = isSwapped ? [c.b, c.a] : [c.a, c.b];
  const [rows, columns] = isSwapped ? [c.n, c.m] : [c.m, c.n];
  const side = (
    index: AffineExpr,
    down: readonly number[],
    along: readonly number[],
  ): ProductOperand => ({
    rows: offsetsOf(kernel, index, down),
    columns: offsetsOf(kernel, index, along),
    batch: offsetsOf(kernel, index, c.batch).map((offset) => offset + index.offset),
  });
  const a = side(left.index, rows, c.k);
  const b = side(right.index, c.k, columns);
  const out = side(target, rows, columns);
  const m = a.rows.length, n = b.columns.length, k = a.columns.length;
  const batches = out.batch.length;
  const { right: form, cost: reading } = chooseRight(b, m);
  const computed = m < TILE_ROWS ? m : Math.ceil(m / TILE_ROWS) * TILE_ROWS;
  const work = computed * Math.ceil(n / TILE_COLUMNS) * TILE_COLUMNS * k / SPEED;
  const storing = m * n * storeCosts[contiguousAxis(out)];
  const turning = m * k * Math.ceil(n / (BLOCK_PANELS * TILE_COLUMNS)) *
    (areInFours(a.columns) ? TURN_COST : GATHER_COST);
  const cost = batches * (work + turning + reading + storing);
  return {
    isSwapped,
    a,
    b,
    c: out,
    batches,
    m,
    n,
    k,
    right: form,
    cost,
  };
}

/** A line for people. */
export function describe({ batches, m, n, k, right }: ProductPlan): string {
  const times = batches > 1 ? `${batches} times ` : "";
  const how = right.kind === "panels" ? ", the right one in panels" : "";
  return `// WebAssembly SIMD: ${times}${m} x ${k} by ${k} x ${n}, float32${how}`;
}

/** Cuts of a product's tasks, as the names of the arguments say. */
export interface Blocks {
  readonly blockRows: number;
  readonly blockPanels: number;
  readonly rowBlocks: number;
  readonly panelBlocks: number;
}

/** Tiles of a block at least; where lines of memory hold rows of several tiles, blocks for each thread. */
const MIN_TILES = 2, SHARED_TILES = 8, BLOCKS_PER_THREAD = 6;

/** True where rows lie in one line of memory. */
const areSideBySide = (rows: Int32Array): boolean => rows.length > 1 && rows[1]! - rows[0]! === 1;

/**
 * Tiles of a block whose rows lie side by side: each reads lines that hold rows of others, and the next
 * block may be another core's.
 */
function sharedTiles(m: number, threads: number): number {
  const most = Math.floor(Math.ceil(m / TILE_ROWS) / (BLOCKS_PER_THREAD * threads));
  return Math.max(MIN_TILES, Math.min(SHARED_TILES, most));
}

/** Blocks small enough that all threads have some, large enough that each is worth taking. */
export function chooseBlocks({ a, m, n, k, batches }: ProductPlan, threads: number): Blocks {
  const panels = Math.ceil(n / TILE_COLUMNS);
  let blockRows = Math.min(BLOCK_ROWS, Math.ceil(m / TILE_ROWS) * TILE_ROWS);
  let blockPanels = Math.min(BLOCK_PANELS, panels);
  const work = (): number => blockRows * blockPanels * TILE_COLUMNS * k;
  const count = (): number => batches * Math.ceil(m / blockRows) * Math.ceil(panels / blockPanels);
  const isCoarse = (): boolean =>
    work() > BLOCK_WORK || work() > MIN_BLOCK_WORK && count() < 2 * threads;
  const fewest = TILE_ROWS * (areSideBySide(a.rows) ? sharedTiles(m, threads) : MIN_TILES);
  // Rows first: those of a tile are copied once for all panels of a block.
  while (isCoarse() && blockRows > fewest) {
    blockRows = Math.max(fewest, Math.ceil(blockRows / 2 / TILE_ROWS) * TILE_ROWS);
  }
  const least = (): number => count() < 2 * threads ? MIN_PANELS : GOOD_PANELS;
  while (isCoarse() && blockPanels > least()) blockPanels = Math.ceil(blockPanels / 2);
  return {
    blockRows,
    blockPanels,
    rowBlocks: Math.ceil(m / blockRows),
    panelBlocks: Math.ceil(panels / blockPanels),
  };
}
