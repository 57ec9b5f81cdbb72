/**
 * Kernels of CPU devices in explicit vectors: maps, rows that are reduced along their last loop, and
 * columns that are reduced side by side. A work-item does thousands of elements in loops of its own,
 * in a group of its own.
 */
import type { LoopKernel } from "../../../kernel/kernel.ts";
import { type VectorForm, vectorFormOf, vectorVariant } from "../../codegen/vectors/vector_plan.ts";
import { emitting, type LoopTemplate, type Planned } from "../parts/template.ts";
import { emitMap } from "../../codegen/vectors/vector_map.ts";
import { emitVectorColumns } from "../../codegen/vectors/vector_columns.ts";
import { emitVectorRows } from "../../codegen/vectors/vector_rows.ts";

interface VectorPlan extends Planned<LoopKernel> {
  readonly form: VectorForm;
}

const emitVectors = emitting<VectorPlan>((emitter, { form }) => {
  const { kind, symbol } = form;
  switch (kind) {
    case "map":
      return emitMap(emitter, symbol);
    case "rows":
      return emitVectorRows(emitter, form);
    case "columns":
      return emitVectorColumns(emitter, symbol);
    default:
      return kind satisfies never;
  }
});

/** Maps, rows and columns in vectors along one loop. */
export const vectorRows: LoopTemplate<VectorPlan> = {
  name: "vectors",
  matches: (kernel, target) => {
    const form = target.isGpu ? null : vectorFormOf(kernel);
    return form && { kernel, target, form };
  },
  emit: emitVectors,
  workItems: (plan) => emitVectors(plan)[0]!.global.reduce((n, size) => n * size, 1),
  variant: ({ kernel, form }) => vectorVariant(kernel, form),
};
