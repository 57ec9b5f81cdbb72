/**
 * Direct (implicit-gemm) convolution on CPU devices of wide vectors, where channels are the lanes:
 * sums of a few positions of a line are registers, a weight is a vector of channels, and an element
 * of the image, from a packed window, a scalar that all of them share. No lane is lost whatever the
 * width of an image is; the results are transposed before they are stored, so that what follows the sum
 * is done in vectors along a line.
 */
import { coefficient } from "../../../kernel/affine.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import { type Box, MAX_STEP, transposedBox, windowBox } from "../../../tile/programs/lanes/box.ts";
import { countsOf, type LaneMapping, over } from "../../../tile/programs/lanes/lane_mapping.ts";
import { canVectorize, LANES } from "../../codegen/vectors/vector_types.ts";
import {
  type ContractionTemplate,
  isMasked,
  isTileable,
  last,
} from "../parts/contraction_shape.ts";
import { keeping, type LanePlan, laneTemplate, lasts } from "../parts/lane_program.ts";
import { columnsOfB, isApart, operandOrder } from "../parts/operand_order.ts";
import { hasWideVectors } from "../parts/register_tile.ts";
import { divisors, FLOAT } from "../parts/tiling.ts";

/** Fewer channels than this waste too many lanes. */
const MIN_CHANNELS = 10;
/** A tile has at most so many vectors of sums; with more, the compiler keeps some in memory. */
const MAX_SUMS = 20;
/** A tile reads at most so many elements along a line at once, for the same reason. */
const MAX_READ = 33;
/** A tile has at most so many vectors of channels. */
const MAX_VECTORS = 4;
/**
 * Of local memory, which is the second level of caches: for the transposed weights of several tiles (of
 * one, twice as much), and for a window.
 */
const TRANSPOSED_SHARE = 1 / 4, WINDOW_SHARE = 1 / 8;
/** Cycles of a core: to turn a vector of weights, to pack an element, for a vector of products. */
const TURN_CYCLES = 12, PACK_CYCLES = 0.25, PRODUCT_CYCLES = 0.5;
/** Cycles to turn and store a tile's vectors of one channel's positions, of 16 channels. */
const STORE_CYCLES = 250;
/**
 * Shares of the multipliers' rate in the loops over terms, here and where positions are lanes, and
 * cycles to pack an element there, where steps between positions are packed one by one. PoCL 3.1,
 * AVX-512.
 */
const RATE = 0.92, POSITION_RATE = 0.78, POSITION_PACK_CYCLES = 0.15, STEPPED_PACK_CYCLES = 1.5;

/** The loops of a convolution by their roles. */
interface LaneLoops {
  /** The loop over channels, which are lanes, and the vectors of a tile. */
  readonly lane: number;
  readonly vectors: number;
  /** The loop along a line of the image, and the positions of a tile. */
  readonly column: number;
  readonly positions: number;
  /** The loop over lines, and over images that share their weights. */
  readonly line: number | null;
  readonly image: number | null;
  /** All others. */
  readonly others: readonly number[];
  /** Weights of a vector of channels. */
  readonly terms: number;
}

/** Share of a work-item. */
interface Share {
  /** Tiles of channels, and of positions along a line. */
  readonly blocks: number;
  readonly tiles: number;
  readonly lines: number;
  readonly images: number;
  readonly window: Box;
}

/** A work-item computes some channels of a part of some images. */
export const channelLanes: ContractionTemplate<LanePlan> = laneTemplate(
  "channel-lane convolution",
  (kernel, target) => {
    if (!hasWideVectors(target) || !isTileable(kernel, target)) return null;
    const isConvolution = isMasked(kernel.contraction!) ||
      isApart(kernel, columnsOfB(kernel), MAX_STEP);
    const loops = isConvolution ? laneLoops(kernel) : null;
    const share = loops && shareOf(kernel, target, loops);
    if (loops === null || share === null || !isWorth(kernel, loops, share)) return null;
    return mappingOf(kernel, loops, share);
  },
  // Counted in tiles of 8 positions, so that long sums are split as those of other templates.
  ({ kernel }) => Math.ceil(extent(kernel, kernel.outer) / (8 * LANES)),
);

/** Cycles to turn a vector of weights, where they are not turned once for many runs. */
const turnCycles = (kernel: LoopKernel): number => lasts(kernel, "a") ? 0 : TURN_CYCLES;

/** The roles of the loops; null where there are too few channels. */
function laneLoops(kernel: LoopKernel): LaneLoops | null {
  const { sizes, outer } = kernel, { m, n, a } = kernel.contraction!;
  const lane = last(m), column = last(n);
  if (sizes[lane]! < MIN_CHANNELS) return null;
  const weights = transposedBox(kernel, a, countsOf(kernel, [[lane, LANES]]), lane);
  if (weights === null) return null;
  const width = sizes[column]!, most = maxPositions(kernel, column);
  const positions = Math.ceil(width / Math.ceil(width / most));
  const channels = Math.ceil(sizes[lane]! / LANES);
  const vectors = Math.min(channels, MAX_VECTORS, Math.max(1, Math.floor(MAX_SUMS / positions)));
  const around = outer.filter((s) => s !== lane && s !== column);
  const line = n.length > 1 ? n[n.length - 2]! : null;
  const images = around.filter((s) => s !== line && coefficient(a.index, s) === 0);
  const image = images.toSorted((s, t) => sizes[t]! - sizes[s]!)[0] ?? null;
  const others = around.filter((s) => s !== line && s !== image);
  return { lane, vectors, column, positions, line, image, others, terms: weights.size / LANES };
}

