/**
 * Winograd's minimal filtering in vectors of four: F(4, 3) for convolutions, F(3, 4) for the gradients of their
 * kernels (A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015). Six products give four
 * outputs of three taps, 36 give 4x4 of 3x3: a quarter of the multiplications.
 *
 * The polynomials are evaluated at 0, ±3/4, ±3/2 and infinity. With the usual ±1 and ±2 results
 * are off by 1.6e-5 to 4e-5 of their root mean square, with these by 5e-6 to 1e-5; a direct float32
 * sum is off by 2e-6 to 6e-6 (16 and 128 channels of normal numbers).
 *
 * Programs are long, so their sizes are arguments by name: those of one form are one kernel.
 */
import { primitive } from "../../language/elements.ts";
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
  type Whole,
} from "../../language/expression.ts";
import {
  choose,
  everySecond,
  fadd,
  float,
  fma,
  fmul,
  load,
  lt,
  splat,
} from "../../language/values.ts";
import {
  type FilteringForm,
  GROUP_ROOM,
  type Operand,
  PATCH,
  POINTS,
  type Role,
  TAPS,
  TILE,
} from "./filtering_form.ts";
import { Numbered, VECTOR } from "../panels/numbered.ts";
import { type LeftOperand, PANEL, panelProduct } from "../panels/panel_product.ts";

/** The finite points other than 0: each with either sign. */
const A = 0.75, B = 1.5;
const A2 = A * A, B2 = B * B;
/** Divisors of the products at 0, ±A and ±B: the derivatives of the polynomial there. */
const AT_0 = A2 * B2, AT_A = 2 * A2 * (A2 - B2), AT_B = 2 * B2 * (B2 - A2);

type Line = readonly E[];
/** A tile: its image, its first position, and how many of its first rows and columns another one has. */
export interface TilePlace {
  readonly image: E;
  readonly y: E;
  readonly x: E;
  readonly skipped: readonly [rows: E, columns: E];
}

/** Product of rows of a left operand, at all points. */
export interface PointProduct {
  /** Groups of rows, and the first of them. */
  readonly first: E;
  readonly count: E;
  /** The left operand of a group at a point: eight floats a term. */
  readonly left: (point: E, group: E) => Omit<LeftOperand, "row" | "term">;
  readonly right: Place;
  readonly rightPlane: number;
  readonly into: Place;
  /** Results of a group, the first of which is 0, at a point. */
  readonly intoAt: (point: E, group: E) => E;
  readonly terms: E;
  readonly columns: E;
  readonly pitch: E;
}

/** Parts of the programs: transforms, squares in lanes, groups, products. */
export class Filtering extends Numbered {
  readonly form: FilteringForm;
  readonly image: Place = this.input(0);
  readonly other: Place = this.input(1);

  constructor(form: FilteringForm) {
    super(2);
    this.form = form;
  }

  // ---- indices

  stepOf(operand: Operand, loop: string): E {
    return this.step(`${operand} ${loop}`);
  }

  /** The part of an index that several loops, counted as one, add to it; of the last one again behind their end. */
  along(operand: Operand, role: Role, number: E): E {
    const { p } = this;
    let rest = p.let(min(number, sub(this.number(role), 1))), sum = int(0);
    for (let k = this.form.loops[role] - 1; k >= 0; k--) {
      let at = rest;
      if (k > 0) {
        const [quotient, remainder] = divideBy(rest, this.number(`${role}${k}`));
        rest = p.let(quotient);
        at = p.let(remainder);
      }
      sum = add(sum, mul(at, this.stepOf(operand, `${role}${k}`)));
    }
    return sum;
  }

  /** The index of the first element of a tile, whose columns lie side by side. */
  atTile(operand: Operand, { image, y, x }: TilePlace): E {
    const around = this.along(operand, "images", image);
    return this.p.let(
      add(this.first(operand), around, mul(y, this.stepOf(operand, "y")), x),
    );
  }

  /** The first element of an operand that is read, or stored. */
  first(operand: Operand): E {
    return this.step(operand);
  }

