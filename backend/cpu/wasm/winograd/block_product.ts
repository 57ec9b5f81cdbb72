/**
 * The products of a block at all points: rows of one operand, in groups of up to six that lie side by
 * side for each summed index, times panels of eight columns of the other. Both were written in the
 * order in which tiles of sums read them.
 */
import type { FunctionBuilder, Local } from "../assembler.ts";
import type { VectorMath } from "../math.ts";
import { i32 } from "../opcodes.ts";
import { RowPanel } from "../products/row_panel.ts";
import { TILE_VECTORS } from "../products/tile_store.ts";
import { TileProducts } from "../products/tile_sums.ts";
import { POINTS } from "./transforms.ts";

/** Bytes of a group's rows, and of a panel's columns, for each summed index: eight floats. */
export const STEP_BYTES = 32;
/** Rows of a group. */
export const GROUP_ROWS = 6;
/** Columns of a panel. */
export const PANEL_COLUMNS = 8;

/** Summed indices of the unrolled code. */
const UNROLLED_SUMS = 64;

/** Variants of the code. */
export interface ProductForm {
  /** Rows of the first groups. */
  readonly rows: number;
  /** True when other groups have one row less. */
  readonly hasShorter: boolean;
  /** The rows of a group are copied to a private page, whose addresses are not checked. */
  readonly hasPrivatePage: boolean;
}

/** Operands of a product: addresses, counts, and bytes from one point's plane to the next. */
export interface ProductBlock {
  /** The first group's rows. */
  readonly left: Local;
  readonly leftPlane: Local;
  /** The first panel's columns. */
  readonly right: Local;
  readonly rightPlane: Local;
  readonly result: Local;
  readonly resultPlane: Local;
  /** Bytes of the result for a panel. */
  readonly resultPanel: Local;
  /** Bytes of a group, and of a panel, for all summed indices. */
  readonly sumBytes: Local;
  readonly groups: Local;
  /** So many of these groups have all rows, the others one less. */
  readonly longGroups: Local;
  readonly panels: Local;
}

/** Writes the loops over points, groups, summed indices and panels. */
export class BlockProduct {
  readonly #f: FunctionBuilder;
  readonly #math: VectorMath;
  readonly #form: ProductForm;
  readonly #panel: RowPanel;
  /** Address of the group's rows when they are read in place. */
  readonly #rows: Local;

  constructor(f: FunctionBuilder, math: VectorMath, form: ProductForm) {
    this.#f = f;
    this.#math = math;
    this.#form = form;
    this.#rows = f.number();
    this.#panel = new RowPanel(f, form.hasPrivatePage ? null : this.#rows, false);
  }

  /** The result is set, not added to. */
  write(block: ProductBlock): void {
    const f = this.#f;
    const [left, right, result] = [block.left, block.right, block.result].map((a) => f.copy(a));
    f.loop(f.integer(0), f.integer(POINTS), 1, () => {
      this.#point({ ...block, left: left!, right: right!, result: result! });
      f.assign(left!, f.i(i32.add, left!, block.leftPlane));
      f.assign(right!, f.i(i32.add, right!, block.rightPlane));
      f.assign(result!, f.i(i32.add, result!, block.resultPlane));
    });
  }

  #point(block: ProductBlock): void {
    const f = this.#f, { sumBytes } = block;
    const rows = f.copy(block.left), result = f.copy(block.result);
    f.loop(f.integer(0), block.groups, 1, (group) => {
      const isLong = f.i(i32.ltS, group, block.longGroups);
      f.loop(f.integer(0), sumBytes, UNROLLED_SUMS * STEP_BYTES, (begin) => {
        const rest = f.i(i32.sub, sumBytes, begin);
        const bytes = f.smaller(rest, f.integer(UNROLLED_SUMS * STEP_BYTES));
        this.#fill(f.i(i32.add, rows, begin), bytes);
        this.#panels(block, result, { begin, bytes, isLong });
      });
      f.assign(rows, f.i(i32.add, rows, sumBytes));
      f.step(result, GROUP_ROWS * STEP_BYTES);
    });
  }

  #fill(from: Local, bytes: Local): void {
    const f = this.#f;
    if (this.#form.hasPrivatePage) f.copyBytes(f.integer(0), from, bytes, true);
    else f.assign(this.#rows, from);
  }

  #panels(block: ProductBlock, first: Local, sums: SumRange): void {
    const f = this.#f, { rows, hasShorter } = this.#form;
    const right = f.copy(f.i(i32.add, block.right, sums.begin)), result = f.copy(first);
    f.loop(f.integer(0), block.panels, 1, () => {
      if (hasShorter) {
        f.branch(
          sums.isLong,
          () => this.#tile(rows, right, result, sums),
          () => this.#tile(rows - 1, right, result, sums),
        );
      } else this.#tile(rows, right, result, sums);
      f.assign(right, f.i(i32.add, right, block.sumBytes));
      f.assign(result, f.i(i32.add, result, block.resultPanel));
    });
  }

  /** A tile of sums: set by the first summed indices, added to by later ones. */
  #tile(rows: number, right: Local, result: Local, { begin, bytes }: SumRange): void {
    const f = this.#f, size = { rows, vectors: TILE_VECTORS }, step = f.integer(STEP_BYTES);
    const products = new TileProducts(f, this.#math, this.#panel, size);
    const length = f.iWith(i32.shrU, bytes, Math.log2(STEP_BYTES));
    const sums = products.sums(products.columns(right, step), length, true, UNROLLED_SUMS);
    products.keep(result, step, sums, begin);
  }
}

/** Summed indices whose rows are in the panel. */
interface SumRange {
  /** In bytes. */
  readonly begin: Local;
  readonly bytes: Local;
  /** True when the group has all rows. */
  readonly isLong: Local;
}
