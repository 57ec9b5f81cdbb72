/**
 * Maps on CPU devices that read an operand across: a transposition, what is permuted, a product with a
 * transposed tensor. A work-item reads squares of 16 rows, turns them in registers, and writes their columns
 * as rows, so memory is read and written in whole cache lines: with AVX2, PoCL 3.1 takes 12.4 ms of processor
 * time for 20x30x40x50 reversed an element at a time, and 2.8 so.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { neededBy } from "../../../kernel/analysis.ts";
import { coefficient } from "../../../kernel/affine.ts";
import { extent, isMap, type Load, type LoopKernel } from "../../../kernel/kernel.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import { decompose } from "../../codegen/indices.ts";
import { VectorBody } from "../../codegen/vectors/vector_body.ts";
import { canCompute, LANES, storesLanes } from "../../codegen/vectors/vector_types.ts";
import { last } from "../parts/contraction_shape.ts";
import { emitting, type LoopTemplate, type Planned } from "../parts/template.ts";
import { without } from "../parts/tile_text.ts";

/**
 * Fewer elements stay in the first caches (and turning squares takes PoCL 40 ms more to compile); fewer a side
 * waste the lanes of squares.
 */
const MIN_ELEMENTS = 1 << 14, MIN_SIDE = 8;

interface TransposedPlan extends Planned<LoopKernel> {
  /** The loop along which operands lie that are read across; results lie along the last one. */
  readonly across: number;
}

/** Squares of 16 by 16. */
export const transposedMaps: LoopTemplate<TransposedPlan> = {
  name: "transposed squares",
  matches: (kernel, target) => {
    if (target.isGpu || !isLargeMap(kernel)) return null;
    const across = kernel.outer.slice(0, -1).find((s) => turns(kernel, s));
    return across === undefined ? null : { kernel, target, across };
  },
  emit: emitting(write),
  workItems: itemsOf,
};

function isLargeMap(kernel: LoopKernel): boolean {
  const { outer, outputs, sizes } = kernel;
  if (!isMap(kernel) || outer.length < 2) return false;
  const along = last(kernel.outer);
  return sizes[along]! >= MIN_SIDE && extent(kernel, outer) >= MIN_ELEMENTS &&
    outputs.every(({ index, dtype }) => coefficient(index, along) === 1 && storesLanes(dtype));
}

/** True for an operand that is contiguous along another loop than results. */
function isAcross({ index, bounds, dtype }: Load, along: number, across: number): boolean {
  return bounds.length === 0 && dtype === "float32" && coefficient(index, across) === 1 &&
    ![0, 1].includes(coefficient(index, along));
}

/** True where all that is not read along the last loop can be read along another one. */
function turns(kernel: LoopKernel, across: number): boolean {
  const along = last(kernel.outer);
  return kernel.sizes[across]! >= MIN_SIDE &&
    kernel.loads.some((load) => isAcross(load, along, across)) &&
    canCompute(kernel, along, {
      load: (load) =>
        load.bounds.length === 0 && coefficient(load.index, along) === 1 ||
        isAcross(load, along, across),
      inside: () => false,
    });
}

/** A work-item takes 16 rows of the result, all along. */
function itemsOf({ kernel, across }: TransposedPlan): number {
  const others = kernel.outer.filter((s) => s !== across && s !== last(kernel.outer));
  return extent(kernel, others) * Math.ceil(kernel.sizes[across]! / LANES);
}

function write(emitter: Emitter, plan: TransposedPlan): WorkSize {
  const { kernel, across } = plan, along = last(kernel.outer);
  const others = kernel.outer.filter((s) => s !== across && s !== along);
  const pieces = emitter.index(Math.ceil(kernel.sizes[across]! / LANES));
  emitter.line(`const Index block = get_global_id(0) % ${pieces} * ${LANES};`);
  if (others.length > 0) decompose(emitter, others, `get_global_id(0) / ${pieces}`);
  emitter.line(`const int rows = (int)min((Index)${LANES}, ${emitter.size(across)} - block);`);
  const i = `i${along}`, size = emitter.size(along);
  emitter.open(`for (Index ${i} = 0; ${i} < ${size}; ${i} += ${LANES}) {`);
  emitter.line(`const int left = (int)min((Index)${LANES}, ${size} - ${i});`);
  const needed = neededBy(kernel, kernel.outputs.map((o) => o.expr));
  for (const id of needed) turn(emitter, plan, id);
  emitter.open(`if (left == ${LANES}) {`);
  writeRows(emitter, plan, needed, "");
  emitter.close();
  emitter.open("else {");
  writeRows(emitter, plan, needed, "left");
  emitter.close();
  emitter.close();
  return { global: [itemsOf(plan)], local: [1] };
}

/** Reads a square of an operand that is read across: `u` has a vector for each of the rows. */
function turn(
  emitter: Emitter,
  { kernel, across }: TransposedPlan,
  id: number,
): void {
  const e = kernel.exprs[id]!, along = last(kernel.outer);
  if (e.op !== "load" || !isAcross(kernel.loads[e.load]!, along, across)) return;
  const { input, index } = kernel.loads[e.load]!;
  emitter.line(`float16 u${id}[${LANES}];`);
  emitter.open("{");
  emitter.line(emitter.dialect.declareIndex(`i${across}`, "block"));
  const step = emitter.index(coefficient(index, along));
  const place = `a${input} + ${without(emitter, index, [along])} + (i${along} + r) * ${step}`;
  emitter.line(`if (rows == ${LANES} && left == ${LANES})`);
  emitter.line(`  for (int r = 0; r < ${LANES}; ++r) u${id}[r] = vload16(0, ${place});`);
  emitter.line(`else for (int r = 0; r < ${LANES}; ++r)`);
  emitter.line(`  u${id}[r] = r < left ? load_part_float(${place}, rows) : (float16)(0.0f);`);
  emitter.line(`transpose_16(u${id});`);
  emitter.close();
}

function writeRows(
  emitter: Emitter,
  { kernel, across }: TransposedPlan,
  needed: readonly number[],
  left: string,
): void {
  const along = last(kernel.outer);
  const body = new VectorBody(
    emitter,
    along,
    (e, id) =>
      e.op === "load" && isAcross(kernel.loads[e.load]!, along, across) ? `u${id}[k]` : null,
  );
  emitter.open("for (int k = 0; k < rows; ++k) {");
  emitter.line(emitter.dialect.declareIndex(`i${across}`, "block + k"));
  body.declareScalars(needed);
  body.declareVectors(needed, { left });
  kernel.outputs.forEach((_, o) => body.store(o, { left }));
  emitter.close();
}
