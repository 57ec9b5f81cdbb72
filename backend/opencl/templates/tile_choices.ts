/**
 * Which tile a contraction is computed in: a table for each class of devices, and what
 * `deno task tune` found better on this very device. Asked when a kernel's text is written, which
 * contains the tile; never when it is launched.
 */
import type { Target } from "./codegen.ts";
import { slabPieces } from "./mma/mma_epilogue.ts";
import { stageBytesOf } from "./mma/mma_plan.ts";
import { LANES, largest } from "./contraction_text.ts";

/** The tile of a work-item of `rows`: so many rows of so many columns in vectors. */
export interface RowTile {
  readonly rows: number;
  readonly columns: number;
  /** The columns are copied side by side first, for all rows of a work-item. */
  readonly packed: boolean;
}

/** The tile of a work-item that reads a `window`: so many rows of so many columns in vectors. */
export interface WindowTile {
  readonly rows: number;
  readonly columns: number;
}

/** The tile of a work-item of `dots`: so many rows by so many columns of dot products. */
export interface DotTile {
  readonly rows: number;
  readonly columns: number;
}

/** The tile of a work-group of `tiles` (bm x bn, bk terms at a time), and a work-item's piece of it. */
export interface GroupTile {
  readonly bm: number;
  readonly bn: number;
  readonly bk: number;
  readonly tm: number;
  readonly tn: number;
}

/**
 * The tile of a work-group of `mma` (bm x bn, bk terms a stage), a warp's piece of it (wm x wn), and how
 * many stages are in local memory: all but one are on their way while one is multiplied.
 */
export interface MmaTile {
  readonly bm: number;
  readonly bn: number;
  readonly bk: number;
  readonly wm: number;
  readonly wn: number;
  readonly stages: number;
}

/** The tile of each kind of contraction kernel. */
export interface Tiles {
  readonly rows: RowTile;
  readonly window: WindowTile;
  readonly dots: DotTile;
  readonly tiles: GroupTile;
  readonly mma: MmaTile;
}

export type Kind = keyof Tiles;

/** A contraction as its kernel walks it: what the best tile depends on, beside the device. */
export interface Shape<K extends Kind = Kind> {
  readonly kind: K;
  readonly batch: number;
  readonly m: number;
  readonly n: number;
  /** The loops of the sum. */
  readonly k: readonly number[];
  /** How far neighbours lie apart: of the left operand along m and k, of the right along k and n. */
  readonly steps: readonly [am: number, ak: number, bk: number, bn: number];
  /** Bytes of an element of the operands; 4 where nothing is said. */
  readonly elementBytes?: number;
}

/** What was found for a shape: a tile, in how many parts its sum is computed, or both. */
export interface Tuned {
  readonly tile?: unknown;
  readonly parts?: unknown;
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, k) => from + k);
}

