/**
 * Products of attention: warp by warp (`mma.sync`), or by warpgroups of four warps, whose
 * instructions (`wgmma`, Hopper) read both operands of a score from local memory.
 */
import type { AttentionKernel } from "../../../kernel/attention.ts";
import type { Target } from "../../../kernel/target.ts";
import type { AttentionText } from "./attention_text.ts";
import {
  addProducts,
  clearSums,
  packedRows,
  rowProducts,
  suffixOf,
  tileProducts,
} from "./mma_text.ts";

/** Scores: rows of one tile times rows of another, over their features. */
export interface Scores {
  /** The array that is declared for them. */
  readonly into: string;
  /** Start of the tile of the rows. */
  readonly rows: string;
  /** The registers that hold the rows of a warp; null where they are read from the tile. */
  readonly held: string | null;
  readonly tile: string;
  readonly features: number;
}

/** Scores in registers, rounded to the half type, times the rows of a tile, added to sums. */
export interface Weighed {
  readonly into: string;
  readonly scores: string;
  readonly tile: string;
  readonly features: number;
}

/** Writer of products. */
export interface Units {
  /** Warps of a group. */
  readonly warps: number;
  /** Bytes at whose multiples tiles begin. */
  readonly alignment: number;
  /** True when rows of scores are held in registers of their warp. */
  readonly holdsRows: boolean;
  /** Statements between the end of copies and the barrier behind which products read them. */
  readonly arrived: readonly string[];
  /** Makes scores, all at once where the units can. */
  score(text: AttentionText, all: readonly Scores[], tiles: number, columns: number): void;
  /** Adds what is weighed, all at once where the units can. */
  add(text: AttentionText, all: readonly Weighed[], tiles: number, columns: number): void;
}

const byWarps: Units = {
  warps: 4,
  alignment: 128,
  holdsRows: true,
  arrived: [],
  score: (text, all, tiles, columns) => {
    for (const { into, rows, held, tile, features } of all) {
      clearSums(text, into, tiles, columns);
      if (held === null) tileProducts(text, into, rows, tile, features, columns);
      else rowProducts(text, into, held, tile, tiles, features, columns);
    }
  },
  add: (text, all, tiles, columns) => {
    for (const { into, scores, tile, features } of all) {
      addProducts(text, into, scores, tile, tiles, columns, features);
    }
  },
};

/** Features and columns of what a warpgroup multiplies. */
const SIDE = 64;

/** One warpgroup a group: with two, which share what is copied, gradients of keys took 139 us for 114 (H200). */
const byWarpgroups: Units = {
  warps: 4,
  alignment: 1024,
  holdsRows: false,
  arrived: ["WG_WRITTEN();"],
  score: (text, all) => {
    for (const { into } of all) text.add(`float ${into}[1][${SIDE / 8}][4];`);
    const operands = all.map(({ into, rows, tile }) => `${into}, ${rows}, ${tile}`);
    text.add(`WG_SCORES${all.length > 1 ? "2" : ""}_${suffixOf(text)}(${operands.join(", ")});`);
  },
  add: (text, all) => {
    all.forEach(({ scores }, k) => text.add(...packedRows(text, `packed${k}`, scores, SIDE)));
    const operands = all.map(({ into, tile }, k) => `${into}, packed${k}, ${tile}`);
    text.add(`WG_ADD${all.length > 1 ? "2" : ""}_${suffixOf(text)}(${operands.join(", ")});`);
  },
};

/** The units that make the products of a kernel. */
export function unitsOf({ features, valueFeatures }: AttentionKernel, target: Target): Units {
  return target.warpgroups && features === SIDE && valueFeatures === SIDE ? byWarpgroups : byWarps;
}
