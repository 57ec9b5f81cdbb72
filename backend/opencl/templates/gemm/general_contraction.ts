/** Contractions of any types and views: a work-item computes an element of the result. */
import { blocksOf } from "../../../kernel/accumulation.ts";
import { isFloat } from "../../../graph/dtype.ts";
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { walk } from "../../../codegen/loops.ts";
import { computeType } from "../../codegen/types.ts";
import { generatedLoop } from "../../codegen/generated.ts";
import { mapOuterLoops } from "../../codegen/indices.ts";
import { TileSums } from "../../codegen/tile_sums.ts";
import type { ContractionTemplate } from "../parts/contraction_shape.ts";
import { single } from "../parts/template.ts";
import { emitEpilogue, operandText } from "../parts/tile_text.ts";
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
  emit: ({ kernel, target: { isGpu }, target }) =>
    single(generatedLoop(kernel, target, (emitter, dialect) => {
      const isFlat = kernel.outer.length === 1;
      const local = isGpu ? [GPU_GROUP] : isFlat ? [CPU_GROUP] : [CPU_GROUP, 1];
      const size = mapOuterLoops(emitter, isGpu, local);
      writeElement(emitter, dialect);
      return size;
    })),
  workItems: ({ kernel }) => piecesOf(kernel),
  sumParts: ({ kernel, target }) => {
    const length = extent(kernel, kernel.inner);
    if (!target.isGpu) return defaultParts(piecesOf(kernel), length, target);
    const room = Math.ceil(target.computeUnits * GPU_ITEMS / extent(kernel, kernel.outer));
    return Math.max(1, Math.min(room, Math.floor(length / SHORTEST_PART)));
  },
};

function piecesOf(kernel: LoopKernel): number {
  return Math.ceil(extent(kernel, kernel.outer) / PIECE);
}

function writeElement(emitter: Emitter, dialect: Dialect): void {
  const c = emitter.kernel.contraction!;
  const T = computeType(c.dtype);
  const sums = new TileSums(
    emitter,
    T,
    ["acc"],
    isFloat(c.dtype) ? blocksOf(emitter.kernel) : null,
  );
  sums.declare();
  walk(emitter, dialect, c.k, sums, () => {
    emitter.line(`acc += ${operandText(emitter, c.a, T)} * ${operandText(emitter, c.b, T)};`);
  });
  sums.finish();
  emitEpilogue(emitter);
}