  /** Some tiles that follow each other; behind the last one that again. */
  tiles(number: E, count: number): TilePlace[] {
    const { p } = this, last = sub(this.number("tiles"), 1);
    const [rest, column] = divideBy(p.let(min(number, last)), this.number("across"));
    const [image, line] = divideBy(p.let(rest), this.number("down"));
    let at = [image, line, column].map((e) => p.let(e)) as [E, E, E];
    return Array.from({ length: count }, (_, k) => {
      if (k > 0) at = this.#next(at, lt(add(number, k - 1), last));
      const [x, columns] = this.#along("width", at[2]), [y, rows] = this.#along("height", at[1]);
      return { image: at[0], y, x, skipped: [rows, columns] };
    });
  }

  /** The tile behind one, where there is another: divisions take longer. */
  #next([image, line, column]: readonly [E, E, E], isThere: E): [E, E, E] {
    const { p } = this, right = p.let(add(column, choose(isThere, 1, 0)));
    const isSame = p.let(lt(right, this.number("across")));
    const below = p.let(add(line, choose(isSame, 0, 1)));
    const isInside = p.let(lt(below, this.number("down")));
    return [
      p.let(add(image, choose(isInside, 0, 1))),
      p.let(choose(isInside, below, 0)),
      p.let(choose(isSame, right, 0)),
    ];
  }

  /** The first position of a tile along an axis, and how many of its positions the one before has. */
  #along(size: string, tile: E): readonly [first: E, skipped: E] {
    const { p } = this, begin = p.let(mul(tile, TILE));
    if (this.form.isDivided) return [begin, int(0)];
    const first = p.let(min(begin, sub(this.number(size), TILE)));
    return [first, p.let(sub(begin, first))];
  }

  /** Offset of a tap. */
  tap(operand: Operand, y: number, x: number): E {
    return this.p.let(
      add(mul(this.stepOf(operand, "tapY"), y), mul(this.stepOf(operand, "tapX"), x)),
    );
  }

  // ---- groups of rows

  /** Rows of a group. */
  rowsOf(group: E): E {
    const { rows, hasShorter } = this.form;
    return hasShorter ? choose(lt(group, this.number("long")), rows, rows - 1) : int(rows);
  }

  /** The first row of a group. */
  rowOf(group: E): E {
    const { rows, hasShorter } = this.form;
    return hasShorter
      ? add(mul(group, rows - 1), min(group, this.number("long")))
      : mul(group, rows);
  }

  /** Multiplies groups of rows by panels of columns, point by point. */
  multiply({ first, count, left, rightPlane, intoAt, terms, ...s }: PointProduct): void {
    const { p, form: { rows, hasShorter } } = this, panel = p.array("local", PANEL, "float");
    p.loop(int(POINTS), (point) =>
      p.loop(count, (g) => {
        const product = (step: number) => (): void =>
          panelProduct(p, {
            ...{ ...s, rows: int(step), step, count: terms, isAdded: false, panel },
            left: { ...left(point, g), row: int(1), term: int(GROUP_ROOM) },
            ...{ rightAt: mul(point, rightPlane), intoAt: intoAt(point, g) },
          });
        if (!hasShorter) return product(rows)();
        const before = p.let(sub(this.number("long"), add(first, g)));
        p.when(lt(0, before), product(rows));
        p.when(lt(before, 1), product(rows - 1));
      }, 1), 1);
  }

  // ---- squares in lanes

  /** Vectors of neighbours, from four places on, transposed. */
  #loaded(place: Place, bases: Line, offset: number): E[] {
    return this.transposed(
      bases.map((base) => this.p.let(load(place, add(base, offset, lanes(VECTOR))))),
    );
  }

  /** The rows of four squares one after the other: each vector holds an element of all four. */
  *squares(place: Place, bases: Line, step: E, side: typeof TILE | typeof PATCH) {
    let row = bases;
    for (let y = 0; y < side; y++) {
      if (y > 0) row = row.map((base) => this.p.let(add(base, step)));
      const first = this.#loaded(place, row, 0);
      // Nothing is read behind a row, which may be the last one.
      yield side === TILE ? first : [...first, ...this.#loaded(place, row, 2).slice(2)];
    }
  }

  /** Nine taps of four kernels, in rows. */
  *kernels(place: Place, bases: Line) {
    const { run } = this.form;
    const [low, high, last] = run ? [0, 4, 5].map((k) => this.#loaded(place, bases, k)) : [];
    const elements = run && [...low!, ...high!, last![3]!];
    for (let y = 0; y < TAPS; y++) {
      yield [0, 1, 2].map((x) =>
        elements
          ? elements[run![TAPS * y + x]!]!
          : this.#gathered(place, bases, this.tap("other", y, x))
      );
    }
  }

  /** An element from each of four places. */
  #gathered(place: Place, bases: Line, offset: Whole): E {
    const [a, b, c, d] = bases.map((base) => splat(load(place, add(base, offset)), VECTOR));
    return this.p.let(everySecond(everySecond(a!, b!, 0), everySecond(c!, d!, 0), 0));
  }

  /** The vectors of all points, rows of `PATCH`, from a place on. */
  *points(place: Place, at: E, plane: number) {
    for (let y = 0; y < POINTS; y += PATCH) {
      yield Array.from(
        { length: PATCH },
        (_, x) => this.p.let(load(place, add(at, (y + x) * plane, lanes(VECTOR)))),
      );
    }
  }

  /** Stores the vectors of all points. */
  store(place: Place, at: E, plane: Whole, points: readonly Line[]): void {
    let own = at;
    points.flat().forEach((value, k) => {
      if (k > 0) own = typeof plane === "number" ? add(own, plane) : this.p.let(add(own, plane));
      this.p.store(place, own, value);
    });
  }

  // ---- arithmetic

  /** Notes numbers that are not finite: times 0 they are NaN, and so is the sum. */
  check(found: E, values: readonly Line[]): void {
    for (const value of values.flat()) this.p.set(found, fma(value, float(0), found));
  }

  /** `x + factor * y`. */
  #plus(x: E, factor: number, y: E): E {
    return this.p.let(fma(float(factor), y, x));
  }

  /** `x + factor * y` and `x - factor * y`. */
  #both(x: E, factor: number, y: E): [E, E] {
    return [this.#plus(x, factor, y), this.#plus(x, -factor, y)];
  }

  /** Six elements of an image at the six points. */
  ofImage = ([d0, d1, d2, d3, d4, d5]: Line): E[] => {
    const pair = (point: number, other: number): [E, E] =>
      this.#both(this.#plus(d4!, -other, d2!), point, this.#plus(d3!, -other, d1!));
    const end = (low: E, middle: E, high: E): E =>
      this.#plus(this.#plus(high, -(A2 + B2), middle), A2 * B2, low);
    return [end(d0!, d2!, d4!), ...pair(A, B2), ...pair(B, A2), end(d1!, d3!, d5!)];
  };

  /** Three taps, or four elements of a gradient as such, at the six points, not divided yet. */
  ofTaps = ([g0, g1, g2, g3]: Line): E[] => {
    const pair = (point: number): [E, E] => {
      const odd = g3 ? this.#plus(g1!, point * point, g3) : g1!;
      return this.#both(this.#plus(g0!, point * point, g2!), point, odd);
    };
    return [g0!, ...pair(A), ...pair(B), g3 ?? g2!];
  };

  /** The first `count` outputs, three or four, of six products, which are divided here. */
  ofProducts = (count: 3 | 4) => ([m0, m1, m2, m3, m4, m5]: Line): E[] => {
    const { p } = this, less = (a: E, b: E): E => p.let(primitive("sub", [a, b], "float32"));
    const sums = [p.let(fadd(m1!, m2!)), p.let(fadd(m3!, m4!))] as const;
    const differences = [less(m1!, m2!), less(m3!, m4!)] as const;
    return Array.from({ length: count }, (_, k) => {
      const [low, high] = k % 2 === 0 ? sums : differences;
      const both = this.#plus(fmul(float(B ** k / AT_B), high), A ** k / AT_A, low);
      if (k === 0) return this.#plus(both, 1 / AT_0, m0!);
      return k === count - 1 ? p.let(fadd(both, m5!)) : both;
    });
  };
}

/**
 * Transforms a square of vectors along its rows, then along its columns. A row is transformed as soon as
 * it is read: few vectors wait in memory for the others.
 */
export function alongBoth(rows: Iterable<Line>, transform: (line: Line) => E[]): E[][] {
  const lines = Array.from(rows, transform);
  const columns = lines[0]!.map((_, x) => transform(lines.map((row) => row[x]!)));
  return columns[0]!.map((_, y) => columns.map((column) => column[y]!));
}
