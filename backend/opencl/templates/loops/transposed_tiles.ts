/**
 * Maps on GPUs that read an operand across: a transposition, what is permuted, a sum with a transposed tensor.
 * A group reads a tile of such an operand along its rows, into local memory, and takes its columns from
 * there: memory is read and written in whole lines. A work-item an element reads a line for each of its
 * elements: 4096 x 4096 floats transposed took 131 us on an H200, where 32 would do.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { dtypes } from "../../../graph/dtype.ts";
import { coefficient } from "../../../kernel/affine.ts";
import { neededBy } from "../../../kernel/analysis.ts";
import { extent, isMap, type Load, type LoopKernel } from "../../../kernel/kernel.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import { decompose } from "../../codegen/indices.ts";
import { computeType } from "../../codegen/types.ts";
import { last } from "../parts/contraction_shape.ts";
import { emitting, type LoopTemplate, type Planned } from "../parts/template.ts";

/** Elements of a side of a tile, and lines of it that a group takes at once. */
const SIDE = 32, LINES = 8;
/** Fewer elements take no longer than a launch; shorter sides leave most of a tile empty. */
const MIN_ELEMENTS = 1 << 14, MIN_SIDE = 16;

interface TransposedTiles extends Planned<LoopKernel> {
  /** The loop along which operands lie that are read across; results lie along the last one. */
  readonly across: number;
  /** The expressions that read them. */
  readonly turned: readonly number[];
}

/** A group a tile. */
export const transposedTiles: LoopTemplate<TransposedTiles> = {
  name: "transposed tiles",
  matches: (kernel, target) => {
    if (!target.isGpu || !isLargeMap(kernel)) return null;
    for (const across of kernel.outer.slice(0, -1)) {
      const turned = kernel.sizes[across]! < MIN_SIDE ? [] : readAcross(kernel, across);
      if (turned.length === 0 || bytesOf(kernel, turned) > target.localMemory) continue;
      return { kernel, target, across, turned };
    }
    return null;
  },
  emit: emitting(write),
  workItems: (plan) => groupsOf(plan) * SIDE * LINES,
  variant: ({ across }) => ({ key: `${across}`, numbers: 5, copies: 2 }),
};

function isLargeMap(kernel: LoopKernel): boolean {
  const { outer, outputs, sizes } = kernel;
  if (!isMap(kernel) || outer.length < 2) return false;
  return sizes[last(kernel.outer)]! >= MIN_SIDE && extent(kernel, outer) >= MIN_ELEMENTS &&
    outputs.every(({ index }) => coefficient(index, last(kernel.outer)) === 1);
}

/** The loads that are contiguous along another loop than results. */
function readAcross(kernel: LoopKernel, across: number): number[] {
  const along = last(kernel.outer), loops = new Set(kernel.outer);
  const isAcross = ({ index, packed }: Load): boolean =>
    !packed && coefficient(index, across) === 1 && ![0, 1].includes(coefficient(index, along)) &&
    index.terms.every(([s]) => loops.has(s));
  return neededBy(kernel, kernel.outputs.map(({ expr }) => expr)).filter((id) => {
    const e = kernel.exprs[id]!;
    return e.op === "load" && isAcross(kernel.loads[e.load]!);
  });
}

/** Bytes of the tiles: a line is one element longer than a side, so that a column lies in all banks. */
function bytesOf({ exprs }: LoopKernel, turned: readonly number[]): number {
  const bytes = (id: number): number => Math.max(4, dtypes[exprs[id]!.dtype].bytes);
  return turned.reduce((sum, id) => sum + SIDE * (SIDE + 1) * bytes(id), 0);
}

function othersOf({ kernel, across }: TransposedTiles): number[] {
  return kernel.outer.filter((s) => s !== across && s !== last(kernel.outer));
}

const tilesOf = ({ sizes }: LoopKernel, s: number): number => Math.ceil(sizes[s]! / SIDE);

function groupsOf(plan: TransposedTiles): number {
  const { kernel, across } = plan;
  return extent(kernel, othersOf(plan)) * tilesOf(kernel, across) *
    tilesOf(kernel, last(kernel.outer));
}

function write(emitter: Emitter, plan: TransposedTiles): WorkSize {
  const { kernel, across, turned } = plan, along = last(kernel.outer), others = othersOf(plan);
  for (const id of turned) {
    const type = computeType(kernel.exprs[id]!.dtype);
    emitter.line(`local ${type} t${id}[${SIDE * (SIDE + 1)}];`);
  }
  emitter.line(`const int item = get_local_id(0), lane = item % ${SIDE}, line = item / ${SIDE};`);
  emitter.line("const Index tile = get_group_id(0);");
  const [columns, rows] = [along, across].map((s) => emitter.index(tilesOf(kernel, s)));
  emitter.line(`const Index begin${along} = tile % ${columns} * ${SIDE};`);
  emitter.line(`const Index begin${across} = tile / ${columns} % ${rows} * ${SIDE};`);
  if (others.length > 0) decompose(emitter, others, `tile / ${columns} / ${rows}`);
  walk(emitter, [across, along], () => {
    for (const id of turned) emitter.line(`t${id}[k * ${SIDE + 1} + lane] = ${read(emitter, id)};`);
  });
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  walk(emitter, [along, across], () => {
    for (const id of neededBy(kernel, kernel.outputs.map(({ expr }) => expr))) {
      if (turned.includes(id)) emitter.declareAs(id, `t${id}[lane * ${SIDE + 1} + k]`);
      else emitter.declare([id]);
    }
    kernel.outputs.forEach((_, o) => emitter.store(o));
  });
  return { global: [groupsOf(plan) * SIDE * LINES], local: [SIDE * LINES] };
}

/** Walks a tile: neighbours have neighbours along one loop, and take lines of the other. */
function walk(
  emitter: Emitter,
  [lanes, lines]: readonly [lanes: number, lines: number],
  body: () => void,
): void {
  emitter.line("#pragma unroll");
  emitter.open(`for (int k = line; k < ${SIDE}; k += ${LINES}) {`);
  emitter.line(emitter.dialect.declareIndex(`i${lanes}`, `begin${lanes} + lane`));
  emitter.line(emitter.dialect.declareIndex(`i${lines}`, `begin${lines} + k`));
  const inside = [lanes, lines].map((s) => `i${s} < ${emitter.size(s)}`).join(" && ");
  emitter.open(`if (${inside}) {`);
  body();
  emitter.close();
  emitter.close();
}

/** The element of a load; where it is masked, one that there is. */
function read(emitter: Emitter, id: number): string {
  const e = emitter.kernel.exprs[id]!;
  if (e.op !== "load") throw new Error(`Expression ${id} is no load`);
  const load = emitter.kernel.loads[e.load]!, place = emitter.affine(load.index);
  return emitter.load(
    load,
    load.bounds.length > 0 ? `(${emitter.maskText(load.bounds)} ? ${place} : 0)` : place,
  );
}
