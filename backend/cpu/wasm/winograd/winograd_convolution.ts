/** Runs a convolution by minimal filtering: its kernels are transformed, then blocks of tiles. */
import { coefficient } from "../../../kernel/affine.ts";
import { isContiguous, offsetsOf } from "../products/contraction_plan.ts";
import { Tables } from "../products/tables.ts";
import { GROUP_ROWS, PANEL_COLUMNS, STEP_BYTES } from "./block_product.ts";
import {
  chooseBlocks,
  type ConvolutionBlocks,
  convolutionCost,
  FILTER_COST,
  groupedRows,
  planeBytes,
} from "./blocks.ts";
import {
  convolutionArguments,
  type ConvolutionForm,
  HEADER_BYTES,
  makeConvolution,
} from "./convolution.ts";
import { filterArguments, makeFilterTransform, SIDE_BY_SIDE } from "./filter.ts";
import type { KernelCall } from "../products/kernel_call.ts";
import { SAMPLE } from "./patches.ts";
import { Tiling } from "./tiling.ts";
import { POINTS } from "./transforms.ts";
import { type Addresses, type WinogradOptions, WinogradProduct } from "./winograd_product.ts";

/**
 * The largest number of an image may be so many times the mean of their sizes: outputs that do not see it
 * are then off by less than 1e-5 of what is usual.
 */
const MAX_PEAK = 128;

/** A convolution, with what its runs have in common. */
export class WinogradConvolution extends WinogradProduct {
  override readonly source: string;
  override readonly cost: number;
  protected override readonly tables: Tables;
  protected override readonly scratchBytes: number;
  readonly #blocks: ConvolutionBlocks;
  readonly #channels: number;
  readonly #tiling: Tiling;
  /** Bytes of a number for each tile. */
  readonly #tileBytes: number;
  readonly #form: ConvolutionForm;
  /** Bytes of the transformed kernels, and of each thread's memory behind them. */
  readonly #rowBytes: number;
  readonly #threadBytes: number;
  readonly #numbers: Readonly<Record<string, number>>;
  #calls: readonly [filters: KernelCall | null, blocks: KernelCall] | null = null;

