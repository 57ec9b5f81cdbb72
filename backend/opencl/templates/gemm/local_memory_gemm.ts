/** Products on GPUs through local memory: which tiles, of the tile program of products. */
import { gemm, type GemmTile } from "../../../tile/programs/gemm.ts";
import { emitTile } from "../../codegen/tile_text.ts";
import type { ContractionTemplate, TiledPlan } from "../parts/contraction_shape.ts";
import { groupGemm } from "../parts/group_gemm.ts";
import { FLOAT, tileCount, type TileRule } from "../parts/tiling.ts";

/**
 * Tiles that may be chosen where a product has at least `groups` of them; `speed` is that of their code,
 * relative to the fastest. Measured on NVIDIA H100 and H200.
 */
const choices = [
  { groups: 128, speed: 1, tile: { bm: 128, bn: 128, bk: 16, tm: 8, tn: 8 } },
  { groups: 128, speed: 0.55, tile: { bm: 32, bn: 128, bk: 16, tm: 4, tn: 8 } },
  { groups: 128, speed: 0.55, tile: { bm: 128, bn: 32, bk: 16, tm: 8, tn: 4 } },
  { groups: 96, speed: 0.6, tile: { bm: 64, bn: 64, bk: 16, tm: 4, tn: 4 } },
  { groups: 0, speed: 0.4, tile: { bm: 32, bn: 32, bk: 32, tm: 2, tn: 2 } },
] as const;

/** Bytes of a term in the tables of both operands: an index and up to three bounds each, of 8 bytes. */
const TABLE_BYTES = 64;
/** Work-items of a group that every GPU can run. */
const MAX_GROUP = 256;

export const localMemoryTiles: TileRule<GemmTile> = {
  kind: "local-memory",
  choose: (shape) => {
    const groups = ({ bm, bn }: GemmTile): number => tileCount(shape, bm, bn);
    const cost = ({ tile, speed }: (typeof choices)[number]): number =>
      groups(tile) * tile.bm * tile.bn / speed;
    const candidates = choices.filter(({ groups: least, tile }) => groups(tile) >= least);
    return candidates.reduce((a, b) => cost(b) < cost(a) ? b : a).tile;
  },
  counts: ["bm", "bn", "bk", "tm", "tn"],
  admits: ({ bm, bn, bk, tm, tn }, { elementBytes = FLOAT }, { localMemory }) => {
    const items = bm / tm * (bn / tn);
    // A work-item's piece is read in runs of four; all items copy equal shares.
    return [tm, tn].every((t) => t <= 16 && (t <= 4 || t % 4 === 0)) &&
      bm % tm === 0 && bn % tn === 0 && items <= MAX_GROUP &&
      bm * bk % items === 0 && bn * bk % items === 0 &&
      ((bm + bn + 8) * Math.max(FLOAT, elementBytes) + TABLE_BYTES) * bk <= localMemory;
  },
};

/** A tile a work-group. */
export const localMemoryGemm: ContractionTemplate<TiledPlan<GemmTile>> = groupGemm(
  "local-memory gemm",
  localMemoryTiles,
  () => true,
  (emitter, c, tile) => {
    const { kernel, dialect: { contracts } } = emitter;
    return emitTile(emitter, gemm(kernel, c, tile, (n) => emitter.parameter(n), contracts));
  },
);
