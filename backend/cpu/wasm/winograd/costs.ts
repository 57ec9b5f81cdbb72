/** Costs of minimal filtering, and the shares of work-items that take least time. */
import {
  GROUP_ROOM,
  GROUP_ROWS,
  groupRows,
  PANEL_COLUMNS,
  POINTS,
} from "../../../tile/programs/lanes/filtering_form.ts";

/** Multiplications that a core does in a nanosecond. */
const SPEED = 27;
/** Nanoseconds to transform four patches of an image, and to turn products into four tiles. */
const READ_COST = 48, WRITE_COST = 33;
/** Nanoseconds to transform four tiles of a gradient, to store a product and add it to other parts'. */
const GRADIENT_COST = 35, STORE_COST = 0.1;
/** Nanoseconds to transform the kernels of a group for one channel. */
const FILTER_COST = 57;
/** Cost factor where other threads multiply by them: caches do not hold them. */
const FAR_COST = 1.7;
/** Cost of copying a group's rows, in panels that they are multiplied by. */
const FILL_COST = 0.25;
/** Bytes of a work-item's columns, products and transformed kernels: its caches hold them. */
const MAX_COLUMN_BYTES = 2 ** 20, MAX_PRODUCT_BYTES = 2 ** 18, MAX_FILTER_BYTES = 2 ** 22;
const MAX_BLOCK_PANELS = 16, MAX_PARTS = 8;
/** Tiles of a part of a gradient, and bytes that they take for all points. */
const MIN_PART_TILES = 32, MAX_PART_TILES = 128, MAX_PART_BYTES = 3 * 2 ** 19;

/** Bytes of eight floats at all points. */
const POINT_BYTES = POINTS * 4 * GROUP_ROOM;

/** The sizes of a convolution: panels of eight tiles, channels, outputs. */
interface ConvolutionSizes {
  readonly panels: number;
  readonly channels: number;
  readonly outputs: number;
}

/** Nanoseconds to transform the kernels of a group. */
export const kernelCost = (channels: number): number => channels * FILTER_COST;

/** Shares of work-items: blocks of panels of eight tiles, each in so many parts of the groups of outputs. */
interface ConvolutionBlocks {
  readonly panels: number;
  readonly blocks: number;
  readonly parts: number;
  /** Groups of outputs of a part, those that are multiplied before they are stored, and how often that is. */
  readonly partGroups: number;
  readonly held: number;
  readonly turns: number;
  /** Work-items transform the kernels of their outputs: there is one block. */
  readonly isFused: boolean;
}

/** Nanoseconds of one thread for a convolution, its kernels' transform included. */
export function convolutionCost(sizes: ConvolutionSizes): number {
  const { panels, channels, outputs } = sizes;
  return panels * (readCost(channels) + writeCost(sizes)) +
    groupRows(outputs).count * kernelCost(channels);
}

/** Nanoseconds to transform a panel, and to multiply it. */
const readCost = (channels: number): number => 2 * channels * READ_COST;

function writeCost({ channels, outputs }: ConvolutionSizes): number {
  return outputs * (2 * WRITE_COST + PANEL_COLUMNS * POINTS * channels / SPEED);
}

/** The blocks by which all threads end soonest. */
export function chooseBlocks(sizes: ConvolutionSizes, threads: number): ConvolutionBlocks {
  const { channels } = sizes, { count } = groupRows(sizes.outputs);
  const writing = writeCost(sizes) / count, transforming = kernelCost(channels);
  let best: ConvolutionBlocks | null = null, soonest = Infinity;
  for (let most = Math.min(MAX_BLOCK_PANELS, sizes.panels); most > 0; most--) {
    const blocks = Math.ceil(sizes.panels / most), panels = Math.ceil(sizes.panels / blocks);
    if (panels > 1 && panels * channels * POINT_BYTES > MAX_COLUMN_BYTES) continue;
    const isFused = blocks === 1, filled = panels + FILL_COST;
    for (let parts = 1; parts <= Math.min(MAX_PARTS, count); parts *= 2) {
      const groups = Math.ceil(count / parts);
      const cost = panels * readCost(channels) +
        groups * (filled * writing + (isFused ? transforming : 0));
      const before = isFused ? 0 : FAR_COST * count * transforming / threads;
      const end = before + cost * Math.ceil(blocks * parts / threads);
      if (end >= soonest) continue;
      soonest = end;
      const bytes = panels * GROUP_ROWS * POINT_BYTES;
      const fitting = Math.min(
        Math.floor(MAX_PRODUCT_BYTES / bytes),
        isFused ? Math.floor(MAX_FILTER_BYTES / (channels * POINT_BYTES)) : Infinity,
      );
      const held = Math.ceil(groups / Math.ceil(groups / Math.max(1, fitting)));
      const turns = Math.ceil(groups / held);
      best = { panels, blocks, parts, partGroups: groups, held, turns, isFused };
    }
  }
  return best!;
}

/** The sizes of a gradient of kernels. */
interface GradientSizes {
  readonly tiles: number;
  readonly channels: number;
  readonly rows: number;
}

/** Tiles of a part: two parts at least. It depends on sizes alone, and so do the bits of the sums. */
export function choosePartTiles({ tiles, channels, rows }: GradientSizes): number {
  const panels = Math.ceil(channels / PANEL_COLUMNS);
  const held = Math.floor(MAX_PART_BYTES / (POINT_BYTES * (panels + groupRows(rows).count)));
  const most = Math.min(MAX_PART_TILES, Math.max(MIN_PART_TILES, held));
  const parts = Math.max(2, Math.ceil(tiles / most));
  return Math.ceil(tiles / (Math.ceil(parts / 2) * 2));
}

/** Nanoseconds of one thread for a gradient's sums whose tiles are in so many parts. */
export function gradientCost({ tiles, channels, rows }: GradientSizes, parts: number): number {
  const columns = Math.ceil(channels / PANEL_COLUMNS) * PANEL_COLUMNS;
  const reading = columns / 4 * READ_COST + 2 * groupRows(rows).count * GRADIENT_COST;
  const product = POINTS * rows * columns;
  return tiles * (reading + product / SPEED) + parts * product * STORE_COST;
}