/** What is chosen where nothing was tuned. */
const defaults = {
  /**
   * A CPU whose vectors have 16 floats. From studies on PoCL 3.1, AVX-512: any of 96 to 512 sums in
   * registers is as good within 3 %.
   */
  wide: {
    rows: {
      /** Sums take so many registers of so many floats. */
      registers: { count: 24, width: 16 },
      rows: [16, 8, 4, 2, 1],
      /** All columns up to `whole`; else pieces that take the fewest vectors, the first of equals. */
      columns: { whole: 48, pieces: [32, 48, 16, ...range(24, 31), ...range(33, 47)] },
    },
    dots: { rows: [4, 2, 1], columns: [6, 5, 4, 3, 2, 1] },
  },
  /**
   * A CPU of shorter vectors, with 16 registers of 8 floats. PoCL 3.1 with AVX2 has 230 GFLOP/s of
   * 250 at 512x512x512, and 167 with the tiles above.
   */
  narrow: {
    rows: {
      registers: { count: 12, width: 8 },
      rows: [12, 6, 4, 2, 1],
      columns: { whole: 32, pieces: [16, 32, ...range(17, 31)] },
    },
    dots: { rows: [2, 1], columns: [3, 2, 1] },
  },
  cpu: {
    /** What a vector costs where tiles do not divide the columns, and are stored one by one. */
    ragged: 1.15,
    /** Columns further apart than this are packed (each is on a page of its own), for so many rows. */
    packed: { step: 512, rows: 64 },
    /**
     * A sum of at least so many terms is divided until there are so many tiles a core, in parts no
     * shorter than this.
     */
    parts: { perUnit: 4, shortest: 4096, least: 8192 },
  },
  /** Measured on NVIDIA H100 and H200. */
  gpu: {
    /** Of those of which there are so many groups, the one whose code needs the least time. */
    tiles: [
      { groups: 128, speed: 1, tile: { bm: 128, bn: 128, bk: 16, tm: 8, tn: 8 } },
      { groups: 128, speed: 0.55, tile: { bm: 32, bn: 128, bk: 16, tm: 4, tn: 8 } },
      { groups: 128, speed: 0.55, tile: { bm: 128, bn: 32, bk: 16, tm: 8, tn: 4 } },
      { groups: 96, speed: 0.6, tile: { bm: 64, bn: 64, bk: 16, tm: 4, tn: 4 } },
      { groups: 0, speed: 0.4, tile: { bm: 32, bn: 32, bk: 32, tm: 2, tn: 2 } },
    ],
    /**
     * The same for matrix units: `resident` groups of a tile share a multiprocessor. Speeds are relative;
     * on an H100 128x128 reaches 302 TFLOP/s in bfloat16 at 4096, 64x64 241; float32 by three products 44
     * to 48, 40.
     */
    mma: {
      2: [
        { speed: 1, tile: { bm: 128, bn: 128, bk: 32, wm: 64, wn: 64, stages: 3 } },
        { speed: 0.8, tile: { bm: 128, bn: 64, bk: 32, wm: 64, wn: 32, stages: 4 } },
        { speed: 0.8, tile: { bm: 64, bn: 128, bk: 32, wm: 32, wn: 64, stages: 4 } },
        { speed: 0.65, tile: { bm: 64, bn: 64, bk: 64, wm: 32, wn: 32, stages: 3 } },
        { speed: 0.4, tile: { bm: 64, bn: 32, bk: 64, wm: 32, wn: 16, stages: 3 } },
        { speed: 0.4, tile: { bm: 32, bn: 64, bk: 64, wm: 16, wn: 32, stages: 3 } },
      ],
      4: [
        { speed: 1, tile: { bm: 128, bn: 128, bk: 16, wm: 64, wn: 32, stages: 3 } },
        { speed: 0.85, tile: { bm: 128, bn: 64, bk: 16, wm: 64, wn: 32, stages: 4 } },
        { speed: 0.85, tile: { bm: 64, bn: 128, bk: 16, wm: 32, wn: 64, stages: 4 } },
        { speed: 0.7, tile: { bm: 64, bn: 64, bk: 32, wm: 32, wn: 32, stages: 3 } },
      ],
    },
    resident: 2,
    parts: { perUnit: 2, shortest: 128, least: 1024 },
  },
} as const;

/** Work-items of a group that every GPU can run. */
const MAX_GROUP = 256;
const FLOAT = 4;

/** The name of a shape: equal ones are computed by equal kernels, but for what follows the sum. */
export function keyOf({ kind, batch, m, n, k, steps, elementBytes = 4 }: Shape): string {
  const [am, ak, bk, bn] = steps;
  return `${kind}${elementBytes === 4 ? "" : 8 * elementBytes} ${batch}x ${m}x${
    k.join("*")
  }x${n} a${am},${ak} b${bk},${bn}`;
}

/** The tile of a shape: what was tuned, or else what the table has. */
export function tileOf<K extends Kind>(shape: Shape<K>, target: Target): Tiles[K] {
  const tile = target.tuned.get(keyOf(shape))?.tile;
  return isTile(tile, shape, target) ? tile : rules[shape.kind].choose(shape, target);
}

/** Whether a value is a tile that a shape can be computed in. */
export function isTile<K extends Kind>(
  value: unknown,
  shape: Shape<K>,
  target: Target,
): value is Tiles[K] {
  if (typeof value !== "object" || value === null) return false;
  const { counts, admits } = rules[shape.kind];
  const tile = value as Tiles[K];
  return counts.every((name) => isCount(tile[name])) && admits(tile, shape, target);
}

