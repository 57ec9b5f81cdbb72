/**
 * The WebAssembly of contractions: tiles of 6 by 8 sums in registers. An element of the left operand
 * lies at the sum of two offsets that tables give, one for its row and one for its summed index, so
 * windows of images are read where they are; the rows of a tile are copied into a panel of the thread, for
 * all tiles beside it. Of the right operand eight columns lie side by side.
 */
import { FunctionBuilder, type Local } from "../assembler.ts";
import { KernelArguments } from "../kernel_arguments.ts";
import { VectorMath } from "../math.ts";
import { i32 } from "../opcodes.ts";
import { LONG_PANEL_SUMS, PANEL_BYTES, PANEL_SUMS, rowOffsets, RowPanel } from "./row_panel.ts";
import { type Columns, TileProducts } from "./tile_sums.ts";
import {
  type ContiguousAxis,
  TILE_COLUMNS,
  TILE_ROWS,
  TILE_VECTORS,
  TileStore,
} from "./tile_store.ts";

/** The arguments of a product, in order; tables and offsets are in bytes. */
export const productArguments = [
  "a",
  "b",
  "c",
  /** Address of the panels of all threads; unused where they are in private pages. */
  "rowPanels",
  /** Tables: an offset for each row of a, each summed index of a, each panel of b. */
  "aRows",
  "aSums",
  "bPanels",
  /** From one summed index to the next within a panel of b, or else a table of offsets for each. */
  "bStep",
  "bSums",
  /** Tables: an offset for each row and each column of c. */
  "cRows",
  "cColumns",
  "m",
  "n",
  "k",
  /** Rows and panels of a block, and how many blocks there are of each. */
  "blockRows",
  "blockPanels",
  "rowBlocks",
  "panelBlocks",
  /** Tables: where each product of a batch begins in a, b and c. */
  "aBatch",
  "bBatch",
  "cBatch",
] as const;

/** Access to the left operand, and store of the result. */
export interface TileForm {
  /** Every four of the left operand's summed indices lie side by side. */
  readonly sumsAreInFours: boolean;
  /** Side-by-side axis of the result: the columns, the rows of each tile, or neither. */
  readonly contiguousAxis: ContiguousAxis;
  /** The right operand's summed indices lie where a table says: windows of images. */
  readonly hasSumTable: boolean;
  /** So many indices are summed that panels are long, too. */
  readonly isLong: boolean;
  /** Rows of a tile: fewer than {@linkcode TILE_ROWS} where the matrix has no more. */
  readonly rows: number;
  readonly relaxed: boolean;
  /** Panels of rows lie in a private page of the module. */
  readonly hasPrivatePage: boolean;
}

/** The module that computes blocks `begin` to `end` of a batch of products. */
export function makeProduct(form: TileForm): Uint8Array<ArrayBuffer> {
  return new ProductWriter(form).write();
}

class ProductWriter {
  readonly #f = new FunctionBuilder();
  readonly #args = new KernelArguments(this.#f, productArguments);
  readonly #math: VectorMath;
  readonly #form: TileForm;
  readonly #store: TileStore;
  readonly #panel: RowPanel;
  readonly #products: TileProducts;