/**
 * True when this takes less time than positions as lanes; both estimated for a position of all
 * channels.
 */
function isWorth(
  kernel: LoopKernel,
  { lane, column, positions, vectors, terms }: LaneLoops,
  { tiles, lines, images, window }: Share,
): boolean {
  const { sizes, inner } = kernel, width = sizes[column]!, channels = sizes[lane]!;
  // Lines of less than a vector with many taps have no vectors of positions.
  const isStepped = coefficient(kernel.contraction!.b.index, column) > 1;
  if (!isStepped && operandOrder(kernel).loops === null) return true;
  const products = extent(kernel, inner) / LANES * PRODUCT_CYCLES;
  const seen = Math.min(tiles * positions, width) * lines, packed = window.size / seen;
  const turned = Math.ceil(channels / LANES) * terms * turnCycles(kernel) / (seen * images);
  const computed = Math.ceil(channels / (vectors * LANES)) * vectors * LANES *
    Math.ceil(width / positions) * positions / width;
  const stored = Math.ceil(channels / LANES) * STORE_CYCLES / positions;
  const ours = computed * products / RATE + stored + turned + packed * PACK_CYCLES;
  const packing = packed * (isStepped ? STEPPED_PACK_CYCLES : POSITION_PACK_CYCLES);
  // A shorter vector takes a multiplier as long as a whole one.
  const waste = Math.ceil(width / LANES) * LANES / width;
  return ours < channels * products * waste / POSITION_RATE + packing;
}

/** Most positions of a line that a tile may have. */
function maxPositions({ sizes, inner, contraction }: LoopKernel, column: number): number {
  const { index } = contraction!.b, tap = last(inner);
  const step = coefficient(index, column) / (coefficient(index, tap) || 1);
  const read = (positions: number): number => (positions - 1) * step + sizes[tap]!;
  const isFew = coefficient(index, tap) > step || read(LANES) <= MAX_READ;
  return isFew ? LANES : LANES / 2;
}

/** The share of a work-item that takes the least time; null where no window fits the caches. */
function shareOf(kernel: LoopKernel, target: Target, loops: LaneLoops): Share | null {
  const { lane, vectors, column, positions, line, image, others, terms } = loops;
  const size = (s: number | null): number => s === null ? 1 : kernel.sizes[s]!;
  const groups = Math.ceil(size(lane) / LANES / vectors),
    across = Math.ceil(size(column) / positions);
  const around = extent(kernel, others);
  const room = target.localMemory * TRANSPOSED_SHARE / FLOAT;
  let best: Share | null = null, least = Infinity;
  for (const tiles of divisors(across)) {
    for (const lines of divisors(size(line))) {
      const window = windowAt(kernel, target, loops, tiles, lines);
      if (window === null) continue;
      for (const blocks of divisors(groups)) {
        const weights = blocks * vectors * terms;
        if (weights * LANES > (blocks > 1 ? room : 2 * room)) continue;
        for (const images of divisors(size(image))) {
          const items = groups / blocks * (across / tiles) * (size(line) / lines) *
            (size(image) / images) * around;
          const products = tiles * positions * lines * images * weights * PRODUCT_CYCLES;
          const cycles = products + weights * turnCycles(kernel) +
            images * window.size * PACK_CYCLES;
          // The last work-item ends, on average, when the others have been done for half of its time.
          const time = cycles * (items / target.computeUnits + 0.5);
          if (time >= least) continue;
          least = time;
          best = { blocks, tiles, lines, images, window };
        }
      }
    }
  }
  return best;
}

/** The window of some tiles along some lines; null where it has another form, or is too large. */
function windowAt(
  kernel: LoopKernel,
  target: Target,
  { column, positions, line }: LaneLoops,
  tiles: number,
  lines: number,
): Box | null {
  const across = Math.ceil(Math.min(kernel.sizes[column]!, tiles * positions) / positions);
  const counts = countsOf(kernel, [[column, across * positions]]);
  if (line !== null) counts.set(line, lines);
  const window = windowBox(kernel, kernel.contraction!.b, counts, column);
  return window !== null && window.size * FLOAT <= target.localMemory * WINDOW_SHARE
    ? window
    : null;
}

function mappingOf(
  kernel: LoopKernel,
  { lane, vectors, column, positions, line, image, others }: LaneLoops,
  { blocks, tiles, lines, images, window }: Share,
): LaneMapping {
  const width = vectors * LANES, channels = blocks * width, { a } = kernel.contraction!;
  const weights = transposedBox(kernel, a, countsOf(kernel, [[lane, channels]]), lane, width)!;
  const share = new Map([[lane, channels], [column, tiles * positions]]);
  if (line !== null) share.set(line, lines);
  if (image !== null) share.set(image, images);
  return keeping(kernel, {
    lane,
    width: LANES,
    starts: Array.from({ length: vectors }, (_, v) => v * LANES),
    rows: [[column, positions]],
    share,
    order: [
      column,
      ...line === null ? [] : [line],
      lane,
      ...image === null ? [] : [image],
      ...others.toReversed(),
    ],
    steps: [
      { do: "pack", operand: "a" },
      ...image === null ? [] : [over(image)],
      { do: "pack", operand: "b" },
      over(lane, width),
      ...line === null ? [] : [over(line)],
      over(column, positions),
    ],
    boxes: { a: weights, b: window },
    clipped: [lane, column],
    stores: canVectorize(kernel, column) ? "turned" : "single",
    isFixed: true,
  }, "a");
}
