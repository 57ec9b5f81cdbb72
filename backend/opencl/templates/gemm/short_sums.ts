/**
 * Short sums of products on GPUs, such as convolutions of one channel each, along one axis or several: a
 * work-item computes a few neighbours, and reads once what their terms have in common. All terms are written
 * out; padding is a condition of a read, not a copy of the image.
 */
import type { Emitter } from "../../../codegen/emit.ts";
import { neededBy } from "../../../kernel/analysis.ts";
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import { extent, type Load, type LoopKernel } from "../../../kernel/kernel.ts";
import { isWrittenStep } from "../../../kernel/structure.ts";
import type { Target } from "../../../kernel/target.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import { computeType } from "../../codegen/types.ts";
import type { ContractionPlan, ContractionTemplate } from "../parts/contraction_shape.ts";
import { closeStores, collect, LANES, openStores, walksNeighbours } from "../parts/neighbours.ts";
import { emitEpilogue } from "../parts/tile_text.ts";
import { emitting } from "../parts/template.ts";

/** Terms that are written out; longer sums are added up in blocks, which other templates do. */
const MAX_TERMS = 64;
/** Neighbours along the innermost loop, the better first, and of all loops. */
const NEIGHBOURS = [4, 7, 8, 5, 6, 3, 2], MAX_SUMS = 16;
/** Work-items of a group, and those that a compute unit needs before they may have more to do each. */
const GROUP = 128, BUSY_ITEMS = 2048;

/** Counts of a kernel's loops from where a work-item begins, by their symbols. */
type Place = ReadonlyMap<number, number>;

interface ShortSums extends ContractionPlan {
  /** Loops of which a work-item computes several neighbours. */
  readonly tile: Place;
}

/** Neighbours an item, their terms written out. */
export const shortSums: ContractionTemplate<ShortSums> = {
  name: "short sums",
  matches: (kernel, target) => {
    const c = kernel.contraction;
    if (!target.isGpu || c === null || c.a.packed || c.b.packed) return null;
    if (extent(kernel, kernel.inner) > MAX_TERMS || kernel.indirect.length > 0 || kernel.chunk) {
      return null;
    }
    const tile = tileOf(kernel, target);
    return tile && { kernel, target, shape: null, tile };
  },
  emit: emitting((emitter, { tile }) => write(emitter, tile)),
  workItems: ({ kernel, tile }) => itemsOf(kernel, tile),
  sumParts: () => 1,
};

const itemsOf = (kernel: LoopKernel, tile: Place): number =>
  [...tile.values()].reduce((items, count) => items / count, extent(kernel, kernel.outer));

/**
 * Neighbours that divide their loops evenly, as many as leave the device busy; null where no two results have
 * a term's factor in common.
 */
function tileOf(kernel: LoopKernel, { computeUnits }: Target): Place | null {
  const { sizes, outer, contraction } = kernel, { a, b } = contraction!;
  const tile = new Map<number, number>();
  let isShared = false;
  for (const s of outer.toReversed()) {
    if (walks(a, s) && walks(b, s)) break;
    isShared = true;
    const taken = [...tile.values()].reduce((x, y) => x * y, 1);
    const count = NEIGHBOURS.find((n) =>
      isNear(kernel, walks(a, s) ? a : b, s) && sizes[s]! % n === 0 && taken * n <= MAX_SUMS &&
      itemsOf(kernel, new Map([...tile, [s, n]])) >= computeUnits * BUSY_ITEMS
    );
    if (count !== undefined) tile.set(s, count);
    if (tile.size === 2) break;
  }
  return isShared ? tile : null;
}

/** True where neighbours along a loop lie side by side, or see the same elements: windows that overlap. */
function isNear({ inner, sizes }: LoopKernel, { index }: Load, symbol: number): boolean {
  const step = Math.abs(coefficient(index, symbol));
  return step <= 1 || inner.some((k) => {
    const each = Math.abs(coefficient(index, k));
    return each > 0 && step % each === 0 && step < each * sizes[k]!;
  });
}

function walks({ index, bounds }: Load, symbol: number): boolean {
  return [index, ...bounds.map((bound) => bound.index)].some((f) => coefficient(f, symbol) !== 0);
}

/** All places of some loops, the last of them the fastest. */
function placesOf(counts: readonly (readonly [symbol: number, count: number])[]): Place[] {
  return counts.reduce<Map<number, number>[]>(
    (places, [symbol, count]) =>
      places.flatMap((place) =>
        Array.from({ length: count }, (_, k) => new Map([...place, [symbol, k]]))
      ),
    [new Map()],
  );
}

function write(emitter: Emitter, tile: Place): WorkSize {
  const { kernel } = emitter, type = computeType(kernel.contraction!.dtype);
  const items = itemsOf(kernel, tile), places = placesOf([...tile].toReversed());
  emitter.line("const Index at = get_global_id(0);");
  emitter.line(`if (at >= ${emitter.index(items)}) return;`);
  decomposeTiles(emitter, kernel.outer, tile);
  places.forEach((_, k) => emitter.line(`${type} sum${k} = 0;`));
  writeTerms(emitter, places, type);
  for (const s of tile.keys()) emitter.line(`const Index first${s} = i${s};`);
  const lanes = lanesOf(kernel, tile);
  for (let k = 0; k < places.length; k += lanes) {
    if (lanes > 1) storeVector(emitter, places.slice(k, k + lanes), k, type);
    else behind(emitter, places[k]!, k, type, () => emitEpilogue(emitter));
  }
  return { global: [Math.ceil(items / GROUP) * GROUP], local: [GROUP] };
}

