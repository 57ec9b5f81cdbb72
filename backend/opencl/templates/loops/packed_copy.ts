/** Copies of packed elements: the tile program, in vectors on CPUs. */
import type { DType } from "../../../graph/dtype.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import { type PackedCopy, packedCopy } from "../../../kernel/forms/packed_product.ts";
import { withExpressions } from "../../../tile/language/expression.ts";
import { canUnpack, unpack } from "../../../tile/programs/packed/unpack.ts";
import type { Unit } from "../../../tile/units.ts";
import { emitTile } from "../../codegen/tile_text.ts";
import { storeText } from "../../codegen/types.ts";
import { unitOf } from "../gemm/packed_gemv.ts";
import { emitting, type LoopTemplate, type Planned } from "../parts/template.ts";

/** A copy with the unit that decodes. */
interface CopyPlan extends Planned<LoopKernel> {
  readonly copy: PackedCopy;
  readonly unit: Unit;
}

/** Stores of vectors; single elements are stored by the table of types. */
const vectorStores: Readonly<Partial<Record<DType, (w: number, at: string, v: string) => string>>> =
  {
    float32: (w, at, v) => `vstore${w}(${v}, 0, o0 + ${at});`,
    float16: (w, at, v) => `vstore_half${w}(${v}, 0, o0 + ${at});`,
    bfloat16: (w, at, v) => `vstore${w}(to_bfloat16_${w}(${v}), 0, o0 + ${at});`,
  };

/** Work-items decode neighbours, and store them side by side. */
export const packedCopies: LoopTemplate<CopyPlan> = {
  name: "packed copy",
  readsPacked: true,
  matches: (kernel, target) => {
    const copy = packedCopy(kernel), unit = unitOf(target);
    if (copy === null || !canUnpack(copy, unit)) return null;
    // There are vectors of 16 that become bfloat16.
    const isStored = copy.dtype !== "bfloat16" || unit.width === 1 || unit.width === 16;
    return isStored ? { kernel, target, copy, unit } : null;
  },
  emit: emitting((emitter, { copy, unit }) => {
    const tile = withExpressions(() => unpack(copy, unit, (value) => emitter.index(value)));
    const store = vectorStores[copy.dtype]!;
    // A product and a sum are rounded one by one, as ggml does and as the host's reader.
    emitter.open("{");
    emitter.line("#pragma OPENCL FP_CONTRACT OFF");
    const size = emitTile(
      emitter,
      tile,
      ([at], value, width) =>
        emitter.line(
          width > 1 ? store(width, at!, value) : storeText("o0", copy.dtype, at!, value),
        ),
    );
    emitter.close();
    return size;
  }),
  workItems: ({ copy }) => copy.count,
};
