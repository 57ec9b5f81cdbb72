/** Groups of rows, and blocks of a convolution. */
import { GROUP_ROWS, PANEL_COLUMNS, STEP_BYTES } from "./block_product.ts";
import { POINTS } from "./transforms.ts";

/** Multiplications that a core does in a nanosecond. */
const SPEED = 27;
/** Nanoseconds to transform four patches of an image, and to turn products into four tiles. */
const READ_COST = 48, WRITE_COST = 33;
/** Nanoseconds to transform four tiles of a gradient, to store a product and add it to other parts'. */
const GRADIENT_COST = 35, STORE_COST = 0.1;
/** Nanoseconds to turn the sums of a kernel into its gradient. */
export const SUM_COST = 25;
/** Nanoseconds to transform the kernels of a group for one channel. */
export const FILTER_COST = 57;
/** Cost factor where other threads multiply by them: caches do not hold them. */
const FAR_COST = 1.7;
/** Cost of copying a group's rows, in panels that they are multiplied by. */
const FILL_COST = 0.25;
/** Bytes of a thread's columns, products and transformed kernels: its caches hold them. */
const MAX_COLUMN_BYTES = 2 ** 20, MAX_PRODUCT_BYTES = 2 ** 18, MAX_FILTER_BYTES = 2 ** 22;
const MAX_BLOCK_PANELS = 16;
/** Tiles of a part of a gradient, and bytes that they take for all points. */
const MIN_PART_TILES = 32, MAX_PART_TILES = 128, MAX_PART_BYTES = 3 * 2 ** 19;
/** With so many blocks for each thread none waits long for the last one. */
const MANY_BLOCKS = 8;

/** Rows in groups of up to six: the first `long` of them have `rows`, the others one less. */
export interface RowGroups {
  readonly count: number;
  readonly rows: number;
  readonly long: number;
}

/** As few groups as there can be, of nearly equal length. */
export function groupRows(rows: number): RowGroups {
  const count = Math.ceil(rows / GROUP_ROWS), longest = Math.ceil(rows / count);
  return { count, rows: longest, long: rows - count * (longest - 1) };
}

/** The first row of a group. */
export function rowOf({ rows, long }: RowGroups, group: number): number {
  return group * rows - Math.max(0, group - long);
}

/** For each group eight entries of a table of rows; what a group does not have is its last row. */
export function groupedRows(table: Int32Array, groups: RowGroups): Int32Array {
  return Int32Array.from({ length: 8 * groups.count }, (_, k) => {
    const group = Math.floor(k / 8), last = rowOf(groups, group + 1) - 1;
    return table[Math.min(rowOf(groups, group) + k % 8, last)]!;
  });
}

/**
 * Bytes of a plane of `size` bytes with what is left free behind it: planes a multiple of 4 KiB apart
 * would share the same few lines of the first cache.
 */
export const planeBytes = (size: number): number => Math.ceil(size / 4096) * 4096 + 320;

/** The sizes of a convolution: panels of eight tiles, channels, outputs. */
export interface ConvolutionSizes {
  readonly panels: number;
  readonly channels: number;
  readonly outputs: number;
}

/** Panels of tiles and groups of outputs of a block. */
export interface ConvolutionBlocks {
  readonly blockPanels: number;
  readonly blockGroups: number;
  readonly panelBlocks: number;
  readonly groupBlocks: number;
  /** Blocks of outputs that one thread should compute one after the other. */
  readonly grain: number;
}

/** Nanoseconds of one thread for a convolution, its kernels' transform included. */
export function convolutionCost(sizes: ConvolutionSizes): number {
  const { panels, channels, outputs } = sizes;
  return panels * (readCost(channels) + writeCost(sizes)) +
    groupRows(outputs).count * channels * FILTER_COST;
}

/** Nanoseconds to transform a panel, and to multiply it. */
const readCost = (channels: number): number => 2 * channels * READ_COST;

function writeCost({ channels, outputs }: ConvolutionSizes): number {
  return outputs * (2 * WRITE_COST + PANEL_COLUMNS * POINTS * channels / SPEED);
}

/** The blocks by which all threads end soonest. */
export function chooseBlocks(sizes: ConvolutionSizes, threads: number): ConvolutionBlocks {
  let best: ConvolutionBlocks | null = null, soonest = Infinity;
  for (let panels = Math.min(MAX_BLOCK_PANELS, sizes.panels); panels > 0; panels--) {
    if (panels > 1 && POINTS * panels * sizes.channels * STEP_BYTES > MAX_COLUMN_BYTES) continue;
    for (const parts of [1, 2, 4, 8]) {
      const blocks = blocksOf(sizes, panels, parts);
      const end = endOf(sizes, blocks, threads);
      if (end >= soonest) continue;
      soonest = end;
      best = blocks;
    }
  }
  return best!;
}

