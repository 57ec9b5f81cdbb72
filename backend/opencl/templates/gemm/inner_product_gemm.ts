/**
 * Inner-product gemm on CPU devices: both operands are contiguous along the summed axis, and a work-item
 * computes a small tile of dot products with vectors along that axis.
 */
import { BLOCK_PRODUCTS, blocksOf } from "../../../kernel/accumulation.ts";
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { type Contraction, extent, type Load, type LoopKernel } from "../../../kernel/kernel.ts";
import { openBlocks, walk } from "../../../codegen/loops.ts";
import { generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import { TileSums } from "../../codegen/tile_sums.ts";
import {
  type ContractionTemplate,
  groupShape,
  isMasked,
  isTileable,
  last,
  type TiledPlan,
} from "../parts/contraction_shape.ts";
import { MIN_VECTOR, operandOrder } from "../parts/operand_order.ts";
import { countRegisterTiles, hasWideVectors, vectorWidth } from "../parts/register_tile.ts";
import { single } from "../parts/template.ts";
import { declareStart, decomposeInto, only, storeTile, without } from "../parts/tile_text.ts";
import { largest, leastWork, tileOf, type TileRule } from "../parts/tiling.ts";

/** The tile of a work-item: so many rows by so many columns of dot products. */
export interface InnerProductTile {
  readonly rows: number;
  readonly columns: number;
}

/** Rows and columns, for vectors of 16 floats and for shorter ones. */
const tables = {
  wide: { rows: [4, 2, 1], columns: [6, 5, 4, 3, 2, 1] },
  narrow: { rows: [2, 1], columns: [3, 2, 1] },
} as const;

export const innerProductTiles: TileRule<InnerProductTile> = {
  kind: "inner-product",
  choose: ({ m, n }, target) => {
    const { rows, columns } = tables[hasWideVectors(target) ? "wide" : "narrow"];
    const tm = largest(m, rows);
    return { rows: tm, columns: leastWork(n, columns, (tn) => tn * tm + tn + tm) };
  },
  counts: ["rows", "columns"],
  admits: ({ rows, columns }, { m, n }) => rows <= Math.min(m, 16) && columns <= Math.min(n, 16),
};

/** A tile of dot products a work-item. */
export const innerProductGemm: ContractionTemplate<TiledPlan<InnerProductTile>> = {
  name: "inner-product gemm",
  matches: (kernel, target) => {
    if (target.isGpu || !isTileable(kernel, target)) return null;
    const c = kernel.contraction!, { isInner, loops } = operandOrder(kernel);
    if (isMasked(c) || loops !== null || !isInner && !isEverySecond(kernel)) return null;
    const shape = groupShape(kernel, innerProductTiles.kind, c);
    return { kernel, target, shape, tile: tileOf(innerProductTiles, shape, target) };
  },
  emit: ({ kernel, target, tile }) =>
    single(generatedLoop(kernel, target, (e, dialect) => writeTile(e, dialect, tile))),
  workItems: ({ shape }) => countRegisterTiles(shape),
};

/** True where the right operand has every second element of the summed axis: a strided convolution's image. */
function isEverySecond({ sizes, contraction }: LoopKernel): boolean {
  const { a, b, k } = contraction!, symbol = last(k);
  return coefficient(a.index, symbol) === 1 && coefficient(b.index, symbol) === 2 &&
    sizes[symbol]! >= MIN_VECTOR;
}

function writeTile(
  emitter: Emitter,
  dialect: Dialect,
  { rows: tm, columns: tn }: InnerProductTile,
): WorkSize {
  const { kernel } = emitter, c = kernel.contraction!;
  const rowCount = extent(kernel, c.m), columnCount = extent(kernel, c.n);
  decomposeInto(emitter, c.batch, "(Index)get_global_id(2)", "i");
  const [endM, endN] = [rowCount, columnCount].map((n) => emitter.index(n)) as [string, string];
  declareStart(emitter, "row", `(Index)get_global_id(1) * ${tm}`, tm, endM);
  declareStart(emitter, "column", `(Index)get_global_id(0) * ${tn}`, tn, endN);
  declareOffsets(emitter, "x", c.a.index, c.m, "row", tm);
  declareOffsets(emitter, "y", c.b.index, c.n, "column", tn);
  new DotProducts(emitter, dialect, tm, tn).write();
  storeTile(emitter, c.m, c.n, tm, tn);
  return {
    global: [Math.ceil(columnCount / tn), Math.ceil(rowCount / tm), extent(kernel, c.batch)],
    local: [1, 1, 1],
  };
}

/** Writes the sums of a tile in vectors along the last summed axis, and their lanes' sums, `tile`. */
class DotProducts {
  readonly #emitter: Emitter;
  readonly #dialect: Dialect;
  readonly #c: Contraction;
  readonly #tm: number;
  readonly #tn: number;
  /** The axis of the vectors, its size, and floats of a vector. */
  readonly #k: number;
  readonly #size: number;
  readonly #width: number;
  /** Rows of so few vectors are written without a loop. */
  readonly #isShort: boolean;
  /** Sums are added up in blocks of the vectors' axis. */
  readonly #isCut: boolean;
  readonly #sums: TileSums;

  constructor(emitter: Emitter, dialect: Dialect, tm: number, tn: number) {
    const { kernel } = emitter, c = kernel.contraction!, k = last(c.k);
    this.#emitter = emitter;
    this.#dialect = dialect;
    this.#c = c;
    this.#tm = tm;
    this.#tn = tn;
    this.#k = k;
    this.#size = kernel.sizes[k]!;
    const width = this.#width = vectorWidth(this.#size);
    this.#isShort = this.#size <= 4 * width;
    const steps = (s: number, count: number): number => s === k ? Math.ceil(count / width) : count;
    const found = blocksOf(kernel, steps, BLOCK_PRODUCTS);
    this.#isCut = found?.symbol === k;
    const blocks = found && this.#isCut ? { ...found, length: found.length * width } : found;
    const names = this.#cells().map(([r, q]) => `c${r}_${q}`);
    this.#sums = new TileSums(emitter, `float${width}`, names, blocks);
  }

  #cells(): (readonly [row: number, column: number])[] {
    const tn = this.#tn;
    return Array.from({ length: this.#tm * tn }, (_, i) => [Math.floor(i / tn), i % tn] as const);
  }

  write(): void {
    const emitter = this.#emitter, c = this.#c;
    this.#sums.declare();
    const end = this.#isShort ? String(this.#size) : emitter.size(this.#k);
    this.#declareKept(end);
    walk(emitter, this.#dialect, c.k.slice(0, -1), this.#sums, () => {
      emitter.line(`const Index x = ${without(emitter, c.a.index, [...c.m, this.#k])};`);
      emitter.line(`const Index y = ${without(emitter, c.b.index, [...c.n, this.#k])};`);
      this.#walkVectors(end);
    });
    this.#sums.finish();
    emitter.line(`float tile[${this.#tm * this.#tn}];`);
    for (const [r, q] of this.#cells()) {
      emitter.line(`tile[${r * this.#tn + q}] = sum_float${this.#width}(c${r}_${q});`);
    }
  }

  /** Declares which lanes of a row's last vector were not summed before: it ends with the row. */
  #declareKept(end: string): void {
    const size = this.#size, width = this.#width;
    if (size % width === 0) return;
    const lanes = Array.from({ length: width }, (_, lane) => lane).join(", ");
    const rest = this.#isShort ? String(size % width) : `${end} % ${width}`;
    this.#emitter.line(
      `const int${width} keep = (int${width})(${lanes}) >= ${width} - (int)(${rest});`,
    );
  }

  /** The statements of one row of vectors. */
  #walkVectors(end: string): void {
    const emitter = this.#emitter, sums = this.#sums, size = this.#size, width = this.#width;
    let start = "0", stop = end;
    if (this.#isCut) {
      const bounds = openBlocks(emitter, this.#dialect, sums.blocks!);
      sums.begin();
      emitter.line(`const Index stop = ${bounds[1]};`);
      [start, stop] = [bounds[0], "stop"];
    }
    if (this.#isShort) {
      for (let at = 0; at + width <= size; at += width) this.#products("{", String(at), false);
    } else {
      const head = `for (int k = ${start}; k + ${width} <= ${stop}; k += ${width}) {`;
      this.#products(head, "k", false);
    }
    // Lanes of the last vector that were summed before are set to zero.
    const isLast = this.#isCut ? `if (stop == ${end}) {` : "{";
    if (size % width !== 0) this.#products(isLast, `${end} - ${width}`, true);
    if (this.#isCut) {
      sums.end();
      emitter.close();
    }
  }

  /** A vector of an operand's row, from element `at` of the summed axis on. */
  #load({ index }: Load, row: string, at: string): string {
    const width = this.#width;
    if (coefficient(index, this.#k) === 1) return `vload${width}(0, ${row} + ${at})`;
    return `load_apart_float(${row} + 2 * (${at}), 0, ${width})${FIRST_LANES[width]}`;
  }

  /** A block that adds the products of the vectors at `at`. */
  #products(head: string, at: string, isMasked: boolean): void {
    const emitter = this.#emitter, { a, b } = this.#c, width = this.#width;
    emitter.open(head);
    for (let r = 0; r < this.#tm; r++) {
      const text = this.#load(a, `a${a.input} + x + x${r}`, at);
      const value = isMasked ? `select((float${width})(0), ${text}, keep)` : text;
      emitter.line(`const float${width} u${r} = ${value};`);
    }
    for (let q = 0; q < this.#tn; q++) {
      const text = this.#load(b, `a${b.input} + y + y${q}`, at);
      emitter.line(`const float${width} w${q} = ${text};`);
      for (let r = 0; r < this.#tm; r++) {
        emitter.line(`c${r}_${q} = fma(u${r}, w${q}, c${r}_${q});`);
      }
    }
    emitter.close();
  }
}

/** A vector of so many of the 16 lanes. */
const FIRST_LANES: Readonly<Record<number, string>> = { 16: "", 8: ".lo", 4: ".s0123" };

/** Declares how far each row or column of a tile lies from the beginning of its operand. */
function declareOffsets(
  emitter: Emitter,
  name: string,
  index: AffineExpr,
  symbols: readonly number[],
  origin: string,
  count: number,
): void {
  for (let at = 0; at < count; at++) {
    emitter.line(`Index ${name}${at};`);
    emitter.open("{");
    decomposeInto(emitter, symbols, `(${origin} + ${at})`, "i");
    emitter.line(`${name}${at} = ${only(emitter, index, symbols)};`);
    emitter.close();
  }
}
