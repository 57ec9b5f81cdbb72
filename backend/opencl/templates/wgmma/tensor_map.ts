/**
 * Operands as tensor maps: up to five axes of a buffer, of which the copy engine (TMA) moves boxes to local
 * memory. What lies outside of an axis is filled with zeros.
 *
 * The 128 bytes of a map are Hopper's own format, which NVIDIA does not document; they were found by comparing
 * with what `cuTensorMapEncodeTiled` writes (driver 580: 2 to 5 axes, steps, strides beyond 32 bits).
 */
import { coefficient, rangeOf } from "../../../kernel/affine.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import { extent, type Load, type LoopKernel } from "../../../kernel/kernel.ts";
import { last } from "../parts/contraction_shape.ts";
import { isFlat } from "../../../kernel/row_order.ts";
import { GROUP_ROWS, type PartCount, ROW_BYTES } from "./wgmma_tile.ts";

/** Strides and beginnings are multiples of so many bytes. */
const ALIGNMENT = 16;
/** Bytes of an element in local memory, and elements of a row there. */
const BYTES = 2;
export const ROW_TERMS: number = ROW_BYTES / BYTES;
/** Elements that begin at multiples of the alignment. */
export const STEP: number = ALIGNMENT / BYTES;
/** Axes of a map: fewer are filled up, more are not there. */
const MIN_AXES = 3;
export const MAX_AXES = 5;
/** Words of 64 bits of a map. */
export const MAP_WORDS = 16;
/** Bytes of a copy of 64 rows or columns. */
export const BLOCK_BYTES: number = GROUP_ROWS * ROW_BYTES;

/** One axis of a map; lengths in elements. */
export interface MapAxis {
  readonly size: number;
  readonly stride: number;
  /** Elements that a copy moves, and from one to the next. */
  readonly box: number;
  readonly every: number;
  /** Start of a copy of the stage's tile, or of one of its blocks of 64 rows or columns. */
  readonly start: (emitter: Emitter, block: number) => string;
}

/** Copy written once more: the channels of each line side by side. */
export interface Packing {
  readonly base: number;
  /** The axis that comes first, and its length in memory. */
  readonly channel: { readonly size: number; readonly stride: number; readonly padded: number };
  /** The other axes, the innermost first. */
  readonly lines: readonly { readonly size: number; readonly stride: number }[];
}

/** Source of the elements of a map. */
export type MapSource =
  | { readonly kind: "buffer" }
  /** A kernel before has written them: `count` elements from `first` on of the buffer, for each part. */
  | { readonly kind: "parts"; readonly first: number; readonly count: number }
  /** The same in another order. */
  | { readonly kind: "packed"; readonly packing: Packing; readonly count: number };

/** Copy of an operand: one box for a stage, or one for every 64 of its rows or columns. */
export interface OperandMap {
  readonly name: "a" | "b";
  readonly load: Load;
  /** True where neighbours along the sum lie side by side. */
  readonly alongK: boolean;
  /** The innermost first. */
  readonly axes: readonly MapAxis[];
  /** Rows or columns of a tile. */
  readonly length: number;
  readonly parts: PartCount;
  readonly source: MapSource;
}

/** The loops that an operand is walked by. */
export interface OperandLoops {
  readonly batch: readonly number[];
  /** Rows or columns. */
  readonly p: readonly number[];
  readonly k: readonly number[];
}

/** Least share of elements between an operand's first and last; below it has no parts. */
const MIN_SHARE = 1 / 2;

/** The map of an operand as it lies, of which tiles have `length` rows or columns; null where there is none. */
export function operandMapOf(
  kernel: LoopKernel,
  name: "a" | "b",
  load: Load,
  { batch, p, k }: OperandLoops,
  length: number,
  parts: PartCount,
): OperandMap | null {
  const { index, bounds } = load, { sizes } = kernel;
  if (bounds.length > 0 || !isFlat(kernel, index, p) || !isFlat(kernel, index, k)) return null;
  const alongK = coefficient(index, last(k)) === 1;
  if (!alongK && coefficient(index, last(p)) !== 1) return null;
  const axis = (symbols: readonly number[], box: number, start: MapAxis["start"]): MapAxis => ({
    size: extent(kernel, symbols),
    stride: coefficient(index, last(symbols)),
    box,
    every: 1,
    start,
  });
  const origin = name === "a" ? "row0" : "column0";
  const axes = [
    axis(p, alongK ? length : GROUP_ROWS, (_, block) => `${origin} + ${block * GROUP_ROWS}`),
    axis(k, ROW_TERMS, () => "term0"),
  ];
  if (alongK) axes.reverse();
  for (const s of batch.toReversed()) {
    if (coefficient(index, s) !== 0) axes.push(axis([s], 1, () => `i${s}`));
  }
  const isAligned = axes.length <= MAX_AXES && index.offset % STEP === 0 &&
    axes.every(({ stride }, at) => at === 0 || stride > 0 && stride % STEP === 0);
  if (!isAligned) return null;
  const map = { name, load, alongK, axes, length, parts };
  if (parts === 1) return { ...map, source: { kind: "buffer" } };
  const [low, high] = rangeOf(index, sizes);
  const first = low - low % STEP, count = Math.ceil((high + 1 - first) / STEP) * STEP;
  const elements = axes.reduce((all, { size }) => all * size, 1);
  if (elements < count * MIN_SHARE) return null;
  return { ...map, source: { kind: "parts", first, count } };
}

