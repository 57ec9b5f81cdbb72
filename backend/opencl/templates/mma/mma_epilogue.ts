/** Store of matrix units' sums: through local memory, with what follows the product. */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import { type Contraction, extent, type Load } from "../../../kernel/kernel.ts";
import { last } from "../parts/contraction_shape.ts";
import { decomposeInto, emitEpilogue } from "../parts/tile_text.ts";
import { loadText } from "../../codegen/types.ts";
import type { WarpTiling } from "./warp_tiling.ts";
import { COLUMNS, ROWS, SLAB_PADDING, slabPieces } from "./mma_tile.ts";

/**
 * The epilogue: the sums go to local memory, as many columns of each warp at a time as fit, and the group
 * stores them so that neighbours walk along the axis on which results lie side by side.
 */
export function storeSums(
  emitter: Emitter,
  tiling: WarpTiling,
  sizeM: string,
  sizeN: string,
): void {
  const { c, tile, threads } = tiling;
  const { kernel } = emitter;
  const { bm, bn, wm, wn } = tile;
  const pieces = slabPieces(tile, tile.stages * tiling.stageBytes)!;
  const [width, share] = [bn / pieces, wn / pieces];
  const pitch = width + SLAB_PADDING, perPiece = share / COLUMNS;
  const isTransposed = kernel.outputs.length > 0 &&
    kernel.outputs.every(({ index }) => isAlong(index, last(c.m)) && !isAlong(index, last(c.n)));
  const whole = extent(kernel, c.m) % bm === 0 && extent(kernel, c.n) % bn === 0;
  emitter.line("MMA_WAIT(0);");
  emitter.line("local float* slab = (local float*)sm;");
  emitter.open(`for (int piece = 0; piece < ${pieces}; ++piece) {`);
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  emitter.line("#pragma unroll");
  emitter.open(`for (int j = 0; j < ${wn / COLUMNS}; ++j) {`);
  emitter.line(`if (j / ${perPiece} != piece) continue;`);
  emitter.line("#pragma unroll");
  emitter.open(`for (int i = 0; i < ${wm / ROWS}; ++i) {`);
  emitter.line(
    `local float* to = slab + (wm + i * 16 + (lane >> 2)) * ${pitch} + ` +
      `wn / ${pieces} + j % ${perPiece} * 8 + (lane & 3) * 2;`,
  );
  emitter.line("to[0] = sums[i][j][0]; to[1] = sums[i][j][1];");
  emitter.line(`to[${8 * pitch}] = sums[i][j][2]; to[${8 * pitch + 1}] = sums[i][j][3];`);
  emitter.close();
  emitter.close();
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  emitter.line("#pragma unroll 4");
  emitter.open(`for (int e = lid; e < ${bm * width}; e += ${threads}) {`);
  const [r, q] = isTransposed ? [`e % ${bm}`, `e / ${bm}`] : [`e / ${width}`, `e % ${width}`];
  emitter.line(`const int r = ${r}, q = ${q}, row = row0 + r;`);
  emitter.line(
    `const int column = column0 + q / ${share} * ${wn} + piece * ${share} + q % ${share};`,
  );
  if (!whole) emitter.open(`if (row < ${sizeM} && column < ${sizeN}) {`);
  decomposeInto(emitter, c.m, "row", "i");
  decomposeInto(emitter, c.n, "column", "i");
  emitter.line(`float acc = slab[r * ${pitch} + q];`);
  if (tiling.unit === "3xtf32") recompute(emitter, c);
  emitEpilogue(emitter);
  if (!whole) emitter.close();
  emitter.close();
  emitter.close();
}

/**
 * Products of the parts of infinities give NaN, and numbers near the largest one round to infinity: such
 * results are computed again, by themselves.
 */
export function recompute(emitter: Emitter, c: Contraction): void {
  emitter.open("if (!(fabs(acc) <= FLT_MAX)) {");
  emitter.line("acc = 0;");
  emitter.open(`for (int k = 0; k < ${emitter.index(extent(emitter.kernel, c.k))}; ++k) {`);
  decomposeInto(emitter, c.k, "k", "i");
  const operand = ({ input, dtype, index, bounds }: Load): string => {
    const text = loadText(`a${input}`, dtype, emitter.affine(index));
    return bounds.length === 0 ? text : `(${emitter.maskText(bounds)} ? ${text} : 0.0f)`;
  };
  emitter.line(`acc = fma(${operand(c.a)}, ${operand(c.b)}, acc);`);
  emitter.close();
  emitter.close();
}

function isAlong(index: AffineExpr, symbol: number): boolean {
  return coefficient(index, symbol) === 1;
}
