/**
 * Products of CPU devices: sums in registers, of which each is a vector or the parts of a row's sum. An operand is
 * read where it lies or from a box of local memory. Products of matrices, convolutions, the gradients of weights
 * and convolutions of single channels are all this program: what differs is the mapping, which is data.
 */
import type { LoopKernel } from "../../../kernel/kernel.ts";
import {
  add,
  div,
  divideBy,
  type E,
  int,
  lanes,
  min,
  mul,
  type Place,
  sub,
  withExpressions,
} from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import { fadd, float, load, splat } from "../../language/values.ts";
import type { Program } from "../../program.ts";
import { vectorUnit } from "../../units.ts";
import { KernelValues, type NameOf } from "../kernel_values.ts";
import { PackedBox } from "./packed_box.ts";
import {
  type At,
  isClipped,
  keptBoxes,
  keptLoops,
  type LaneMapping,
  type Loops,
  type LoopStep,
  shareOf,
  type Step,
  turnsOf,
} from "./lane_mapping.ts";
import { LaneResults } from "./lane_results.ts";
import { LaneSums, type Operand } from "./lane_sums.ts";

/**
 * The kernel of a product; what is given are results by the indices of all outer loops, in their order, and the
 * number of lanes that count.
 */
export function laneProduct(
  kernel: LoopKernel,
  mapping: LaneMapping,
  nameOf: NameOf,
): TileKernel {
  const unit = vectorUnit(mapping.width);
  return withExpressions(() =>
    new LaneProduct(new KernelValues(kernel, unit, nameOf, false, mapping.isFixed), mapping).write()
  );
}

/** The kernel that packs the operand that is kept, all of its boxes one behind the other. */
export function keptOperand(
  kernel: LoopKernel,
  mapping: LaneMapping,
  nameOf: NameOf,
): TileKernel {
  const unit = vectorUnit(mapping.width);
  return withExpressions(() => {
    const values = new KernelValues(kernel, unit, nameOf, false, mapping.isFixed);
    return new LaneProduct(values, mapping, true).writeKept();
  });
}

/** The buffer behind the outputs. */
const scratchOf = ({ outputs }: LoopKernel): Place => ({
  space: "global",
  buffer: `o${outputs.length}`,
  element: "float32",
});

const firstOf = (at: Loops): Map<number, E> => new Map([...at].map(([s, { first }]) => [s, first]));

class LaneProduct {
  readonly #values: KernelValues;
  readonly #p: Program;
  readonly #kernel: LoopKernel;
  readonly #m: LaneMapping;
  readonly #boxes = new Map<Operand, PackedBox>();
  /** Sums that several turns of the steps add to; null: a tile is summed at once. */
  readonly #memory: Place | null;
  readonly #sums: LaneSums;
  readonly #results: LaneResults;

  /** The number of this work-item along loops that several go over. */
  readonly #numbers = new Map<number, E>();

  constructor(values: KernelValues, mapping: LaneMapping, packs = false) {
    const { kernel, p } = values;
    this.#values = values;
    this.#p = p;
    this.#kernel = kernel;
    this.#m = mapping;
    for (const name of ["a", "b"] as const) {
      const box = mapping.boxes[name];
      if (!box || packs && mapping.kept !== name) continue;
      const kept = !packs && mapping.kept === name ? scratchOf(kernel) : null;
      this.#boxes.set(name, new PackedBox(values, box, kept));
    }
    const isApart = mapping.steps.some((step) =>
      step.do === "loop" && kernel.inner.includes(step.symbol)
    );
    this.#sums = new LaneSums(values, mapping, this.#boxes);
    this.#results = new LaneResults(values, mapping);
    this.#memory = isApart ? p.array("local", this.#memorySize, "float") : null;
  }

