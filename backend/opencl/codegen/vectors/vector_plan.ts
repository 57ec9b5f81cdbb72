/**
 * Plan of a kernel in explicit vectors before it is written: along which loop, how many at once.
 *
 * This folder (`vectors/`) writes kernels of vectors of 16 lanes. It imports `opencl/codegen/`,
 * `backend/codegen/`, `kernel/` and `graph/`. The templates of loops and convolutions ask for plans
 * and get OpenCL C.
 */
import { affineKey } from "../../../kernel/affine.ts";
import { neededBy } from "../../../kernel/analysis.ts";
import { dtypes } from "../../../graph/dtype.ts";
import { primitives } from "../../../graph/primitives.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { inVectorColumns, inVectorRows } from "../../../kernel/row_mappings.ts";
import {
  elementStores,
  type KeptValue,
  lastReduction,
  type ReduceStep,
  type RowProgram,
  rowProgram,
} from "../../../kernel/row_program.ts";
import type { LaunchVariant } from "../../../kernel/template.ts";
import { canVectorize, isCostly, LANES } from "./vector_types.ts";
import { type ApartRows, apartRows } from "./window_lanes.ts";

/** Elements of a work-item: enough to be worth a group, few enough to share them out. */
const ITEM_ELEMENTS = 8192;
const COSTLY_ITEM_ELEMENTS = 4096;
/** So many elements in items of the larger size are enough groups for any processor. */
const MIN_LARGE_ELEMENTS = 64 * ITEM_ELEMENTS;
/** Independent accumulators hide the latency of additions in bodies of so few expressions. */
const COPIES = 4;
const MAX_SHORT_BODY = 8;
/** Indices among the arguments of a work-item that takes many rows: how many, and how many there are. */
const OPEN_ROWS_NUMBERS = 2;
/** Fewer elements than a vector has are worth one only in costly functions. */
const MIN_LANES = 4;
/** A primitive of at least this cost is read back rather than computed twice. */
const MIN_KEPT_COST = 8;
/** Bytes of a result that no cache keeps for its reader (measured from 4 MiB to 128 MiB). */
const MIN_STREAMED_BYTES = 32 << 20;

/** Loop of a kernel that vectors walk, and its elements: of a map, of rows or of columns. */
export interface VectorForm {
  readonly kind: "map" | "rows" | "columns";
  readonly symbol: number;
  /** Layout of the rows' elements where lanes are no neighbours. */
  readonly apart?: ApartRows | null;
}

/** Form of a kernel in vectors; null where its loops do not allow it. */
export function vectorFormOf(kernel: LoopKernel): VectorForm | null {
  const lastOuter = kernel.outer[kernel.outer.length - 1];
  const lastInner = kernel.inner[kernel.inner.length - 1];
  if (lastInner !== undefined && isWide(kernel, lastInner)) {
    return { kind: "rows", symbol: lastInner };
  }
  const apart = lastInner === undefined ? null : apartRows(kernel);
  if (apart) return { kind: "rows", symbol: apart.symbol, apart };
  if (lastOuter === undefined) return null;
  if (lastInner !== undefined) {
    // Few columns are computed as many are, so that sums over batches of any width share a launch.
    return kernel.sizes[lastOuter]! >= MIN_LANES && canVectorize(kernel, lastOuter)
      ? { kind: "columns", symbol: lastOuter }
      : null;
  }
  // A single loop of any length has one text, so that many of them share a launch.
  const isSingle = kernel.outer.length === 1 && canVectorize(kernel, lastOuter);
  return kernel.reductions.length === 0 && (isSingle || isWide(kernel, lastOuter))
    ? { kind: "map", symbol: lastOuter }
    : null;
}

/** The program of rows whose elements lie along the lanes of vectors. */
export function vectorRowProgram(
  kernel: LoopKernel,
  { symbol, apart }: VectorForm,
): RowProgram {
  const copiesOf = ({ exprs }: ReduceStep): number => isShortBody(kernel, exprs) ? COPIES : 1;
  const plain = rowProgram(kernel), keeps = apart ? null : worthKeeping(kernel, plain);
  const program = keeps === null ? plain : rowProgram(kernel, keeps);
  return inVectorRows(kernel, program, symbol, LANES, copiesOf);
}

/**
 * A costly value that the last reduction and the only output of elements both need. An output may lie
 * where an input lay, so nothing else may be read from its place afterwards.
 */
