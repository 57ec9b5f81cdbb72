/**
 * Convolutions by minimal filtering: a work-item transforms what the tiles of a block read of the image, multiplies
 * it at 36 points by the transformed kernels, and turns the sums into tiles of 4x4 outputs. What is in between stays
 * in memory of its own, which its caches hold.
 */
import { held, primitive } from "../../language/elements.ts";
import {
  add,
  div,
  divideBy,
  type E,
  int,
  min,
  mul,
  type Place,
  sub,
  type Whole,
  withExpressions,
} from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import { fadd, float, laneSum, larger, lt, splat } from "../../language/values.ts";
import { alongBoth, Filtering, type TilePlace } from "./filtering.ts";
import {
  type FilteringForm,
  GROUP_ROOM,
  GROUP_ROWS,
  PATCH,
  POINTS,
  TILE,
} from "./filtering_form.ts";
import { VECTOR } from "../panels/numbered.ts";

/** The results; the transformed kernels, where another program makes them; findings. */
const RESULT = 0, WEIGHTS = 1, FINDINGS = 2;

/** Elements of a patch in the sample: among them are two rows and two columns that follow each other. */
export const SAMPLE = 4;

const isSampled = (x: number, y: number): boolean => (y === 1 || y === 2) && (x === 1 || x === 2);

/** Floats of planes in memory of a work-item: kernels are there where it transforms those of its outputs. */
export interface ConvolutionRoom {
  readonly columns: number;
  readonly products: number;
  readonly kernels: number | null;
}

/** Transforms the kernels of a group: at each point, for each channel eight floats, one a row of the group. */
function transformKernels(f: Filtering, group: E, to: Place, at: E, plane: Whole): void {
  const { p } = f, first = p.let(f.rowOf(group));
  for (let half = 0; half < GROUP_ROOM; half += VECTOR) {
    const bases = Array.from(
      { length: VECTOR },
      (_, k) => p.let(add(f.along("other", "rows", add(first, half + k)), f.first("other"))),
    );
    p.loop(f.number("channels"), (channel) => {
      const offset = p.let(f.along("other", "channels", channel));
      const places = bases.map((base) => p.let(add(base, offset)));
      const points = alongBoth(f.kernels(f.other, places), f.ofTaps);
      f.store(to, p.let(add(at, mul(channel, GROUP_ROOM), half)), plane, points);
    }, 1);
  }
}

/** The kernels of a group a work-item. */
export function filteredKernels(form: FilteringForm): TileKernel {
  return withExpressions(() => {
    const f = new Filtering(form), { p } = f;
    const at = mul(p.group, mul(f.number("channels"), GROUP_ROOM));
    transformKernels(f, p.group, f.output(WEIGHTS), at, f.number("kernelPlane"));
    return p.finish("kernels for minimal filtering", 1);
  });
}

/** A part of the outputs of a block of tiles a work-item. */
export function filteredConvolution(form: FilteringForm, room: ConvolutionRoom): TileKernel {
  return withExpressions(() => new Convolution(new Filtering(form), room).write());
}

class Convolution {
  readonly #f: Filtering;
  readonly #room: ConvolutionRoom;
  readonly #columns: Place;
  readonly #products: Place;
  readonly #kernels: Place;
  /** The lines of a tile of which another one has some. */
  readonly #tileLines: Place;
  /** The first tile, how many there are, and which part of the outputs it is. */
  readonly #tile: E;
  readonly #count: E;
  readonly #part: E;
  /** Sum of all that is not finite. */
  readonly #found: E;

  constructor(f: Filtering, room: ConvolutionRoom) {
    const { p } = f, array = (plane: number) => p.array("local", POINTS * plane, "float");
    this.#f = f;
    this.#room = room;
    this.#columns = array(room.columns);
    this.#products = array(room.products);
    this.#kernels = room.kernels === null ? f.output(WEIGHTS) : array(room.kernels);
    this.#tileLines = p.array("local", TILE * VECTOR, "float");
    const [block, part] = divideBy(p.group, f.number("parts"));
    this.#tile = p.let(mul(block, f.number("blockTiles")));
    this.#count = p.let(min(f.number("blockTiles"), sub(f.number("room"), this.#tile)));
    this.#part = p.let(part);
    this.#found = p.register(splat(float(0), VECTOR));
  }