/** In how many parts a sum is computed, as tuned or by the table. */
export function partsOf(shape: Shape, target: Target): number {
  const parts = target.tuned.get(keyOf(shape))?.parts;
  if (isCount(parts)) return parts;
  return defaultParts(tileCount(shape, target), product(shape.k), target);
}

/** By the table, for a sum of `length` terms that is computed in so many tiles. */
export function defaultParts(tiles: number, length: number, target: Target): number {
  const { perUnit, shortest, least } = defaults[target.isGpu ? "gpu" : "cpu"].parts;
  if (length < least) return 1;
  const room = Math.floor(target.computeUnits * perUnit / tiles);
  return Math.max(1, Math.min(room, Math.floor(length / shortest)));
}

/** How many tiles a shape is computed in, one after the other or side by side. */
export function tileCount(shape: Shape, target: Target): number {
  const { kind, m, n, batch } = shape;
  const { bm, bn } = kind === "tiles" || kind === "mma"
    ? tileOf(shape as Shape<"tiles" | "mma">, target)
    : { bm: 8, bn: LANES };
  return Math.ceil(m / bm) * Math.ceil(n / bn) * batch;
}

/** What is chosen for a kind of kernel, and what its code can do. */
interface Rule<K extends Kind> {
  readonly choose: (shape: Shape<K>, target: Target) => Tiles[K];
  /** The fields that are positive integers. */
  readonly counts: readonly (keyof Tiles[K])[];
  /** Whether the code of the kernel can be written for a tile of such numbers. */
  readonly admits: (tile: Tiles[K], shape: Shape<K>, target: Target) => boolean;
}

const rules: { readonly [K in Kind]: Rule<K> } = {
  rows: {
    choose: (shape, target) => {
      const { packed } = defaults.cpu;
      const tile = rowTile(shape, target);
      const isFar = Math.abs(shape.steps[2]) >= packed.step && shape.m >= packed.rows;
      return { ...tile, packed: isFar && canPack(shape, tile.columns, target) };
    },
    counts: ["rows", "columns"],
    admits: ({ packed, ...tile }, shape, target) =>
      fits(tile, shape) &&
      (packed === false || packed === true && canPack(shape, tile.columns, target)),
  },
  window: {
    choose: (shape, target) => rowTile(shape, target, windowWidth),
    counts: ["rows", "columns"],
    admits: fits,
  },
  dots: {
    choose: ({ m, n }, target) => {
      const { rows, columns } = tableOf(target).dots;
      const tm = largest(m, rows);
      return { rows: tm, columns: leastWork(n, columns, (tn) => tn * tm + tn + tm) };
    },
    counts: ["rows", "columns"],
    admits: ({ rows, columns }, { m, n }) => rows <= Math.min(m, 16) && columns <= Math.min(n, 16),
  },
  tiles: {
    choose: ({ m, n, batch }) => {
      const groups = ({ bm, bn }: GroupTile): number =>
        Math.ceil(m / bm) * Math.ceil(n / bn) * batch;
      const cost = ({ tile, speed }: (typeof defaults.gpu.tiles)[number]): number =>
        groups(tile) * tile.bm * tile.bn / speed;
      const candidates = defaults.gpu.tiles.filter(({ groups: least, tile }) =>
        groups(tile) >= least
      );
      return candidates.reduce((a, b) => cost(b) < cost(a) ? b : a).tile;
    },
    counts: ["bm", "bn", "bk", "tm", "tn"],
    admits: ({ bm, bn, bk, tm, tn }, { elementBytes = FLOAT }, { localMemory }) => {
      const items = bm / tm * (bn / tn);
      // A work-item's piece is read in runs of four; all items copy equal shares.
      return [tm, tn].every((t) => t <= 16 && (t <= 4 || t % 4 === 0)) &&
        bm % tm === 0 && bn % tn === 0 && items <= MAX_GROUP &&
        bm * bk % items === 0 && bn * bk % items === 0 &&
        (bm + bn + 8) * bk * Math.max(FLOAT, elementBytes) <= localMemory;
    },
  },
  mma: {
    choose: (shape, { computeUnits }) => {
      const { m, n, batch, k, elementBytes = FLOAT } = shape;
      const { mma, resident, parts } = defaults.gpu;
      const splits = Math.max(1, Math.floor(product(k) / (8 * parts.shortest)));
      /** Turns in which the device computes all groups, whose sums may be divided. */
      const cost = ({ speed, tile }: { speed: number; tile: MmaTile }): number => {
        const groups = Math.ceil(m / tile.bm) * Math.ceil(n / tile.bn) * batch;
        const room = computeUnits * resident;
        const turns = groups >= room
          ? Math.ceil(groups / room)
          : 1 / Math.min(splits, room / groups);
        return turns * tile.bm * tile.bn / speed;
      };
      const candidates: readonly { speed: number; tile: MmaTile }[] =
        mma[elementBytes === 2 ? 2 : 4];
      return candidates.reduce((a, b) => cost(b) < cost(a) ? b : a).tile;
    },
    counts: ["bm", "bn", "bk", "wm", "wn", "stages"],
    admits: (tile, { elementBytes = FLOAT }, { localMemory }) => {
      const { bm, bn, bk, wm, wn, stages } = tile;
      const warps = bm / wm * (bn / wn), chunk = 16 / elementBytes;
      // A warp multiplies 16 rows by 16 columns at a time; rows of local memory hold 4, 8, ... pieces.
      return bm % wm === 0 && bn % wn === 0 && wm % 16 === 0 && wn % 16 === 0 && warps <= 8 &&
        wm * wn <= 4096 && stages >= 2 && stages <= 8 && isPower(bk) && bk / chunk >= 4 &&
        isPower(bm) && isPower(bn) && bm >= 32 && bn >= 32 &&
        stages * stageBytesOf(tile, elementBytes) <= localMemory &&
        slabPieces(tile, stages * stageBytesOf(tile, elementBytes)) !== null;
    },
  },
};

