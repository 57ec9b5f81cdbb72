/** The stages of products by warpgroups: one warp copies them, the others multiply them. */
import type { Emitter } from "../../../codegen/emit.ts";
import { LIFTED, liftedList, OPERANDS } from "../../codegen/units/warpgroup_helpers.ts";
import { BLOCK_BYTES, copyStage, type OperandMap, ROW_TERMS } from "./tensor_map.ts";
import { declareOrigin, tilesAlong } from "./tile_side.ts";
import type { WgmmaProduct } from "./wgmma_product.ts";
import {
  GROUP_ROWS,
  isRounded,
  localBytes,
  ROW_BYTES,
  STAGE_BARRIERS,
  stageBytes,
} from "./wgmma_tile.ts";

/** Terms of one instruction, their bytes in a row, and instructions for the terms of a stage. */
const TERMS = 16, STEP_BYTES = 32, STEPS = ROW_TERMS / TERMS;

/** The barriers of all stages, behind everything else in local memory: `full`, then `empty`. */
export function declareBarriers(emitter: Emitter, { tile, parts }: WgmmaProduct): void {
  const { stages, bm } = tile;
  const at = localBytes(tile, parts) - stages * STAGE_BARRIERS;
  emitter.line(`const uint full = smem + ${at}u, empty = full + ${8 * stages}u;`);
  emitter.open("if (lid == 0) {");
  emitter.open(`for (int s = 0; s < ${stages}; ++s) {`);
  emitter.line("WG_INIT(full + s * 8, 1);");
  emitter.line(`WG_INIT(empty + s * 8, ${bm / GROUP_ROWS});`);
  emitter.close();
  emitter.line("WG_INITIALIZED();");
  emitter.close();
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  emitter.line("uint stage = 0, phase = 0;");
}

/** The loop over the stages of a tile. */
function openStages(emitter: Emitter, { terms }: WgmmaProduct): void {
  const stages = emitter.index(tilesAlong(emitter.kernel, terms));
  emitter.open(`for (Index t = 0; t < ${stages}; ++t) {`);
}

function nextStage(emitter: Emitter, { tile }: WgmmaProduct): void {
  emitter.line(`if (++stage == ${tile.stages}) { stage = 0; phase ^= 1; }`);
}

/** Writes the copying work-item's part of a tile. */
export function produceStages(emitter: Emitter, product: WgmmaProduct): void {
  const { tile, parts, a, b } = product, bytes = stageBytes(tile, parts);
  openStages(emitter, product);
  emitter.line("WG_AWAIT(empty + stage * 8, phase ^ 1);");
  emitter.line(`WG_EXPECT(full + stage * 8, ${bytes});`);
  emitter.line(
    `const uint to_a = smem + stage * ${bytes}u, to_b = to_a + ${parts * tile.bm * ROW_BYTES}u;`,
  );
  declareOrigin(emitter, product.terms, "t");
  copyStage(emitter, a, { to: "to_a", full: "full + stage * 8" });
  copyStage(emitter, b, { to: "to_b", full: "full + stage * 8" });
  nextStage(emitter, product);
  emitter.close();
}

/** Writes the warpgroups' part of a tile: `sums` has two rows of all columns a work-item. */
export function consumeStages(emitter: Emitter, product: WgmmaProduct): void {
  const { tile, parts, a, b } = product, count = tile.bn / 2;
  clearSums(emitter, "sums", count);
  if (isRounded(parts)) clearSums(emitter, "part", count);
  else emitter.line("uint done = 0;");
  openStages(emitter, product);
  emitter.line("WG_AWAIT(full + stage * 8, phase);");
  const bytes = stageBytes(tile, parts);
  emitter.line(`const uint from_a = smem + stage * ${bytes}u + (lid >> 7) * ${BLOCK_BYTES}u;`);
  emitter.line(`const uint from_b = smem + stage * ${bytes}u + ${parts * tile.bm * ROW_BYTES}u;`);
  for (const [name, operand] of [["a", a], ["b", b]] as const) {
    emitter.line(
      `const ulong rows_${name} = ${layoutOf(operand)} | (ulong)((from_${name} & 0x3ffff) >> 4);`,
    );
  }
  if (isRounded(parts)) multiplyRounded(emitter, product);
  else multiplyAhead(emitter, product);
  nextStage(emitter, product);
  emitter.close();
  if (isRounded(parts)) return;
  awaitProducts(emitter, "sums", count);
  emitter.line("if ((lid & 127) == 0) WG_ARRIVE(done);");
}

