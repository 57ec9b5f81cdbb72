/**
 * The WebAssembly of 3x3 convolutions: for a block of tiles it transforms what they read of the image,
 * multiplies it at 36 points by the transformed kernels, and turns the sums into tiles of 4x4 outputs.
 * What is in between stays in memory of the thread, which its caches hold.
 */
import { FunctionBuilder, type Local } from "../assembler.ts";
import { KernelArguments } from "../kernel_arguments.ts";
import { VectorMath } from "../math.ts";
import { i32, v128 } from "../opcodes.ts";
import { BlockProduct, GROUP_ROWS, type ProductForm, STEP_BYTES } from "./block_product.ts";
import { FiniteCheck, patchRows, PeakCheck, pointRows, storePoints } from "./patches.ts";
import { filterNames, FilterTransform } from "./filter.ts";
import { alongBoth, PATCH, POINTS, TILE, Transforms } from "./transforms.ts";

/** The arguments of {@linkcode makeConvolution}; offsets and sizes are in bytes. */
export const convolutionArguments = [
  ...filterNames,
  "image",
  "result",
  /** The transformed kernels, where they are transformed before. */
  "rows",
  "rowsPlane",
  /** Memory of the threads: which block of tiles is in it, its columns, its products. */
  "scratch",
  "scratchBytes",
  "columnsPlane",
  "productsPlane",
  "productsPanel",
  /** Tables with an entry for each tile: where it begins in the image and in the result. */
  "tileOffsets",
  "resultOffsets",
  /** For each tile the largest number that it reads, and the sum of a sample: see `PeakCheck`. */
  "peaks",
  "samples",
  /** Rows of the tile that are not stored, and 8 times as many columns. */
  "skips",
  /** Tables of offsets of the image's channels, and of the result's. */
  "channelOffsets",
  "outputOffsets",
  "imageRow",
  "resultRow",
  /** Panels of eight tiles, and those of a block. */
  "panels",
  "blockPanels",
  /** Groups of outputs, those that have all rows, those of a block, and blocks of them. */
  "groups",
  "longGroups",
  "blockGroups",
  "groupBlocks",
  /** 1 is written where a result is not finite. */
  "notFinite",
] as const;

/** Bytes before the columns in a thread's memory. */
export const HEADER_BYTES = 64;

/** Dependencies of the tiles' code. */
export interface TileForm extends ProductForm {
  readonly isRelaxed: boolean;
}

/** Dependencies of a convolution's code. */
export interface ConvolutionForm extends TileForm {
  /** Kernels of four channels lie side by side. */
  readonly areSideBySide: boolean;
  /** Each block transforms its kernels itself: there is one block of tiles. */
  readonly transformsFilters: boolean;
}

/** The module that computes blocks `begin` to `end`: of outputs, for one block of tiles after another. */
export function makeConvolution(form: ConvolutionForm): Uint8Array<ArrayBuffer> {
  return new ConvolutionWriter(form).write();
}

class ConvolutionWriter {
  readonly #f = new FunctionBuilder();
  readonly #math: VectorMath;
  readonly #form: ConvolutionForm;
  readonly #args = new KernelArguments(this.#f, convolutionArguments);
  readonly #transforms: Transforms;
  readonly #product: BlockProduct;
  readonly #filters: FilterTransform;

  constructor(form: ConvolutionForm) {
    this.#form = form;
    this.#math = new VectorMath(this.#f, form.isRelaxed);
    this.#transforms = new Transforms(this.#f, this.#math);
    this.#product = new BlockProduct(this.#f, this.#math, form);
    const { areSideBySide } = form;
    this.#filters = new FilterTransform(this.#f, this.#args, this.#transforms, areSideBySide);
  }

