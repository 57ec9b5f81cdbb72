/**
 * Kernels of CPU devices in explicit vectors: maps, rows that are reduced along their last loop, and
 * columns that are reduced side by side. A work-item does thousands of elements in loops of its own,
 * in a group of its own.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import type { WorkSize } from "../generated.ts";
import { emitVectorColumns } from "./vector_columns.ts";
import { emitMap } from "./vector_map.ts";
import type { VectorForm } from "./vector_plan.ts";
import { emitVectorRows } from "./vector_rows.ts";

/** Writes a kernel in vectors. */
export function emitVectorKernel(
  emitter: Emitter,
  form: VectorForm,
): WorkSize {
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
}