  write(): TileKernel {
    const p = this.#p, loops = this.#placed(), { steps, width } = this.#m, memory = this.#memory;
    if (memory !== null) {
      const zero = splat(float(0), width);
      p.loop(int(this.#memorySize / width), (k) => p.store(memory, mul(k, width), zero), 1);
    }
    this.#steps(steps, loops, (at) => {
      if (this.#m.expects) this.#results.expect(at);
      this.#sums.multiply(at, memory === null);
      if (memory === null) return this.#results.store(at, this.#sums.rows);
      this.#eachSum(at, (sum, place, before) => p.store(memory, place, fadd(before, sum)));
    });
    if (memory !== null) this.#storeAll(memory, loops);
    const groups = this.#kernel.outer.reduce((n, s) => n * this.#turns(s), 1);
    return p.finish("lane product", groups);
  }

  writeKept(): TileKernel {
    const p = this.#p, { width, kept } = this.#m, { box, place } = this.#boxes.get(kept!)!;
    const loops = this.#placed(keptLoops(this.#kernel, this.#m));
    this.#boxes.get(kept!)!.pack(firstOf(loops));
    const begin = p.let(mul(p.group, box.size));
    p.loop(int(box.size / width), (k) => {
      const at = p.let(mul(k, width));
      p.store(scratchOf(this.#kernel), add(begin, at), load(place, add(at, lanes(width))));
    }, 1);
    return p.finish("kept operand", keptBoxes(this.#kernel, this.#m));
  }

  /** The number of this work-item's box of the operand that is kept. */
  get #keptNumber(): E {
    return keptLoops(this.#kernel, this.#m).toReversed().reduce<E>(
      (n, s) => add(mul(n, this.#number(this.#turns(s))), this.#numbers.get(s)!),
      int(0),
    );
  }

  /** Gives what several turns have added up. */
  #storeAll(memory: Place, loops: Loops): void {
    const { stores, lane } = this.#m, p = this.#p, steps = this.#outerSteps();
    if (stores === "single" && !this.#kernel.inner.includes(lane)) {
      return this.#results.storeAll(
        memory,
        loops,
        steps.map((step) => [step, this.#tilesOf(step)]),
        (step, at, body) => this.#steps([step], at, body),
      );
    }
    this.#steps(steps, loops, (at) => {
      this.#sums.declare();
      this.#eachSum(at, (sum, _, all) => p.set(sum, all));
      this.#results.store(at, this.#sums.rows);
    });
  }

  #turns(symbol: number): number {
    return turnsOf(this.#kernel, this.#m, symbol);
  }

  /** The steps over loops of the result. */
  #outerSteps(): LoopStep[] {
    return this.#m.steps.filter((step) => step.do === "loop")
      .filter(({ symbol }) => this.#kernel.outer.includes(symbol));
  }

  /** Tiles along such a step. */
  #tilesOf({ symbol, by }: LoopStep): number {
    return Math.ceil(shareOf(this.#m, symbol) / by);
  }

  get #tileSize(): number {
    const { rows, starts, width } = this.#m;
    return rows.reduce((n, [, count]) => n * count, 1) * starts.length * width;
  }

  get #memorySize(): number {
    return this.#outerSteps().reduce((n, step) => n * this.#tilesOf(step), this.#tileSize);
  }

  #number(value: number): E {
    return this.#values.isFixed ? int(value) : this.#p.size(value);
  }

  /** The loops of the group's work-item, of which several go over those of `order`. */
  #placed(order = this.#m.order): Loops {
    const { outer, inner } = this.#kernel, at = new Map<number, At>();
    const counted = order.filter((s) => this.#turns(s) > 1), p = this.#p;
    for (const s of outer) at.set(s, { first: int(0), fresh: int(0), end: this.#values.size(s) });
    let rest: E = p.group;
    counted.forEach((s, k) => {
      const count = shareOf(this.#m, s), end = this.#values.size(s);
      let number = rest;
      if (k < counted.length - 1) {
        const [quotient, remainder] = divideBy(rest, this.#number(this.#turns(s)));
        number = p.let(remainder);
        rest = p.let(quotient);
      }
      const fresh = mul(number, count);
      this.#numbers.set(s, number);
      at.set(s, {
        first: this.#movedBack(s, fresh, count),
        fresh,
        end: count === 1 ? add(fresh, 1) : p.let(min(add(fresh, count), end)),
      });
    });
    for (const s of inner) at.set(s, this.#summed(s, at));
    return at;
  }

  /** A loop of the sum: all of it, or the part that this row was given. */
  #summed(symbol: number, at: Loops): At {
    const { chunk } = this.#kernel, size = this.#values.size(symbol), p = this.#p;
    if (chunk?.symbol !== symbol) return { first: int(0), fresh: int(0), end: size };
    const length = this.#number(chunk.length),
      first = p.let(mul(at.get(chunk.part)!.first, length));
    return { first, fresh: first, end: p.let(min(add(first, length), size)) };
  }

  /** Start of so many iterations: the last ones end with the loop, unless they may be clipped. */
  #movedBack(symbol: number, first: E, count: number): E {
    if (this.#kernel.sizes[symbol]! % count === 0 || isClipped(this.#m, symbol)) return first;
    return this.#p.let(min(first, sub(this.#values.size(symbol), count)));
  }

  #steps(steps: readonly Step[], at: Loops, body: (at: Loops) => void): void {
    const [step, ...rest] = steps, p = this.#p;
    if (step === undefined) return body(at);
    if (step.do === "pack") {
      const box = this.#boxes.get(step.operand)!;
      if (step.operand === this.#m.kept) box.find(firstOf(at), this.#keptNumber);
      else box.pack(firstOf(at));
      return this.#steps(rest, at, body);
    }
    const { symbol, by } = step, { first, fresh, end } = at.get(symbol)!;
    const { sizes, inner } = this.#kernel, isInner = inner.includes(symbol);
    const all = isInner ? sizes[symbol]! : shareOf(this.#m, symbol);
    const isDivided = all % by === 0 && all <= sizes[symbol]!;
    const isExact = isDivided && sizes[symbol]! % all === 0;
    // Of a share that is moved back, the tiles that are not of the one before: whole ones from its first.
    const begin = isDivided && first !== fresh
      ? add(first, mul(p.let(div(sub(fresh, first), by)), by))
      : fresh;
    const turns = isExact ? int(all / by) : p.let(div(add(sub(end, begin), by - 1), by));
    p.loop(turns, (turn) => {
      const own = add(begin, mul(turn, by));
      const placed: At = {
        first: isInner || isDivided ? own : this.#movedBack(symbol, own, by),
        fresh: begin === fresh ? own : fresh,
        end: isExact ? add(own, by) : p.let(min(add(own, by), end)),
        turn,
      };
      this.#steps(rest, new Map([...at, [symbol, placed]]), body);
    }, 1);
  }

  /** The sums of the tile in registers, with their place in memory and what it holds. */
  #eachSum(at: Loops, body: (sum: E, place: E, held: E) => void): void {
    const { width } = this.#m, p = this.#p;
    const tile = this.#outerSteps().reduce<E>(
      (n, step) => add(mul(n, this.#tilesOf(step)), at.get(step.symbol)!.turn ?? 0),
      int(0),
    );
    const base = p.let(mul(tile, this.#tileSize));
    this.#sums.rows.flatMap(({ sums }) => sums).forEach((sum, k) => {
      const place = add(base, k * width);
      body(sum, place, load(this.#memory!, add(place, lanes(width))));
    });
  }
}
