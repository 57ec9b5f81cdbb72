/**
 * Inner-product gemm on CPU devices: both operands are contiguous along the summed axis, and a work-item
 * computes a small tile of dot products with vectors along that axis.
 */
import { BLOCK_PRODUCTS, blocksOf } from "../../../kernel/accumulation.ts";
import type { AffineExpr } from "../../../kernel/affine.ts";
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { extent } from "../../../kernel/kernel.ts";
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
import { operandOrder } from "../parts/operand_order.ts";
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
    if (isMasked(c) || !isInner || loops !== null) return null;
    const shape = groupShape(kernel, innerProductTiles.kind, c);
    return { kernel, target, shape, tile: tileOf(innerProductTiles, shape, target) };
  },
  emit: ({ kernel, target, tile }) =>
    single(generatedLoop(kernel, target, (e, dialect) => writeTile(e, dialect, tile))),
  workItems: ({ shape }) => countRegisterTiles(shape),
};

function writeTile(
  emitter: Emitter,
  dialect: Dialect,
  { rows: tm, columns: tn }: InnerProductTile,
): WorkSize {
  const { kernel } = emitter;
  const c = kernel.contraction!;
  const { sizes } = kernel;
  const rowCount = extent(kernel, c.m), columnCount = extent(kernel, c.n);
  const k = last(c.k), width = vectorWidth(sizes[k]!);
  const V = `float${width}`;
  decomposeInto(emitter, c.batch, "(Index)get_global_id(2)", "i");
  const [endM, endN] = [rowCount, columnCount].map((n) => emitter.index(n)) as [string, string];
  declareStart(emitter, "row", `(Index)get_global_id(1) * ${tm}`, tm, endM);
  declareStart(emitter, "column", `(Index)get_global_id(0) * ${tn}`, tn, endN);
  declareOffsets(emitter, "x", c.a.index, c.m, "row", tm);
  declareOffsets(emitter, "y", c.b.index, c.n, "column", tn);
  const cells = Array.from({ length: tm * tn }, (_, i) => [Math.floor(i / tn), i % tn] as const);
  const size = sizes[k]!;
  const found = blocksOf(
    kernel,
    (s, count) => s === k ? Math.ceil(count / width) : count,
    BLOCK_PRODUCTS,
  );
  const isAlong = found?.symbol === k;
  const blocks = found && isAlong ? { ...found, length: found.length * width } : found;
  const sums = new TileSums(emitter, V, cells.map(([r, q]) => `c${r}_${q}`), blocks);
  sums.declare();
  const short = size <= 4 * width;
  const end = short ? String(size) : emitter.size(k);
  if (size % width !== 0) {
    const lanes = Array.from({ length: width }, (_, lane) => lane).join(", ");
    const rest = short ? String(size % width) : `${end} % ${width}`;
    emitter.line(`const int${width} keep = (int${width})(${lanes}) >= ${width} - (int)(${rest});`);
  }
  const columns = (): void => {
    emitter.line(`const Index x = ${without(emitter, c.a.index, [...c.m, k])};`);
    emitter.line(`const Index y = ${without(emitter, c.b.index, [...c.n, k])};`);
    const products = (at: string, masked: boolean): void => {
      for (let r = 0; r < tm; r++) {
        const text = `vload${width}(0, a${c.a.input} + x + x${r} + ${at})`;
        const value = masked ? `select((${V})(0), ${text}, keep)` : text;
        emitter.line(`const ${V} u${r} = ${value};`);
      }
      for (let q = 0; q < tn; q++) {
        emitter.line(`const ${V} w${q} = vload${width}(0, a${c.b.input} + y + y${q} + ${at});`);
        for (let r = 0; r < tm; r++) emitter.line(`c${r}_${q} = fma(u${r}, w${q}, c${r}_${q});`);
      }
    };
    const block = (head: string, at: string, masked: boolean): void => {
      emitter.open(head);
      products(at, masked);
      emitter.close();
    };
    const bounds = isAlong ? openBlocks(emitter, dialect, blocks!) : ["0", end] as const;
    if (isAlong) {
      sums.begin();
      emitter.line(`const Index stop = ${bounds[1]};`);
    }
    const stop = isAlong ? "stop" : end;
    if (short) {
      for (let at = 0; at + width <= size; at += width) block("{", String(at), false);
    } else {
      block(`for (int k = ${bounds[0]}; k + ${width} <= ${stop}; k += ${width}) {`, "k", false);
    }
    // The last vector of a row ends with it; lanes that were summed before are set to zero.
    const isLast = isAlong ? `if (stop == ${end}) {` : "{";
    if (size % width !== 0) block(isLast, `${end} - ${width}`, true);
    if (isAlong) {
      sums.end();
      emitter.close();
    }
  };
  walk(emitter, dialect, c.k.slice(0, -1), sums, columns);
  sums.finish();
  emitter.line(`float tile[${tm * tn}];`);
  for (const [r, q] of cells) {
    emitter.line(`tile[${r * tn + q}] = sum_float${width}(c${r}_${q});`);
  }
  storeTile(emitter, c.m, c.n, tm, tn);
  return {
    global: [Math.ceil(columnCount / tn), Math.ceil(rowCount / tm), extent(kernel, c.batch)],
    local: [1, 1, 1],
  };
}

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
