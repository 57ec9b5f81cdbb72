/** A value at a place. */
export type Point = readonly [x: number, y: number];

/** A line of a chart. */
export interface Line {
  /** From left to right. */
  readonly points: readonly Point[];
  /** Its name below the chart, if it is not alone. */
  readonly name?: string;
  /** The number of a terminal's colour, such as 34 for blue. */
  readonly colour: number;
}

/** The values of a chart, and its look. */
export interface Chart {
  readonly title: string;
  /** Those later in the list are drawn over the earlier ones. */
  readonly lines: readonly Line[];
  /** Positions of the left and the right end. */
  readonly from: number;
  readonly until: number;
  /** In characters, all in all. */
  readonly width: number;
  /** Rows of the picture itself. */
  readonly height: number;
  /** True if equal ratios are equally high, as suits a loss. */
  readonly isLogarithmic?: boolean;
}

/** Dots of a braille character, by column and row: their bits beyond U+2800. */
const dots = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]] as const;
/** Characters of the labels on the left. */
const LABEL = 7;
/** Larger values, and what is no number, are not drawn: sums and differences must be finite. */
const MAX_VALUE = 1e300;

/** Draws lines with the dots of braille characters: a title, the rows, and a line below. */
export function drawChart(chart: Chart): string[] {
  const { title, lines, width, height } = chart;
  const columns = width - LABEL - 2;
  const drawable = lines.map((line) => ({
    ...line,
    points: averaged(line.points, chart, columns),
  }));
  const values = drawable.flatMap(({ points }) => points.map(([, y]) => y));
  const head = " ".repeat(LABEL) + "  " + title;
  if (values.length === 0) return [head, ...Array<string>(height + 1).fill(frame("", ""))];
  const [low, high] = rangeOf(values, chart);
  const cells = new Canvas(columns, height), y = scaleOf(low, high, chart.isLogarithmic ?? false);
  for (const { points, colour } of drawable) {
    cells.line(points.map(([column, value]): Point => [column, y(value)]), colour);
  }
  const rows = cells.rows().map((row, k) =>
    frame(k === 0 ? short(high) : k === height - 1 ? short(low) : "", row)
  );
  return [head, ...rows, `${" ".repeat(LABEL)} └${"─".repeat(columns)}`, legend(drawable)]
    .filter((line) => line !== "");
}

/** Two charts side by side. */
export function beside(left: readonly string[], right: readonly string[], width: number): string[] {
  return Array.from({ length: Math.max(left.length, right.length) }, (_, k) => {
    const line = left[k] ?? "";
    return `${line}${" ".repeat(Math.max(width - lengthOf(line), 0))}  ${right[k] ?? ""}`.trimEnd();
  });
}

/** Text in a terminal's colour. */
export function painted(text: string, colour: number): string {
  return `\x1b[${colour}m${text}\x1b[39m`;
}

/** Characters that are seen. */
function lengthOf(text: string): number {
  // deno-lint-ignore no-control-regex -- escape sequences begin with a control character
  return [...text.replaceAll(/\x1b\[[0-9;]*m/g, "")].length;
}

function frame(label: string, row: string): string {
  return `${label.padStart(LABEL)} ${label === "" ? "│" : "┤"}${row}`;
}

function legend(lines: readonly Line[]): string {
  const names = lines.flatMap(({ name, colour }) =>
    name ? [`${painted("━━", colour)} ${name}`] : []
  );
  return names.length === 0 ? "" : `${" ".repeat(LABEL + 2)}${names.join("   ")}`;
}

/** A number that fits beside the chart: three digits, or fewer with an exponent. */
function short(value: number): string {
  const size = Math.abs(value);
  const isPlain = size === 0 || size >= 1e-3 && size < 1e4;
  const texts = [
    ...isPlain ? [`${Number(value.toPrecision(3))}`] : [],
    value.toExponential(1),
    value.toExponential(0),
  ];
  return texts.find(({ length }) => length <= LABEL)!;
}

/** The mean of what falls into each column of dots, of which a character has two. */
function averaged(points: readonly Point[], chart: Chart, columns: number): Point[] {
  const { from, until, isLogarithmic } = chart, last = 2 * columns - 1;
  const drawable = points.filter(([x, y]) =>
    Number.isFinite(x) && Math.abs(y) < MAX_VALUE && (!isLogarithmic || y > 0)
  );
  const groups = Map.groupBy(
    drawable,
    ([x]) => Math.round(clamped((x - from) / Math.max(until - from, 1e-12)) * last),
  );
  return [...groups].map(([column, group]) => [
    column,
    group.reduce((sum, [, y]) => sum + y, 0) / group.length,
  ]);
}

/** The least and the largest value; apart, also where they are the same. */
function rangeOf(values: readonly number[], { isLogarithmic }: Chart): [low: number, high: number] {
  const low = values.reduce((a, b) => Math.min(a, b)),
    high = values.reduce((a, b) => Math.max(a, b));
  if (high > low) return [low, high];
  const margin = Math.abs(low) / 10 || 1;
  return isLogarithmic ? [low / 1.1, high * 1.1] : [low - margin, high + margin];
}

function scaleOf(low: number, high: number, isLogarithmic: boolean): (value: number) => number {
  const bend = isLogarithmic ? Math.log : (value: number) => value;
  return (value) => (bend(value) - bend(low)) / (bend(high) - bend(low));
}

/** Cells of two by four dots, each with one colour. */
class Canvas {
  readonly #columns: number;
  readonly #rows: number;
  readonly #bits: Uint8Array;
  readonly #colours: Uint8Array;

  constructor(columns: number, rows: number) {
    this.#columns = columns;
    this.#rows = rows;
    this.#bits = new Uint8Array(columns * rows);
    this.#colours = new Uint8Array(columns * rows);
  }

  /** Joins points: columns of dots from the left, and heights from 0 to 1. */
  line(points: readonly Point[], colour: number): void {
    const height = 4 * this.#rows - 1;
    let last: Point | null = null;
    for (const [column, share] of points) {
      const next: Point = [column, Math.round((1 - clamped(share)) * height)];
      this.#join(last ?? next, next, colour);
      last = next;
    }
  }

  #join([x0, y0]: Point, [x1, y1]: Point, colour: number): void {
    const steps = Math.max(Math.abs(x1 - x0), Math.abs(y1 - y0), 1);
    for (let k = 0; k <= steps; k++) {
      this.#dot(
        Math.round(x0 + (x1 - x0) * k / steps),
        Math.round(y0 + (y1 - y0) * k / steps),
        colour,
      );
    }
  }

  #dot(x: number, y: number, colour: number): void {
    const cell = (y >> 2) * this.#columns + (x >> 1);
    this.#bits[cell]! |= dots[x & 1]![y & 3]!;
    this.#colours[cell] = colour;
  }

  rows(): string[] {
    return Array.from({ length: this.#rows }, (_, row) => this.#row(row * this.#columns).trimEnd());
  }

  /** The text of a row, neighbours of one colour painted together. */
  #row(start: number): string {
    let text = "", run = "", colour = 0;
    const end = () => colour === 0 ? run : painted(run, colour);
    for (let cell = start; cell < start + this.#columns; cell++) {
      if (this.#colours[cell] !== colour) {
        text += end();
        run = "";
        colour = this.#colours[cell]!;
      }
      const bits = this.#bits[cell]!;
      run += bits === 0 ? " " : String.fromCharCode(0x2800 + bits);
    }
    return text + end();
  }
}

function clamped(share: number): number {
  return Math.min(Math.max(share, 0), 1);
}
