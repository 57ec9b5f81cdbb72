/**
 * Large maps on GPUs: a work-item computes four neighbours. What lies side by side is read and written as
 * one vector, and all that a work-item reads is asked for before it computes. Of 1.6e7 floats gelu takes
 * 34 us on an H200, an element a work-item 54 (a copy: 33 and 50).
 */
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { coefficient } from "../../../kernel/affine.ts";
import { variesWith } from "../../../kernel/analysis.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import { decompose } from "../../codegen/indices.ts";
import {
  closeStores,
  collect,
  LANES,
  neighbour,
  neighbourLoads,
  openStores,
  readNeighbours,
  walksNeighbours,
} from "../parts/neighbours.ts";
import { type LoopTemplate, type Planned, single } from "../parts/template.ts";

/** Work-items of a group. */
const GROUP = 128;
/** Fewer elements take no longer than a launch. */
const MIN_ELEMENTS = 1 << 18;
/** So many elements, read and written, leave nothing of them in a cache of 50 MB: gelu then takes 0.975 of the time. */
const MIN_STREAMED = 1 << 23;
/** More expressions for each of the lanes fill the registers. */
const MAX_EXPRS = 96;

interface VectorItems extends Planned<LoopKernel> {
  /** The expressions that are loads of four neighbours. */
  readonly vectors: ReadonlySet<number>;
}

/** Maps whose results lie side by side along the innermost loop. */
export const vectorItems: LoopTemplate<VectorItems> = {
  name: "four neighbours an item",
  matches: (kernel, target) => {
    if (!target.isGpu || !isLargeMap(kernel)) return null;
    const vectors = neighbourLoads(kernel, innermost(kernel));
    return vectors && { kernel, target, vectors };
  },
  emit: (plan) =>
    single(generatedLoop(
      plan.kernel,
      plan.target,
      (emitter, dialect) => write(emitter, dialect, plan),
    )),
  workItems: ({ kernel }) => extent(kernel, kernel.outer) / LANES,
  variant: (plan) => ({
    key: `${LANES}${streams(plan) ? " streamed" : ""}`,
    numbers: 1,
    copies: LANES,
  }),
};

/** True where caches have no room for what is read and written. */
function streams({ kernel, target }: VectorItems): boolean {
  return target.warps && extent(kernel, kernel.outer) >= MIN_STREAMED;
}

/** True for a load that reads an element once: others are read again from the caches. */
function isReadOnce(kernel: LoopKernel, id: number): boolean {
  const e = kernel.exprs[id]!;
  return e.op === "load" &&
    kernel.outer.every((s) => coefficient(kernel.loads[e.load]!.index, s) !== 0);
}

function innermost({ outer }: LoopKernel): number {
  return outer[outer.length - 1]!;
}

/** True for maps of many elements, whose results can be stored in vectors. */
function isLargeMap(kernel: LoopKernel): boolean {
  const { outer, inner, reductions, contraction, outputs, exprs, sizes } = kernel;
  if (inner.length > 0 || reductions.length > 0 || contraction !== null) return false;
  return outer.length > 0 && sizes[innermost(kernel)]! % LANES === 0 &&
    exprs.length <= MAX_EXPRS && extent(kernel, outer) >= MIN_ELEMENTS &&
    outputs.every(({ index }) => walksNeighbours(index, innermost(kernel)));
}

function write(emitter: Emitter, dialect: Dialect, plan: VectorItems): WorkSize {
  const { vectors } = plan, { kernel } = emitter, along = innermost(kernel);
  const total = extent(kernel, kernel.outer), items = total / LANES;
  emitter.line(`const Index at = get_global_id(0) * ${LANES};`);
  emitter.line(`if (at >= ${emitter.index(total)}) return;`);
  decompose(emitter, kernel.outer, "at");
  const varies = variesWith(kernel, [along]);
  const ids = [...kernel.exprs.keys()], outputs = [...kernel.outputs.keys()];
  emitter.declare(ids.filter((id) => !varies[id]));
  const isStreamed = streams(plan);
  for (const id of vectors) readNeighbours(emitter, id, isStreamed && isReadOnce(kernel, id));
  openStores(emitter, outputs);
  emitter.line(`const Index first = i${along};`);
  const each = ids.filter((id) => varies[id]);
  for (let lane = 0; lane < LANES; lane++) {
    emitter.open("{");
    emitter.line(dialect.declareIndex(`i${along}`, `first + ${lane}`));
    for (const id of each) {
      if (vectors.has(id)) emitter.declareAs(id, neighbour(emitter, id, lane));
      else emitter.declare([id]);
    }
    collect(emitter, outputs, lane);
    emitter.close();
  }
  closeStores(emitter, outputs, isStreamed);
  return { global: [Math.ceil(items / GROUP) * GROUP], local: [GROUP] };
}