function isPower(n: number): boolean {
  return (n & (n - 1)) === 0;
}

function rowTile({ m, n }: Shape, target: Target, widthOf = vectorWidth): WindowTile {
  const { registers, rows, columns: { whole, pieces } } = tableOf(target).rows;
  const cost = (c: number): number =>
    Math.ceil(c / LANES) * (n % c === 0 ? 1 : defaults.cpu.ragged);
  const columns = n <= whole ? n : leastWork(n, pieces, cost);
  const width = widthOf(columns);
  const across = Math.ceil(columns / width) * Math.ceil(width / registers.width);
  const heights = rows.filter((r) => r === 1 || r * across <= registers.count);
  // Each row more of a tile shares the reading of its columns.
  return { rows: leastWork(m, heights, (r) => r + 1.5), columns };
}

function tableOf({ vectorWidth }: Target): typeof defaults.wide | typeof defaults.narrow {
  return vectorWidth >= LANES ? defaults.wide : defaults.narrow;
}

/** The piece in which a length takes the least work, of those that fit in; the first of equals. */
function leastWork(
  length: number,
  pieces: readonly number[],
  work: (piece: number) => number,
): number {
  const total = (piece: number): number => Math.ceil(length / piece) * work(piece);
  return pieces.filter((piece) => piece <= length)
    .reduce((a, b) => total(b) < total(a) ? b : a);
}

function fits({ rows, columns }: WindowTile, { m, n }: Shape): boolean {
  return rows <= Math.min(m, 32) && columns >= 4 && columns <= Math.min(n, 128);
}

/** The width of the vectors that so many columns are computed in. */
export function vectorWidth(columns: number): number {
  return largest(columns, [16, 8, 4]);
}

/** The same where vectors may read more columns than count. */
export function windowWidth(columns: number): number {
  return columns > LANES ? LANES : [4, 8, LANES].find((width) => columns <= width)!;
}

/** How many terms of a sum a work-item's packed columns have room for: alike for similar sizes. */
export function packedCapacity(terms: number): number {
  return Math.max(64, 2 ** Math.ceil(Math.log2(terms)));
}

/** Columns are packed for sums of one loop, in half of the local memory. */
function canPack({ k }: Shape, columns: number, { localMemory }: Target): boolean {
  return k.length === 1 && packedCapacity(k[0]!) * columns * FLOAT <= localMemory / 2;
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && value as number > 0;
}

function product(sizes: readonly number[]): number {
  return sizes.reduce((a, b) => a * b, 1);
}
