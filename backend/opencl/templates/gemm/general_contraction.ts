/** Contractions of any types and views: a work-item computes an element of the result. */
import { emitRow } from "../../../codegen/rows.ts";
import { summedProducts } from "../../../kernel/forms/summed_products.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { generatedLoop } from "../../codegen/generated.ts";
import { mapOuterLoops } from "../../codegen/indices.ts";
import type { ContractionTemplate } from "../parts/contraction_shape.ts";
import { defaultParts } from "../parts/tiling.ts";

/** Work-items of a group on GPUs, and on CPU devices. */
const GPU_GROUP = 256, CPU_GROUP = 64;
/** Elements that count as one piece of work, as those of a tile do. */
const PIECE = 128;
/** Work-items that keep a compute unit of a GPU busy with sums, and terms of the shortest part of one. */
const GPU_ITEMS = 2048, SHORTEST_PART = 128;

/** One work-item an element. */
export const generalContraction: ContractionTemplate = {
  name: "general contraction",
  readsPacked: true,
  matches: (kernel, target) => kernel.contraction === null ? null : { kernel, target, shape: null },
  emit: ({ kernel, target }) => [generatedLoop(summedProducts(kernel), target, (emitter) => {
    const { isGpu } = target, local = isGpu ? [GPU_GROUP] : [CPU_GROUP];
    const size = mapOuterLoops(emitter, isGpu, local);
    emitRow(emitter);
    return size;
  })],
  workItems: ({ kernel }) => piecesOf(kernel),
  sumParts: ({ kernel, target }) => {
    const length = extent(kernel, kernel.inner);
    if (!target.isGpu) return defaultParts(piecesOf(kernel), length, target);
    const room = Math.ceil(target.computeUnits * GPU_ITEMS / extent(kernel, kernel.outer));
    return Math.max(1, Math.min(room, Math.floor(length / SHORTEST_PART)));
  },
};

const piecesOf = (kernel: LoopKernel): number => Math.ceil(extent(kernel, kernel.outer) / PIECE);
