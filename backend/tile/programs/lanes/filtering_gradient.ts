/**
 * Gradients of 3x3 kernels by minimal filtering: an image's tiles of 6x6 times the gradient's tiles of 4x4, whose
 * 3x3 sums are those of all tiles. A part of the tiles has its own sums, which a second program adds up in
 * order, so the result is the same for any number of threads.
 */
import {
  add,
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
import { fadd, float, lane, laneSum, load, lt, select, splat } from "../../language/values.ts";
import { alongBoth, Filtering, type TilePlace } from "./filtering.ts";
import {
  type FilteringForm,
  GROUP_ROOM,
  GROUP_ROWS,
  PATCH,
  POINTS,
  TAPS,
  TILE,
} from "./filtering_form.ts";
import { VECTOR } from "../panels/numbered.ts";

/** The gradients; the sums of parts; a number for each row, which is NaN where one is not finite. */
const RESULT = 0, SUMS = 1, FINDINGS = 2;

/** Room for a part's transformed tiles: floats of a plane. */
export interface GradientRoom {
  readonly image: number;
  readonly gradient: number;
}

/** The sums of a part of the tiles a work-item. */
export function gradientSums(form: FilteringForm, room: GradientRoom): TileKernel {
  return withExpressions(() => {
    const f = new Filtering(form), { p } = f, pitch = f.number("pitch");
    const [image, gradient] = [room.image, room.gradient]
      .map((plane) => p.array("local", POINTS * plane, "float")) as [Place, Place];
    const size = f.number("partTiles"), first = p.let(mul(p.group, size));
    const tiles = p.let(min(sub(f.number("tiles"), first), size));
    const groupSize = p.let(mul(size, GROUP_ROOM));
    p.loop(tiles, (t) => {
      const tile = f.tiles(add(first, t), 1)[0]!;
      transformImage(f, tile, image, p.let(mul(t, pitch)), room.image);
      const at = (group: E): E => add(mul(group, groupSize), mul(t, GROUP_ROOM));
      transformGradient(f, tile, gradient, at, room.gradient);
    }, 1);
    const plane = f.number("plane"), part = p.let(mul(mul(p.group, plane), POINTS));
    f.multiply({
      ...{ first: int(0), count: f.number("groups"), terms: tiles },
      ...{ columns: f.number("columns"), pitch },
      ...{ right: image, rightPlane: room.image, into: f.output(SUMS) },
      left: (point, group) => ({
        place: gradient,
        at: add(mul(point, room.gradient), mul(group, groupSize)),
      }),
      intoAt: (point, g) => add(part, mul(point, plane), mul(mul(g, GROUP_ROWS), pitch)),
    });
    return p.finish("sums of a gradient by minimal filtering", 1);
  });
}

/** Transforms a tile of the image, for all channels. */
function transformImage(f: Filtering, tile: TilePlace, to: Place, at: E, plane: number): void {
  const { p } = f, base = f.atTile("image", tile);
  p.loop(mul(f.number("panels"), 2), (turn) => {
    const first = p.let(mul(turn, VECTOR));
    const bases = [0, 1, 2, 3].map((k) =>
      p.let(add(base, f.along("image", "channels", add(first, k))))
    );
    const points = alongBoth(f.squares(f.image, bases, f.stepOf("image", "y"), PATCH), f.ofImage);
    f.store(to, p.let(add(at, first)), plane, points);
  }, 1);
}

/** Transforms a tile of the gradient, for all groups of rows. */
function transformGradient(
  f: Filtering,
  tile: TilePlace,
  to: Place,
  placeOf: (group: E) => E,
  plane: number,
): void {
  const { p } = f, base = f.atTile("other", tile), masked = withoutSkipped(f, tile);
  p.loop(f.number("groups"), (group) => {
    const row = p.let(f.rowOf(group)), place = p.let(placeOf(group));
    for (let half = 0; half < GROUP_ROOM; half += VECTOR) {
      const bases = [0, 1, 2, 3].map((k) =>
        p.let(add(base, f.along("other", "rows", add(row, half + k))))
      );
      const lines = f.squares(f.other, bases, f.stepOf("other", "y"), TILE);
      f.store(to, add(place, half), plane, alongBoth(masked(lines), f.ofTaps));
    }
  }, 1);
}

/** Squares with 0 for elements that another tile has, too. */
function withoutSkipped({ p, form }: Filtering, { skipped }: TilePlace) {
  if (form.isDivided) return (lines: Iterable<readonly E[]>) => lines;
  const [rows, columns] = skipped
    .map((count) => [0, 1, 2, 3].map((n) => p.let(lt(count, n + 1)))) as [E[], E[]];
  const none = splat(float(0), VECTOR);
  return function* (lines: Iterable<readonly E[]>) {
    let y = 0;
    for (const line of lines) {
      const row = rows[y++]!;
      yield line.map((value, x) => p.let(select(row, select(columns[x]!, value, none), none)));
    }
  };
}

/** Adds up the parts' sums, and turns them into the gradients of a row, a work-item. */
export function gradientResults(form: FilteringForm): TileKernel {
  return withExpressions(() => {
    const f = new Filtering(form), { p } = f, to = f.output(RESULT);
    const found = p.register(splat(float(0), VECTOR));
    const taps = Array.from(
      { length: TAPS * TAPS },
      (_, k) => f.tap("target", Math.floor(k / TAPS), k % TAPS),
    );
    const base = p.let(add(f.along("target", "rows", p.group), f.first("target")));
    const row = p.let(mul(placeOf(f, p.group), f.number("pitch")));
    p.loop(mul(f.number("panels"), 2), (turn) => {
      const first = p.let(mul(turn, VECTOR));
      const points = summed(f, f.output(SUMS), p.let(add(row, first)));
      const gradients = alongBoth(points, f.ofProducts(TAPS)).flat();
      f.check(found, [gradients]);
      for (let k = 0; k < VECTOR; k++) {
        const channel = p.let(add(first, k));
        p.when(lt(channel, f.number("channels")), () => {
          const own = p.let(add(base, f.along("target", "channels", channel)));
          gradients.forEach((value, n) => p.store(to, add(own, taps[n]!), lane(value, k)));
        });
      }
    }, 1);
    p.store(f.output(FINDINGS), p.group, laneSum(found));
    return p.finish("gradient by minimal filtering", 1);
  });
}

/** Place of a row: groups have room for six. */
function placeOf(f: Filtering, row: E): E {
  const { p, form: { rows } } = f;
  const before = p.let(min(row, mul(f.number("long"), rows))),
    [group] = divideBy(before, int(rows));
  const [shorter] = divideBy(sub(row, before), int(Math.max(1, rows - 1)));
  return add(row, mul(group, GROUP_ROWS - rows), mul(shorter, GROUP_ROWS - rows + 1));
}

/** The sums of all parts at the points, rows of `PATCH`. */
function* summed(f: Filtering, from: Place, at: E) {
  const { p } = f, plane = f.number("plane");
  for (let y = 0; y < PATCH; y++) {
    const sums = Array.from({ length: PATCH }, () => p.register(splat(float(0), VECTOR)));
    p.loop(f.number("parts"), (part) => {
      let own = p.let(add(at, mul(add(mul(part, POINTS), y * PATCH), plane)));
      sums.forEach((sum, x) => {
        if (x > 0) own = p.let(add(own, plane));
        p.set(sum, fadd(sum, load(from, add(own, lanes(VECTOR)))));
      });
    }, 1);
    yield sums;
  }
}
