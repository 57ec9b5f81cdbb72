/** Neighbours along a loop, which a work-item reads and writes as one vector. */
import type { Emitter } from "../../../codegen/emit.ts";
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import { operandsOf, variesWith } from "../../../kernel/analysis.ts";
import type { Bound, LoopKernel } from "../../../kernel/kernel.ts";
import { laneText, laneValue, vectorType } from "../../codegen/types.ts";

/** Number of neighbours in a vector, where nothing says another. Blocks of memory begin at multiples of its bytes. */
export const LANES = 4;

/** True for an index that walks neighbours along a loop, from multiples of the lanes on. */
export function walksNeighbours(
  { offset, terms }: AffineExpr,
  along: number,
  lanes = LANES,
): boolean {
  return offset % lanes === 0 &&
    terms.some(([s, c]) => s === along && c === 1) &&
    terms.every(([s, c]) => s === along || c % lanes === 0);
}

/**
 * The expressions that are loads of neighbours along a loop; null where neighbours read what lies apart, or
 * may not read what their neighbours read. What an index that is read says may lie anywhere, and blocks are
 * decoded one by one: such loads are not among them.
 */
export function neighbourLoads(
  kernel: LoopKernel,
  along: number,
  lanes = LANES,
): ReadonlySet<number> | null {
  const varies = variesWith(kernel, [along]), found = new Set<number>();
  for (const [id, e] of kernel.exprs.entries()) {
    if (e.op !== "load" || !varies[id]) continue;
    const { index, bounds, packed } = kernel.loads[e.load]!;
    if (packed || operandsOf(kernel, e).some((operand) => varies[operand]!)) continue;
    if (!walksNeighbours(index, along, lanes)) return null;
    if (!bounds.every((bound) => holdsTogether(bound, along, lanes))) return null;
    found.add(id);
  }
  return found;
}

/** True for a bound that all neighbours of a vector are inside, or none: halves of a row, as rotations read them. */
export function holdsTogether({ index, size }: Bound, along: number, lanes: number): boolean {
  if (coefficient(index, along) === 0) return true;
  return size % lanes === 0 && walksNeighbours(index, along, lanes);
}

/**
 * Reads the neighbours of a load as they lie in memory, into `w` and its number.
 *
 * @param streams Whether floats are read so that they do not stay in the caches.
 */
export function readNeighbours(
  emitter: Emitter,
  id: number,
  lanes: number,
  streams = false,
): void {
  const e = emitter.kernel.exprs[id]!;
  if (e.op !== "load") throw new Error(`Expression ${id} is no load`);
  const { input, dtype, index, bounds } = emitter.kernel.loads[e.load]!;
  const text = emitter.affine(index), type = vectorType(dtype, lanes);
  const place = bounds.length > 0 ? `(${emitter.maskText(bounds)} ? ${text} : 0)` : text;
  if (streams && dtype === "float32") {
    emitter.line(`${type} w${id}; STREAM_READ(w${id}, a${input} + ${place});`);
  } else emitter.line(`const ${type} w${id} = *(global const ${type}*)(a${input} + ${place});`);
}

/** One of the neighbours that {@linkcode readNeighbours} has read. */
export function neighbour(emitter: Emitter, id: number, lane: number): string {
  return laneValue(emitter.kernel.exprs[id]!.dtype, `w${id}.s${lane}`);
}

/** Declares the vectors that neighbours of outputs are collected in. */
export function openStores(emitter: Emitter, outputs: readonly number[], lanes: number): void {
  for (const o of outputs) {
    emitter.line(`${vectorType(emitter.kernel.outputs[o]!.dtype, lanes)} y${o};`);
  }
}

/** Puts the present value of each output into its vector. */
export function collect(emitter: Emitter, outputs: readonly number[], lane: number): void {
  for (const o of outputs) {
    const { dtype, expr } = emitter.kernel.outputs[o]!;
    emitter.line(`y${o}.s${lane} = ${laneText(dtype, emitter.name(expr))};`);
  }
}

/** Writes the collected vectors; `streams` as in {@linkcode readNeighbours}. */
export function closeStores(
  emitter: Emitter,
  outputs: readonly number[],
  lanes: number,
  streams = false,
): void {
  for (const o of outputs) {
    const { dtype, index } = emitter.kernel.outputs[o]!;
    const place = `o${o} + ${emitter.affine(index)}`;
    if (streams && dtype === "float32") emitter.line(`STREAM_WRITE(${place}, y${o});`);
    else emitter.line(`*(global ${vectorType(dtype, lanes)}*)(${place}) = y${o};`);
  }
}
