/** The products of matrix units: a stage of both operands in local memory, multiplied by warps. */
import type { Emitter } from "../../../codegen/emit.ts";
import { type StagedOperand, swizzled, type WarpTiling } from "./warp_tiling.ts";
import { COLUMNS, type MmaTile, ROWS } from "./mma_tile.ts";

/** Terms that matrix units, which truncate, add up before their sum goes to one that rounds. */
const MAX_TRUNCATED_TERMS = 64;

export function declareSums(emitter: Emitter, tile: MmaTile, name: string): void {
  emitter.line(`float ${name}[${tile.wm / ROWS}][${tile.wn / COLUMNS}][4];`);
  const clear = [0, 1, 2, 3].map((h) => `${name}[i][j][${h}] = 0;`).join(" ");
  overSums(emitter, tile, `{ ${clear} }`);
}

/** Multiplies the stage of turn `t`. */
export function multiply(emitter: Emitter, tiling: WarpTiling): void {
  const { tile, unit, bytes } = tiling;
  const [mi, ni] = [tile.wm / ROWS, tile.wn / COLUMNS];
  const depth = bytes === 2 ? 16 : 8;
  emitter.line(`const uint as = smem + (uint)(t % ${tile.stages}) * ${tiling.stageBytes}u;`);
  emitter.line(`const uint bs = as + ${tile.bm * tile.bk * bytes}u;`);
  emitter.line("#pragma unroll");
  emitter.open(`for (int kk = 0; kk < ${tile.bk / depth}; ++kk) {`);
  emitter.line(`uint x[${mi}][4], y[${ni}][2];`);
  loadRows(emitter, tiling, mi);
  loadColumns(emitter, tiling, ni);
  if (bytes === 4) splitParts(emitter, unit === "3xtf32", mi, ni);
  const name = unit === "f16" ? "MMA_F16" : unit === "bf16" ? "MMA_BF16" : "MMA_TF32";
  const into = unit === "3xtf32" ? "part" : "sums";
  const product = (a: string, b: string): void =>
    overSums(emitter, tile, `${name}(${into}[i][j], ${a}[i], ${b}[j]);`);
  if (unit === "3xtf32") {
    product("xl", "y");
    product("x", "yl");
  }
  product("x", "y");
  emitter.close();
  if (unit !== "3xtf32") return;
  emitter.open(`if (t % ${Math.max(1, MAX_TRUNCATED_TERMS / tile.bk)} == 0) {`);
  addParts(emitter, tile);
  const clear = [0, 1, 2, 3].map((h) => `part[i][j][${h}] = 0;`).join(" ");
  overSums(emitter, tile, `{ ${clear} }`);
  emitter.close();
}

export function addParts(emitter: Emitter, tile: MmaTile): void {
  const add = [0, 1, 2, 3].map((h) => `sums[i][j][${h}] += part[i][j][${h}];`).join(" ");
  overSums(emitter, tile, `{ ${add} }`);
}

/** A statement for each piece of 16 by 8 sums of a warp. */
function overSums(emitter: Emitter, { wm, wn }: MmaTile, statement: string): void {
  emitter.line("#pragma unroll");
  emitter.line(`for (int i = 0; i < ${wm / ROWS}; ++i)`);
  emitter.line("#pragma unroll");
  emitter.line(`  for (int j = 0; j < ${wn / COLUMNS}; ++j) ${statement}`);
}

/** Floats become TF32 numbers; for three products, their rests, too. */
function splitParts(emitter: Emitter, isThree: boolean, mi: number, ni: number): void {
  if (isThree) emitter.line(`uint xl[${mi}][4], yl[${ni}][2];`);
  for (const [name, count, parts] of [["x", mi, 4], ["y", ni, 2]] as const) {
    emitter.line("#pragma unroll");
    emitter.line(`for (int i = 0; i < ${count}; ++i)`);
    emitter.line("#pragma unroll");
    const text = isThree ? `MMA_SPLIT(${name}[i][h], ${name}l[i][h])` : `MMA_ROUND(${name}[i][h])`;
    emitter.line(`  for (int h = 0; h < ${parts}; ++h) ${text};`);
  }
}