  write(): TileKernel {
    const { p } = this.#f, number = (name: string): E => this.#f.number(name);
    this.#eachFour((tiles, at) => this.#transformTiles(tiles, at));
    const first = p.let(mul(this.#part, number("partGroups")));
    const end = p.let(min(add(first, number("partGroups")), number("groups")));
    p.loop(number("turns"), (turn) => {
      const own = p.let(add(first, mul(turn, number("held"))));
      const count = p.let(min(sub(end, own), number("held")));
      this.#multiply(own, count);
      this.#eachFour((tiles, at) => this.#storeTiles(tiles, at, own, count));
    }, 1);
    const at = add(mul(number("room"), 2), p.group);
    p.store(this.#f.output(FINDINGS), at, laneSum(this.#found));
    return p.finish("convolution by minimal filtering", 1);
  }

  /** Runs a body for four tiles of the block after the other, with their places in a plane. */
  #eachFour(body: (tiles: readonly TilePlace[], at: E) => void): void {
    const { p } = this.#f;
    p.loop(div(this.#count, VECTOR), (turn) => {
      const at = p.let(mul(turn, VECTOR));
      body(this.#f.tiles(p.let(add(this.#tile, at)), VECTOR), at);
    }, 1);
  }

  #transformTiles(tiles: readonly TilePlace[], place: E): void {
    const f = this.#f, { p } = f, bases = tiles.map((tile) => f.atTile("image", tile));
    const [peak, sample] = [0, 1].map(() => p.register(splat(float(0), VECTOR))) as [E, E];
    p.loop(f.number("channels"), (channel) => {
      const offset = p.let(f.along("image", "channels", channel));
      const own = bases.map((base) => p.let(add(base, offset)));
      const lines = f.squares(f.image, own, f.stepOf("image", "y"), PATCH);
      const points = alongBoth(this.#noted(lines, peak, sample), f.ofImage);
      const at = p.let(add(mul(channel, f.number("pitch")), place));
      f.store(this.#columns, at, this.#room.columns, points);
    }, 1);
    const at = add(this.#tile, place), to = f.output(FINDINGS);
    p.store(to, at, peak);
    p.store(to, add(at, f.number("room")), sample);
  }

  /**
   * Notes the largest absolute number of patches, and the sum of a sample. A number that is much larger than most
   * would leave its rounding errors in all outputs of a tile, also in those that do not see it.
   */
  *#noted(lines: Iterable<readonly E[]>, peak: E, sample: E): Generator<readonly E[]> {
    const { p } = this.#f;
    let y = 0;
    for (const line of lines) {
      line.forEach((value, x) => {
        const size = p.let(primitive("abs", [value], "float32"));
        p.set(peak, larger(peak, size));
        if (isSampled(x, y)) p.set(sample, fadd(sample, size));
      });
      yield line;
      y++;
    }
  }

  /** Multiplies by the kernels of some groups. */
  #multiply(first: E, count: E): void {
    const f = this.#f, { p } = f, { columns, products, kernels } = this.#room;
    const size = p.let(mul(f.number("channels"), GROUP_ROOM)), pitch = f.number("pitch");
    if (kernels !== null) {
      p.loop(count, (g) => {
        transformKernels(f, p.let(add(first, g)), this.#kernels, mul(g, size), kernels);
      }, 1);
    }
    const before = kernels === null ? p.let(mul(first, size)) : int(0);
    const plane = kernels ?? f.number("kernelPlane");
    f.multiply({
      ...{ first, count, terms: f.number("channels"), columns: this.#count, pitch },
      ...{ right: this.#columns, rightPlane: columns, into: this.#products },
      left: (point, g) => ({
        place: this.#kernels,
        at: add(mul(point, plane), before, mul(g, size)),
      }),
      intoAt: (point, g) => add(mul(point, products), mul(mul(g, GROUP_ROWS), pitch)),
    });
  }

  /** Turns products into outputs. */
  #storeTiles(tiles: readonly TilePlace[], place: E, first: E, count: E): void {
    const f = this.#f, { p } = f, bases = tiles.map((tile) => f.atTile("target", tile));
    p.loop(count, (g) => {
      const group = p.let(add(first, g)), row = p.let(f.rowOf(group));
      p.loop(p.let(f.rowsOf(group)), (r) => {
        const offset = p.let(f.along("target", "rows", add(row, r)));
        const line = p.let(add(mul(g, GROUP_ROWS), r));
        const at = p.let(add(mul(line, f.number("pitch")), place));
        const points = f.points(this.#products, at, this.#room.products);
        const outputs = alongBoth(points, f.ofProducts(TILE));
        f.check(this.#found, outputs);
        const lines = outputs.map((line) => f.transposed(line));
        tiles.forEach(({ skipped }, k) => {
          this.#store(lines.map((line) => line[k]!), p.let(add(bases[k]!, offset)), skipped);
        });
      }, 1);
    }, 1);
  }

  /** Stores the lines of a tile; where it overlaps another one, what that one does not store. */
  #store(lines: readonly E[], at: E, [rows, columns]: TilePlace["skipped"]): void {
    const f = this.#f, { p } = f, to = f.output(RESULT), step = f.stepOf("target", "y");
    let place = at;
    const places = lines.map((_, y) => y === 0 ? at : place = p.let(add(place, step)));
    const whole = (): void => lines.forEach((line, y) => p.store(to, places[y]!, line));
    if (f.form.isDivided) return whole();
    const skipped = p.let(add(rows, columns));
    p.when(lt(skipped, 1), whole);
    p.when(lt(0, skipped), () => {
      lines.forEach((line, y) => p.store(this.#tileLines, int(y * VECTOR), line));
      p.loop(p.let(sub(TILE, rows)), (down) => {
        const y = p.let(add(rows, down)), line = p.let(add(at, mul(y, step)));
        p.loop(p.let(sub(TILE, columns)), (across) => {
          const x = p.let(add(columns, across));
          const value = held(this.#tileLines, add(mul(y, VECTOR), x), "float");
          p.store(to, add(line, x), value);
        }, 1);
      }, 1);
    });
  }
}
