/** How the operands of matrix units travel from global to local memory. */
import type { Emitter } from "../../../codegen/emit.ts";
import { coefficient } from "../../../kernel/affine.ts";
import type { Load } from "../../../kernel/kernel.ts";
import { last } from "../parts/contraction_shape.ts";
import { decomposeInto, only, without } from "../parts/tile_text.ts";
import { CHUNK_BYTES, isFlat, type Plan, type Side, swizzled, turnsOf } from "./mma_plan.ts";

/** Declares what the index of a side's element is made of along an axis; gives back its own part. */
function placeAlong(
  emitter: Emitter,
  { load: { form, bounds } }: Side,
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
export function declareHeld(emitter: Emitter, plan: Plan): void {
  for (const side of [plan.a, plan.b]) {
    if (side.vector === 0) emitter.line(`uint4 held_${side.name}[${turnsOf(plan, side)}];`);
  }
}

/** Opens the loop over the pieces of a side that a work-item copies: `r`, `ch`, its place in local memory. */
function openPieces(emitter: Emitter, plan: Plan, side: Side): void {
  const perRow = side.columns / plan.chunk;
  const pieces = side.rows * perRow;
  emitter.line("#pragma unroll");
  emitter.open(`for (int u = 0; u < ${turnsOf(plan, side)}; ++u) {`);
  emitter.line(`const int piece = lid + u * ${plan.threads};`);
  if (pieces % plan.threads !== 0) emitter.line(`if (piece >= ${pieces}) break;`);
  emitter.line(`const int r = piece / ${perRow}, ch = piece % ${perRow};`);
  const offset = side.name === "a" ? 0 : plan.tile.bm * plan.tile.bk * plan.bytes;
  emitter.line(
    `const uint at = into + ${offset}u + (uint)(r * ${side.columns * plan.bytes} + ` +
      `(${swizzled(plan, side, "r", "ch")}) * ${CHUNK_BYTES});`,
  );
}

/** Starts copying a side's next tile to `into`, or holds it in registers. */
export function copySide(emitter: Emitter, plan: Plan, side: Side, sizeK: string): void {
  openPieces(emitter, plan, side);
  const { chunk, tile } = plan;
  const [fixed, moving] = side.alongK ? ["p", "k"] : ["k", "p"];
  const startOf = (axis: string): string => axis === "k" ? `ahead * ${tile.bk}` : side.origin;
  const endOf = (axis: string): string => axis === "k" ? sizeK : side.size;
  emitter.line(`const int ${fixed} = ${startOf(fixed!)} + r;`);
  emitter.line(`const int first = ${startOf(moving!)} + ch * ${chunk};`);
  const outer = `${fixed} < ${endOf(fixed!)}`;
  const symbolsOf = (axis: string): readonly number[] => axis === "k" ? plan.c.k : side.symbols;
  const base = without(emitter, side.load.form, [...plan.c.k, ...side.symbols]);
  if (side.vector === 0) {
    emitter.line("ushort elements[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };");
    emitter.open(`if (${outer}) {`);
    const across = placeAlong(emitter, side, symbolsOf(fixed!), fixed!);
    emitter.line("#pragma unroll");
    emitter.open("for (int e = 0; e < 8; ++e) {");
    emitter.line(`const int ${moving} = first + e;`);
    emitter.open(`if (${moving} < ${endOf(moving!)}) {`);
    const along = placeAlong(emitter, side, symbolsOf(moving!), moving!);
    const { bounds } = side.load;
    if (bounds.length > 0) emitter.line(`if (${emitter.maskText(bounds)})`);
    emitter.line(`elements[e] = ${rawText(side.load, `${base} + ${across} + ${along}`)};`);
    emitter.close();
    emitter.close();
    emitter.close();
    const pair = (e: number): string => `(uint)elements[${e}] | (uint)elements[${e + 1}] << 16`;
    emitter.line(
      `held_${side.name}[u] = (uint4)(${[0, 2, 4, 6].map(pair).join(", ")});`,
    );
    emitter.close();
    return;
  }
  const { vector } = side;
  if (vector < chunk) {
    emitter.line("#pragma unroll");
    emitter.open(`for (int e = 0; e < ${chunk}; e += ${vector}) {`);
  }
  const place = vector < chunk ? "first + e" : "first";
  emitter.line(`const int ${moving} = ${place};`);
  emitter.line("int count = 0;");
  emitter.line(`global const void* from = a${side.load.input};`);
  emitter.open(`if (${outer} && ${moving} < ${endOf(moving!)}) {`);
  const across = placeAlong(emitter, side, symbolsOf(fixed!), fixed!);
  const along = placeAlong(emitter, side, symbolsOf(moving!), moving!);
  const { bounds } = side.load;
  if (bounds.length > 0) emitter.open(`if (${emitter.maskText(bounds)}) {`);
  const bytes = vector * plan.bytes;
  emitter.line(`count = min((Index)${bytes}, (${endOf(moving!)} - ${moving}) * ${plan.bytes});`);
  emitter.line(`from = a${side.load.input} + (${base} + ${across} + ${along});`);
  if (bounds.length > 0) emitter.close();
  emitter.close();
  if (vector === chunk) emitter.line("MMA_COPY16(at, from, count);");
  else emitter.line(`MMA_COPY4(at + (uint)e * ${plan.bytes}u, from, count);`);
  if (vector < chunk) emitter.close();
  emitter.close();
}

/** The bits of an element of a half type. */
function rawText({ input }: Load, index: string): string {
  return `((global const ushort*)a${input})[${index}]`;
}

/** Writes what was held in registers to its stage. */
export function putHeld(emitter: Emitter, plan: Plan, side: Side): void {
  openPieces(emitter, plan, side);
  emitter.line(`MMA_PUT(at, held_${side.name}[u]);`);
  emitter.close();
}
