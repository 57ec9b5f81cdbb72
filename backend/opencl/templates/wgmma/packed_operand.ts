/**
 * Operands whose loops no tensor map walks as they lie in memory, such as the image of a convolution: they are
 * written once more, with the channels side by side. A window that moves over an axis is then a box that
 * begins elsewhere, and what it has outside of the image is filled with zeros: nothing is written twice.
 */
import { add, type AffineExpr, coefficient, scale, symbol } from "../../../kernel/affine.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import type { Contraction, Load, LoopKernel } from "../../../kernel/kernel.ts";
import { type BoxedSide, type BoxLoop, filledShare } from "./tile_side.ts";
import { type MapAxis, MAX_AXES, type OperandMap, ROW_TERMS, STEP } from "./tensor_map.ts";
import { GROUP_ROWS, type PartCount, type WgmmaTile } from "./wgmma_tile.ts";

/** An axis of an operand in memory, with the coordinate that loops give. */
interface MemoryAxis {
  readonly coordinate: AffineExpr;
  readonly size: number;
  /** Elements from neighbour to neighbour. */
  readonly stride: number;
}

/** An operand's memory: its first element, and its axes. */
interface OperandMemory {
  readonly base: number;
  readonly axes: readonly MemoryAxis[];
}

/** The axes of an operand: those that its mask bounds, and one for each loop that is left. */
function memoryOf({ sizes }: LoopKernel, { index, bounds }: Load): OperandMemory | null {
  let rest = index;
  const axes: MemoryAxis[] = [];
  for (const { index: coordinate, size } of bounds) {
    const [first] = coordinate.terms;
    if (first === undefined) return null;
    const stride = coefficient(rest, first[0]) / first[1];
    if (!Number.isInteger(stride) || stride === 0) return null;
    rest = add(rest, scale(coordinate, -stride));
    if (coordinate.terms.some(([s]) => coefficient(rest, s) !== 0)) return null;
    axes.push({ coordinate, size, stride });
  }
  for (const [s, stride] of rest.terms) {
    axes.push({ coordinate: symbol(s), size: sizes[s]!, stride });
  }
  return { base: rest.offset, axes };
}

/** The axis whose coordinate is one loop alone. */
function ownAxis({ axes }: OperandMemory, s: number): MemoryAxis | undefined {
  return axes.find(({ coordinate: { offset, terms } }) =>
    offset === 0 && terms.length === 1 && terms[0]![0] === s && terms[0]![1] === 1
  );
}

/** Channel axes of the operands, and the sides of tiles that follow. */
interface PackedLayout {
  /** Channels are terms of the sum; else they are rows of one operand and columns of the other. */
  readonly alongK: boolean;
  readonly channels: readonly [a: number, b: number];
  readonly rows: BoxedSide;
  readonly columns: BoxedSide;
  readonly terms: BoxedSide;
}

/** A product of packed operands. */
export interface PackedProduct extends Pick<PackedLayout, "rows" | "columns" | "terms"> {
  readonly a: OperandMap;
  readonly b: OperandMap;
}

/** Tiles that are emptier than this are left to other templates. */
const MIN_FILLED = 0.4;

/** Packing of both operands; null where they cannot be packed. */
export function packedProductOf(
  kernel: LoopKernel,
  c: Contraction,
  tile: WgmmaTile,
  parts: PartCount,
): PackedProduct | null {
  const a = memoryOf(kernel, c.a), b = memoryOf(kernel, c.b);
  if (a === null || b === null) return null;
  let best: PackedProduct | null = null, most = MIN_FILLED;
  for (const layout of layoutsOf(kernel, c, a, b, tile)) {
    const { rows, columns, terms, channels } = layout;
    const share = [rows, columns, terms].reduce((all, side) => all * filledShare(kernel, side), 1);
    if (share <= most) continue;
    const mapA = mapOf(
      { name: "a", load: c.a, length: tile.bm, parts },
      a,
      channels[0],
      rows,
      layout,
    );
    const mapB = mapOf(
      { name: "b", load: c.b, length: tile.bn, parts },
      b,
      channels[1],
      columns,
      layout,
    );
    if (mapA === null || mapB === null) continue;
    most = share;
    best = { rows, columns, terms, a: mapA, b: mapB };
  }
  return best;
}