  constructor(options: WinogradOptions) {
    super(options);
    const { kernel, product: { image, other, loops, rows, channels, images }, target } = options;
    const tiling = new Tiling(kernel, images, loops, PANEL_COLUMNS);
    const outputs = offsetsOf(kernel, target, rows);
    const channelOffsets = offsetsOf(kernel, image.index, channels);
    const panels = tiling.skips.length / PANEL_COLUMNS;
    const sizes = { panels, channels: channelOffsets.length, outputs: outputs.length };
    const threads = this.runtime.threads.size;
    this.#tiling = tiling;
    this.#tileBytes = 4 * tiling.skips.length;
    this.#channels = sizes.channels;
    this.#blocks = chooseBlocks(sizes, threads);
    this.cost = convolutionCost(sizes);
    const filterChannels = offsetsOf(kernel, other.index, channels);
    const tapOffsets = offsetsOf(kernel, other.index, [loops.tapY, loops.tapX]);
    this.#form = {
      ...this.form,
      areSideBySide: filterChannels.length % SIDE_BY_SIDE === 0 && isContiguous(tapOffsets) &&
        filterChannels.every((offset, k) => offset === 4 * tapOffsets.length * k),
      transformsFilters: this.#blocks.panelBlocks === 1,
    };
    this.tables = new Tables({
      tileOffsets: tiling.offsets(image.index),
      resultOffsets: tiling.offsets(target),
      skips: tiling.skips,
      channelOffsets,
      outputOffsets: outputs,
      rowOffsets: groupedRows(offsetsOf(kernel, other.index, rows), this.groups),
      ...{ filterChannels, tapOffsets },
    });
    const { blockPanels, blockGroups, groupBlocks } = this.#blocks;
    const productsPanel = blockGroups * GROUP_ROWS * STEP_BYTES;
    const columnsPlane = planeBytes(blockPanels * this.#channels * STEP_BYTES);
    const productsPlane = planeBytes(blockPanels * productsPanel);
    const isFused = this.#form.transformsFilters;
    const groups = isFused ? blockGroups : this.groups.count;
    const rowsPlane = planeBytes(groups * this.#channels * STEP_BYTES);
    this.#rowBytes = isFused ? 0 : POINTS * rowsPlane;
    this.#threadBytes = HEADER_BYTES +
      POINTS * (columnsPlane + productsPlane + (isFused ? rowsPlane : 0));
    this.scratchBytes = this.#rowBytes + threads * this.#threadBytes + 2 * this.#tileBytes;
    this.#numbers = {
      ...{ panels, blockPanels, blockGroups, groupBlocks, channels: this.#channels },
      ...{ columnsPlane, productsPlane, productsPanel, rowsPlane },
      groups: this.groups.count,
      longGroups: this.groups.long,
      scratchBytes: this.#threadBytes,
      imageRow: 4 * coefficient(image.index, loops.y),
      resultRow: 4 * coefficient(target, loops.y),
    };
    this.source =
      `// WebAssembly SIMD: ${tiling.count} tiles of 4 x 4 by ${outputs.length} kernels ` +
      `of ${this.#channels} x 3 x 3, float32, minimal filtering`;
  }

  protected override runAt({ image, other, result, tables, scratch }: Addresses): boolean {
    const [filters, blocks] = this.#calls ??= this.#makeCalls();
    filters?.run({ filters: other, rows: scratch }, tables);
    const threads = scratch + this.#rowBytes;
    this.#forgetBlocks(threads);
    const peaks = threads + this.runtime.threads.size * this.#threadBytes;
    const samples = peaks + this.#tileBytes;
    const places = { image, filters: other, result, rows: scratch, scratch: threads };
    const fault = blocks.run({ ...places, peaks, samples }, tables, "notFinite");
    return fault === 0 && !this.#hasOutliers(peaks, samples);
  }

  /** True where an image has a number that is much larger than its others. */
  #hasOutliers(peaks: number, samples: number): boolean {
    const { imageTiles, count } = this.#tiling;
    const [peak, sample] = [peaks, samples].map((address) => {
      const { buffer, byteOffset } = this.runtime.memory.bytes(address, this.#tileBytes);
      return new Float32Array(buffer, byteOffset, count);
    }) as [Float32Array, Float32Array];
    const sampled = imageTiles * this.#channels * SAMPLE;
    for (let first = 0; first < count; first += imageTiles) {
      let most = 0, sum = 0;
      for (let tile = first; tile < first + imageTiles; tile++) {
        most = Math.max(most, peak[tile]!);
        sum += sample[tile]!;
      }
      if (most > MAX_PEAK * sum / sampled) return true;
    }
    return false;
  }

  /** No thread has the columns of any block. */
  #forgetBlocks(scratch: number): void {
    const { memory, threads } = this.runtime;
    for (let thread = 0; thread < threads.size; thread++) {
      memory.bytes(scratch + thread * this.#threadBytes, 4).fill(255);
    }
  }

  #makeCalls(): readonly [filters: KernelCall | null, blocks: KernelCall] {
    const form = this.#form, numbers = this.#numbers, { areSideBySide, isRelaxed } = form;
    const { panelBlocks, groupBlocks, grain } = this.#blocks, range = panelBlocks * groupBlocks;
    const filters = (): KernelCall =>
      this.call(
        `filters ${areSideBySide} ${isRelaxed}`,
        () => makeFilterTransform(areSideBySide, isRelaxed),
        {
          ...{ names: filterArguments, numbers, range: this.groups.count, grain: 1 },
          cost: this.groups.count * this.#channels * FILTER_COST,
        },
      );
    return [
      form.transformsFilters ? null : filters(),
      this.call(
        `convolution ${JSON.stringify(form)}`,
        () => makeConvolution(form),
        { names: convolutionArguments, numbers, range, grain, cost: this.cost },
      ),
    ];
  }
}
