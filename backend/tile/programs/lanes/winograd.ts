/**
 * Convolutions of three by three taps by Winograd's F(2x2, 3x3): 16 products give four results of a channel where
 * 36 do otherwise. The weights are transformed by a kernel of its own; then a work-item transforms the windows of
 * its tiles, which are the lanes, multiplies them channel by channel, and transforms the sums back.
 */
import { coefficient } from "../../../kernel/affine.ts";
import { existingElements } from "../../../kernel/forms/convolution_loops.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { elementFrom, held } from "../../language/elements.ts";
import {
  add,
  div,
  divideBy,
  type E,
  int,
  lanes,
  min,
  mod,
  mul,
  type Place,
  sub,
  withExpressions,
} from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import {
  all,
  anyLane,
  choose,
  everySecond,
  fadd,
  float,
  fma,
  interleaved,
  isSame,
  load,
  loadBetween,
  lt,
  not,
  splat,
} from "../../language/values.ts";
import type { Program } from "../../program.ts";
import { vectorUnit } from "../../units.ts";
import { laneProducts, LANES } from "../attention/lane_products.ts";
import { type Indices, KernelValues, type NameOf } from "../kernel_values.ts";
import {
  alongBoth,
  difference,
  ofImage,
  ofSums,
  scratchOf,
  SIDE,
  tapBlock,
  TAPS,
  weightBlock,
  type WinogradLoops,
  type WinogradShare,
} from "./winograd_weights.ts";

/** The convolution; results are given by the indices of all outer loops, and how many lanes count. */
export function winograd(
  kernel: LoopKernel,
  loops: WinogradLoops,
  share: WinogradShare,
  inVectors: boolean,
  nameOf: NameOf,
): TileKernel {
  return withExpressions(() => {
    const values = new KernelValues(kernel, vectorUnit(LANES), nameOf, false, true);
    return new Winograd(values, loops, share, inVectors).write();
  });
}

class Winograd {
  readonly #values: KernelValues;
  readonly #p: Program;
  readonly #kernel: LoopKernel;
  readonly #loops: WinogradLoops;
  readonly #share: WinogradShare;
  readonly #inVectors: boolean;
  /** First lines, positions, channels and images of the work-item. */
  readonly #first: E;
  readonly #left: E;
  readonly #lane: E;
  readonly #image: E;
  readonly #groups: number;
  readonly #around: E;
  readonly #at: Indices;
  /** Rows transformed, the image, sums, results. */
  readonly #seen: Place;
  readonly #points: Place;
  readonly #sums: Place;
  readonly #results: Place;

  constructor(
    values: KernelValues,
    loops: WinogradLoops,
    share: WinogradShare,
    inVectors: boolean,
  ) {
    const { kernel, p } = values,
      { sizes } = kernel,
      { line, column, output, image, others } = loops;
    this.#values = values;
    this.#p = p;
    this.#kernel = kernel;
    this.#loops = loops;
    this.#share = share;
    this.#inVectors = inVectors;
    const turns = [
      Math.ceil(sizes[column.position]! / (2 * share.width)),
      Math.ceil(sizes[line.position]! / (2 * share.rows)),
      Math.ceil(sizes[output]! / share.channels),
      image === null ? 1 : Math.ceil(sizes[image]! / share.images),
    ];
    let rest: E = p.group;
    const [x, y, c, stack] = turns.map((count) => {
      const [quotient, remainder] = divideBy(rest, int(count));
      rest = p.let(quotient);
      return p.let(remainder);
    }) as [E, E, E, E];
    this.#left = mul(x, 2 * share.width);
    this.#first = mul(y, 2 * share.rows);
    this.#lane = mul(c, share.channels);
    this.#image = mul(stack, share.images);
    this.#around = rest;
    this.#at = values.decomposed(others, rest, (s) => int(sizes[s]!));
    this.#groups = turns.reduce((n, count) => n * count, extent(kernel, others));
    const array = (count: number): Place =>
      p.array("local", Math.ceil(count / LANES) * LANES, "float");
    this.#seen = array(SIDE * 2 * this.#half);
    this.#points = array(TAPS * this.#plane(this.#terms));
    this.#sums = array(TAPS * this.#plane(share.channels));
    this.#results = array(2 * this.#resultHalf);
  }

