/**
 * Direct (implicit-gemm) convolution on CPU devices of wide vectors, where channels are the lanes:
 * sums of a few positions of a line are registers, a weight is a vector of channels, and an element
 * of the image, from a packed window, a scalar that all of them share. No lane is lost whatever the
 * width of an image is; the results are transposed before they are stored, so that what follows the sum
 * is done in vectors along a line.
 */
import { coefficient } from "../../../kernel/affine.ts";
import { neededBy } from "../../../kernel/analysis.ts";
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import { generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import { VectorBody } from "../../codegen/vectors/vector_body.ts";
import { canVectorize, LANES } from "../../codegen/vectors/vector_types.ts";
import {
  type ContractionPlan,
  type ContractionTemplate,
  isMasked,
  isTileable,
  last,
} from "../parts/contraction_shape.ts";
import { columnsOfB, isApart } from "../parts/operand_order.ts";
import {
  MAX_STEP,
  packedIndex,
  packedStep,
  packWindow,
  type Window,
  windowOf,
} from "../parts/packed_window.ts";
import { hasWideVectors } from "../parts/register_tile.ts";
import { single } from "../parts/template.ts";
import { decomposeInto, emitEpilogue } from "../parts/tile_text.ts";
import { divisors, FLOAT } from "../parts/tiling.ts";
import {
  type TransposedLanes,
  transposedLanes,
  transposedTerm,
  transposeLanes,
} from "../parts/transposed_lanes.ts";
import { sumProducts } from "../parts/vector_block.ts";

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
const TURN_CYCLES = 6, PACK_CYCLES = 0.25, PRODUCT_CYCLES = 0.5;
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
  readonly transposed: TransposedLanes;
}

/** Share of a work-item. */
interface Share {
  /** Tiles of channels, and of positions along a line. */
  readonly blocks: number;
  readonly tiles: number;
  readonly lines: number;
  readonly images: number;
  readonly window: Window;
}

interface LanePlan extends ContractionPlan {
  readonly loops: LaneLoops;
  readonly share: Share;
}

/** A work-item computes some channels of a part of some images. */
export const channelLanes: ContractionTemplate<LanePlan> = {
  name: "channel-lane convolution",
  matches: (kernel, target) => {
    if (target.isGpu || !hasWideVectors(target) || !isTileable(kernel, target)) return null;
    const isConvolution = isMasked(kernel.contraction!) ||
      isApart(kernel, columnsOfB(kernel), MAX_STEP);
    const loops = isConvolution ? laneLoops(kernel) : null;
    const share = loops && shareOf(kernel, target, loops);
    if (loops === null || share === null || !isWorth(kernel, loops, share)) return null;
    return { kernel, target, shape: null, loops, share };
  },
  emit: ({ kernel, target, loops, share }) =>
    single(generatedLoop(kernel, target, (e, dialect) => writeItem(e, dialect, loops, share))),
  // Counted in tiles of 8 positions, so that long sums are split as those of other templates.
  workItems: ({ kernel }) => Math.ceil(extent(kernel, kernel.outer) / (8 * LANES)),
};

/** The roles of the loops; null where there are too few channels. */
function laneLoops(kernel: LoopKernel): LaneLoops | null {
  const { sizes, outer } = kernel, { m, n, a } = kernel.contraction!;
  const lane = last(m), column = last(n);
  if (sizes[lane]! < MIN_CHANNELS) return null;
  const transposed = transposedLanes(kernel, a, lane);
  if (transposed === null) return null;
  const width = sizes[column]!, most = maxPositions(kernel, column);
  const positions = Math.ceil(width / Math.ceil(width / most));
  const channels = Math.ceil(sizes[lane]! / LANES);
  const vectors = Math.min(channels, MAX_VECTORS, Math.max(1, Math.floor(MAX_SUMS / positions)));
  const around = outer.filter((s) => s !== lane && s !== column);
  const line = n.length > 1 ? n[n.length - 2]! : null;
  const images = around.filter((s) => s !== line && coefficient(a.index, s) === 0);
  const image = images.toSorted((s, t) => sizes[t]! - sizes[s]!)[0] ?? null;
  const others = around.filter((s) => s !== line && s !== image);
  return { lane, vectors, column, positions, line, image, others, transposed };
}

/**
 * True when this takes less time than positions as lanes; both estimated for a position of all
 * channels.
 */
