/**
 * Direct (implicit-gemm) convolution on CPU devices: register tiles as those of a product, whose vectors
 * come from a window of the image that is packed into local memory, padding included.
 *
 * This folder (`convolution/`) has the templates of convolutions that are no plain products; it
 * imports `parts/`, `opencl/codegen/`, `backend/codegen/` and `kernel/`. `lists.ts` asks it with
 * contractions and gets plans and OpenCL C.
 */
import { coefficient } from "../../../kernel/affine.ts";
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import type { Target } from "../../../kernel/target.ts";
import { LANES } from "../../codegen/vectors/vector_types.ts";
import {
  type ContractionTemplate,
  isMasked,
  isTileable,
  type RowLoops,
  rowShape,
  type TiledPlan,
} from "../parts/contraction_shape.ts";
import { columnsOfB, isApart, operandOrder } from "../parts/operand_order.ts";
import {
  MAX_STEP,
  packedIndex,
  packWindow,
  type Window,
  windowOf,
} from "../parts/packed_window.ts";
import {
  countRegisterTiles,
  fitsRegisters,
  paddedVectorWidth,
  type RegisterTile,
  registerTile,
} from "../parts/register_tile.ts";
import { single } from "../parts/template.ts";
import { declareStart, decomposeInto } from "../parts/tile_text.ts";
import { tileOf, type TileRule } from "../parts/tiling.ts";
import { columnsOf, emitBlock, type PlacedTile, placeTile } from "../parts/vector_block.ts";

/** A packed window stays in the second level of caches. */
const MAX_WINDOW_BYTES = 1 << 18;
/** More bytes of scalars than this are read once, not for each line. */
const MAX_SCALAR_BYTES = 1 << 19;
/** So many lines of an image share what their windows have in common. */
const MAX_LINES = 16;
/** So many work-items keep a few cores busy. */
const MIN_ITEMS = 8;

export const directTiles: TileRule<RegisterTile> = {
  kind: "direct-convolution",
  choose: (shape, target) => registerTile(shape, target, paddedVectorWidth),
  counts: ["rows", "columns"],
  admits: fitsRegisters,
};

interface DirectPlan extends TiledPlan<RegisterTile> {
  readonly tiling: DirectTiling;
}

/** Tiles of all rows a work-item, for a few lines of an image. */
export const directConvolution: ContractionTemplate<DirectPlan> = {
  name: "direct convolution",
  matches: (kernel, target) => {
    if (target.isGpu || !isTileable(kernel, target)) return null;
    const { isLongInner, loops } = operandOrder(kernel);
    if (loops !== null) {
      return isMasked(kernel.contraction!) ? planOf(kernel, target, loops) : null;
    }
    // Columns a stride apart are neighbours once their window is packed.
    const strided = columnsOfB(kernel);
    return !isLongInner && isApart(kernel, strided, MAX_STEP)
      ? planOf(kernel, target, strided)
      : null;
  },
  emit: ({ kernel, target, tiling }) =>
    single(generatedLoop(kernel, target, (e, dialect) => writeTiles(e, dialect, tiling))),
  workItems: ({ shape }) => countRegisterTiles(shape),
};

function planOf(kernel: LoopKernel, target: Target, loops: RowLoops): DirectPlan | null {
  const shape = rowShape(kernel, directTiles.kind, loops);
  const tile = tileOf(directTiles, shape, target);
  const tiling = directTiling(kernel, target, tile, loops);
  return tiling && { kernel, target, shape, tile, tiling };
}

/** Reads of a window by a kernel's rows: the loop over its lines, and lines a work-item. */
interface DirectTiling {
  readonly tile: PlacedTile;
  readonly window: Window;
  readonly line: number | null;
  readonly lines: number;
}

