/**
 * Contractions on matrix units (tensor cores): a work-group computes a tile whose operands travel
 * through several stages of local memory, a warp a piece of it by `mma.sync`. Written as inline PTX for
 * NVIDIA devices of compute capability 8.0 and later.
 *
 * - Operands are copied to local memory by `cp.async` in pieces of 16 or 4 bytes where they lie so, and
 *   through registers where they do not (guarded or strided elements of half types). What lies outside an
 *   operand is filled with zeros.
 * - Pieces of 16 bytes are swizzled, so that neither `ldmatrix` nor the copies meet bank conflicts.
 * - Sums are float32. Products of float32 are made of TF32 products: three of the high and low parts,
 *   which keeps float32's accuracy (relative error 6e-7), or one where less is asked for.
 * - The sums go through local memory on their way out, so that neighbours store neighbours.
 *
 * Measured on an H100 with the same structure by hand: 340 to 384 TFLOP/s in half precision at 4096,
 * 62 for float32 by three products (float32 units: 40 to 50).
 */
import { coefficient, type Form } from "../graph/affine.ts";
import type { Emitter } from "../graph/emit.ts";
import { type Contraction, extent, type Load, type LoopKernel } from "../graph/kernel.ts";
import type { Range } from "./codegen.ts";
import { decomposeInto, emitEpilogue, last, only, without } from "./contraction_text.ts";
import { loadText } from "./dialect.ts";
import type { MmaTile } from "./tile_choices.ts";

/** How elements are multiplied. */
type Unit = "f16" | "bf16" | "tf32" | "3xtf32";

/** Bytes that one asynchronous copy moves at most, and the rows of a matrix instruction. */
const CHUNK_BYTES = 16, ROWS = 16, COLUMNS = 8, WARP = 32;
/** Terms that matrix units add up before their sum is rounded. */
const CUT_TERMS = 64;
/** Floats of a row of sums on its way out, more than it needs: rows begin in different banks. */
const SLAB_PADDING = 4;

/** One operand, as it is copied to local memory. */
interface Side {
  readonly load: Load;
  /** The loops of its rows (m) or columns (n). */
  readonly symbols: readonly number[];
  readonly name: "a" | "b";
  /** Where the tile begins along `symbols`, and how long that axis is. */
  readonly origin: string;
  readonly size: string;
  /** True where neighbours along the summed axis lie side by side. */
  readonly alongK: boolean;
  /** Rows of the tile in local memory, and elements of each. */
  readonly rows: number;
  readonly columns: number;
  /** Elements that are copied at once; 0: one by one, through registers. */
  readonly vector: number;
}

/** What the text of one kernel is written from. */
interface Plan {
  readonly c: Contraction;
  readonly tile: MmaTile;
  readonly unit: Unit;
  /** Bytes of an element in local memory, and elements of a piece of 16 bytes. */
  readonly bytes: number;
  readonly chunk: number;
  readonly threads: number;
  readonly stageBytes: number;
  readonly a: Side;
  readonly b: Side;
}

/** The matrix unit that multiplies elements of a contraction; null where there is none. */
export function unitOf(c: Contraction): Unit | null {
  const { dtype, a, b } = c;
  if (a.dtype !== b.dtype || a.dtype !== dtype) return null;
  if (dtype === "float16") return "f16";
  if (dtype === "bfloat16") return "bf16";
  if (dtype !== "float32") return null;
  return (c.precision ?? "highest") === "highest" ? "3xtf32" : "tf32";
}

/** Terms of the sum that a stage holds, of a tile's. */
export function stageBytesOf({ bm, bn, bk }: MmaTile, elementBytes: number): number {
  return (bm + bn) * bk * elementBytes;
}