function isWorth(
  kernel: LoopKernel,
  { lane, column, positions, vectors }: LaneLoops,
  { tiles, lines, window }: Share,
): boolean {
  const { sizes, inner } = kernel, width = sizes[column]!, channels = sizes[lane]!;
  const products = extent(kernel, inner) / LANES * PRODUCT_CYCLES;
  const packed = window.size / (Math.min(tiles * positions, width) * lines);
  const computed = Math.ceil(channels / (vectors * LANES)) * vectors * LANES *
    Math.ceil(width / positions) * positions / width;
  const stored = Math.ceil(channels / LANES) * STORE_CYCLES / positions;
  const ours = computed * products / RATE + stored + packed * PACK_CYCLES;
  const isStepped = coefficient(kernel.contraction!.b.index, column) > 1;
  const packing = packed * (isStepped ? STEPPED_PACK_CYCLES : POSITION_PACK_CYCLES);
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
  const { lane, vectors, column, positions, line, image, others, transposed } = loops;
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
        const weights = blocks * vectors * transposed.terms;
        if (weights * LANES > (blocks > 1 ? room : 2 * room)) continue;
        for (const images of divisors(size(image))) {
          const items = groups / blocks * (across / tiles) * (size(line) / lines) *
            (size(image) / images) * around;
          const products = tiles * positions * lines * images * weights * PRODUCT_CYCLES;
          const cycles = products + weights * TURN_CYCLES + images * window.size * PACK_CYCLES;
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
): Window | null {
  const { sizes, inner } = kernel, width = sizes[column]!;
  const counts = new Map(inner.map((s) => [s, sizes[s]!]));
  if (line !== null) counts.set(line, lines);
  counts.set(column, Math.min(width, tiles * positions));
  const window = windowOf(kernel.contraction!.b, counts, column, false);
  if (window === null || window.size * FLOAT > target.localMemory * WINDOW_SHARE) return null;
  // Only where there are bounds may a window begin so late that it ends behind the line.
  const isWithin = window.axes.at(-1)!.bound !== null || width % (tiles * positions) === 0;
  return isWithin || tiles * positions >= width ? window : null;
}

function writeItem(
  emitter: Emitter,
  dialect: Dialect,
  loops: LaneLoops,
  share: Share,
): WorkSize {
  const { vectors, column, positions, line, image, transposed } = loops;
  const { blocks, lines, images, window } = share;
  // Positions behind the end of a line are computed, too, and not stored.
  const behind = positions * packedStep(window, column);
  emitter.line(`local float packed[${window.size + behind}];`);
  emitter.line(`local float16 transposed[${blocks * vectors * transposed.terms}];`);
  const { starts, firstImage, global } = declareShare(emitter, loops, share);
  transposeWeights(emitter, dialect, loops, blocks);
  if (image !== null) openRange(emitter, `i${image}`, firstImage, images);
  packWindow(emitter, window, starts, "packed");
  emitter.open(`for (int block = 0; block < ${blocks}; ++block) {`);
  emitter.line(`const Index lane = lanes + block * ${vectors * LANES};`);
  if (line !== null) openRange(emitter, `i${line}`, starts.get(line) ?? "0", lines);
  openTiles(emitter, loops, share, starts);
  const term = transposedTerm(emitter, transposed);
  const at = (s: number): string => {
    const name = s === column ? "at" : `i${s}`, start = starts.get(s);
    return start === undefined ? name : `(${name} - ${start})`;
  };
  const starting = Array.from({ length: vectors }, (_, v) => v * LANES);
  sumProducts(emitter, dialect, positions, { width: LANES, starts: starting }, () => ({
    pointer: "local const float*",
    scalars: `packed + ${packedIndex(window, at)}`,
    move: String(packedStep(window, column)),
    vectors:
      `(local const float*)(transposed + (block * ${transposed.terms} + ${term}) * ${vectors})`,
  }));
  for (const start of starting) storeTransposed(emitter, loops, start);
  for (let open = (image === null ? 2 : 3) + (line === null ? 0 : 1); open > 0; open--) {
    emitter.close();
  }
  return { global, local: [1, 1, 1] };
}

/** Declares where the share of a work-item begins. */
function declareShare(
  emitter: Emitter,
  { lane, vectors, column, positions, line, image, others }: LaneLoops,
  { blocks, tiles, lines, images }: Share,
): { starts: Map<number, string>; firstImage: string; global: number[] } {
  const { kernel } = emitter, { sizes } = kernel;
  const width = tiles * positions, across = Math.ceil(sizes[column]! / width);
  const down = line === null ? 1 : sizes[line]! / lines;
  const stacks = image === null ? 1 : sizes[image]! / images;
  const starts = new Map<number, string>();
  if (across > 1) {
    emitter.line(`const Index column = (Index)get_global_id(0) % ${across} * ${width};`);
    starts.set(column, "column");
  }
  if (line !== null && down > 1) {
    emitter.line(`const Index line = (Index)get_global_id(0) / ${across} * ${lines};`);
    starts.set(line, "line");
  }
  emitter.line(`const Index lanes = (Index)get_global_id(1) * ${blocks * vectors * LANES};`);
  decomposeInto(emitter, others, `((Index)get_global_id(2) / ${stacks})`, "i");
  const groups = Math.ceil(sizes[lane]! / (blocks * vectors * LANES));
  return {
    starts,
    firstImage: `(Index)get_global_id(2) % ${stacks} * ${images}`,
    global: [across * down, groups, stacks * extent(kernel, others)],
  };
}

/** Turns the weights of all channels of a work-item. */
function transposeWeights(
  emitter: Emitter,
  dialect: Dialect,
  { lane, vectors, transposed }: LaneLoops,
  blocks: number,
): void {
  const size = emitter.size(lane);
  emitter.open(`for (int v = 0; v < ${blocks * vectors}; ++v) {`);
  if (Math.ceil(emitter.kernel.sizes[lane]! / LANES) % (blocks * vectors) !== 0) {
    emitter.line(`if (lanes + v * ${LANES} >= ${size}) break;`);
  }
  const block = `v / ${vectors} * ${transposed.terms}`, vector = `v % ${vectors}`;
  const to = (term: string): string => `transposed[(${block} + ${term}) * ${vectors} + ${vector}]`;
  transposeLanes(emitter, dialect, transposed, `lanes + v * ${LANES}`, to);
  emitter.close();
}

function openRange(emitter: Emitter, name: string, first: string, count: number): void {
  emitter.open(
    `for (Index ${name} = ${first}, end_${name} = ${name} + ${count}; ${name} < end_${name}; ++${name}) {`,
  );
}

/** Opens the loop over the tiles along a line, which begin at `at`. */
function openTiles(
  emitter: Emitter,
  { column, positions }: LaneLoops,
  { tiles }: Share,
  starts: ReadonlyMap<number, string>,
): void {
  const start = starts.get(column), size = emitter.size(column);
  const end = start === undefined ? size : `min(${start} + ${tiles * positions}, ${size})`;
  emitter.open(`for (Index at = ${start ?? "0"}; at < ${end}; at += ${positions}) {`);
}

/** Stores the sums of 16 channels from the tile's channel `start` on, as lines. */
function storeTransposed(
  emitter: Emitter,
  { lane, column, positions }: LaneLoops,
  start: number,
): void {
  const { kernel } = emitter, v = start / LANES;
  const isWhole = kernel.sizes[column]! % positions === 0;
  const count = isWhole ? String(positions) : `min(${positions}, ${emitter.size(column)} - at)`;
  const sums = Array.from({ length: LANES }, (_, r) => r < positions ? `c${r}_${v}` : "0");
  emitter.open("{");
  emitter.line(`float16 t[${LANES}] = { ${sums.join(", ")} };`);
  emitter.line("transpose_16(t);");
  const channels = `min(${LANES}, ${emitter.size(lane)} - lane - ${start})`;
  emitter.open(`for (int c = 0; c < ${channels}; ++c) {`);
  emitter.line(`const Index i${lane} = lane + ${start} + c;`);
  if (canVectorize(kernel, column)) {
    storeLine(emitter, column, isWhole && positions === LANES ? "" : count);
  } else {
    emitter.open(`for (int p = 0; p < ${count}; ++p) {`);
    emitter.line(`const Index i${column} = at + p;`);
    emitter.line("const float acc = ((const float*)t)[c * 16 + p];");
    emitEpilogue(emitter);
    emitter.close();
  }
  emitter.close();
  emitter.close();
}

/** Stores the positions of one channel, which are `t[c]`, with what is done to each. */
function storeLine(emitter: Emitter, column: number, left: string): void {
  const { kernel } = emitter, body = new VectorBody(emitter, column);
  const ids = neededBy(kernel, kernel.outputs.map((o) => o.expr));
  emitter.line(`const Index i${column} = at;`);
  body.declareScalars(ids);
  body.declareVectors(ids, { left, contracted: "t[c]" });
  kernel.outputs.forEach((_, o) => body.store(o, { left }));
}
