/**
 * Convolutions of three by three taps on CPU devices of wide vectors by Winograd's F(2x2, 3x3): 16 products
 * give four results of a channel where 36 do otherwise (A. Lavin, S. Gray, Fast algorithms for convolutional
 * neural networks, CVPR 2016). All factors are powers of two, so that whole numbers stay exact, and
 * errors are those of the plain sum. Tiles are the lanes; image, products and results of a work-item
 * stay in the caches, the transformed weights come from a kernel before it.
 */
import { coefficient } from "../../../kernel/affine.ts";
import {
  type ConvolutionLoops,
  convolutionLoops,
  isThreeByThree,
} from "../../../kernel/forms/convolution_loops.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import type { Scratch } from "../../../kernel/template.ts";
import type { TileKernel } from "../../../tile/language/statements.ts";
import type { NameOf } from "../../../tile/programs/kernel_values.ts";
import { transposedBox } from "../../../tile/programs/lanes/box.ts";
import { countsOf } from "../../../tile/programs/lanes/lane_mapping.ts";
import { winograd } from "../../../tile/programs/lanes/winograd.ts";
import {
  TAPS,
  weightBlock,
  type WinogradLoops,
  type WinogradShare,
  winogradWeights,
} from "../../../tile/programs/lanes/winograd_weights.ts";
import { canVectorize, LANES } from "../../codegen/vectors/vector_types.ts";
import {
  type ContractionPlan,
  type ContractionTemplate,
  isTileable,
} from "../parts/contraction_shape.ts";
import { laneKernel, lasts } from "../parts/lane_program.ts";
import { hasWideVectors } from "../parts/register_tile.ts";
import { FLOAT } from "../parts/tiling.ts";
/**
/**
 * Of local memory, which is the second level of caches on PoCL: for what a work-item keeps there, at most where all
 * shares of many channels keep more, and for weights that are transformed in every run, or once. Intel's runtime lets
 * a group have 256 KiB of a cache of 1 MiB, in which a gradient of the bench's small CNN has no room: its step takes 1.2
 * of PoCL's processor time, and so it does on PoCL with that bound.
 */
const KEPT_SHARE = 1 / 2,
  MAX_KEPT_SHARE = 5 / 8,
  WEIGHT_SHARE = 1 / 4,
  LASTING_WEIGHT_SHARE = 1 / 2;
/** With fewer channels the transforms outweigh what products save. */
const MIN_CHANNELS = 8;
/** Channels of a registers' tile. */
const TILE_CHANNELS = 8;
/** With more, sums would have to be added up in blocks. */
const MAX_TERMS = 512;
/** Tiles along a line that a work-item takes at most: more lines share more of their rows. */
const MAX_ACROSS = 64, MAX_ROWS = 16, MAX_IMAGES = 4;
/**
 * Cycles of a core, for vectors: to transform a row of the image and a tile of it, for a product, to keep
 * a sum, to transform the sums of a tile back, to store a line; and for a vector of weights. PoCL 3.1, AVX-512.
 */
const CYCLES = { row: 10, tile: 20, product: 0.56, sum: 1, back: 30, line: 8, weights: 250 };
/** Kept bytes that fit the first level of caches; cycles that each vector costs beyond. */
const NEAR_BYTES = 80_000, FAR_CYCLES = 2;
/** A tile of one vector reads as much as it multiplies. */
const SINGLE_VECTOR = 1.25;
/** Bytes of transformed weights that come in a cycle. */
const WEIGHT_BYTES = 24;
/**
 * Cycles of a vector of products where they are summed without transforms: with positions as lanes, and with
 * channels, whose weights take so many more for a vector of them, in every run.
 */
const DIRECT_PRODUCT = 0.6, CHANNEL_PRODUCT = 0.64, CHANNEL_WEIGHTS = 12;

interface WinogradPlan extends ContractionPlan {
  readonly loops: WinogradLoops;
  readonly share: WinogradShare;
}