function worthKeeping(kernel: LoopKernel, program: RowProgram): KeptValue | null {
  const last = lastReduction(program), stores = elementStores(program);
  if (!last || stores?.outputs.length !== 1) return null;
  const [output] = stores.outputs as [number];
  const { expr: stored, index, dtype } = kernel.outputs[output]!;
  if (dtype !== "float32") return null;
  const isCostlyHere = (id: number): boolean => {
    const e = kernel.exprs[id]!;
    return e.op === "primitive" && e.dtype === "float32" && primitives[e.fn].cost >= MIN_KEPT_COST;
  };
  const expr = last.exprs.findLast((id) => isCostlyHere(id) && stores.exprs.includes(id));
  if (expr === undefined) return null;
  const readsPlace = neededBy(kernel, [stored], new Set([expr])).some((id) => {
    const e = kernel.exprs[id]!;
    return e.op === "load" && affineKey(kernel.loads[e.load]!.index) === affineKey(index);
  });
  return readsPlace ? null : { expr, output };
}

/** The program of rows side by side, one in each lane. */
export function vectorColumnProgram(kernel: LoopKernel, copies: number): RowProgram {
  return inVectorColumns(kernel, rowProgram(kernel), copies);
}

/**
 * Vectors of columns that a work-item computes: what it walks through decides, not what is done once with
 * the sums. A single vector of each row is a cache line that no prefetcher expects (768 rows of 512, with
 * Adam behind the sum, PoCL 3.1 on two cores: 80 us, 35).
 */
export function columnCopies(kernel: LoopKernel, symbol: number): number {
  const isShort = rowProgram(kernel).every((step) =>
    step.kind !== "reduce" && step.kind !== "storeEach" || isShortBody(kernel, step.exprs)
  );
  return isShort && kernel.sizes[symbol]! >= COPIES * LANES ? COPIES : 1;
}

/** True for so little to do an element that several accumulators pay. */
function isShortBody(kernel: LoopKernel, exprs: readonly number[]): boolean {
  return exprs.length <= MAX_SHORT_BODY && !isCostly(exprs.map((id) => kernel.exprs[id]!));
}

/** Variant of the text beside the kernel's structure; null for a grid of two dimensions. */
export function vectorVariant(
  kernel: LoopKernel,
  form: VectorForm,
): LaunchVariant | null {
  const { kind, symbol } = form;
  if (form.apart) return null;
  const stages = kernel.reductions.length + 1;
  const lead = kernel.outer.slice(0, -1);
  switch (kind) {
    case "map": {
      const isFlat = lead.length === 0;
      if (!isFlat && kernel.sizes[symbol]! >= itemElements(kernel)) return null;
      const key = `map${isStreamed(kernel) ? " streamed" : ""}`;
      return { key, numbers: isFlat ? 0 : OPEN_ROWS_NUMBERS, copies: 2 };
    }
    case "rows": {
      const cuts = cutsOf(vectorRowProgram(kernel, form));
      return {
        key: `rows ${cuts}`,
        numbers: OPEN_ROWS_NUMBERS + stages,
        copies: (COPIES + 2) * stages,
      };
    }
    case "columns": {
      if (lead.length > 0) return null;
      const columns = columnCopies(kernel, symbol);
      return {
        key: `columns ${columns} ${cutsOf(vectorColumnProgram(kernel, columns))}`,
        numbers: 2 * stages,
        copies: (COPIES + 1) * stages,
      };
    }
    default:
      return kind satisfies never;
  }
}

/** The loops whose sums are added up in blocks. */
function cutsOf(program: RowProgram): string {
  return program.flatMap((step) =>
    step.kind === "reduce" ? `${step.copies}:${step.blocked?.blocks.symbol ?? ""}` : []
  ).join();
}

function isWide(kernel: LoopKernel, symbol: number): boolean {
  const fewest = isCostly(kernel.exprs) ? MIN_LANES : LANES;
  return kernel.sizes[symbol]! >= fewest && canVectorize(kernel, symbol);
}

/** Elements that a work-item computes. */
export function itemElements(kernel: LoopKernel): number {
  return isCostly(kernel.exprs) ? COSTLY_ITEM_ELEMENTS : ITEM_ELEMENTS;
}

/** Rows that an item computes; among many of them a group's own cost counts more than its share. */
export function rowsOfItem(kernel: LoopKernel, length: number): number {
  const isLarge = extent(kernel, kernel.outer) * length >= MIN_LARGE_ELEMENTS;
  return Math.max(1, Math.floor((isLarge ? ITEM_ELEMENTS : itemElements(kernel)) / length));
}

/** True for a result that is stored past the caches, where nobody would find it before it is gone. */
export function isStreamed({ outputs }: LoopKernel): boolean {
  const [output] = outputs;
  return outputs.length === 1 && output!.dtype === "float32" &&
    output!.size * dtypes.float32.bytes >= MIN_STREAMED_BYTES;
}