function* layoutsOf(
  kernel: LoopKernel,
  c: Contraction,
  a: OperandMemory,
  b: OperandMemory,
  { bm, bn }: WgmmaTile,
): Generator<PackedLayout> {
  const boxed = (loops: readonly BoxLoop[]): BoxedSide => ({ kind: "boxed", loops });
  const oneAxis = (symbols: readonly number[], inner: number, box: number): BoxedSide =>
    boxed([
      ...symbols.filter((s) => s !== inner).map((s) => ({ symbol: s, box: 1 })),
      { symbol: inner, box },
    ]);
  for (const k of c.k) {
    if (!ownAxis(a, k) || !ownAxis(b, k)) continue;
    const over = (size: number): number => 2 ** Math.ceil(Math.log2(size));
    yield {
      alongK: true,
      channels: [k, k],
      rows: boxed(boxesOver(kernel, c.m, bm, over)),
      columns: boxed(boxesOver(kernel, c.n, bn, over)),
      terms: oneAxis(c.k, k, ROW_TERMS),
    };
  }
  const rows = c.m.filter((s) => ownAxis(a, s)), columns = c.n.filter((s) => ownAxis(b, s));
  // What lies between the end of an axis and of its box would be multiplied: 0 times infinity is no 0.
  const within = (size: number): number => size & -size;
  const terms = boxed(boxesOver(kernel, c.k, ROW_TERMS, within));
  const { symbol: outer, box } = terms.loops[0]!;
  if (kernel.sizes[outer]! % box !== 0 && !(ownAxis(a, outer) && ownAxis(b, outer))) return;
  for (const row of rows) {
    for (const column of columns) {
      yield {
        alongK: false,
        channels: [row, column],
        rows: oneAxis(c.m, row, bm),
        columns: oneAxis(c.n, column, bn),
        terms,
      };
    }
  }
}

/** Boxes of `length` iterations: as many of the inner loops as `share` gives for their sizes. */
function boxesOver(
  { sizes }: LoopKernel,
  symbols: readonly number[],
  length: number,
  share: (size: number) => number,
): BoxLoop[] {
  let left = length;
  return symbols.toReversed().map((s, at) => {
    const box = at === symbols.length - 1 ? left : Math.min(left, share(sizes[s]!));
    left /= box;
    return { symbol: s, box };
  }).reverse();
}

/** The map of an operand whose channels come first; null where a tile is no box of it. */
function mapOf(
  operand: Pick<OperandMap, "name" | "load" | "length" | "parts">,
  memory: OperandMemory,
  channel: number,
  side: BoxedSide,
  { alongK, terms }: PackedLayout,
): OperandMap | null {
  const boxes = new Map([...side.loops, ...terms.loops].map(({ symbol, box }) => [symbol, box]));
  const first = ownAxis(memory, channel)!;
  const lines: MemoryAxis[] = [];
  for (const { symbol: s, box } of (alongK ? side : terms).loops.toReversed()) {
    if (box === 1) continue;
    const axis = memory.axes.find(({ coordinate }) => coefficient(coordinate, s) !== 0);
    if (axis === undefined || axis === first || lines.includes(axis)) return null;
    lines.push(axis);
  }
  lines.push(...memory.axes.filter((axis) => axis !== first && !lines.includes(axis)));
  const padded = Math.ceil(first.size / STEP) * STEP;
  let stride = padded;
  const axes: MapAxis[] = [{
    size: first.size,
    stride: 1,
    box: alongK ? ROW_TERMS : GROUP_ROWS,
    every: 1,
    start: (_, block) => block === 0 ? `f${channel}` : `f${channel} + ${block * GROUP_ROWS}`,
  }];
  for (const { coordinate, size } of lines) {
    const moving = coordinate.terms.filter(([s]) => (boxes.get(s) ?? 1) > 1);
    const [s, every] = moving[0] ?? [-1, 1];
    const box = boxes.get(s) ?? 1;
    if (moving.length > 1 || every < 1 || every > MAX_EVERY || (box - 1) * every >= MAX_BOX) {
      return null;
    }
    axes.push({
      size,
      stride,
      box,
      every,
      start: (emitter) => startOf(emitter, coordinate, boxes),
    });
    stride *= size;
  }
  if (axes.length > MAX_AXES) return null;
  const packing = { base: memory.base, channel: { ...first, padded }, lines };
  return { ...operand, alongK, axes, source: { kind: "packed", packing, count: stride } };
}

/** Elements between those that a box has, and elements between its first and last. */
const MAX_EVERY = 8, MAX_BOX = 256;

/** Start of a box on an axis: loops of tiles begin with their tile, a batch's stand still. */
function startOf(
  emitter: Emitter,
  { offset, terms }: AffineExpr,
  boxes: ReadonlyMap<number, number>,
): string {
  const parts = terms.map(([s, c]) => {
    const at = `${boxes.has(s) ? "f" : "i"}${s}`;
    return c === 1 ? at : `${at} * ${emitter.index(c)}`;
  });
  if (offset !== 0) parts.push(emitter.index(offset));
  return parts.join(" + ") || "0";
}