/** Blocks of so many panels, whose outputs are computed in at least so many parts. */
function blocksOf(
  { panels, channels, outputs }: ConvolutionSizes,
  blockPanels: number,
  parts: number,
): ConvolutionBlocks {
  const { count } = groupRows(outputs);
  const groupBytes = POINTS * blockPanels * GROUP_ROWS * STEP_BYTES;
  const panelBlocks = Math.ceil(panels / blockPanels);
  const products = Math.floor(MAX_PRODUCT_BYTES / groupBytes);
  // One block of tiles transforms the kernels of its groups itself.
  const filters = panelBlocks > 1
    ? products
    : Math.floor(MAX_FILTER_BYTES / (POINTS * channels * STEP_BYTES));
  const held = Math.max(1, Math.min(products, filters));
  const blocks = Math.ceil(Math.ceil(count / held) / parts) * parts;
  const blockGroups = Math.ceil(count / blocks), groupBlocks = Math.ceil(count / blockGroups);
  return {
    ...{ blockPanels, blockGroups, panelBlocks, groupBlocks },
    grain: Math.ceil(groupBlocks / parts),
  };
}

/** The end of the last of some threads: each transforms the columns of the blocks that it sees. */
function endOf(
  sizes: ConvolutionSizes,
  { blockPanels, panelBlocks, blockGroups, groupBlocks, grain }: ConvolutionBlocks,
  threads: number,
): number {
  const { panels, channels, outputs } = sizes;
  const reading = readCost(channels), filling = 1 + FILL_COST / blockPanels;
  const { count } = groupRows(outputs), writing = filling * writeCost(sizes) / count;
  const transforming = channels * FILTER_COST, isFused = panelBlocks === 1;
  const before = isFused ? 0 : FAR_COST * count * transforming / threads;
  if (panelBlocks >= MANY_BLOCKS * threads && grain === groupBlocks) {
    return before + panels * (reading + writing * count) / threads;
  }
  const busy = new Array<number>(threads).fill(0), held = new Array<number>(threads).fill(-1);
  const tasks = panelBlocks * groupBlocks;
  for (let part = Math.ceil(tasks / grain) - 1; part >= 0; part--) {
    const thread = busy.indexOf(Math.min(...busy));
    for (let task = part * grain; task < Math.min((part + 1) * grain, tasks); task++) {
      const block = Math.floor(task / groupBlocks), first = task % groupBlocks * blockGroups;
      const size = Math.min(blockPanels, panels - block * blockPanels);
      if (held[thread] !== block) busy[thread]! += size * reading;
      held[thread] = block;
      const groups = Math.min(blockGroups, count - first);
      busy[thread]! += groups * (size * writing + (isFused ? transforming : 0));
    }
  }
  return before + Math.max(...busy);
}

/** The sizes of a gradient of kernels. */
export interface GradientSizes {
  readonly tiles: number;
  readonly channels: number;
  readonly rows: number;
}

/** Bytes that a tile takes for all points. */
function tileBytes({ channels, rows }: GradientSizes): number {
  return POINTS * STEP_BYTES * (Math.ceil(channels / PANEL_COLUMNS) + groupRows(rows).count);
}

/** Tiles of a part: two parts at least. It depends on sizes alone, and so do the bits of the sums. */
export function choosePartTiles(sizes: GradientSizes): number {
  const held = Math.floor(MAX_PART_BYTES / tileBytes(sizes));
  const tiles = Math.min(MAX_PART_TILES, Math.max(MIN_PART_TILES, held));
  const parts = Math.max(2, Math.ceil(sizes.tiles / tiles));
  return Math.ceil(sizes.tiles / (Math.ceil(parts / 2) * 2));
}

/** Nanoseconds of one thread for a gradient of kernels whose tiles are in so many parts. */
export function gradientCost({ tiles, channels, rows }: GradientSizes, parts: number): number {
  const columns = Math.ceil(channels / PANEL_COLUMNS) * PANEL_COLUMNS;
  const reading = columns / 4 * READ_COST + 2 * groupRows(rows).count * GRADIENT_COST;
  const product = POINTS * rows * columns;
  return tiles * (reading + product / SPEED) + parts * product * STORE_COST +
    rows * channels * SUM_COST;
}