/** Writes a contraction for matrix units. */
export function mma(emitter: Emitter, c: Contraction, tile: MmaTile): Range {
  const { kernel } = emitter;
  const plan = planOf(emitter, c, tile);
  const { bm, bn, bk, stages } = tile;
  const [m, n, k] = [extent(kernel, c.m), extent(kernel, c.n), extent(kernel, c.k)];
  const [groupsM, groupsN] = [Math.ceil(m / bm), Math.ceil(n / bn)];
  emitter.line(
    `local uchar sm[${stages * plan.stageBytes}] __attribute__((aligned(128)));`,
  );
  emitter.line("const uint smem = (uint)(size_t)sm;");
  emitter.line("const int lid = get_local_id(0), lane = lid & 31, warp = lid >> 5;");
  const warpsM = bm / tile.wm;
  emitter.line(`const int wm = warp % ${warpsM} * ${tile.wm}, wn = warp / ${warpsM} * ${tile.wn};`);
  placeTile(emitter, c, tile, groupsM, groupsN);
  const steps = emitter.index(Math.ceil(k / bk));
  const sizeK = emitter.index(k);
  declareSums(emitter, tile, "sums");
  // Matrix units cut what they add up: few terms are summed by them, and the rest by additions that round.
  if (plan.unit === "3xtf32") declareSums(emitter, tile, "part");
  declareHeld(emitter, plan);
  emitter.open(`for (int t = ${1 - stages}; t < ${steps}; ++t) {`);
  emitter.line(`if (t >= 0) { MMA_WAIT(${stages - 2}); barrier(CLK_LOCAL_MEM_FENCE); }`);
  emitter.line(`const int ahead = t + ${stages - 1};`);
  emitter.line(`const uint into = smem + (uint)(ahead % ${stages}) * ${plan.stageBytes}u;`);
  emitter.open(`if (ahead < ${steps}) {`);
  for (const side of [plan.a, plan.b]) copySide(emitter, plan, side, sizeK);
  emitter.close();
  emitter.line("MMA_COMMIT();");
  emitter.open("if (t >= 0) {");
  multiply(emitter, plan);
  emitter.close();
  for (const side of [plan.a, plan.b]) {
    if (side.vector > 0) continue;
    emitter.open(`if (ahead < ${steps}) {`);
    putHeld(emitter, plan, side);
    emitter.close();
  }
  emitter.close();
  if (plan.unit === "3xtf32") addParts(emitter, tile);
  storeSums(emitter, plan, emitter.index(m), emitter.index(n));
  return {
    global: [groupsM * groupsN * extent(kernel, c.batch) * plan.threads],
    local: [plan.threads],
  };
}

function planOf(emitter: Emitter, c: Contraction, tile: MmaTile): Plan {
  const { kernel } = emitter;
  const unit = unitOf(c)!;
  const bytes = unit === "f16" || unit === "bf16" ? 2 : 4;
  const chunk = CHUNK_BYTES / bytes;
  const side = (name: "a" | "b", load: Load, symbols: readonly number[], length: number): Side => {
    const alongK = isAlongK(c, load, symbols);
    return {
      load,
      symbols,
      name,
      origin: name === "a" ? "row0" : "column0",
      size: emitter.index(extent(kernel, symbols)),
      alongK,
      rows: alongK ? length : tile.bk,
      columns: alongK ? tile.bk : length,
      vector: vectorOf(kernel, load, alongK ? c.k : symbols, bytes),
    };
  };
  return {
    c,
    tile,
    unit,
    bytes,
    chunk,
    threads: WARP * (tile.bm / tile.wm) * (tile.bn / tile.wn),
    stageBytes: stageBytesOf(tile, bytes),
    a: side("a", c.a, c.m, tile.bm),
    b: side("b", c.b, c.n, tile.bn),
  };
}

/** Tiles lie along the axis whose neighbours are contiguous in memory; along the sum where none is. */
function isAlongK(c: Contraction, { form }: Load, symbols: readonly number[]): boolean {
  return coefficient(form, last(c.k)) === 1 || coefficient(form, last(symbols)) !== 1;
}

/**
 * How many neighbours along `symbols` may be copied at once: as many as 16 or 4 bytes hold where all
 * of them begin at multiples of that and none crosses the end of the innermost loop.
 */
