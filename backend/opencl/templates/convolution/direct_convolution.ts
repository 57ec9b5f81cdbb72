/**
 * Direct (implicit-gemm) convolution on CPU devices: register tiles as those of a product, whose vectors
 * come from a window of the image that is packed into local memory, padding included.
 *
 * This folder (`convolution/`) has the templates of convolutions that are no plain products; it
 * imports `parts/`, `opencl/codegen/`, `backend/codegen/` and `kernel/`. `lists.ts` asks it with
 * contractions and gets plans and OpenCL C.
 */
import { coefficient } from "../../../kernel/affine.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import { MAX_STEP, windowBox } from "../../../tile/programs/lanes/box.ts";
import { countsOf, type LaneMapping, over } from "../../../tile/programs/lanes/lane_mapping.ts";
import { canVectorize, LANES } from "../../codegen/vectors/vector_types.ts";
import {
  type ContractionTemplate,
  isMasked,
  isTileable,
  type RowLoops,
  rowShape,
  type TiledPlan,
} from "../parts/contraction_shape.ts";
import { expectsMore, type LanePlan, writeLanes } from "../parts/lane_program.ts";
import { columnsOfB, isApart, operandOrder } from "../parts/operand_order.ts";
import {
  countRegisterTiles,
  fitsRegisters,
  paddedVectorWidth,
  type RegisterTile,
  registerTile,
} from "../parts/register_tile.ts";
import { divisors, FLOAT, tileOf, type TileRule } from "../parts/tiling.ts";

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

type DirectPlan = LanePlan & TiledPlan<RegisterTile>;

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
  emit: writeLanes,
  workItems: ({ shape }) => countRegisterTiles(shape),
};

function planOf(kernel: LoopKernel, target: Target, loops: RowLoops): DirectPlan | null {
  const shape = rowShape(kernel, directTiles.kind, loops);
  const tile = tileOf(directTiles, shape, target);
  const mapping = mappingOf(kernel, target, tile, loops);
  return mapping && { kernel, target, shape, tile, mapping };
}

/** The lines of an image whose windows have elements in common; null where there are none. */
function lineOf({ outer, inner }: LoopKernel, { row, column, vector }: RowLoops): number | null {
  const isLine = (s: number): boolean =>
    s !== row && s !== column &&
    vector.bounds.some(({ index }) =>
      coefficient(index, s) !== 0 && inner.some((k) => coefficient(index, k) !== 0)
    );
  return outer.findLast(isLine) ?? null;
}

/** All rows for a few lines of an image; null where vectors form no window that fits. */
function mappingOf(
  kernel: LoopKernel,
  target: Target,
  { rows, columns }: RegisterTile,
  loops: RowLoops,
): LaneMapping | null {
  const { row, column, scalar, vector } = loops, { sizes, outer } = kernel;
  if (scalar.bounds.length > 0) return null;
  const line = lineOf(kernel, loops), width = paddedVectorWidth(columns);
  const starts = Array.from({ length: Math.ceil(columns / width) }, (_, v) => v * width);
  const around = outer.filter((s) => s !== row && s !== column);
  const items = extent(kernel, around) * Math.ceil(sizes[column]! / columns);
  const most = Math.max(1, Math.min(MAX_LINES, Math.floor(items / MIN_ITEMS)));
  const room = Math.min(MAX_WINDOW_BYTES, target.localMemory / 2);
  for (const lines of line === null ? [1] : divisors(sizes[line]!).filter((n) => n <= most)) {
    const counts = countsOf(kernel, [[column, columns]]);
    if (line !== null) counts.set(line, lines);
    const box = windowBox(kernel, vector, counts, column, true);
    if (box === null || box.size * FLOAT > room) continue;
    const overLines = line === null ? [] : [over(line)];
    // Weights that do not fit the caches are read once, and the window for each row of tiles; else the other way.
    const isLarge = sizes[row]! * extent(kernel, kernel.inner) * FLOAT > MAX_SCALAR_BYTES;
    const isA = vector === kernel.contraction!.a, name = isA ? "a" : "b";
    const isWhole = width === LANES && canVectorize(kernel, column);
    return {
      lane: column,
      ...{ width, starts },
      rows: [[row, rows]],
      share: new Map([
        [column, columns],
        [row, sizes[row]!],
        ...line === null ? [] : [[line, lines]] as const,
      ]),
      order: [
        column,
        ...line === null ? [] : [line],
        ...around.filter((s) => s !== line).toReversed(),
      ],
      steps: [
        { do: "pack", operand: name },
        ...isLarge ? [over(row, rows), ...overLines] : [...overLines, over(row, rows)],
      ],
      // Rows of whole vectors would be packed by one vector more for each, and begin in any place of a cache's line.
      boxes: { [name]: columns % width === 0 ? box : { ...box, slack: width } },
      clipped: [column],
      stores: isWhole ? "lanes" : "single",
      expects: isWhole && expectsMore(kernel, [row]),
      isFixed: true,
    };
  }
  return null;
}
