/**
 * The WebAssembly of contractions: tiles of 6 by 8 sums in registers. An element of the left operand
 * lies at the sum of two offsets that tables give, one for its row and one for its summed index, so
 * windows of images are read where they are. Of the right operand eight columns lie side by side.
 */
import { FunctionBuilder, type Local } from "../assembler.ts";
import { VectorMath } from "../math.ts";
import { i32, v128 } from "../opcodes.ts";
import { type ContiguousAxis, TILE_COLUMNS, TILE_ROWS, TileStore } from "./tile_store.ts";

/** The arguments of a product, in order; tables and offsets are in bytes. */
export const productArguments = [
  "a",
  "b",
  "c",
  /** Tables: an offset for each row of a, each summed index of a, each panel of b. */
  "aRows",
  "aSums",
  "bPanels",
  /** From one summed index to the next within a panel. */
  "bStep",
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
  /** How many summed indices are done at a time. */
  "blockSums",
  /** Tables: where each product of a batch begins in a, b and c. */
  "aBatch",
  "bBatch",
  "cBatch",
] as const;

type Argument = typeof productArguments[number];

/** How the left operand is read, and the result written. */
export interface TileForm {
  /** The left operand's summed indices lie side by side. */
  readonly sumsAreContiguous: boolean;
  /** What lies side by side in the result: the columns, the rows of each tile, or neither. */
  readonly contiguousAxis: ContiguousAxis;
  /** Rows of the last tile, 0 where that is whole. */
  readonly rest: number;
  readonly relaxed: boolean;
}

/** The module that computes blocks `begin` to `end` of a batch of products. */
export function makeProduct(form: TileForm): Uint8Array<ArrayBuffer> {
  return new ProductWriter(form).write();
}

class ProductWriter {
  readonly #f = new FunctionBuilder();
  readonly #math: VectorMath;
  readonly #form: TileForm;
  readonly #store: TileStore;

  constructor(form: TileForm) {
    this.#form = form;
    this.#math = new VectorMath(this.#f, form.relaxed);
    this.#store = new TileStore(this.#f, (name) => this.#arg(name), form.contiguousAxis);
  }

