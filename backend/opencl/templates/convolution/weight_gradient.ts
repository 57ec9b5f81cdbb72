/**
 * The gradient of a convolution's weight on CPU devices: sums over positions of one operand's channels times
 * what each tap of the other sees there. Channels are lanes of vectors, for which their operand is
 * transposed piece by piece; taps are the rows of a tile, scalars from a packed window.
 */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { openLoop } from "../../../codegen/loops.ts";
import { generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import type { Target } from "../../../kernel/target.ts";
import { LANES } from "../../codegen/vectors/vector_types.ts";
import {
  type ContractionPlan,
  type ContractionTemplate,
  isTileable,
  last,
} from "../parts/contraction_shape.ts";
import {
  packedIndex,
  packedStep,
  packWindow,
  type Window,
  windowOf,
} from "../parts/packed_window.ts";
import { single } from "../parts/template.ts";
import { decomposeInto, emitEpilogue, without } from "../parts/tile_text.ts";
import { divisors, product } from "../parts/tiling.ts";

/** A tile has at most so many vectors as accumulators, and at least so many taps. */
const MAX_VECTORS = 26, MIN_TAPS = 3;
/** Fewer channels than this waste too many lanes. */
const MIN_LANES = 8;
/** Largest size of packed operands and sums: they stay in the second level of caches. */
const MAX_BYTES = 1 << 16;

/** Division of a weight gradient's loops. */
interface WeightTiling {
  /** The loop over channels that are lanes, and vectors of them. */
  readonly channel: number;
  readonly vectors: number;
  /** The loops of a tile. */
  readonly taps: readonly number[];
  /** The loops of a result's columns around them, and how many iterations of the first a work-item takes. */
  readonly around: readonly number[];
  readonly block: number;
  /** The loops over positions: the lines that are transposed at a time, and along a line. */
  readonly line: number | null;
  readonly lines: number;
  readonly position: number;
  readonly window: Window;
}

interface WeightPlan extends ContractionPlan {
  readonly tiling: WeightTiling;
}

/** A tile a work-item: taps are rows, channels are lanes. */
export const weightGradient: ContractionTemplate<WeightPlan> = {
  name: "weight-gradient convolution",
  matches: (kernel, target) => {
    if (target.isGpu || !isTileable(kernel, target)) return null;
    const tiling = weightTiling(kernel, target);
    return tiling && { kernel, target, shape: null, tiling };
  },
  emit: ({ kernel, target, tiling }) =>
    single(generatedLoop(kernel, target, (e, dialect) => writeTile(e, dialect, tiling))),
  workItems: ({ kernel, tiling }) => product(globalOf(kernel, tiling)),
};

/** The division of a contraction; null where it has another form. */
function weightTiling(kernel: LoopKernel, target: Target): WeightTiling | null {
  const { sizes } = kernel;
  const c = kernel.contraction!;
  const channel = last(c.m), position = last(c.k);
  if (c.k.length < 2 || c.n.length < 2 || sizes[channel]! < MIN_LANES) return null;
  if (c.a.bounds.length > 0 || coefficient(c.a.index, position) !== 1) return null;
  const vectors = sizes[channel]! > LANES ? 2 : 1;
  const count = tapCount(kernel, Math.floor(MAX_VECTORS / vectors));
  const taps = c.n.slice(c.n.length - count), around = c.n.slice(0, c.n.length - count);
  if (extent(kernel, taps) < MIN_TAPS) return null;
  // With fewer positions than taps this is a forward convolution, which sums over its taps.
  if (sizes[position]! <= sizes[last(c.n)]!) return null;
  // Taps must see neighbouring positions; other products are faster in vectors along their columns.
  if (!taps.some((s) => overlaps(kernel, s, position))) return null;
  const line = lineOf(kernel, taps, position);
  const room = Math.min(MAX_BYTES, target.localMemory / 4) / 4;
  const counts = new Map([...c.n, position].map((s) => [s, sizes[s]!]));
  const width = vectors * LANES;
  for (const block of divisors(around.length > 0 ? sizes[around[0]!]! : 1)) {
    if (around.length > 0) counts.set(around[0]!, block);
    if (extent(kernel, c.n.slice(1)) * block * width > room && block > 1) continue;
    for (const lines of divisors(line === null ? 1 : sizes[line]!)) {
      if (lines * sizes[position]! * width > room) continue;
      if (line !== null) counts.set(line, lines);
      const window = windowOf(c.b, counts, position, false);
      if (!window || window.size > room) continue;
      return { channel, vectors, taps, around, block, line, lines, position, window };
    }
  }
  return null;
}

/** Number of the columns' innermost loops that fit a tile together. */
function tapCount(kernel: LoopKernel, most: number): number {
  const { n } = kernel.contraction!;
  let count = 0;
  while (count < n.length - 1 && extent(kernel, n.slice(n.length - 1 - count)) <= most) count++;
  return count;
}

/** True where two loops read the same elements of the second operand. */
function overlaps(kernel: LoopKernel, a: number, b: number): boolean {
  const { index } = kernel.contraction!.b;
  const [x, y] = [coefficient(index, a), coefficient(index, b)];
  return x > 0 && y > 0 && x <= y * 4 && y <= x * 4;
}

/** The loop over lines of positions: the one next to the innermost that a tap overlaps. */
function lineOf(kernel: LoopKernel, taps: readonly number[], position: number): number | null {
  const { k } = kernel.contraction!;
  const found = k.findLast((s) => s !== position && taps.some((t) => overlaps(kernel, s, t)));
  return found ?? null;
}

/** Work-items along each dimension. */
function globalOf(
  kernel: LoopKernel,
  { channel, vectors, around, block }: WeightTiling,
): [number, number, number] {
  const { batch, m } = kernel.contraction!;
  return [
    around.length === 0 ? 1 : kernel.sizes[around[0]!]! / block,
    Math.ceil(kernel.sizes[channel]! / (vectors * LANES)),
    extent(kernel, [...batch, ...m.slice(0, -1)]),
  ];
}

function writeTile(emitter: Emitter, dialect: Dialect, tiling: WeightTiling): WorkSize {
  const { kernel } = emitter;
  const { vectors, taps, around, block, line, lines, position, window } = tiling;
  const c = kernel.contraction!, [first, ...further] = around;
  const sums = block * extent(kernel, [...further, ...taps]) * vectors;
  emitter.line(`local float16 transposed[${lines * kernel.sizes[position]! * vectors}];`);
  emitter.line(`local float16 sums[${sums}];`);
  emitter.line(`local float packed[${window.size}];`);
  decomposeInto(emitter, [...c.batch, ...c.m.slice(0, -1)], "(Index)get_global_id(2)", "i");
  emitter.line(`const Index channel = (Index)get_global_id(1) * ${vectors * LANES};`);
  if (first !== undefined) emitter.line(`const Index block = (Index)get_global_id(0) * ${block};`);
  emitter.line(`for (int k = 0; k < ${sums}; ++k) sums[k] = 0;`);
  for (const s of c.k) if (s !== line && s !== position) openLoop(emitter, dialect, s);
  const starts = new Map<number, string>();
  if (first !== undefined) starts.set(first, "block");
  if (line !== null) {
    emitter.open(`for (Index line = 0; line < ${emitter.size(line)}; line += ${lines}) {`);
    starts.set(line, "line");
  }
  transposeChannels(emitter, tiling);
  packWindow(emitter, window, starts, "packed");
  eachTile(emitter, dialect, tiling, () => emitProducts(emitter, tiling));
  for (const s of c.k) if (s !== position) emitter.close();
  storeSums(emitter, dialect, tiling);
  return { global: globalOf(kernel, tiling), local: [1, 1, 1] };
}

/** The loops over the tiles of a work-item, each with its `sum`. */
function eachTile(
  emitter: Emitter,
  dialect: Dialect,
  { taps, vectors, around, block }: WeightTiling,
  body: () => void,
): void {
  const { kernel } = emitter, [first, ...further] = around;
  if (first !== undefined) {
    emitter.open(`for (Index i${first} = block; i${first} < block + ${block}; ++i${first}) {`);
  }
  for (const s of further) openLoop(emitter, dialect, s);
  const at = further.reduce(
    (text, s) => `(${text}) * ${kernel.sizes[s]} + i${s}`,
    first === undefined ? "0" : `i${first} - block`,
  );
  emitter.line(`local float16* sum = sums + (${at}) * ${extent(kernel, taps) * vectors};`);
  body();
  for (const _ of around) emitter.close();
}

/** Writes what follows the product for each channel and tap. */
function storeSums(emitter: Emitter, dialect: Dialect, tiling: WeightTiling): void {
  const { sizes } = emitter.kernel, { channel, taps, vectors } = tiling, width = vectors * LANES;
  emitter.open(
    `for (int r = 0; r < min((Index)${width}, ${emitter.size(channel)} - channel); ++r) {`,
  );
  emitter.line(`const Index i${channel} = channel + r;`);
  eachTile(emitter, dialect, tiling, () => {
    for (const s of taps) openLoop(emitter, dialect, s);
    const tap = taps.reduce(
      (text, s) => text === "" ? `i${s}` : `(${text}) * ${sizes[s]} + i${s}`,
      "",
    );
    emitter.line(`const float acc = ((local const float*)sum)[(${tap}) * ${width} + r];`);
    emitEpilogue(emitter);
    for (const _ of taps) emitter.close();
  });
  emitter.close();
}

/** Transposes the channels of a few lines of positions; those behind the last one are not stored. */
function transposeChannels(
  emitter: Emitter,
  { channel, vectors, line, lines, position }: WeightTiling,
): void {
  const { kernel } = emitter;
  const { a } = kernel.contraction!;
  const length = kernel.sizes[position]!;
  const isFlat = line !== null && coefficient(a.index, line) === length;
  const run = isFlat ? lines * length : length;
  const start = (index: AffineExpr): string =>
    without(emitter, index, [channel, position, ...(line === null ? [] : [line])]);
  const stride = (s: number): string => emitter.index(coefficient(a.index, s));
  const row = line === null ? "" : ` + ${isFlat ? "line" : "(line + l)"} * ${stride(line)}`;
  if (!isFlat) emitter.open(`for (int l = 0; l < ${lines}; ++l) {`);
  emitter.open(`for (int v = 0; v < ${vectors}; ++v) {`);
  emitter.open(`for (int p = 0; p < ${run}; p += ${LANES}) {`);
  const at = run < LANES ? "p" : `min(p, ${run - LANES})`;
  emitter.line(`const int at = ${at};`);
  emitter.line(`global const float* from = a${a.input} + ${start(a.index)}${row} + at;`);
  emitter.line(`const int top = ${emitter.size(channel)} - 1 - channel - v * ${LANES};`);
  emitter.line(`float16 t[${LANES}];`);
  const base = `from + (channel + v * ${LANES}`;
  for (let r = 0; r < LANES; r++) {
    const pointer = `${base} + min(${r}, top)) * ${stride(channel)}`;
    const text = run < LANES ? `load_part_float(${pointer}, ${run})` : `vload16(0, ${pointer})`;
    emitter.line(`t[${r}] = ${text};`);
  }
  emitter.line("transpose_16(t);");
  const to = isFlat || lines === 1 ? "at" : `l * ${length} + at`;
  for (let r = 0; r < Math.min(run, LANES); r++) {
    emitter.line(`transposed[(${to} + ${r}) * ${vectors} + v] = t[${r}];`);
  }
  emitter.close();
  emitter.close();
  if (!isFlat) emitter.close();
}

/** Adds the products of what is packed to the sums of one tile. */
function emitProducts(
  emitter: Emitter,
  { vectors, taps, line, lines, position, around, window }: WeightTiling,
): void {
  const { sizes } = emitter.kernel;
  const offsets = taps.reduce<number[]>(
    (all, s) => {
      const move = packedStep(window, s);
      return all.flatMap((at) => Array.from({ length: sizes[s]! }, (_, i) => at + i * move));
    },
    [0],
  );
  const each = Array.from({ length: vectors }, (_, v) => v);
  offsets.forEach((_, t) => {
    const names = each.map((v) => `c${t}_${v} = 0`);
    emitter.line(`float16 ${names.join(", ")};`);
  });
  const [first] = around;
  const index = packedIndex(window, (s) => {
    if (s === position || taps.includes(s) || s === line) return null;
    return s === first ? `(i${s} - block)` : `i${s}`;
  });
  const length = sizes[position]!;
  const move = line === null ? 0 : packedStep(window, line);
  emitter.open(`for (int l = 0; l < ${lines}; ++l) {`);
  emitter.line(`local const float* seen = packed + ${index} + l * ${move};`);
  emitter.line(`local const float16* of = transposed + l * ${length * vectors};`);
  emitter.open(`for (int p = 0; p < ${length}; ++p) {`);
  emitter.line("reload();");
  for (const v of each) emitter.line(`const float16 u${v} = of[p * ${vectors} + ${v}];`);
  const along = packedStep(window, position);
  offsets.forEach((offset, t) => {
    emitter.line(`const float16 s${t} = (float16)(seen[p * ${along} + ${offset}]);`);
    for (const v of each) emitter.line(`c${t}_${v} = fma(s${t}, u${v}, c${t}_${v});`);
  });
  emitter.close();
  emitter.close();
  offsets.forEach((_, t) => {
    for (const v of each) emitter.line(`sum[${t * vectors + v}] += c${t}_${v};`);
  });
}