/** A work-item computes some channels of some rows of tiles. */
export const winogradConvolution: ContractionTemplate<WinogradPlan> = {
  name: "Winograd convolution",
  matches: (kernel, target) => {
    if (target.isGpu || !hasWideVectors(target) || !isTileable(kernel, target)) return null;
    const found = convolutionLoops(kernel);
    const loops = found && isThreeByThree(kernel, found) ? winogradLoops(kernel, found) : null;
    const share = loops && shareOf(kernel, target, loops);
    return share && { kernel, target, shape: null, loops: loops!, share };
  },
  emit: ({ kernel, target, loops, share }) => {
    const along = loops.column.position, inVectors = canVectorize(kernel, along);
    const written = (programOf: (nameOf: NameOf) => TileKernel) =>
      laneKernel(kernel, target, along, [], programOf, ["float32"]);
    return [
      written((nameOf) => winogradWeights(kernel, loops, nameOf)),
      written((nameOf) => winograd(kernel, loops, share, inVectors, nameOf)),
    ];
  },
  // Counted in tiles of 8 positions, so that long sums are split as those of other templates.
  workItems: ({ kernel }) => Math.ceil(extent(kernel, kernel.outer) / (8 * LANES)),
  scratch: ({ kernel, loops: { output, input, others } }): Scratch[] => {
    const vectors = Math.ceil(kernel.sizes[output]! / LANES) * extent(kernel, others);
    const kept = lasts(kernel, "a") ? { keptFor: kernel.contraction!.a.input } : {};
    return [{ dtype: "float32", size: vectors * weightBlock(kernel.sizes[input]!), ...kept }];
  },
};

function winogradLoops(kernel: LoopKernel, found: ConvolutionLoops): WinogradLoops | null {
  const { output, input, column } = found, { sizes, contraction } = kernel;
  if (output === null || input === null || column.step !== 1) return null;
  if (sizes[output]! < MIN_CHANNELS || sizes[input]! < MIN_CHANNELS) return null;
  if (sizes[input]! > MAX_TERMS || coefficient(contraction!.b.index, output) !== 0) return null;
  const { a } = contraction!;
  return a.bounds.length === 0 && coefficient(a.index, output) > 0
    ? { ...found, output, input }
    : null;
}

/** The share of a work-item that takes the least time; null where plain sums take less. */
function shareOf(kernel: LoopKernel, target: Target, loops: WinogradLoops): WinogradShare | null {
  const { output, input, others } = loops, { sizes, inner, outer, contraction } = kernel;
  const box = transposedBox(kernel, contraction!.a, countsOf(kernel, [[output, LANES]]), output);
  const isLasting = lasts(kernel, "a"), room = isLasting ? LASTING_WEIGHT_SHARE : WEIGHT_SHARE;
  if (box === null || box.size * FLOAT > target.localMemory * room) return null;
  const terms = sizes[input]!, vectors = Math.ceil(sizes[output]! / LANES);
  const weights = isLasting ? 0 : terms * vectors * extent(kernel, others) * CYCLES.weights;
  const product = isLasting ? directProduct(kernel, loops) : DIRECT_PRODUCT;
  const direct = extent(kernel, [...outer, ...inner]) / LANES * product;
  let best: WinogradShare | null = null, least = (direct - weights) / target.computeUnits;
  for (const { share, items } of fittingShares(kernel, target, loops)) {
    // The last work-item ends, on average, when the others have been done for half of its time.
    const time = itemCycles(share, terms) * (items / target.computeUnits + 0.5);
    if (time >= least) continue;
    least = time;
    best = share;
  }
  return best;
}

