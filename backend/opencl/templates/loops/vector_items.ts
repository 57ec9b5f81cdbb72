/**
 * Large maps on GPUs: a work-item computes four neighbours, or eight where all that is large has 16 bits. What
 * lies side by side is read and written as one vector, and all that a work-item reads is asked for before it
 * computes. Of 1.6e7 floats gelu takes 34 us on an H200, an element a work-item 54 (a copy: 33 and 50); of
 * 2.5e7 bfloat16 41 us, 48 by four.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { dtypes } from "../../../graph/dtype.ts";
import { coefficient } from "../../../kernel/affine.ts";
import { operandsOf, variesWith } from "../../../kernel/analysis.ts";
import { extent, isMap, type LoopKernel } from "../../../kernel/kernel.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import { decompose } from "../../codegen/indices.ts";
import {
  closeStores,
  collect,
  holdsTogether,
  LANES,
  neighbour,
  neighbourLoads,
  openStores,
  readNeighbours,
  walksNeighbours,
} from "../parts/neighbours.ts";
import { last } from "../parts/contraction_shape.ts";
import { emitting, type LoopTemplate, type Planned } from "../parts/template.ts";

/** Work-items of a group. */
const GROUP = 128;
/** Fewer elements take no longer than a launch. */
const MIN_ELEMENTS = 1 << 18;
/** So many elements, read and written, leave nothing of them in a cache of 50 MB: gelu then takes 0.975 of the time. */
const MIN_STREAMED = 1 << 23;
/** More expressions fill the registers, each for every lane. */
const MAX_EXPRS = 96;
/** Lanes of elements of 16 bits, so that a load has 16 bytes, and the most expressions for each. */
const NARROW = { lanes: 8, bytes: 2, maxExprs: 48 };

interface VectorItems extends Planned<LoopKernel> {
  /** Neighbours that a work-item computes. */
  readonly lanes: number;
  /** The expressions that are loads of so many neighbours. */
  readonly vectors: ReadonlySet<number>;
}

/** Maps whose results lie side by side along the innermost loop. */
export const vectorItems: LoopTemplate<VectorItems> = {
  name: "neighbours an item",
  matches: (kernel, target) => {
    if (!target.isGpu) return null;
    for (const lanes of isNarrow(kernel) ? [NARROW.lanes, LANES] : [LANES]) {
      if (!isLargeMap(kernel, lanes)) continue;
      const vectors = neighbourLoads(kernel, last(kernel.outer), lanes);
      if (vectors) return { kernel, target, lanes, vectors };
    }
    return null;
  },
  emit: emitting(write),
  workItems: ({ kernel, lanes }) => extent(kernel, kernel.outer) / lanes,
  variant: (plan) => ({
    key: `${plan.lanes}${streams(plan) ? " streamed" : ""}`,
    numbers: 1,
    copies: plan.lanes,
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

/** True where everything has few bytes that is written, or read once, and little is computed. */
function isNarrow(kernel: LoopKernel): boolean {
  const { exprs, outputs } = kernel,
    read = [...exprs.keys()].filter((id) => isReadOnce(kernel, id));
  return exprs.length <= NARROW.maxExprs &&
    [...read.map((id) => exprs[id]!), ...outputs].every(({ dtype }) =>
      dtypes[dtype].bytes <= NARROW.bytes
    );
}

/** True for maps of many elements, whose results can be stored in vectors. */
function isLargeMap(kernel: LoopKernel, lanes: number): boolean {
  const { outer, outputs, exprs, sizes } = kernel;
  return isMap(kernel) && outer.length > 0 && sizes[last(kernel.outer)]! % lanes === 0 &&
    exprs.length <= MAX_EXPRS && extent(kernel, outer) >= MIN_ELEMENTS &&
    outputs.every(({ index }) => walksNeighbours(index, last(kernel.outer), lanes));
}

/** True for a mask that is the same for all neighbours of a vector. */
function isMaskOfAll(kernel: LoopKernel, id: number, lanes: number): boolean {
  const e = kernel.exprs[id]!, along = last(kernel.outer);
  return e.op === "inside" && e.bounds.every((bound) => holdsTogether(bound, along, lanes));
}

function write(emitter: Emitter, plan: VectorItems): WorkSize {
  const { lanes, vectors } = plan, { kernel } = emitter, along = last(kernel.outer);
  const total = extent(kernel, kernel.outer), items = total / lanes;
  emitter.line(`const Index at = get_global_id(0) * ${lanes};`);
  emitter.line(`if (at >= ${emitter.index(total)}) return;`);
  decompose(emitter, kernel.outer, "at");
  const varies = variesWith(kernel, [along]);
  const ids = [...kernel.exprs.keys()], outputs = [...kernel.outputs.keys()];
  const isOne = (id: number): boolean =>
    !varies[id] ||
    isMaskOfAll(kernel, id, lanes) && !operandsOf(kernel, kernel.exprs[id]!).some((o) => varies[o]);
  emitter.declare(ids.filter(isOne));
  const isStreamed = streams(plan);
  for (const id of vectors) {
    readNeighbours(emitter, id, lanes, isStreamed && isReadOnce(kernel, id));
  }
  openStores(emitter, outputs, lanes);
  emitter.line(`const Index first = i${along};`);
  const each = ids.filter((id) => !isOne(id));
  for (let lane = 0; lane < lanes; lane++) {
    emitter.open("{");
    emitter.line(emitter.dialect.declareIndex(`i${along}`, `first + ${lane}`));
    for (const id of each) {
      if (vectors.has(id)) emitter.declareAs(id, neighbour(emitter, id, lane));
      else emitter.declare([id]);
    }
    collect(emitter, outputs, lane);
    emitter.close();
  }
  closeStores(emitter, outputs, lanes, isStreamed);
  return { global: [Math.ceil(items / GROUP) * GROUP], local: [GROUP] };
}
