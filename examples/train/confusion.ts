const CELL = 44, LEFT = 96;
/** Names of more characters do not fit above a cell, unless they are slanted. */
const MAX_LEVEL = 5;

/**
 * Draws which class was read as which, as an SVG: a row a class, a column what it was read as; the
 * darker a cell, the larger its share of the row.
 *
 * @param counts How often class `row` was read as class `column`.
 * @param names Of the classes, in their order.
 * @param title What was read.
 */
export function drawConfusion(
  counts: readonly (readonly number[])[],
  names: readonly string[],
  title: string,
): string {
  const isSlanted = names.some(({ length }) => length > MAX_LEVEL), top = isSlanted ? 108 : 84;
  const size = CELL * names.length, width = LEFT + size + 24, height = top + size + 24;
  const cells = counts.flatMap((row, y) => {
    const all = Math.max(row.reduce((sum, count) => sum + count, 0), 1);
    return row.map((count, x) => {
      const share = count / all;
      const place = `x="${LEFT + x * CELL}" y="${top + y * CELL}"`;
      const kind = x === y ? "right" : "wrong";
      const number = count === 0 ? "" : `<text class="${share > 0.5 ? "on" : ""}" ` +
        `x="${LEFT + (x + 0.5) * CELL}" y="${top + (y + 0.5) * CELL + 5}">${count}</text>`;
      return `<rect ${place} width="${CELL - 2}" height="${CELL - 2}" class="track"/>` +
        `<rect ${place} width="${CELL - 2}" height="${CELL - 2}" class="${kind}" ` +
        `fill-opacity="${(x === y ? share : Math.sqrt(share)).toFixed(3)}"/>${number}`;
    });
  });
  const marks = names.flatMap((name, k) => [
    `<text class="end" x="${LEFT - 10}" y="${top + (k + 0.5) * CELL + 5}">${escaped(name)}</text>`,
    `<text class="${isSlanted ? "start" : "level"}" transform="translate(${
      LEFT + (k + 0.5) * CELL
    } ${top - 8}) rotate(${isSlanted ? -40 : 0})">${escaped(name)}</text>`,
  ]);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" ` +
    `height="${height}">
<style>
text { font: 13px Helvetica, Arial, sans-serif; fill: #374151; text-anchor: middle }
.page { fill: #ffffff } .track { fill: #f3f4f6 } .right { fill: #1d4ed8 } .wrong { fill: #dc2626 }
.title { font-size: 17px; fill: #111827; text-anchor: start } .start { text-anchor: start } .end { text-anchor: end } .on { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #d1d5db } .page { fill: #0d1117 } .track { fill: #161b22 } .title { fill: #f9fafb }
}
</style>
<rect class="page" width="${width}" height="${height}"/>
<text class="title" x="24" y="32">${escaped(title)}</text>
<text class="end" x="${LEFT - 10}" y="${top - 8}">is / read as</text>
${[...marks, ...cells].join("\n")}
</svg>
`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
