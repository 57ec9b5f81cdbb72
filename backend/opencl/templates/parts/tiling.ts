/**
 * Tile of a contraction: each template has a rule, and `deno task tune` may have found
 * better on this very device. Asked when a kernel is planned; its text contains the tile.
 */
import type { Target } from "../../../kernel/target.ts";

/** A contraction as its kernel walks it: what the best tile depends on, beside the device. */
export interface ContractionSize {
  /** Rule that it is for. */
  readonly kind: string;
  readonly batch: number;
  readonly m: number;
  readonly n: number;
  /** The loops of the sum. */
  readonly k: readonly number[];
  /** Distances of neighbours: of the left operand along m and k, of the right along k and n. */
  readonly steps: readonly [am: number, ak: number, bk: number, bn: number];
  /** Bytes of an element of the operands; 4 where nothing is said. */
  readonly elementBytes?: number;
}

/** Choice of a template's tile, and limits of its code. */
export interface TileRule<T> {
  /** Its name in the keys of what was tuned. */
  readonly kind: string;
  /** The tile of a shape for which nothing was tuned. */
  choose(shape: ContractionSize, target: Target): T;
  /** The fields that are positive integers. */
  readonly counts: readonly (keyof T)[];
  /** True when the code of the kernel can be written for a tile of such numbers. */
  admits(tile: T, shape: ContractionSize, target: Target): boolean;
}

/** Bytes of a float. */
export const FLOAT = 4;

/** The name of a shape: equal ones are computed by equal kernels, but for what follows the sum. */
export function keyOf(
  { kind, batch, m, n, k, steps, elementBytes = FLOAT }: ContractionSize,
): string {
  const [am, ak, bk, bn] = steps;
  return `${kind}${elementBytes === FLOAT ? "" : 8 * elementBytes} ${batch}x ${m}x${
    k.join("*")
  }x${n} a${am},${ak} b${bk},${bn}`;
}

/** The tile of a shape: what was tuned, or else what the rule chooses. */
export function tileOf<T>(rule: TileRule<T>, shape: ContractionSize, target: Target): T {
  const tile = target.tuned.get(keyOf(shape))?.tile;
  return isTile(rule, tile, shape, target) ? tile : rule.choose(shape, target);
}

/** True when a value is a tile that a shape can be computed in. */
export function isTile<T>(
  { counts, admits }: TileRule<T>,
  value: unknown,
  shape: ContractionSize,
  target: Target,
): value is T {
  if (typeof value !== "object" || value === null) return false;
  const tile = value as T;
  return counts.every((name) => isCount(tile[name])) && admits(tile, shape, target);
}

/** In how many parts a sum is computed as tuned; null where nothing was. */
export function tunedParts(shape: ContractionSize, target: Target): number | null {
  const parts = target.tuned.get(keyOf(shape))?.parts;
  return isCount(parts) ? parts : null;
}

/**
 * A sum of at least `least` terms is divided until there are `perUnit` tiles a compute unit, in parts no
 * shorter than `shortest`. Of GPUs measured on NVIDIA H100 and H200.
 */
const splits = {
  cpu: { perUnit: 4, shortest: 4096, least: 8192 },
  gpu: { perUnit: 2, shortest: 128, least: 1024 },
} as const;

/** Terms of the shortest part that a GPU's sum is divided into. */
export const MIN_GPU_PART = splits.gpu.shortest;

/** In how many parts a sum of `length` terms is computed that takes so many tiles, if nothing was tuned. */
export function defaultParts(tiles: number, length: number, target: Target): number {
  const { perUnit, shortest, least } = splits[target.isGpu ? "gpu" : "cpu"];
  if (length < least) return 1;
  const room = Math.floor(target.computeUnits * perUnit / tiles);
  return Math.max(1, Math.min(room, Math.floor(length / shortest)));
}

/** Number of tiles of a shape, one after the other or side by side. */
export function tileCount({ m, n, batch }: ContractionSize, bm: number, bn: number): number {
  return Math.ceil(m / bm) * Math.ceil(n / bn) * batch;
}

/** The largest of `sizes` that does not exceed `n`; the last one fits always. */
export function largest(n: number, sizes: readonly number[]): number {
  return sizes.find((size) => size <= n) ?? sizes[sizes.length - 1]!;
}

/** The piece in which a length takes the least work, of those that fit in; the first of equals. */
export function leastWork(
  length: number,
  pieces: readonly number[],
  work: (piece: number) => number,
): number {
  const total = (piece: number): number => Math.ceil(length / piece) * work(piece);
  return pieces.filter((piece) => piece <= length)
    .reduce((a, b) => total(b) < total(a) ? b : a);
}

/** All divisors, the largest first. */
export function divisors(n: number): number[] {
  return Array.from({ length: n }, (_, k) => n - k).filter((d) => n % d === 0);
}

/** All elements of some loops. */
export const product = (sizes: readonly number[]): number => sizes.reduce((a, b) => a * b, 1);

const isCount = (value: unknown): value is number => Number.isInteger(value) && value as number > 0;
