/** Products of the lane program as kernels of OpenCL C: what follows a sum is computed in vectors, or one by one. */
import { neededBy, variesWith } from "../../../kernel/analysis.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import type { Scratch } from "../../../kernel/template.ts";
import type { Target } from "../../../kernel/target.ts";
import { keptBoxes, type LaneMapping } from "../../../tile/programs/lanes/lane_mapping.ts";
import { keptOperand, laneProduct } from "../../../tile/programs/lanes/lane_product.ts";
import type { NameOf } from "../../../tile/programs/kernel_values.ts";
import type { TileKernel } from "../../../tile/language/statements.ts";
import type { DType } from "../../../graph/dtype.ts";
import { type Generated, generatedLoop } from "../../codegen/generated.ts";
import { emitTile, type Finish } from "../../codegen/tile_text.ts";
import { VectorBody } from "../../codegen/vectors/vector_body.ts";
import { LANES } from "../../codegen/vectors/vector_types.ts";
import type { ContractionPlan, ContractionTemplate } from "./contraction_shape.ts";
import type { KernelSequence } from "./template.ts";
import { emitEpilogue } from "./tile_text.ts";

/** A contraction that the lane program computes. */
export interface LanePlan extends ContractionPlan {
  readonly mapping: LaneMapping;
}

/**
 * A template of CPU devices that the lane program writes.
 *
 * @param mappingOf The part of a work-item, or null.
 */
export function laneTemplate(
  name: string,
  mappingOf: (kernel: LoopKernel, target: Target) => LaneMapping | null,
  workItems: (plan: LanePlan) => number,
): ContractionTemplate<LanePlan> {
  return {
    name,
    matches: (kernel, target) => {
      const mapping = target.isGpu ? null : mappingOf(kernel, target);
      return mapping && { kernel, target, shape: null, mapping };
    },
    emit: writeLanes,
    workItems,
    scratch: keptScratch,
  };
}

/**
 * The kernel of a plan, behind the one that packs what is kept; results lie along the lanes, or along the rows
 * that they are turned into.
 */
export function writeLanes({ kernel, target, mapping }: LanePlan): KernelSequence {
  const along = mapping.stores === "turned" ? mapping.rows[0]![0] : mapping.lane;
  const rows = mapping.rows.map(([s]) => s);
  const written = (programOf: typeof laneProduct) =>
    laneKernel(
      kernel,
      target,
      along,
      rows,
      (nameOf) => programOf(kernel, mapping, nameOf),
      mapping.kept ? ["float32"] : [],
    );
  return mapping.kept ? [written(keptOperand), written(laneProduct)] : [written(laneProduct)];
}

/** The buffer of an operand that is kept. */
export function keptScratch({ kernel, mapping }: LanePlan): Scratch[] {
  const { kept, boxes } = mapping;
  if (kept === undefined) return [];
  const size = keptBoxes(kernel, mapping) * boxes[kept]!.size;
  return [{ dtype: "float32", size, keptFor: kernel.contraction![kept].input }];
}

/** The mapping with an operand packed once for many runs, where it lasts and its boxes are whole vectors. */
export function keeping(kernel: LoopKernel, mapping: LaneMapping, kept: "a" | "b"): LaneMapping {
  const { size, slack = 0 } = mapping.boxes[kept]!;
  const isWhole = size % mapping.width === 0 && slack === 0;
  return isWhole && lasts(kernel, kept) ? { ...mapping, kept } : mapping;
}

/** True for an operand that the next run finds unchanged, as a rule. */
export const lasts = ({ lasting = [], contraction }: LoopKernel, operand: "a" | "b"): boolean =>
  lasting.includes(contraction![operand].input);

/**
 * The kernel of a program that gives results by the indices of all outer loops, and how many lanes count.
 *
 * @param along The loop along vectors of results.
 * @param rows Loops of a tile's other results.
 * @param scratch The types of the buffers behind the outputs.
 */
export function laneKernel(
  kernel: LoopKernel,
  target: Target,
  along: number,
  rows: readonly number[],
  programOf: (nameOf: NameOf) => TileKernel,
  scratch: readonly DType[] = [],
): Generated {
  return generatedLoop(kernel, target, (emitter) => {
    const program = programOf((parameter) => emitter.parameter(parameter));
    return emitTile(emitter, program, finishOf(emitter, along, rows));
  }, scratch);
}

/** Computes and stores what follows from sums. */
function finishOf(emitter: Emitter, along: number, rows: readonly number[]): Finish {
  const { kernel } = emitter;
  const ids = neededBy(kernel, kernel.outputs.map((o) => o.expr));
  const place = (at: readonly string[]): void => {
    // A program's names may be those of indices.
    at.forEach((text, k) => emitter.line(`const Index at${k} = ${text};`));
    kernel.outer.forEach((s, k) => emitter.line(`const Index i${s} = at${k};`));
  };
  const finish: Finish = (at, value, width) => {
    emitter.line(`const float${width === 1 ? "" : width} acc = ${value};`);
    place(at);
    if (width === 1) return emitEpilogue(emitter);
    const body = new VectorBody(emitter, along);
    const left = at.at(-1) === `${LANES}` ? "" : `at${kernel.outer.length}`;
    body.declareScalars(ids);
    body.declareVectors(ids, { left, contracted: "acc" });
    kernel.outputs.forEach((_, o) => body.store(o, { left }));
  };
  return Object.assign(finish, {
    expect: (at: readonly string[]): void => {
      const body = new VectorBody(emitter, along);
      emitter.open("{");
      place(at);
      body.prefetch(expectedOf(kernel, ids, rows), 0, 0);
      emitter.close();
    },
  });
}

/** Loads that are read once behind a sum: pieces of rows far apart, which no processor expects. */
function expectedOf(
  kernel: LoopKernel,
  ids: readonly number[],
  rows: readonly number[],
): number[] {
  const indirect = new Set(kernel.indirect.map(({ symbol }) => symbol));
  const along = variesWith(kernel, rows);
  return ids.filter((id) => {
    const e = kernel.exprs[id]!;
    return e.op === "load" && along[id]! &&
      kernel.loads[e.load]!.index.terms.every(([symbol]) => !indirect.has(symbol));
  });
}

/** True where something is read once behind a sum. */
export const expectsMore = (kernel: LoopKernel, rows: readonly number[]): boolean =>
  expectedOf(kernel, neededBy(kernel, kernel.outputs.map((o) => o.expr)), rows).length > 0;
