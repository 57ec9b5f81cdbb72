/** Contractions of any types and views: a work-item computes an element of the result. */
import { blocksOf } from "../../../kernel/accumulation.ts";
import { isFloat } from "../../../graph/dtype.ts";
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { extent } from "../../../kernel/kernel.ts";
import { walk } from "../../../codegen/loops.ts";
import { computeType } from "../../codegen/types.ts";
import { generatedLoop } from "../../codegen/generated.ts";
import { mapOuterLoops } from "../../codegen/indices.ts";
import { TileSums } from "../../codegen/tile_sums.ts";
import type { ContractionTemplate } from "../parts/contraction_shape.ts";
import { single } from "../parts/template.ts";
import { emitEpilogue, operandText } from "../parts/tile_text.ts";

/** Work-items of a group on GPUs, and on CPU devices. */
const GPU_GROUP = 256, CPU_GROUP = 64;
/** Elements that count as one piece of work, as those of a tile do. */
const PIECE = 128;

/** One work-item an element. */
export const generalContraction: ContractionTemplate = {
  name: "general contraction",
  matches: (kernel, target) => kernel.contraction === null ? null : { kernel, target, shape: null },
  emit: ({ kernel, target: { isGpu }, target }) =>
    single(generatedLoop(kernel, target, (emitter, dialect) => {
      const isFlat = kernel.outer.length === 1;
      const local = isGpu ? [GPU_GROUP] : isFlat ? [CPU_GROUP] : [CPU_GROUP, 1];
      const size = mapOuterLoops(emitter, isGpu, local);
      writeElement(emitter, dialect);
      return size;
    })),
  workItems: ({ kernel }) => Math.ceil(extent(kernel, kernel.outer) / PIECE),
};

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