function clearSums(emitter: Emitter, name: string, count: number): void {
  emitter.line(`float ${name}[${count}];`);
  emitter.line("#pragma unroll");
  emitter.line(`for (int j = 0; j < ${count}; ++j) ${name}[j] = 0;`);
}

/** Adds the products of a stage to all before; they may still be made while the next stage is awaited. */
function multiplyAhead(emitter: Emitter, product: WgmmaProduct): void {
  emitter.line(multiplyText(product, "sums"));
  // All but the products just begun have been made: the stage before may be filled again.
  emitter.line(`asm volatile("${LIFTED}wgmma.wait_group.sync.aligned 1;" ::: "memory");`);
  emitter.line("if (t > 0 && (lid & 127) == 0) WG_ARRIVE(done);");
  emitter.line("done = empty + stage * 8;");
}

/** Adds up the products of a stage by themselves; the units truncate their sums, additions round them. */
function multiplyRounded(emitter: Emitter, product: WgmmaProduct): void {
  const count = product.tile.bn / 2;
  emitter.line(multiplyText(product, "part", "wgmma.wait_group.sync.aligned 0; "));
  emitter.line("if ((lid & 127) == 0) WG_ARRIVE(empty + stage * 8);");
  emitter.line("#pragma unroll");
  emitter.line(`for (int j = 0; j < ${count}; ++j) sums[j] += part[j];`);
}

/** All products have been made. Names the sums, so that none is read before. */
function awaitProducts(emitter: Emitter, name: string, count: number): void {
  emitter.line(
    `asm volatile("${LIFTED}wgmma.wait_group.sync.aligned 0;" : ${
      outputsOf(name, count)
    } :: "memory");`,
  );
}

function outputsOf(name: string, count: number): string {
  return Array.from({ length: count }, (_, j) => `"+f"(${name}[${j}])`).join(", ");
}

/**
 * Layout of an operand in local memory for instructions: swizzled rows of 128 bytes, eights of
 * 1024 bytes; blocks of 64 rows or columns where these lie side by side.
 */
function layoutOf({ alongK }: OperandMap): string {
  const swizzle = 1n << 62n, eights = 1024n >> 4n;
  const blocks = alongK ? 1n : BigInt(BLOCK_BYTES) >> 4n;
  return `0x${(swizzle | eights << 32n | blocks << 16n).toString(16)}UL`;
}

/** Sixteens of bytes from where an operand begins to a step of a part. */
function placeOf({ alongK, length }: OperandMap, part: number, step: number): number {
  return (part * length * ROW_BYTES + step * (alongK ? STEP_BYTES : TERMS * ROW_BYTES)) >> 4;
}

/** Pairs of parts to multiply: smaller products first, without those that no sum would show. */
function pairsOf(parts: number): (readonly [a: number, b: number])[] {
  const pairs: (readonly [number, number])[] = [];
  for (let order = parts - 1; order >= 0; order--) {
    for (let a = order; a >= 0; a--) pairs.push([a, order - a]);
  }
  return pairs;
}

/**
 * The statement that multiplies a stage into the sums called `name`.
 *
 * @param then Instructions behind it, that use the same operands: each statement takes the compiler long.
 */
function multiplyText({ tile, parts, a, b }: WgmmaProduct, name: string, then = ""): string {
  const { bn } = tile, count = bn / 2;
  const type = a.load.dtype === "float16" ? "f16" : "bf16";
  const instructions = pairsOf(parts).flatMap(([partA, partB], pair) =>
    Array.from({ length: STEPS }, (_, step) => {
      const keep = isRounded(parts) && pair + step === 0 ? "none" : "all";
      return `add.s64 xa, %${count}, ${placeOf(a, partA, step)}; ` +
        `add.s64 xb, %${count + 1}, ${placeOf(b, partB, step)}; ` +
        `wgmma.mma_async.sync.aligned.m64n${bn}k16.f32.${type}.${type} ${OPERANDS}, ` +
        `xa, xb, ${keep}, 1, 1, ${a.alongK ? 0 : 1}, ${b.alongK ? 0 : 1};`;
    })
  );
  const text = "{.reg .pred all, none; .reg .b64 xa, xb; setp.eq.u32 all, 0, 0; " +
    `setp.ne.u32 none, 0, 0; wgmma.fence.sync.aligned; ${instructions.join(" ")} ` +
    `wgmma.commit_group.sync.aligned; ${then}}`;
  return `asm volatile("${LIFTED}${liftedList(count)}${text}" : ${outputsOf(name, count)} : ` +
    '"l"(rows_a), "l"(rows_b) : "memory");';
}