  get #terms(): number {
    return this.#kernel.sizes[this.#loops.input]!;
  }

  /** Floats of every second row of an image's window, whose last vector may reach beyond it. */
  get #half(): number {
    const { width, lanes } = this.#share;
    return Math.ceil((lanes + width) / LANES) * LANES + LANES;
  }

  /** Floats of every second line of results. */
  get #resultHalf(): number {
    return 2 * this.#share.lanes + LANES;
  }

  /** Lanes of a row of taps of all channels: planes are a line of a cache apart, else they meet in one set. */
  #plane(count: number): number {
    return count * this.#pitch + LANES;
  }

  get #pitch(): number {
    return this.#share.lanes * this.#share.images;
  }

  write(): TileKernel {
    const p = this.#p, { image } = this.#loops, { images } = this.#share;
    // Lanes behind the last tile hold numbers that are quick to compute with.
    p.loop(
      int(SIDE * 2 * this.#half / LANES),
      (k) => p.store(this.#seen, mul(k, LANES), splat(float(0), LANES)),
      1,
    );
    const count = image === null
      ? int(1)
      : p.let(min(sub(this.#kernel.sizes[image]!, this.#image), images));
    p.loop(count, (part) => this.#transformImage(part), 1);
    this.#multiply();
    p.loop(count, (part) => this.#store(part), 1);
    return p.finish("winograd", this.#groups);
  }

  /** The indices of a result's loops, and of the window that it sees. */
  #indices(part: E, channel: E, line: E, column: E): Indices {
    const loops = this.#loops;
    return new Map([
      ...this.#at,
      ...loops.image === null ? [] : [[loops.image, add(this.#image, part)] as const],
      [loops.output, channel],
      [loops.line.position, line],
      [loops.column.position, column],
      [loops.line.tap, int(0)],
      [loops.column.tap, int(0)],
    ]);
  }

  /** A row of a channel's window: reads sixteen elements from a place on, those outside of the image 0. */
  #rowOf(part: E, channel: E, row: E): (at: E) => E {
    const p = this.#p, { line, column, input } = this.#loops, { b } = this.#kernel.contraction!;
    const y = p.let(add(this.#first, row));
    const at = new Map([...this.#indices(part, int(0), y, this.#left), [input, channel]]);
    const [top, bottom] = existingElements(this.#kernel, line);
    const [start, stop] = existingElements(this.#kernel, column);
    const from = this.#values.input(b.input), own = p.let(this.#values.affine(b.index, at));
    const low = p.let(sub(start, this.#left)), high = sub(stop, this.#left);
    const end = p.let(choose(all([not(lt(y, top)), lt(y, bottom)]), high, -LANES));
    // The next channel's rows are on another page, which no processor expects.
    for (let t = 0; t < 2 * this.#share.width; t += LANES) {
      p.emit({ s: "prefetch", from, at: add(own, coefficient(b.index, input) + t) });
    }
    return (at) => loadBetween(from, add(own, at), sub(low, at), sub(end, at), LANES);
  }

  /** Transforms the windows of all tiles of an image, channel by channel. */
  #transformImage(part: E): void {
    const p = this.#p, { rows, width, lanes: tiles } = this.#share, half = this.#half;
    const read = (place: Place, at: E): E => p.let(load(place, add(at, lanes(LANES))));
    p.loop(int(this.#terms), (channel) => {
      p.loop(int(2 * rows + 2), (r) => {
        const row = this.#rowOf(part, channel, r);
        const to = p.let(add(mul(mod(r, 2), half), mul(div(r, 2), width)));
        for (let t = 0; t < width; t += LANES) {
          const x = [0, LANES, 2, LANES + 2].map((at) => p.let(row(int(2 * t + at)))) as [
            E,
            E,
            E,
            E,
          ];
          const d = [x.slice(0, 2), x.slice(2)].flatMap(([a, b]) =>
            ([0, 1] as const).map((odd) => p.let(everySecond(a!, b!, odd)))
          );
          ofImage(d).forEach((value, j) => p.store(this.#seen, add(to, j * 2 * half + t), value));
        }
      }, 1);
      p.loop(int(tiles / LANES), (turn) => {
        const f = p.let(mul(turn, LANES));
        const to = p.let(add(mul(channel, this.#pitch), mul(part, tiles), f));
        for (let j = 0; j < SIDE; j++) {
          const d = [0, half, width, half + width].map((at) =>
            read(this.#seen, add(f, j * 2 * half + at))
          );
          ofImage(d).forEach((value, r) =>
            p.store(this.#points, add(to, (r * SIDE + j) * this.#plane(this.#terms)), value)
          );
        }
      }, 1);
    }, 1);
  }

  /** Adds up the products of all taps, tile by tile of registers. */
  #multiply(): void {
    const p = this.#p,
      { channels, tile } = this.#share,
      terms = this.#terms,
      width = tile.vectors * LANES;
    const vectors = Math.ceil(this.#kernel.sizes[this.#loops.output]! / LANES);
    const weights = scratchOf(this.#kernel), block = weightBlock(terms);
    const first = p.let(mul(add(mul(this.#around, vectors), div(this.#lane, LANES)), block));
    const rows = p.let(min(sub(vectors * LANES, this.#lane), channels));
    p.loop(int(TAPS), (tap) =>
      p.loop(int(this.#pitch / width), (turn) => {
        const f = p.let(mul(turn, width));
        laneProducts(p, {
          tile: { vectors: tile.vectors, step: tile.channels },
          into: this.#sums,
          rows,
          count: int(terms),
          left: (row) => {
            const own = add(
              first,
              mul(div(row, LANES), block),
              mul(tap, tapBlock(terms)),
              mod(row, LANES),
            );
            const start = p.let(own);
            return (k) => elementFrom(weights, start, mul(k, LANES), "float32");
          },
          right: this.#points,
          pitch: this.#pitch,
          first: p.let(add(mul(tap, this.#plane(channels)), f)),
          rightFirst: p.let(add(mul(tap, this.#plane(terms)), f)),
          isAdded: false,
          isWhole: true,
          reloads: true,
        });
      }, 1), 1);
  }

  /** Transforms the sums of an image back, and gives the results. */
  #store(part: E): void {
    const p = this.#p, size = this.#kernel.sizes[this.#loops.output]!;
    p.loop(p.let(min(sub(size, this.#lane), this.#share.channels)), (o) => {
      const odd = this.#transformSums(part, o), channel = p.let(add(this.#lane, o));
      p.when(anyLane(not(isSame(odd, odd))), () => this.#sumDirectly(part, channel));
      this.#eachLine((r, from) => this.#give(part, channel, r, from));
    }, 1);
  }

  /** The results of a channel, line by line; gives back what is NaN where one is no finite number. */
  #transformSums(part: E, o: E): E {
    const p = this.#p,
      { lanes: tiles, channels } = this.#share,
      odd = p.register(splat(float(0), LANES));
    p.loop(int(tiles / LANES), (turn) => {
      const f = p.let(mul(turn, LANES)),
        from = p.let(add(mul(o, this.#pitch), mul(part, tiles), f));
      const sums = Array.from({ length: SIDE }, (_, r) =>
        Array.from({ length: SIDE }, (_, j) => {
          const tap = (r * SIDE + j) * this.#plane(channels);
          return p.let(load(this.#sums, add(from, tap, lanes(LANES))));
        }));
      const results = alongBoth(sums, (line) => ofSums(line).map((e) => p.let(e)));
      results.forEach(([a, b], r) => {
        p.set(odd, fadd(odd, fadd(difference(a!, a!), difference(b!, b!))));
        const to = add(mul(f, 2), r * this.#resultHalf);
        p.store(this.#results, to, interleaved(a!, b!, 0));
        p.store(this.#results, add(to, LANES), interleaved(a!, b!, 1));
      });
    }, 1);
    return odd;
  }

  /** Runs a body for the lines of results that exist, with the place of each. */
  #eachLine(body: (r: E, from: E) => void): void {
    const p = this.#p, { rows, width } = this.#share;
    const end = this.#kernel.sizes[this.#loops.line.position]!;
    p.loop(
      p.let(min(sub(end, this.#first), 2 * rows)),
      (r) => body(r, p.let(add(mul(mod(r, 2), this.#resultHalf), mul(div(r, 2), 2 * width)))),
      1,
    );
  }

  /**
   * Sums a channel's results as they are defined: of infinities the transforms make NaN, where the sum may be
   * infinite.
   */
  #sumDirectly(part: E, channel: E): void {
    const p = this.#p, { input, line, column } = this.#loops, { a } = this.#kernel.contraction!;
    this.#eachLine((r, from) => {
      const vectors = Math.ceil(2 * this.#share.width / LANES);
      const sums = Array.from({ length: vectors }, () => p.register(splat(float(0), LANES)));
      p.loop(int(this.#terms), (c) =>
        p.loop(int(3), (y) => {
          const row = this.#rowOf(part, c, add(r, y));
          for (let x = 0; x < 3; x++) {
            const at = new Map([
              ...this.#indices(part, channel, int(0), int(0)),
              [input, c],
              [line.tap, y],
              [column.tap, int(x)],
            ]);
            const factor = p.let(
              elementFrom(
                this.#values.input(a.input),
                this.#values.affine(a.index, at),
                int(0),
                "float32",
              ),
            );
            sums.forEach((sum, v) => p.set(sum, fma(factor, row(int(v * LANES + x)), sum)));
          }
        }, 1), 1);
      // Lines overlap in their last vectors, which the next one writes again.
      sums.forEach((sum, v) => p.store(this.#results, add(from, v * LANES), sum));
    });
  }

  /** Gives a line of results. */
  #give(part: E, channel: E, r: E, from: E): void {
    const p = this.#p, { width } = this.#share, { outer, sizes } = this.#kernel;
    const length = sizes[this.#loops.column.position]!;
    const count = p.let(min(sub(length, this.#left), 2 * width)),
      step = this.#inVectors ? LANES : 1;
    p.loop(p.let(div(add(count, step - 1), step)), (turn) => {
      const k = p.let(mul(turn, step)),
        at = this.#indices(part, channel, add(this.#first, r), add(this.#left, k));
      const left = length % (2 * width) === 0 && 2 * width % step === 0
        ? int(step)
        : p.let(min(sub(count, k), step));
      const value = step === 1
        ? held(this.#results, add(from, k), "float")
        : load(this.#results, add(from, k, lanes(LANES)));
      p.give([...outer.map((s) => at.get(s)!), left], value);
    }, 1);
  }
}