/** The numbers of element types in maps. */
const types = { float16: 6n, bfloat16: 10n } as const;
/** Swizzle of 128 bytes, and loads of as many from memory. */
const SWIZZLE = 3n << 13n, PROMOTION = 2n << 17n;

/** Writes the maps of an operand's parts to `map`, a pointer to 64-bit words. */
export function writeMaps(emitter: Emitter, operand: OperandMap, map: string): void {
  const axes = filledUp(operand);
  const type = operand.load.dtype === "float16" ? types.float16 : types.bfloat16;
  const flags = BigInt(axes.length - 1) << 4n | type << 7n | SWIZZLE | PROMOTION;
  const pair = (low: string, high: string): string =>
    `(ulong)(uint)(${low}) | (ulong)(${high}) << 32`;
  const number = (axis: number, of: (axis: MapAxis) => number): string => {
    const found = axes[axis];
    return found ? emitter.index(of(found)) : "0";
  };
  const stride = (axis: number): string => number(axis, ({ stride }) => stride / STEP);
  const size = (axis: number): string => number(axis, ({ size }) => size - 1);
  const hex = (n: bigint): string => `0x${n.toString(16)}UL`;
  /** A number of each axis, in so many bits. */
  const field = (bits: number, of: (axis: MapAxis) => number): bigint =>
    axes.reduce((all, axis, at) => all | BigInt(of(axis)) << BigInt(bits * at), 0n);
  const boxes = field(8, ({ box, every }) => (box - 1) * every);
  const steps = field(3, ({ every }) => every - 1);
  const words = [
    "",
    `${hex(flags)} | (ulong)(${stride(1)}) << 32`,
    pair(stride(2), stride(3)),
    pair(stride(4), "0"),
    pair(size(0), size(1)),
    pair(size(2), size(3)),
    `(ulong)(uint)(${size(4)}) | ${hex(steps << 32n | (boxes & 0xffn) << 56n)}`,
    hex(boxes >> 8n),
    `${axes.reduce((all, { box }) => all * box, BYTES)}UL`,
    "1024UL",
  ];
  for (let part = 0; part < operand.parts; part++) {
    words[0] = `(ulong)(${beginningOf(emitter, operand, part)})`;
    for (let word = 0; word < MAP_WORDS; word++) {
      emitter.line(`${map}[${part * MAP_WORDS + word}] = ${words[word] ?? "0UL"};`);
    }
  }
}

/** A pointer to where the loops of an operand begin. */
function beginningOf(emitter: Emitter, operand: OperandMap, part: number): string {
  const { name, load: { input, index }, source } = operand;
  const at = (pointer: string, index: number): string =>
    index === 0 ? pointer : `${pointer} + ${emitter.index(index)}`;
  switch (source.kind) {
    case "buffer":
      return at(`a${input}`, index.offset);
    case "parts":
      return at(`parts_${name}`, part * source.count + index.offset - source.first);
    case "packed":
      return at(`parts_${name}`, part * source.count);
  }
}

/** Axes of one element fill up those of a matrix. */
function filledUp({ axes }: OperandMap): readonly MapAxis[] {
  const none: MapAxis = { size: 1, stride: STEP, box: 1, every: 1, start: () => "0" };
  return [...axes, ...new Array<MapAxis>(Math.max(0, MIN_AXES - axes.length)).fill(none)];
}

/** Copies a stage of an operand, all parts, to `to`; `full` is the barrier that counts its bytes. */
export function copyStage(
  emitter: Emitter,
  operand: OperandMap,
  { to, full }: { readonly to: string; readonly full: string },
): void {
  const axes = filledUp(operand), { name, alongK, length, parts } = operand;
  const blocks = alongK ? 1 : length / GROUP_ROWS;
  for (let part = 0; part < parts; part++) {
    for (let block = 0; block < blocks; block++) {
      const starts = axes.map(({ start }) => `(int)(${start(emitter, block)})`).join(", ");
      const at = part * length * ROW_BYTES + block * BLOCK_BYTES;
      const map = `map_${name} + ${part * MAP_WORDS}`;
      emitter.line(`WG_COPY${axes.length}(${to} + ${at}u, ${map}, ${full}, ${starts});`);
    }
  }
}