  #arg(name: Argument): Local {
    const offset = 4 * productArguments.indexOf(name);
    return this.#f.once(
      name,
      () => this.#f.loadNumber(i32.load, FunctionBuilder.parameters.args, offset),
    );
  }

  /** An entry of a table of offsets. */
  #entry(table: Argument, index: Local): Local {
    return this.#f.loadNumber(i32.load, this.#f.wordAt(this.#arg(table), index));
  }

  /** A loop from `start` to `end`, `step` at a time; gives back where it ended. */
  #loop(start: Local, end: Local, step: number, body: (index: Local) => void): Local {
    const f = this.#f;
    const index = f.number();
    f.assign(index, start);
    f.whileLess(index, end, () => {
      body(index);
      f.step(index, step);
    });
    return index;
  }

  write(): Uint8Array<ArrayBuffer> {
    const { begin, end } = FunctionBuilder.parameters;
    this.#loop(begin, end, 1, (task) => this.#block(task));
    return this.#f.finish();
  }

  #block(task: Local): void {
    const f = this.#f;
    const panelBlock = f.i(i32.remU, task, this.#arg("panelBlocks"));
    const rest = f.i(i32.divU, task, this.#arg("panelBlocks"));
    const rowBlock = f.i(i32.remU, rest, this.#arg("rowBlocks"));
    const batch = f.i(i32.divU, rest, this.#arg("rowBlocks"));
    const base = (name: "a" | "b" | "c"): Local =>
      f.i(i32.add, this.#arg(name), this.#entry(`${name}Batch`, batch));
    const [a, b, c] = [base("a"), base("b"), base("c")];
    const row = f.i(i32.mul, rowBlock, this.#arg("blockRows"));
    const rowEnd = f.smaller(f.i(i32.add, row, this.#arg("blockRows")), this.#arg("m"));
    const panel = f.i(i32.mul, panelBlock, this.#arg("blockPanels"));
    const panels = f.iWith(i32.shrU, f.iWith(i32.add, this.#arg("n"), TILE_COLUMNS - 1), 3);
    const panelEnd = f.smaller(f.i(i32.add, panel, this.#arg("blockPanels")), panels);
    const sum = f.number();
    f.assign(sum, f.integer(0));
    f.whileLess(sum, this.#arg("k"), () => {
      const sumEnd = f.smaller(f.i(i32.add, sum, this.#arg("blockSums")), this.#arg("k"));
      const skipped = f.i(i32.mul, sum, this.#arg("bStep"));
      this.#loop(panel, panelEnd, 1, (p) => {
        const right = f.i(i32.add, f.i(i32.add, b, this.#entry("bPanels", p)), skipped);
        this.#rows({ a, right, c, panel: p, sum, sumEnd }, row, rowEnd);
      });
      f.assign(sum, sumEnd);
    });
  }

  #rows(column: Column, row: Local, rowEnd: Local): void {
    const f = this.#f;
    const tile = (i: Local, rows: number): void =>
      this.#store.write({ ...column, row: i }, this.#sums(column, i, rows));
    const last = f.iWith(i32.sub, rowEnd, TILE_ROWS - 1);
    const i = this.#loop(row, last, TILE_ROWS, (i) => tile(i, TILE_ROWS));
    const { rest } = this.#form;
    if (rest > 0) f.branch(f.i(i32.ltS, i, rowEnd), () => tile(i, rest));
  }

  /** The sums of `count` rows from row `i` on, two vectors each. */
  #sums({ a, right, sum, sumEnd }: Column, i: Local, count: number): Local[][] {
    const f = this.#f;
    const { sumsAreContiguous } = this.#form;
    const rows = this.#places(a, i, count, sum);
    const sums = rows.map(() => [this.#zeros(), this.#zeros()]);
    const b = f.number(), at = f.number();
    f.assign(b, right);
    f.assign(at, f.wordAt(this.#arg("aSums"), sum));
    const end = f.wordAt(this.#arg("aSums"), sumEnd);
    const once = (step: number): void => {
      const columns = [f.load(v128.load, b), f.load(v128.load, b, 16)];
      f.assign(b, f.i(i32.add, b, this.#arg("bStep")));
      const offset = sumsAreContiguous ? null : f.loadNumber(i32.load, at, 4 * step);
      rows.forEach((place, r) => {
        const x = offset === null
          ? f.load(v128.loadSplat, place, 4 * step)
          : f.load(v128.loadSplat, f.i(i32.add, place, offset));
        columns.forEach((y, h) => f.assign(sums[r]![h]!, this.#math.madd(x, y, sums[r]![h]!)));
      });
    };
    for (const steps of [4, 1]) {
      const last = steps === 1 ? end : f.iWith(i32.sub, end, 4 * (steps - 1));
      f.whileLess(at, last, () => {
        for (let step = 0; step < steps; step++) once(step);
        f.step(at, 4 * steps);
        if (sumsAreContiguous) { for (const place of rows) f.step(place, 4 * steps); }
      }, i32.ltU);
    }
    return sums;
  }

  /** Where each row of the left operand begins, or where its summed indices lie side by side goes on. */
  #places(a: Local, i: Local, count: number, sum: Local): Local[] {
    const f = this.#f;
    const table = f.wordAt(this.#arg("aRows"), i);
    return Array.from({ length: count }, (_, r) => {
      const place = f.number();
      f.assign(place, f.i(i32.add, a, f.loadNumber(i32.load, table, 4 * r)));
      if (this.#form.sumsAreContiguous) f.assign(place, f.wordAt(place, sum));
      return place;
    });
  }

  #zeros(): Local {
    const local = this.#f.vector();
    this.#f.assign(local, this.#f.splat(0));
    return local;
  }
}

/** A panel of a block and some of the summed indices: what the tiles in it are made from. */
interface Column {
  readonly a: Local;
  /** The panel's elements, from the first of those summed indices on. */
  readonly right: Local;
  readonly c: Local;
  readonly panel: Local;
  readonly sum: Local;
  readonly sumEnd: Local;
}
