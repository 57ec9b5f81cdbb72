/** How the sums of warpgroups leave: through local memory of each warp, with what follows the product. */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import { extent, type LoopKernel, type Output } from "../../../kernel/kernel.ts";
import { dtypes } from "../../../graph/dtype.ts";
import { neededBy } from "../../../kernel/analysis.ts";
import { last } from "../parts/contraction_shape.ts";
import { isFlat } from "../parts/operand_address.ts";
import { decomposeInto, emitEpilogue } from "../parts/tile_text.ts";
import { recompute } from "../mma/mma_epilogue.ts";
import type { WgmmaProduct } from "./wgmma_product.ts";
import { SLAB_COLUMNS, slabBytes, stageBytes, WARP_ROWS } from "./wgmma_tile.ts";

/** Columns that a work-item stores at once. */
const VECTOR = 8;
/** Columns of the sums of one instruction that a work-item has side by side, and of all its warp. */
const COLUMNS = 8;

/** Where a column of a row lies in local memory: no two that are accessed together meet in a bank. */
function slabPlace(row: string, column: string): string {
  return `(${row}) * ${SLAB_COLUMNS} + ((${column}) ^ ((${row}) & 3) << 3)`;
}

/** Stores the sums of a tile, 64 columns of each warp at a time. */
export function storeSums(emitter: Emitter, product: WgmmaProduct): void {
  const { c, tile } = product, { kernel } = emitter;
  const offset = tile.stages * stageBytes(tile, product.parts);
  emitter.line(`local float* slab = (local float*)(sm + ${offset} + (lid >> 5) * ${slabBytes()});`);
  emitter.line("const Index row1 = row0 + (lid >> 5) * 16;");
  emitter.open(`for (int piece = 0; piece < ${tile.bn / SLAB_COLUMNS}; ++piece) {`);
  emitter.line("WG_SYNC();");
  emitter.line("#pragma unroll");
  emitter.open(`for (int j = 0; j < ${tile.bn / COLUMNS}; ++j) {`);
  emitter.line(`if (j / ${SLAB_COLUMNS / COLUMNS} != piece) continue;`);
  emitter.line(`const int column = j % ${SLAB_COLUMNS / COLUMNS} * 8 + (lane & 3) * 2;`);
  emitter.line(`local float* to = slab + ${slabPlace("lane >> 2", "column")};`);
  emitter.line("vstore2((float2)(sums[j * 4], sums[j * 4 + 1]), 0, to);");
  emitter.line(
    `vstore2((float2)(sums[j * 4 + 2], sums[j * 4 + 3]), 0, to + ${8 * SLAB_COLUMNS});`,
  );
  emitter.close();
  emitter.line("WG_SYNC();");
  emitter.line(`const Index column1 = column0 + piece * ${SLAB_COLUMNS};`);
  const sizeM = emitter.index(extent(kernel, c.m)), sizeN = emitter.index(extent(kernel, c.n));
  if (isStoredInVectors(kernel, c.n)) storeVectors(emitter, product, sizeM, sizeN);
  else storeElements(emitter, product, sizeM, sizeN);
  emitter.close();
}

/** An element after the other; neighbours walk along the axis on which results lie side by side. */
function storeElements(
  emitter: Emitter,
  { c, parts }: WgmmaProduct,
  sizeM: string,
  sizeN: string,
): void {
  const { outputs } = emitter.kernel;
  const isTransposed = outputs.length > 0 &&
    outputs.every(({ index }) => isAlong(index, last(c.m)) && !isAlong(index, last(c.n)));
  const [r, q] = isTransposed
    ? [`e % ${WARP_ROWS}`, `e / ${WARP_ROWS}`]
    : [`e / ${SLAB_COLUMNS}`, `e % ${SLAB_COLUMNS}`];
  emitter.line("#pragma unroll 4");
  emitter.open(`for (int e = lane; e < ${WARP_ROWS * SLAB_COLUMNS}; e += 32) {`);
  emitter.line(`const int r = ${r}, q = ${q};`);
  emitter.line("const Index row = row1 + r, column = column1 + q;");
  emitter.line(`if (row >= ${sizeM} || column >= ${sizeN}) continue;`);
  decomposeInto(emitter, c.m, "row", "i");
  decomposeInto(emitter, c.n, "column", "i");
  emitter.line(`float acc = slab[${slabPlace("r", "q")}];`);
  if (parts > 1) recompute(emitter, c);
  emitEpilogue(emitter);
  emitter.close();
}

