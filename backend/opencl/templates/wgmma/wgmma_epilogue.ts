/** Store of warpgroups' sums: by each warp's local memory, with what follows the product. */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import {
  type Contraction,
  extent,
  type Load,
  type LoopKernel,
  type Output,
} from "../../../kernel/kernel.ts";
import { dtypes } from "../../../graph/dtype.ts";
import { neededBy } from "../../../kernel/analysis.ts";
import { isFlat } from "../../../kernel/row_order.ts";
import { loadText } from "../../codegen/types.ts";
import { decomposeInto, emitEpilogue } from "../parts/tile_text.ts";
import { declarePlace, innermost } from "./tile_side.ts";
import type { WgmmaProduct } from "./wgmma_product.ts";
import { SLAB_COLUMNS, slabBytes, stageBytes, WARP_ROWS } from "./wgmma_tile.ts";

/** Columns that a work-item stores at once. */
const VECTOR = 8;
/** Columns of the sums of one instruction that a work-item has side by side, and of all its warp. */
const COLUMNS = 8;

/** Place of a row's column in local memory: no two accessed together meet in a bank. */
function slabPlace(row: string, column: string): string {
  return `(${row}) * ${SLAB_COLUMNS} + ((${column}) ^ ((${row}) & 3) << 3)`;
}

/** Stores the sums of a tile, 64 columns of each warp at a time. */
export function storeSums(emitter: Emitter, product: WgmmaProduct): void {
  const { tile } = product, { kernel } = emitter;
  const offset = tile.stages * stageBytes(tile, product.parts);
  emitter.line(`local float* slab = (local float*)(sm + ${offset} + (lid >> 5) * ${slabBytes()});`);
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
  if (isStoredInVectors(kernel, product)) storeVectors(emitter, product);
  else storeElements(emitter, product);
  emitter.close();
}

/** Declares the indices of row `r`, column `q` of what a warp stores; leaves out what does not exist. */
function declareElement(emitter: Emitter, { rows, columns }: WgmmaProduct): void {
  const row = declarePlace(emitter, rows, `((lid >> 5) * ${WARP_ROWS} + r)`);
  const column = declarePlace(emitter, columns, `(piece * ${SLAB_COLUMNS} + q)`);
  emitter.line(`if (!(${row} && ${column})) continue;`);
}

/** An element after the other; neighbours walk along the axis on which results lie side by side. */
function storeElements(emitter: Emitter, product: WgmmaProduct): void {
  const { c, parts, rows, columns } = product;
  const { outputs } = emitter.kernel;
  const isTransposed = outputs.length > 0 &&
    outputs.every(({ index }) =>
      isAlong(index, innermost(rows)) && !isAlong(index, innermost(columns))
    );
  const [r, q] = isTransposed
    ? [`e % ${WARP_ROWS}`, `e / ${WARP_ROWS}`]
    : [`e / ${SLAB_COLUMNS}`, `e % ${SLAB_COLUMNS}`];
  emitter.line("#pragma unroll 4");
  emitter.open(`for (int e = lane; e < ${WARP_ROWS * SLAB_COLUMNS}; e += 32) {`);
  emitter.line(`const int r = ${r}, q = ${q};`);
  declareElement(emitter, product);
  emitter.line(`float acc = slab[${slabPlace("r", "q")}];`);
  if (parts > 1) recompute(emitter, c);
  emitEpilogue(emitter);
  emitter.close();
}

/** Eight columns at once, which lie side by side in every output. */
function storeVectors(emitter: Emitter, product: WgmmaProduct): void {
  const { c, parts, columns } = product, { kernel } = emitter, inner = innermost(columns);
  const perRow = SLAB_COLUMNS / VECTOR;
  emitter.open(`for (int e = lane; e < ${WARP_ROWS * perRow}; e += 32) {`);
  emitter.line(`const int r = e / ${perRow}, q = e % ${perRow} * ${VECTOR};`);
  declareElement(emitter, product);
  kernel.outputs.forEach(({ index }, o) => {
    emitter.line(`const Index at${o} = ${emitter.affine(index)};`);
    emitter.line(`float out${o}[${VECTOR}];`);
  });
  emitter.line(`const Index first = i${inner};`);
  // The compiler does not see that eight neighbours stay neighbours.
  emitter.line(`local const float* from = slab + ${slabPlace("r", "q")};`);
  emitter.line(`float in[${VECTOR}];`);
  for (const h of [0, 4]) {
    emitter.line(`vstore4(*(local const float4*)(from + ${h}), 0, in + ${h});`);
  }
  emitter.line("#pragma unroll");
  emitter.open(`for (int v = 0; v < ${VECTOR}; ++v) {`);
  emitter.line(`const Index i${inner} = first + v;`);
  emitter.line("float acc = in[v];");
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
function isStoredInVectors(kernel: LoopKernel, { c, columns }: WgmmaProduct): boolean {
  const inner = innermost(columns), size = kernel.sizes[inner]!;
  if (kernel.outputs.length === 0 || kernel.indirect.length > 0 || size % VECTOR !== 0) {
    return false;
  }
  if (columns.kind === "boxed" && columns.loops.at(-1)!.box % VECTOR !== 0) return false;
  return kernel.outputs.every(({ dtype, index }) => {
    const isWhole = columns.kind === "flat" && isFlat(kernel, index, c.n);
    return dtypes[dtype].kind === "float" && dtype !== "float64" &&
      coefficient(index, inner) === 1 && index.offset % VECTOR === 0 &&
      index.terms.every(([s, step]) =>
        s === inner || isWhole && c.n.includes(s) || step % VECTOR === 0
      );
  });
}

const isAlong = (index: AffineExpr, symbol: number): boolean => coefficient(index, symbol) === 1;

/**
 * Products of the parts of infinities give NaN, and numbers near the largest one round to infinity: such
 * results are computed again, by themselves.
 */
function recompute(emitter: Emitter, c: Contraction): void {
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