/** Shares whose work-items keep what they need in the caches. */
function fittingShares(kernel: LoopKernel, { localMemory }: Target, loops: WinogradLoops) {
  const all = [...sharesOf(kernel, loops)], terms = kernel.sizes[loops.input]!;
  const within = (part: number) =>
    all.filter(({ share }) => keptFloats(share, terms) * FLOAT <= localMemory * part);
  const usual = within(KEPT_SHARE);
  return usual.length > 0 ? usual : within(MAX_KEPT_SHARE);
}

/** Cycles of a vector of products without transforms, lanes that lie beyond a line and the weights' packing included. */
function directProduct(
  { sizes }: LoopKernel,
  { line, column, image }: WinogradLoops,
): number {
  const width = sizes[column.position]!;
  const positions = width * sizes[line.position]! * (image === null ? 1 : sizes[image]!);
  return Math.min(
    DIRECT_PRODUCT * Math.ceil(width / LANES) * LANES / width,
    CHANNEL_PRODUCT + CHANNEL_WEIGHTS / positions,
  );
}

/** Shares, and in how many work-items each divides the results. */
function* sharesOf(
  kernel: LoopKernel,
  { line, column, output, image, others }: WinogradLoops,
): Generator<{ readonly share: WinogradShare; readonly items: number }> {
  const size = (s: number | null): number => s === null ? 1 : kernel.sizes[s]!;
  const down = Math.ceil(size(line.position) / 2), across = Math.ceil(size(column.position) / 2);
  const around = extent(kernel, others), vectors = Math.ceil(size(output) / LANES);
  const width = Math.ceil(across / Math.ceil(across / MAX_ACROSS));
  for (let rows = 1; rows <= Math.min(down, MAX_ROWS); rows++) {
    for (let images = 1; images <= Math.min(size(image), MAX_IMAGES); images++) {
      for (let parts = 1; parts <= vectors; parts *= 2) {
        const channels = Math.min(
          Math.ceil(vectors / parts) * LANES,
          Math.ceil(size(output) / TILE_CHANNELS) * TILE_CHANNELS,
        );
        const items = around * Math.ceil(down / rows) * Math.ceil(across / width) *
          Math.ceil(size(image) / images) * Math.ceil(size(output) / channels);
        yield { share: shareFor(rows, width, images, channels), items };
      }
    }
  }
}

/** A share with the registers' tile that its vectors fill. */
function shareFor(
  rows: number,
  width: number,
  images: number,
  channels: number,
): WinogradShare {
  const lanes = Math.ceil(rows * width / LANES) * LANES, vectors = lanes / LANES * images;
  const across = [3, 2, 1].find((count) => vectors % count === 0)!;
  const isWide = across === 1 && channels % LANES === 0;
  const tile = { channels: isWide ? LANES : TILE_CHANNELS, vectors: across };
  return { rows, width, images, lanes, channels, tile };
}

/** Floats that a work-item keeps: the transformed image, and the sums. */
function keptFloats({ lanes, images, channels }: WinogradShare, terms: number): number {
  return TAPS * lanes * images * (terms + channels);
}

/** Cycles of a work-item. */
function itemCycles(share: WinogradShare, terms: number): number {
  const { rows, width, images, lanes, channels, tile } = share;
  const vectors = lanes / LANES * images, kept = keptFloats(share, terms);
  const seen = terms * images * (2 * rows + 2) * Math.ceil(width / LANES) * CYCLES.row +
    terms * vectors * CYCLES.tile;
  const products = TAPS * terms * channels * vectors * CYCLES.product *
    (tile.vectors > 1 ? 1 : SINGLE_VECTOR);
  const far = kept * FLOAT > NEAR_BYTES ? kept / LANES * FAR_CYCLES : 0;
  const sums = TAPS * channels * vectors * CYCLES.sum + channels * vectors * CYCLES.back;
  const stored = channels * images * 2 * rows * Math.ceil(2 * width / LANES) * CYCLES.line;
  const weights = TAPS * terms * channels * FLOAT / WEIGHT_BYTES;
  return seen + products + far + sums + stored + weights;
}