/** Eight columns at once, which lie side by side in every output. */
function storeVectors(
  emitter: Emitter,
  { c, parts }: WgmmaProduct,
  sizeM: string,
  sizeN: string,
): void {
  const { kernel } = emitter, inner = last(c.n);
  const perRow = SLAB_COLUMNS / VECTOR;
  emitter.open(`for (int e = lane; e < ${WARP_ROWS * perRow}; e += 32) {`);
  emitter.line(`const int r = e / ${perRow}, q = e % ${perRow} * ${VECTOR};`);
  emitter.line("const Index row = row1 + r, column = column1 + q;");
  emitter.line(`if (row >= ${sizeM} || column >= ${sizeN}) continue;`);
  decomposeInto(emitter, c.m, "row", "i");
  decomposeInto(emitter, c.n, "column", "i");
  kernel.outputs.forEach(({ index }, o) => {
    emitter.line(`const Index at${o} = ${emitter.affine(index)};`);
    emitter.line(`float out${o}[${VECTOR}];`);
  });
  emitter.line(`const Index first = i${inner};`);
  emitter.line("#pragma unroll");
  emitter.open(`for (int v = 0; v < ${VECTOR}; ++v) {`);
  emitter.line(`const Index i${inner} = first + v;`);
  emitter.line(`float acc = slab[${slabPlace("r", "q + v")}];`);
  if (parts > 1) recompute(emitter, c);
  emitter.declare(neededBy(kernel, kernel.outputs.map(({ expr }) => expr)));
  kernel.outputs.forEach(({ expr }, o) => emitter.line(`out${o}[v] = ${emitter.name(expr)};`));
  emitter.close();
  kernel.outputs.forEach((output, o) => storeVector(emitter, output, o));
  emitter.close();
}

/** Stores eight neighbours that begin at a multiple of 16 bytes. */
function storeVector(emitter: Emitter, { dtype }: Output, o: number): void {
  if (dtype === "float32") {
    for (const h of [0, 4]) {
      const four = [0, 1, 2, 3].map((v) => `out${o}[${h + v}]`).join(", ");
      emitter.line(`*(global float4*)(o${o} + at${o} + ${h}) = (float4)(${four});`);
    }
    return;
  }
  const pack = dtype === "float16" ? "MMA_PACK_F16" : "MMA_PACK_BF16";
  emitter.line(`uint words${o}[4];`);
  for (let w = 0; w < 4; w++) {
    emitter.line(`${pack}(words${o}[${w}], out${o}[${2 * w}], out${o}[${2 * w + 1}]);`);
  }
  emitter.line(
    `*(global uint4*)(o${o} + at${o}) = ` +
      `(uint4)(words${o}[0], words${o}[1], words${o}[2], words${o}[3]);`,
  );
}

/** True where every eight columns of a row lie side by side in all outputs, from a multiple of eight on. */
function isStoredInVectors(kernel: LoopKernel, n: readonly number[]): boolean {
  const inner = last(n);
  if (kernel.outputs.length === 0 || kernel.indirect.length > 0) return false;
  return kernel.outputs.every(({ dtype, index }) => {
    const isWhole = isFlat(kernel, index, n);
    return dtypes[dtype].kind === "float" && dtype !== "float64" &&
      extent(kernel, n) % VECTOR === 0 && kernel.sizes[inner]! % VECTOR === 0 &&
      coefficient(index, inner) === 1 && index.offset % VECTOR === 0 &&
      index.terms.every(([s, step]) =>
        s === inner || isWhole && n.includes(s) || step % VECTOR === 0
      );
  });
}

function isAlong(index: AffineExpr, symbol: number): boolean {
  return coefficient(index, symbol) === 1;
}
