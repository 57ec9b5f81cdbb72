/** Runs the gradient of 3x3 kernels by minimal filtering: parts of the tiles, then their sum. */
import { coefficient } from "../../../kernel/affine.ts";
import { offsetsOf } from "../products/contraction_plan.ts";
import { Tables } from "../products/tables.ts";
import { GROUP_ROWS, PANEL_COLUMNS, STEP_BYTES } from "./block_product.ts";
import {
  choosePartTiles,
  gradientCost,
  groupedRows,
  planeBytes,
  rowOf,
  SUM_COST,
} from "./blocks.ts";
import {
  gradientArguments,
  gradientSumArguments,
  makeGradientProducts,
  makeGradientSums,
} from "./filter_gradient.ts";
import type { KernelCall } from "../products/kernel_call.ts";
import { Tiling } from "./tiling.ts";
import { POINTS } from "./transforms.ts";
import { type Addresses, type WinogradOptions, WinogradProduct } from "./winograd_product.ts";

/** A gradient of kernels, with what its runs have in common. */
export class WinogradGradient extends WinogradProduct {
  override readonly source: string;
  override readonly cost: number;
  protected override readonly tables: Tables;
  protected override readonly scratchBytes: number;
  readonly #parts: number;
  readonly #rows: number;
  /** Bytes of the sums of all parts: the threads' memory is behind them. */
  readonly #productBytes: number;
  readonly #numbers: Readonly<Record<string, number>>;
  #calls: readonly [products: KernelCall, sums: KernelCall] | null = null;

  constructor(options: WinogradOptions) {
    super(options);
    const { kernel, product: { image, other, loops, rows, channels, images }, target } = options;
    const tiling = new Tiling(kernel, images, loops, 1), tiles = tiling.count;
    const channelOffsets = offsetsOf(kernel, image.index, channels);
    const resultRows = offsetsOf(kernel, target, rows);
    const sizes = { tiles, channels: channelOffsets.length, rows: resultRows.length };
    const panels = Math.ceil(sizes.channels / PANEL_COLUMNS), { count: groups, long } = this.groups;
    const partTiles = choosePartTiles(sizes);
    this.#parts = Math.ceil(tiles / partTiles);
    this.#rows = sizes.rows;
    this.cost = gradientCost(sizes, this.#parts);
    const wholePanels = (table: Int32Array): Int32Array =>
      Int32Array.from(
        { length: panels * PANEL_COLUMNS },
        (_, k) => table[Math.min(k, table.length - 1)]!,
      );
    const placeOf = (group: number, row: number): number =>
      (group * GROUP_ROWS + row - rowOf(this.groups, group)) * STEP_BYTES;
    this.tables = new Tables({
      imageTiles: tiling.offsets(image.index),
      gradientTiles: tiling.offsets(other.index),
      skips: tiling.skips,
      channelOffsets: wholePanels(channelOffsets),
      rowOffsets: groupedRows(offsetsOf(kernel, other.index, rows), this.groups),
      productRows: this.#eachRow(placeOf),
      resultRows,
      resultChannels: wholePanels(offsetsOf(kernel, target, channels)),
      tapOffsets: offsetsOf(kernel, target, [loops.tapY, loops.tapX]),
    });
    const productsPanel = groups * GROUP_ROWS * STEP_BYTES;
    const productsPlane = planeBytes(panels * productsPanel);
    const columnsPlane = planeBytes(partTiles * panels * STEP_BYTES);
    const rowsPlane = planeBytes(partTiles * groups * STEP_BYTES);
    const partBytes = POINTS * productsPlane, threadBytes = POINTS * (columnsPlane + rowsPlane);
    this.#productBytes = this.#parts * partBytes;
    this.scratchBytes = this.#productBytes + this.runtime.threads.size * threadBytes;
    this.#numbers = {
      ...{ columnsPlane, rowsPlane, productsPlane, productsPanel, partBytes },
      ...{ tiles, partTiles, panels, groups, longGroups: long },
      scratchBytes: threadBytes,
      parts: this.#parts,
      channels: sizes.channels,
      imageRow: 4 * coefficient(image.index, loops.y),
      gradientRow: 4 * coefficient(other.index, loops.y),
    };
    this.source =
      `// WebAssembly SIMD: ${sizes.rows} gradients of kernels of ${sizes.channels} x 3 ` +
      `x 3 from ${tiles} tiles of 4 x 4, float32, minimal filtering`;
  }

  #eachRow(place: (group: number, row: number) => number): Int32Array {
    const table = new Int32Array(this.#rows), { count } = this.groups;
    for (let group = 0; group < count; group++) {
      const end = rowOf(this.groups, group + 1);
      for (let row = rowOf(this.groups, group); row < end; row++) table[row] = place(group, row);
    }
    return table;
  }

  protected override runAt({ image, other, result, tables, scratch }: Addresses): boolean {
    const [products, sums] = this.#calls ??= this.#makeCalls();
    const threads = scratch + this.#productBytes;
    products.run({ image, gradient: other, products: scratch, scratch: threads }, tables);
    return sums.run({ result, products: scratch }, tables, "notFinite") === 0;
  }

  #makeCalls(): readonly [products: KernelCall, sums: KernelCall] {
    const { form } = this, { isRelaxed } = form, common = { numbers: this.#numbers, grain: 1 };
    const rows = this.#rows, sumCost = rows * this.#numbers.channels! * SUM_COST;
    return [
      this.call(
        `gradient ${JSON.stringify(form)}`,
        () => makeGradientProducts(form),
        { ...common, names: gradientArguments, range: this.#parts, cost: this.cost - sumCost },
      ),
      this.call(
        `gradient sums ${isRelaxed}`,
        () => makeGradientSums(isRelaxed),
        { ...common, names: gradientSumArguments, range: rows, cost: sumCost },
      ),
    ];
  }
}
