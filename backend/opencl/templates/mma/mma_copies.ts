/** How the operands of matrix units travel from global to local memory. */
import type { Emitter } from "../../../codegen/emit.ts";
import { coefficient } from "../../../kernel/affine.ts";
import type { Load } from "../../../kernel/kernel.ts";
import { last } from "../parts/contraction_shape.ts";
import { decomposeInto, only, without } from "../parts/tile_text.ts";
import {
  CHUNK_BYTES,
  isFlat,
  type StagedOperand,
  swizzled,
  turnsOf,
  type WarpTiling,
} from "./warp_tiling.ts";

/** Declares what the index of an operand's element is made of along an axis; gives back its own part. */
function placeAlong(
  emitter: Emitter,
  { load: { form, bounds } }: StagedOperand,
  symbols: readonly number[],
  name: string,
): string {
  if (bounds.length > 0 || !isFlat(emitter.kernel, form, symbols)) {
    decomposeInto(emitter, symbols, name, "i");
    return only(emitter, form, symbols);
  }
  const step = coefficient(form, last(symbols));
  return step === 1 ? name : `${name} * ${emitter.index(step)}`;
}

/** What is on its way from global to local memory through registers. */
export function declareHeld(emitter: Emitter, tiling: WarpTiling): void {
  for (const operand of [tiling.a, tiling.b]) {
    if (operand.vector === 0) {
      emitter.line(`uint4 held_${operand.name}[${turnsOf(tiling, operand)}];`);
    }
  }
}

/** Opens the loop over the pieces of an operand that a work-item copies: `r`, `ch`, its place in local memory. */
function openPieces(emitter: Emitter, tiling: WarpTiling, operand: StagedOperand): void {
  const perRow = operand.columns / tiling.chunk;
  const pieces = operand.rows * perRow;
  emitter.line("#pragma unroll");
  emitter.open(`for (int u = 0; u < ${turnsOf(tiling, operand)}; ++u) {`);
  emitter.line(`const int piece = lid + u * ${tiling.threads};`);
  if (pieces % tiling.threads !== 0) emitter.line(`if (piece >= ${pieces}) break;`);
  emitter.line(`const int r = piece / ${perRow}, ch = piece % ${perRow};`);
  const offset = operand.name === "a" ? 0 : tiling.tile.bm * tiling.tile.bk * tiling.bytes;
  emitter.line(
    `const uint at = into + ${offset}u + (uint)(r * ${operand.columns * tiling.bytes} + ` +
      `(${swizzled(tiling, operand, "r", "ch")}) * ${CHUNK_BYTES});`,
  );
}

/** Starts copying an operand's next tile to `into`, or holds it in registers. */
export function copyOperand(
  emitter: Emitter,
  tiling: WarpTiling,
  operand: StagedOperand,
  sizeK: string,
): void {
  openPieces(emitter, tiling, operand);
  const { chunk, tile } = tiling;
  const [fixed, moving] = operand.alongK ? ["p", "k"] : ["k", "p"];
  const startOf = (axis: string): string => axis === "k" ? `ahead * ${tile.bk}` : operand.origin;
  const endOf = (axis: string): string => axis === "k" ? sizeK : operand.size;
  emitter.line(`const int ${fixed} = ${startOf(fixed!)} + r;`);
  emitter.line(`const int first = ${startOf(moving!)} + ch * ${chunk};`);
  const outer = `${fixed} < ${endOf(fixed!)}`;
  const symbolsOf = (axis: string): readonly number[] =>
    axis === "k" ? tiling.c.k : operand.symbols;
  const base = without(emitter, operand.load.form, [...tiling.c.k, ...operand.symbols]);
  if (operand.vector === 0) {
    emitter.line("ushort elements[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };");
    emitter.open(`if (${outer}) {`);
    const across = placeAlong(emitter, operand, symbolsOf(fixed!), fixed!);
    emitter.line("#pragma unroll");
    emitter.open("for (int e = 0; e < 8; ++e) {");
    emitter.line(`const int ${moving} = first + e;`);
    emitter.open(`if (${moving} < ${endOf(moving!)}) {`);
    const along = placeAlong(emitter, operand, symbolsOf(moving!), moving!);
    const { bounds } = operand.load;
    if (bounds.length > 0) emitter.line(`if (${emitter.maskText(bounds)})`);
    emitter.line(`elements[e] = ${rawText(operand.load, `${base} + ${across} + ${along}`)};`);
    emitter.close();
    emitter.close();
    emitter.close();
    const pair = (e: number): string => `(uint)elements[${e}] | (uint)elements[${e + 1}] << 16`;
    emitter.line(
      `held_${operand.name}[u] = (uint4)(${[0, 2, 4, 6].map(pair).join(", ")});`,
    );
    emitter.close();
    return;
  }
  const { vector } = operand;
  if (vector < chunk) {
    emitter.line("#pragma unroll");
    emitter.open(`for (int e = 0; e < ${chunk}; e += ${vector}) {`);
  }
  const place = vector < chunk ? "first + e" : "first";
  emitter.line(`const int ${moving} = ${place};`);
  emitter.line("int count = 0;");
  emitter.line(`global const void* from = a${operand.load.input};`);
  emitter.open(`if (${outer} && ${moving} < ${endOf(moving!)}) {`);
  const across = placeAlong(emitter, operand, symbolsOf(fixed!), fixed!);
  const along = placeAlong(emitter, operand, symbolsOf(moving!), moving!);
  const { bounds } = operand.load;
  if (bounds.length > 0) emitter.open(`if (${emitter.maskText(bounds)}) {`);
  const bytes = vector * tiling.bytes;
  emitter.line(`count = min((Index)${bytes}, (${endOf(moving!)} - ${moving}) * ${tiling.bytes});`);
  emitter.line(`from = a${operand.load.input} + (${base} + ${across} + ${along});`);
  if (bounds.length > 0) emitter.close();
  emitter.close();
  if (vector === chunk) emitter.line("MMA_COPY16(at, from, count);");
  else emitter.line(`MMA_COPY4(at + (uint)e * ${tiling.bytes}u, from, count);`);
  if (vector < chunk) emitter.close();
  emitter.close();
}

/** The bits of an element of a half type. */
function rawText({ input }: Load, index: string): string {
  return `((global const ushort*)a${input})[${index}]`;
}

/** Writes what was held in registers to its stage. */
export function putHeld(emitter: Emitter, tiling: WarpTiling, operand: StagedOperand): void {
  openPieces(emitter, tiling, operand);
  emitter.line(`MMA_PUT(at, held_${operand.name}[u]);`);
  emitter.close();
}