  write(): Uint8Array<ArrayBuffer> {
    const f = this.#f, args = this.#args;
    const { begin, end, thread } = FunctionBuilder.parameters;
    const before = f.i(i32.mul, thread, args.get("scratchBytes"));
    const scratch = f.i(i32.add, args.get("scratch"), before);
    const check = new FiniteCheck(f, this.#math);
    f.loop(begin, end, 1, (task) => this.#block(task, scratch, check));
    f.branch(check.found(), () => args.set("notFinite", f.integer(1)));
    return f.finish(this.#form.hasPrivatePage);
  }

  #block(task: Local, scratch: Local, check: FiniteCheck): void {
    const f = this.#f, args = this.#args;
    const tiles = f.i(i32.divU, task, args.get("groupBlocks"));
    const panel = f.i(i32.mul, tiles, args.get("blockPanels"));
    const panelEnd = f.smaller(f.i(i32.add, panel, args.get("blockPanels")), args.get("panels"));
    const columns = f.iWith(i32.add, scratch, HEADER_BYTES);
    const held = f.i(i32.sub, tiles, f.loadNumber(i32.load, scratch));
    f.branch(held, () => {
      this.#readTiles(columns, panel, panelEnd);
      f.storeNumber(scratch, tiles);
    });
    const group = f.i(
      i32.mul,
      f.i(i32.remU, task, args.get("groupBlocks")),
      args.get("blockGroups"),
    );
    const groupEnd = f.smaller(f.i(i32.add, group, args.get("blockGroups")), args.get("groups"));
    const sumBytes = f.iWith(i32.mul, args.get("channels"), STEP_BYTES);
    const points = f.iWith(i32.mul, args.get("columnsPlane"), POINTS);
    const products = f.i(i32.add, columns, points);
    const left = this.#form.transformsFilters
      ? this.#transformFilters({ products, group, groupEnd, sumBytes })
      : f.i(i32.add, args.get("rows"), f.i(i32.mul, group, sumBytes));
    this.#product.write({
      left,
      leftPlane: args.get("rowsPlane"),
      right: columns,
      rightPlane: args.get("columnsPlane"),
      result: products,
      resultPlane: args.get("productsPlane"),
      resultPanel: args.get("productsPanel"),
      sumBytes,
      groups: f.i(i32.sub, groupEnd, group),
      longGroups: f.i(i32.sub, args.get("longGroups"), group),
      panels: f.i(i32.sub, panelEnd, panel),
    });
    this.#writeTiles({ products, panel, panelEnd, group, groupEnd }, check);
  }

