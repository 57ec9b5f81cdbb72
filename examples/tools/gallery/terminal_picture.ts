import type { Cell } from "./terminal_cells.ts";

/** A character's cell, the margin around all of them, and the bar above, in pixels. */
const CELL = { width: 8.4, height: 18 }, MARGIN = 16, BAR = 30;

/** The colours of a dark terminal by their numbers. */
const colours: Readonly<Record<number, string>> = {
  30: "#6b7280",
  31: "#f87171",
  32: "#4ade80",
  33: "#fbbf24",
  34: "#60a5fa",
  35: "#e879f9",
  36: "#22d3ee",
  37: "#f3f4f6",
  39: "#d1d5db",
};

/** Frames and rules as lines from point to point, in halves of a cell. */
const rules: Readonly<Record<string, readonly (readonly [number, number, number, number])[]>> = {
  "│": [[1, 0, 1, 2]],
  "┤": [[1, 0, 1, 2], [0, 1, 1, 1]],
  "└": [[1, 0, 1, 1], [1, 1, 2, 1]],
  "─": [[0, 1, 2, 1]],
  "━": [[0, 1, 2, 1]],
};

/**
 * Draws a terminal as an SVG that looks the same with any font: charts and frames are shapes, and
 * letters keep to their cells.
 *
 * @param rows What stands in it.
 * @param command What was typed.
 */
export function drawTerminal(rows: readonly (readonly Cell[])[], command: string): string {
  const columns = Math.max(command.length + 2, ...rows.map((row) => row.length));
  const width = Math.ceil(columns * CELL.width + 2 * MARGIN);
  const height = Math.ceil(BAR + (rows.length + 1) * CELL.height + 2 * MARGIN);
  const prompt = [..."$ ", ...command].map((text): Cell => ({ text, colour: 37, isBold: true }));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" ` +
    `height="${height}" role="img">
<style>text { font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre }
.b { font-weight: 700 }</style>
<rect width="${width}" height="${height}" rx="10" fill="#0d1117"/>
<rect x="0.5" y="0.5" width="${width - 1}" height="${
      height - 1
    }" rx="10" fill="none" stroke="#30363d"/>
${[20, 40, 60].map((x) => `<circle cx="${x}" cy="20" r="5.5" fill="#30363d"/>`).join("")}
${[prompt, ...rows].flatMap((row, y) => drawRow(row, y)).join("\n")}
</svg>
`;
}

/** The corner of a cell. */
function place(x: number, y: number): [x: number, y: number] {
  return [round(MARGIN + x * CELL.width), round(BAR + MARGIN + y * CELL.height)];
}

function drawRow(row: readonly Cell[], y: number): string[] {
  const shapes = new Map<number, string>();
  const add = (colour: number, path: string) =>
    shapes.set(colour, (shapes.get(colour) ?? "") + path);
  row.forEach(({ text, colour }, x) => {
    if (isBraille(text)) add(colour, dotsOf(text, place(x, y)));
    else for (const line of rules[text] ?? []) add(colour, ruleOf(line, place(x, y)));
  });
  return [
    ...[...shapes].map(([colour, path]) => `<path fill="${colours[colour]}" d="${path}"/>`),
    ...runsOf(row).map(({ start, cells }) => textOf(cells, place(start, y))),
  ];
}

function isBraille(text: string): boolean {
  return text >= "\u2800" && text <= "\u28ff";
}

/** The dots of a braille character as squares. */
function dotsOf(text: string, [x, y]: readonly [number, number]): string {
  const bits = text.charCodeAt(0) - 0x2800;
  // Bits 6 and 7 are the lowest row, the others go down the columns.
  const dots = [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [0, 3], [1, 3]];
  return dots.filter((_, bit) => bits >> bit & 1).map(([column, row]) => {
    const left = round(x + (column! + 0.5) * CELL.width / 2 - 1.2);
    return `M${left} ${round(y + (row! + 0.5) * CELL.height / 4 - 1.2)}h2.4v2.4h-2.4z`;
  }).join("");
}

/** A line of a frame, one and a half pixels thick. */
function ruleOf(
  [x0, y0, x1, y1]: readonly [number, number, number, number],
  [x, y]: readonly [number, number],
): string {
  const left = round(x + x0 * CELL.width / 2), top = round(y + y0 * CELL.height / 2);
  const across = round((x1 - x0) * CELL.width / 2), down = round((y1 - y0) * CELL.height / 2);
  return across > 0
    ? `M${left} ${round(top - 0.75)}h${across}v1.5h-${across}z`
    : `M${round(left - 0.75)} ${top}h1.5v${down}h-1.5z`;
}

/** Neighbours of one style that are letters. */
function runsOf(row: readonly Cell[]): { start: number; cells: Cell[] }[] {
  const runs: { start: number; cells: Cell[] }[] = [];
  row.forEach((cell, x) => {
    if (cell.text === " " || isBraille(cell.text) || rules[cell.text]) return;
    const last = runs.at(-1), before = last?.cells.at(-1);
    const isNext = last && last.start + last.cells.length === x && before!.colour === cell.colour &&
      before!.isBold === cell.isBold;
    if (isNext) last.cells.push(cell);
    else runs.push({ start: x, cells: [cell] });
  });
  return runs;
}

function textOf(cells: readonly Cell[], [x, y]: readonly [number, number]): string {
  const { colour, isBold } = cells[0]!, text = cells.map((cell) => cell.text).join("");
  const safe = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x="${x}" y="${round(y + 13)}" textLength="${round(text.length * CELL.width)}" ` +
    `fill="${colours[colour]}"${isBold ? ' class="b"' : ""}>${safe}</text>`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