function vectorOf(
  kernel: LoopKernel,
  { form, guards }: Load,
  symbols: readonly number[],
  bytes: number,
): number {
  const inner = last(symbols);
  const isPlain = guards.length === 0 && coefficient(form, inner) === 1;
  const isWhole = isFlat(kernel, form, symbols);
  const divides = (by: number): boolean =>
    form.offset % by === 0 &&
    (isWhole || kernel.sizes[inner]! % by === 0) &&
    form.terms.every(([s, step]) =>
      (isWhole ? symbols.includes(s) : s === inner) || step % by === 0
    );
  const whole = CHUNK_BYTES / bytes, word = 4 / bytes;
  if (isPlain && divides(whole)) return whole;
  // A float fills four bytes by itself: guards only say how many of them are read.
  if (word === 1) return 1;
  return isPlain && divides(word) ? word : 0;
}

/** True where loops walk an operand as one loop would: none of their indices is needed. */
function isFlat({ sizes }: LoopKernel, form: Form, symbols: readonly number[]): boolean {
  let step = coefficient(form, last(symbols));
  for (const s of symbols.toReversed()) {
    if (coefficient(form, s) !== step) return false;
    step *= sizes[s]!;
  }
  return true;
}

/** Declares what the index of a side's element is made of along an axis; gives back its own part. */
function placeAlong(
  emitter: Emitter,
  { load: { form, guards } }: Side,
  symbols: readonly number[],
  name: string,
): string {
  if (guards.length > 0 || !isFlat(emitter.kernel, form, symbols)) {
    decomposeInto(emitter, symbols, name, "i");
    return only(emitter, form, symbols);
  }
  const step = coefficient(form, last(symbols));
  return step === 1 ? name : `${name} * ${emitter.index(step)}`;
}

/** Which tile a work-group computes: strips of eight along the rows share columns in the cache. */
function placeTile(
  emitter: Emitter,
  c: Contraction,
  { bm, bn }: MmaTile,
  groupsM: number,
  groupsN: number,
): void {
  const [tilesM, tilesN] = [emitter.index(groupsM), emitter.index(groupsN)];
  emitter.line(`const int group = get_group_id(0) % (${tilesM} * ${tilesN});`);
  emitter.line(`const int strip = group / (8 * ${tilesN}) * 8;`);
  emitter.line(`const int height = min(${tilesM} - strip, (Index)8);`);
  emitter.line(`const int within = group - strip * ${tilesN};`);
  emitter.line(`const int row0 = (strip + within % height) * ${bm};`);
  emitter.line(`const int column0 = within / height * ${bn};`);
  decomposeInto(emitter, c.batch, `(int)(get_group_id(0) / (${tilesM} * ${tilesN}))`, "i");
}

function declareSums(emitter: Emitter, tile: MmaTile, name: string): void {
  emitter.line(`float ${name}[${tile.wm / ROWS}][${tile.wn / COLUMNS}][4];`);
  const clear = [0, 1, 2, 3].map((h) => `${name}[i][j][${h}] = 0;`).join(" ");
  overSums(emitter, tile, `{ ${clear} }`);
}

/** Pieces of 16 bytes of a side that a work-item copies in each stage. */
function turnsOf({ chunk, threads }: Plan, { rows, columns }: Side): number {
  return Math.ceil(rows * columns / chunk / threads);
}