/** Adds all terms to all sums. */
function writeTerms(emitter: Emitter, places: readonly Place[], type: string): void {
  const { contraction, sizes, inner } = emitter.kernel, c = contraction!;
  for (const s of inner) emitter.line(`const Index i${s} = 0;`);
  const a = new Elements(emitter, c.a, type, "a"), b = new Elements(emitter, c.b, type, "b");
  for (const term of placesOf(c.k.map((s) => [s, sizes[s]!]))) {
    places.forEach((place, k) => {
      const at = new Map([...place, ...term]);
      emitter.line(`sum${k} += ${a.at(at)} * ${b.at(at)};`);
    });
  }
}

/** Writes what follows the sum of a number, in a scope with its place. */
function behind(
  emitter: Emitter,
  place: Place,
  number: number,
  type: string,
  body: () => void,
): void {
  emitter.open("{");
  for (const [s, n] of place) emitter.line(`const Index i${s} = first${s} + ${n};`);
  emitter.line(`const ${type} acc = sum${number};`);
  body();
  emitter.close();
}

/** Writes what follows sums of neighbours, the first of which has a number, and stores them at once. */
function storeVector(
  emitter: Emitter,
  places: readonly Place[],
  number: number,
  type: string,
): void {
  const { outputs } = emitter.kernel, all = [...outputs.keys()], lanes = places.length;
  emitter.open("{");
  openStores(emitter, all, lanes);
  places.forEach((place, lane) =>
    behind(emitter, place, number + lane, type, () => {
      emitter.declare(neededBy(emitter.kernel, outputs.map(({ expr }) => expr)));
      collect(emitter, all, lane);
    })
  );
  behind(emitter, places[0]!, number, type, () => closeStores(emitter, all, lanes));
  emitter.close();
}

/** Neighbours that are stored as one vector; 1 where results lie apart. */
function lanesOf({ outer, outputs }: LoopKernel, tile: Place): number {
  const along = outer.at(-1)!, isLine = tile.get(along) === LANES;
  return isLine && outputs.every(({ index }) => walksNeighbours(index, along)) ? LANES : 1;
}

/** Declares the indices of the first of a work-item's neighbours. */
function decomposeTiles(emitter: Emitter, outer: readonly number[], tile: Place): void {
  let rest = "at";
  for (const s of outer.toReversed()) {
    const count = tile.get(s) ?? 1, size = emitter.index(emitter.kernel.sizes[s]! / count);
    emitter.line(`const Index i${s} = ${rest} % ${size}${count > 1 ? ` * ${count}` : ""};`);
    emitter.line(`const Index rest${s} = ${rest} / ${size};`);
    rest = `rest${s}`;
  }
}

/** Elements of an operand around the place where a work-item begins, each read once. */
class Elements {
  readonly #emitter: Emitter;
  readonly #load: Load;
  readonly #type: string;
  readonly #name: string;
  readonly #names = new Map<string, string>();

  constructor(emitter: Emitter, load: Load, type: string, name: string) {
    this.#emitter = emitter;
    this.#load = load;
    this.#type = type;
    this.#name = name;
    emitter.line(`const Index ${name} = ${emitter.affine(load.index)};`);
    load.bounds.forEach(({ index }, k) => {
      emitter.line(`const Index ${name}${k} = ${emitter.affine(index)};`);
    });
  }

  /** The name of the element at a place; reads it the first time. */
  at(place: Place): string {
    const { index, bounds } = this.#load, all = [index, ...bounds.map((bound) => bound.index)];
    const key = all.map((f) => distance(f, place)).join();
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    const name = `${this.#name}_${this.#names.size}`, emitter = this.#emitter;
    this.#names.set(key, name);
    const text = emitter.load(this.#load, this.#text(this.#name, index, place));
    const masks = bounds.map((bound, k) => this.#mask(`${this.#name}${k}`, bound, place));
    const value = masks.length > 0 ? `${masks.join(" && ")} ? ${text} : 0` : text;
    emitter.line(`const ${this.#type} ${name} = ${value};`);
    return name;
  }

  #mask(name: string, { index, size }: Load["bounds"][number], place: Place): string {
    const key = `${name} ${distance(index, place)}`, known = this.#names.get(key);
    if (known !== undefined) return known;
    const mask = `${name}_${this.#names.size}`, text = this.#text(name, index, place);
    this.#names.set(key, mask);
    const limit = this.#emitter.index(size);
    this.#emitter.line(`const bool ${mask} = ${text} >= 0 && ${text} < ${limit};`);
    return mask;
  }

  #text(name: string, index: AffineExpr, place: Place): string {
    const counts = new Map<number, number>();
    for (const [s, n] of place) {
      const step = coefficient(index, s);
      if (step !== 0 && n !== 0) counts.set(step, (counts.get(step) ?? 0) + n);
    }
    const steps = [...counts].map(([step, n]) =>
      isWrittenStep(step) ? n * step : `${n} * ${this.#step(step)}`
    );
    return [name, ...steps].join(" + ");
  }

  #step(step: number): string {
    const key = `step ${step}`;
    if (!this.#names.has(key)) this.#names.set(key, this.#emitter.index(step));
    return this.#names.get(key)!;
  }
}

function distance(index: AffineExpr, place: Place): number {
  return [...place].reduce((sum, [s, n]) => sum + n * coefficient(index, s), 0);
}