/** The tiling of a contraction whose vectors are masked; null where they form no window. */
function directTiling(
  kernel: LoopKernel,
  target: Target,
  chosen: RegisterTile,
  loops: RowLoops,
): DirectTiling | null {
  const { row, column, scalar, vector } = loops;
  if (scalar.bounds.length > 0) return null;
  const { sizes, outer, inner } = kernel;
  const { columns } = chosen;
  const tile = placeTile(chosen, loops, columnsOf(columns, paddedVectorWidth(columns)));
  const isLine = (s: number): boolean =>
    s !== row && s !== column &&
    vector.bounds.some(({ index }) =>
      coefficient(index, s) !== 0 && inner.some((k) => coefficient(index, k) !== 0)
    );
  const line = outer.findLast(isLine) ?? null;
  const counts = new Map(inner.map((s) => [s, sizes[s]!]));
  counts.set(column, tile.columns.count);
  const of = (lines: number): DirectTiling | null => {
    if (line !== null) counts.set(line, lines);
    const window = windowOf(vector, counts, column, true);
    const room = Math.min(MAX_WINDOW_BYTES, target.localMemory / 2);
    return window && (window.size + LANES) * 4 <= room ? { tile, window, line, lines } : null;
  };
  if (line === null) return of(1);
  const items = extent(kernel, outer.filter((s) => s !== row && s !== column)) *
    Math.ceil(sizes[column]! / tile.columns.count);
  for (
    let lines = Math.max(1, Math.min(MAX_LINES, Math.floor(items / MIN_ITEMS)));
    lines > 0;
    lines--
  ) {
    const found = sizes[line]! % lines === 0 ? of(lines) : null;
    if (found) return found;
  }
  return null;
}

/** A tile whose vectors come from a packed window: one work-item for all rows. */
function writeTiles(
  emitter: Emitter,
  dialect: Dialect,
  { tile, window, line, lines }: DirectTiling,
): WorkSize {
  const { kernel } = emitter;
  const { sizes } = kernel;
  const { row, column, columns, height } = tile;
  const others = kernel.outer.filter((s) => s !== row && s !== column && s !== line);
  // Vectors may read beyond the columns that count.
  emitter.line(`local float packed[${window.size + LANES}];`);
  decomposeInto(emitter, others, "(Index)get_global_id(2)", "i");
  const end = emitter.size(column);
  declareStart(emitter, "column", `(Index)get_global_id(0) * ${columns.count}`, columns.count, end);
  const starts = new Map<number, string>();
  if (columns.count < sizes[column]!) starts.set(column, "column");
  if (line !== null) {
    emitter.line(`const Index line = (Index)get_global_id(1) * ${lines};`);
    starts.set(line, "line");
  }
  packWindow(emitter, window, starts, "packed");
  const openLines = (): void => {
    if (line === null) return;
    emitter.open(`for (Index i${line} = line; i${line} < line + ${lines}; ++i${line}) {`);
  };
  // Weights that do not fit the caches are read once, and the window for each row of tiles; else the other way.
  const isLarge = sizes[row]! * extent(kernel, kernel.inner) * 4 > MAX_SCALAR_BYTES;
  if (!isLarge) openLines();
  emitter.open(`for (Index at = 0; at < ${emitter.size(row)}; at += ${height}) {`);
  declareStart(emitter, "row", "at", height, emitter.size(row));
  if (isLarge) openLines();
  const index = packedIndex(
    window,
    (s) => s === column ? null : s === line ? `(i${s} - line)` : `i${s}`,
  );
  // Written as a number: with an argument here, address arithmetic outweighs the products.
  const move = String(coefficient(tile.scalar.index, row));
  emitBlock(emitter, dialect, tile, move, () => ({ vectors: `packed + ${index}` }));
  if (line !== null) emitter.close();
  emitter.close();
  return {
    global: [
      Math.ceil(sizes[column]! / columns.count),
      line === null ? 1 : sizes[line]! / lines,
      extent(kernel, others),
    ],
    local: [1, 1, 1],
  };
}