/** What is on its way from global to local memory through registers. */
function declareHeld(emitter: Emitter, plan: Plan): void {
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

/** Where in its row a piece lies: no two rows that are read together meet in a bank. */
function swizzled(plan: Plan, side: Side, row: string, chunk: string): string {
  const perRow = side.columns / plan.chunk;
  // Floats that lie along m or n are read four bytes at a time, four rows together.
  if (plan.bytes === 4 && !side.alongK) return `${chunk} ^ ((${row} & 3) << 1)`;
  if (perRow >= 8) return `${chunk} ^ (${row} & 7)`;
  if (perRow === 4) return `${chunk} ^ ((${row} >> 1) & 3)`;
  return `${chunk} ^ ((${row} >> 2) & 1)`;
}

/** Starts copying a side's next tile to `into`, or holds it in registers. */
function copySide(emitter: Emitter, plan: Plan, side: Side, sizeK: string): void {
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
    const { guards } = side.load;
    if (guards.length > 0) emitter.line(`if (${emitter.guardText(guards)})`);
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
  const { guards } = side.load;
  if (guards.length > 0) emitter.open(`if (${emitter.guardText(guards)}) {`);
  const bytes = vector * plan.bytes;
  emitter.line(`count = min((Index)${bytes}, (${endOf(moving!)} - ${moving}) * ${plan.bytes});`);
  emitter.line(`from = a${side.load.input} + (${base} + ${across} + ${along});`);
  if (guards.length > 0) emitter.close();
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
function putHeld(emitter: Emitter, plan: Plan, side: Side): void {
  openPieces(emitter, plan, side);
  emitter.line(`MMA_PUT(at, held_${side.name}[u]);`);
  emitter.close();
}

/** Multiplies the stage of turn `t`. */
function multiply(emitter: Emitter, plan: Plan): void {
  const { tile, unit, bytes } = plan;
  const [mi, ni] = [tile.wm / ROWS, tile.wn / COLUMNS];
  const depth = bytes === 2 ? 16 : 8;
  emitter.line(`const uint as = smem + (uint)(t % ${tile.stages}) * ${plan.stageBytes}u;`);
  emitter.line(`const uint bs = as + ${tile.bm * tile.bk * bytes}u;`);
  emitter.line("#pragma unroll");
  emitter.open(`for (int kk = 0; kk < ${tile.bk / depth}; ++kk) {`);
  emitter.line(`uint x[${mi}][4], y[${ni}][2];`);
  loadRows(emitter, plan, mi);
  loadColumns(emitter, plan, ni);
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
  emitter.open(`if (t % ${Math.max(1, CUT_TERMS / tile.bk)} == 0) {`);
  addParts(emitter, tile);
  const clear = [0, 1, 2, 3].map((h) => `part[i][j][${h}] = 0;`).join(" ");
  overSums(emitter, tile, `{ ${clear} }`);
  emitter.close();
}

function addParts(emitter: Emitter, tile: MmaTile): void {
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
function loadRows(emitter: Emitter, plan: Plan, mi: number): void {
  const side = plan.a, line = side.columns * plan.bytes;
  emitter.line("#pragma unroll");
  emitter.open(`for (int i = 0; i < ${mi}; ++i) {`);
  if (side.alongK) {
    emitter.line("const int r = wm + i * 16 + (lane & 15), ch = kk * 2 + (lane >> 4);");
    emitter.line(
      `MMA_LOAD4(x[i][0], x[i][1], x[i][2], x[i][3], as + (uint)(r * ${line} + (${
        swizzled(plan, side, "r", "ch")
      }) * 16));`,
    );
  } else if (plan.bytes === 2) {
    emitter.line("const int r = kk * 16 + (lane & 7) + ((lane >> 4) & 1) * 8;");
    emitter.line("const int ch = (wm >> 3) + i * 2 + ((lane >> 3) & 1);");
    emitter.line(
      `MMA_LOAD4T(x[i][0], x[i][1], x[i][2], x[i][3], as + (uint)(r * ${line} + (${
        swizzled(plan, side, "r", "ch")
      }) * 16));`,
    );
  } else {
    emitter.line("#pragma unroll");
    emitter.open("for (int h = 0; h < 4; ++h) {");
    emitter.line("const int r = kk * 8 + (lane & 3) + (h >> 1) * 4;");
    emitter.line("const int p = wm + i * 16 + (lane >> 2) + (h & 1) * 8;");
    loadWord(emitter, plan, side, "x[i][h]", "as");
    emitter.close();
  }
  emitter.close();
}

function loadColumns(emitter: Emitter, plan: Plan, ni: number): void {
  const side = plan.b, line = side.columns * plan.bytes;
  emitter.line("#pragma unroll");
  emitter.open(`for (int j = 0; j < ${ni}; j += 2) {`);
  const into = "y[j][0], y[j][1], y[j + 1][0], y[j + 1][1]";
  if (side.alongK) {
    emitter.line("const int r = wn + j * 8 + (lane & 7) + (lane >> 4) * 8;");
    emitter.line("const int ch = kk * 2 + ((lane >> 3) & 1);");
    emitter.line(
      `MMA_LOAD4(${into}, bs + (uint)(r * ${line} + (${swizzled(plan, side, "r", "ch")}) * 16));`,
    );
  } else if (plan.bytes === 2) {
    emitter.line("const int r = kk * 16 + (lane & 7) + ((lane >> 3) & 1) * 8;");
    emitter.line("const int ch = (wn >> 3) + j + (lane >> 4);");
    emitter.line(
      `MMA_LOAD4T(${into}, bs + (uint)(r * ${line} + (${swizzled(plan, side, "r", "ch")}) * 16));`,
    );
  } else {
    emitter.line("#pragma unroll");
    emitter.open("for (int h = 0; h < 4; ++h) {");
    emitter.line("const int r = kk * 8 + (lane & 3) + (h & 1) * 4;");
    emitter.line("const int p = wn + j * 8 + (lane >> 2) + (h >> 1) * 8;");
    loadWord(emitter, plan, side, "y[j + (h >> 1)][h & 1]", "bs");
    emitter.close();
  }
  emitter.close();
}

/** One float of a tile that lies along m or n: element `p` of row `r`. */
function loadWord(emitter: Emitter, plan: Plan, side: Side, into: string, base: string): void {
  const line = side.columns * plan.bytes;
  emitter.line(
    `MMA_LOAD1(${into}, ${base} + (uint)(r * ${line} + (${
      swizzled(plan, side, "r", "(p >> 2)")
    }) * 16 + (p & 3) * 4));`,
  );
}

/**
 * The epilogue: the sums go to local memory, as many columns of each warp at a time as fit, and the group
 * stores them so that neighbours walk along the axis on which results lie side by side.
 */
function storeSums(emitter: Emitter, plan: Plan, sizeM: string, sizeN: string): void {
  const { c, tile, threads } = plan;
  const { kernel } = emitter;
  const { bm, bn, wm, wn } = tile;
  const pieces = slabPieces(tile, tile.stages * plan.stageBytes)!;
  const [width, share] = [bn / pieces, wn / pieces];
  const pitch = width + SLAB_PADDING, perPiece = share / COLUMNS;
  const isTransposed = kernel.outputs.length > 0 &&
    kernel.outputs.every(({ form }) => isAlong(form, last(c.m)) && !isAlong(form, last(c.n)));
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
  if (plan.unit === "3xtf32") recompute(emitter, c);
  emitEpilogue(emitter);
  if (!whole) emitter.close();
  emitter.close();
  emitter.close();
}

/** In how many pieces a tile's sums leave through so many bytes of local memory; null: not at all. */
export function slabPieces({ bm, bn, wn }: MmaTile, bytes: number): number | null {
  for (let pieces = 1; pieces <= wn / COLUMNS; pieces *= 2) {
    if (bm * (bn / pieces + SLAB_PADDING) * 4 <= bytes) return pieces;
  }
  return null;
}

/**
 * Three products of infinities give NaN, and numbers near the largest one round to infinity: such
 * results are computed again, by themselves.
 */
function recompute(emitter: Emitter, c: Contraction): void {
  emitter.open("if (!(fabs(acc) <= FLT_MAX)) {");
  emitter.line("acc = 0;");
  emitter.open(`for (int k = 0; k < ${emitter.index(extent(emitter.kernel, c.k))}; ++k) {`);
  decomposeInto(emitter, c.k, "k", "i");
  const operand = ({ input, dtype, form, guards }: Load): string => {
    const text = loadText(`a${input}`, dtype, emitter.form(form));
    return guards.length === 0 ? text : `(${emitter.guardText(guards)} ? ${text} : 0.0f)`;
  };
  emitter.line(`acc = fma(${operand(c.a)}, ${operand(c.b)}, acc);`);
  emitter.close();
  emitter.close();
}

function isAlong(form: Form, symbol: number): boolean {
  return coefficient(form, symbol) === 1;
}