/** The left operand's pieces of a warp, by `ldmatrix`, which transposes where the tile lies along m. */
function loadRows(emitter: Emitter, tiling: WarpTiling, mi: number): void {
  const operand = tiling.a, line = operand.columns * tiling.bytes;
  emitter.line("#pragma unroll");
  emitter.open(`for (int i = 0; i < ${mi}; ++i) {`);
  if (operand.alongK) {
    emitter.line("const int r = wm + i * 16 + (lane & 15), ch = kk * 2 + (lane >> 4);");
    emitter.line(
      `MMA_LOAD4(x[i][0], x[i][1], x[i][2], x[i][3], as + (uint)(r * ${line} + (${
        swizzled(tiling, operand, "r", "ch")
      }) * 16));`,
    );
  } else if (tiling.bytes === 2) {
    emitter.line("const int r = kk * 16 + (lane & 7) + ((lane >> 4) & 1) * 8;");
    emitter.line("const int ch = (wm >> 3) + i * 2 + ((lane >> 3) & 1);");
    emitter.line(
      `MMA_LOAD4T(x[i][0], x[i][1], x[i][2], x[i][3], as + (uint)(r * ${line} + (${
        swizzled(tiling, operand, "r", "ch")
      }) * 16));`,
    );
  } else {
    emitter.line("#pragma unroll");
    emitter.open("for (int h = 0; h < 4; ++h) {");
    emitter.line("const int r = kk * 8 + (lane & 3) + (h >> 1) * 4;");
    emitter.line("const int p = wm + i * 16 + (lane >> 2) + (h & 1) * 8;");
    loadWord(emitter, tiling, operand, "x[i][h]", "as");
    emitter.close();
  }
  emitter.close();
}

function loadColumns(emitter: Emitter, tiling: WarpTiling, ni: number): void {
  const operand = tiling.b, line = operand.columns * tiling.bytes;
  emitter.line("#pragma unroll");
  emitter.open(`for (int j = 0; j < ${ni}; j += 2) {`);
  const into = "y[j][0], y[j][1], y[j + 1][0], y[j + 1][1]";
  if (operand.alongK) {
    emitter.line("const int r = wn + j * 8 + (lane & 7) + (lane >> 4) * 8;");
    emitter.line("const int ch = kk * 2 + ((lane >> 3) & 1);");
    emitter.line(
      `MMA_LOAD4(${into}, bs + (uint)(r * ${line} + (${
        swizzled(tiling, operand, "r", "ch")
      }) * 16));`,
    );
  } else if (tiling.bytes === 2) {
    emitter.line("const int r = kk * 16 + (lane & 7) + ((lane >> 3) & 1) * 8;");
    emitter.line("const int ch = (wn >> 3) + j + (lane >> 4);");
    emitter.line(
      `MMA_LOAD4T(${into}, bs + (uint)(r * ${line} + (${
        swizzled(tiling, operand, "r", "ch")
      }) * 16));`,
    );
  } else {
    emitter.line("#pragma unroll");
    emitter.open("for (int h = 0; h < 4; ++h) {");
    emitter.line("const int r = kk * 8 + (lane & 3) + (h & 1) * 4;");
    emitter.line("const int p = wn + j * 8 + (lane >> 2) + (h >> 1) * 8;");
    loadWord(emitter, tiling, operand, "y[j + (h >> 1)][h & 1]", "bs");
    emitter.close();
  }
  emitter.close();
}

/** One float of a tile that lies along m or n: element `p` of row `r`. */
function loadWord(
  emitter: Emitter,
  tiling: WarpTiling,
  operand: StagedOperand,
  into: string,
  base: string,
): void {
  const line = operand.columns * tiling.bytes;
  emitter.line(
    `MMA_LOAD1(${into}, ${base} + (uint)(r * ${line} + (${
      swizzled(tiling, operand, "r", "(p >> 2)")
    }) * 16 + (p & 3) * 4));`,
  );
}