  constructor(form: TileForm) {
    this.#form = form;
    this.#math = new VectorMath(this.#f, form.relaxed);
    this.#store = new TileStore(this.#f, (name) => this.#args.get(name), form.contiguousAxis);
    const base = form.hasPrivatePage ? null : this.#ownPanel();
    this.#panel = new RowPanel(this.#f, base, form.sumsAreInFours);
    this.#products = new TileProducts(this.#f, this.#math, this.#panel, {
      rows: form.rows,
      vectors: TILE_VECTORS,
    });
  }

  /** Address of this thread's panel in the shared memory. */
  #ownPanel(): Local {
    const f = this.#f, panels = this.#args.get("rowPanels");
    return f.once("own panel", () => {
      const before = f.iWith(i32.mul, FunctionBuilder.parameters.thread, PANEL_BYTES);
      return f.i(i32.add, panels, before);
    });
  }

  write(): Uint8Array<ArrayBuffer> {
    const { begin, end } = FunctionBuilder.parameters;
    this.#f.loop(begin, end, 1, (task) => this.#block(task));
    return this.#f.finish(this.#form.hasPrivatePage);
  }

  #block(task: Local): void {
    const f = this.#f;
    const panelBlock = f.i(i32.remU, task, this.#args.get("panelBlocks"));
    const rest = f.i(i32.divU, task, this.#args.get("panelBlocks"));
    const rowBlock = f.i(i32.remU, rest, this.#args.get("rowBlocks"));
    const batch = f.i(i32.divU, rest, this.#args.get("rowBlocks"));
    const base = (name: "a" | "b" | "c"): Local =>
      f.i(i32.add, this.#args.get(name), this.#args.entry(`${name}Batch`, batch));
    const [a, b, c] = [base("a"), base("b"), base("c")];
    const row = f.i(i32.mul, rowBlock, this.#args.get("blockRows"));
    const rowEnd = f.smaller(f.i(i32.add, row, this.#args.get("blockRows")), this.#args.get("m"));
    const panel = f.i(i32.mul, panelBlock, this.#args.get("blockPanels"));
    const panels = f.iWith(i32.shrU, f.iWith(i32.add, this.#args.get("n"), TILE_COLUMNS - 1), 3);
    const panelEnd = f.smaller(f.i(i32.add, panel, this.#args.get("blockPanels")), panels);
    const length = this.#form.isLong ? LONG_PANEL_SUMS : PANEL_SUMS;
    this.#f.loop(f.integer(0), this.#args.get("k"), length, (sum) => {
      const sumEnd = f.smaller(f.iWith(i32.add, sum, length), this.#args.get("k"));
      const right = this.#form.hasSumTable
        ? b
        : f.i(i32.add, b, f.i(i32.mul, sum, this.#args.get("bStep")));
      this.#rows({ a, right, c, panel, panelEnd, sum, sumEnd }, row, rowEnd);
    });
  }

  /** All tiles of a block, for some of the summed indices. */
  #rows(block: Block, row: Local, rowEnd: Local): void {
    this.#f.loop(row, rowEnd, TILE_ROWS, (i) => this.#tiles(block, i));
  }

  /** The tiles from row `i` on. Those behind the last one are that one again, and are not stored. */
  #tiles(block: Block, i: Local): void {
    const f = this.#f, { rows, isLong } = this.#form;
    const { a, right, c, panel, panelEnd, sum, sumEnd } = block;
    this.#panel.fill({
      base: a,
      rows: rowOffsets(f, f.wordAt(this.#args.get("aRows"), i), rows),
      sums: {
        begin: f.wordAt(this.#args.get("aSums"), sum),
        end: f.wordAt(this.#args.get("aSums"), sumEnd),
      },
    });
    const length = f.i(i32.sub, sumEnd, sum), rowsLeft = f.i(i32.sub, this.#args.get("m"), i);
    this.#f.loop(panel, panelEnd, 1, (p) => {
      const b = this.#columns(f.i(i32.add, right, this.#args.entry("bPanels", p)), sum);
      const sums = this.#products.sums(b, length, rows === TILE_ROWS && !isLong);
      this.#store.write({ c, row: i, rowsLeft, panel: p, sum }, sums);
    });
  }

  /** A walk over the summed indices of a panel of the right operand, from `sum` on. */
  #columns(panel: Local, sum: Local): Columns {
    if (!this.#form.hasSumTable) return this.#products.columns(panel, this.#args.get("bStep"));
    const f = this.#f, at = f.number();
    f.assign(at, f.wordAt(this.#args.get("bSums"), sum));
    return {
      next: () => {
        const columns = this.#products.load(f.i(i32.add, panel, f.loadNumber(i32.load, at)));
        f.step(at, 4);
        return columns;
      },
    };
  }
}

/** Some panels of a block and some of the summed indices: what the tiles in it are made from. */
interface Block {
  readonly a: Local;
  /** The right operand from the first of those summed indices on. */
  readonly right: Local;
  readonly c: Local;
  readonly panel: Local;
  readonly panelEnd: Local;
  readonly sum: Local;
  readonly sumEnd: Local;
}