  /** Transforms a block's kernels, behind its products; gives back where. */
  #transformFilters(
    { products, group, groupEnd, sumBytes }: {
      readonly products: Local;
      readonly group: Local;
      readonly groupEnd: Local;
      readonly sumBytes: Local;
    },
  ): Local {
    const f = this.#f, args = this.#args;
    const productBytes = f.iWith(i32.mul, args.get("productsPlane"), POINTS);
    const rows = f.i(i32.add, products, productBytes), at = f.copy(rows);
    f.loop(group, groupEnd, 1, (k) => {
      this.#filters.write(k, at, args.get("rowsPlane"));
      f.assign(at, f.i(i32.add, at, sumBytes));
    });
    return rows;
  }

  /** For the halves of panels `begin` to `end`: `body` with the first tile and its place in a plane. */
  #eachFour(
    { base, panelBytes, begin, end }: {
      readonly base: Local;
      readonly panelBytes: Local;
      readonly begin: Local;
      readonly end: Local;
    },
    body: (tile: Local, place: Local) => void,
  ): void {
    const f = this.#f, panel = f.copy(base);
    f.loop(f.iWith(i32.shl, begin, 3), f.iWith(i32.shl, end, 3), 8, (tile) => {
      f.loop(f.integer(0), f.integer(8), 4, (half) => {
        const place = f.i(i32.add, panel, f.iWith(i32.shl, half, 2));
        body(f.i(i32.add, tile, half), place);
      });
      f.assign(panel, f.i(i32.add, panel, panelBytes));
    });
  }

  /** Transforms what tiles read: for each point, panel and channel eight floats. */
  #readTiles(columns: Local, begin: Local, end: Local): void {
    const f = this.#f, args = this.#args;
    const panelBytes = f.iWith(i32.mul, args.get("channels"), STEP_BYTES);
    this.#eachFour({ base: columns, panelBytes, begin, end }, (tile, place) => {
      const tiles = args.fourEntries("tileOffsets", tile)
        .map((offset) => f.i(i32.add, args.get("image"), offset));
      const peaks = new PeakCheck(f);
      f.loop(f.integer(0), args.get("channels"), 1, (channel) => {
        const offset = args.entry("channelOffsets", channel);
        const bases = tiles.map((base) => f.i(i32.add, base, offset));
        const read = patchRows(f, bases, args.get("imageRow"), PATCH);
        const points = alongBoth(
          PATCH,
          (y) => peaks.row(y, read()),
          (line) => this.#transforms.image(line),
        );
        storePoints(f, points, place, args.get("columnsPlane"));
        f.step(place, STEP_BYTES);
      });
      f.store(v128.store, f.wordAt(args.get("peaks"), tile), peaks.peak);
      f.store(v128.store, f.wordAt(args.get("samples"), tile), peaks.sample);
    });
  }

  /** Turns products into outputs. */
  #writeTiles({ products, panel, panelEnd, group, groupEnd }: TileRange, check: FiniteCheck): void {
    const f = this.#f, args = this.#args, { rows } = this.#form;
    const range = { begin: panel, end: panelEnd };
    const panelBytes = args.get("productsPanel");
    const beforeGroup = (at: Local): Local =>
      f.i(i32.sub, f.iWith(i32.mul, at, rows), this.#shorterBefore(at));
    const first = beforeGroup(group), last = beforeGroup(groupEnd);
    this.#eachFour({ base: products, panelBytes, ...range }, (tile, place) => {
      const tiles = args.fourEntries("resultOffsets", tile)
        .map((offset) => f.i(i32.add, args.get("result"), offset));
      const skips = args.fourEntries("skips", tile);
      const at = f.copy(group), row = f.copy(place), left = f.copy(this.#rowsOf(at));
      f.loop(first, last, 1, (output) => {
        const offset = args.entry("outputOffsets", output);
        const read = pointRows(f, row, args.get("productsPlane"));
        const outputs = alongBoth(PATCH, read, (line) => this.#transforms.outputs(line, TILE));
        check.add(outputs.flat());
        const bases = tiles.map((base) => f.i(i32.add, base, offset));
        this.#store(bases, skips, outputs.map((line) => f.transpose(line)));
        f.step(row, STEP_BYTES);
        f.step(left, -1);
        f.branch(f.i(i32.eq, left, f.integer(0)), () => this.#nextGroup(at, row, left));
      });
    });
  }

  /** Groups before one that have a row less than the first. */
  #shorterBefore(group: Local): Local {
    const f = this.#f;
    return f.larger(f.i(i32.sub, group, this.#args.get("longGroups")), f.integer(0));
  }

  #rowsOf(group: Local): Local {
    const f = this.#f, { rows } = this.#form;
    const isLong = f.i(i32.ltS, group, this.#args.get("longGroups"));
    return f.choose(isLong, f.integer(rows), f.integer(rows - 1));
  }

  /** Goes to the next group's first row; in memory every group has as many rows. */
  #nextGroup(group: Local, row: Local, left: Local): void {
    const f = this.#f;
    const unused = f.i(i32.sub, f.integer(GROUP_ROWS), this.#rowsOf(group));
    f.assign(row, f.i(i32.add, row, f.iWith(i32.mul, unused, STEP_BYTES)));
    f.step(group, 1);
    f.assign(left, this.#rowsOf(group));
  }

  /** Stores the rows of four tiles; where one overlaps another, what that one does not store. */
  #store(bases: readonly Local[], skips: readonly Local[], rows: readonly Local[][]): void {
    const f = this.#f;
    const at = bases.map((base) => f.copy(base));
    rows.forEach((tiles, y) => {
      tiles.forEach((row, lane) => {
        this.#storeRow(at[lane]!, row, skips[lane]!, y);
        if (y < TILE - 1) f.assign(at[lane]!, f.i(i32.add, at[lane]!, this.#args.get("resultRow")));
      });
    });
  }

  #storeRow(at: Local, row: Local, skip: Local, y: number): void {
    const f = this.#f;
    f.branch(skip, () => {
      const firstRow = f.iWith(i32.and, skip, 7), firstColumn = f.iWith(i32.shrU, skip, 3);
      f.branch(f.i(i32.ltS, firstRow, f.integer(y + 1)), () => {
        for (let x = 0; x < TILE; x++) {
          f.branch(
            f.i(i32.ltS, firstColumn, f.integer(x + 1)),
            () => f.store(v128.store32Lane, at, row, 4 * x, x),
          );
        }
      });
    }, () => f.store(v128.store, at, row));
  }
}

/** The tiles and groups of a block, and its products. */
interface TileRange {
  readonly products: Local;
  readonly panel: Local;
  readonly panelEnd: Local;
  readonly group: Local;
  readonly groupEnd: Local;
}
