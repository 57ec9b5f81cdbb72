/** The last trace as one HTML page: a timeline to look closer at, and the table. */
import { zoomScript } from "../../memory/report/zoom.ts";
import { cellsOf, columns, profilerRows, withShares } from "./table.ts";
import { COPIES, DEVICE, HOST, lastSlices, type Slice, SPANS } from "./trace.ts";

const WIDTH = 1180, LEFT = 90, PICTURE = WIDTH - LEFT - 10, ROW = 20, GAP = 14;
/** More slices than this are not drawn one by one: the longest ones are. */
const MAX_SLICES = 4000;

const lanes: readonly (readonly [tid: number, name: string])[] = [
  [SPANS, "spans"],
  [HOST, "host"],
  [DEVICE, "device"],
  [COPIES, "copies"],
];

const style =
  `:root{color-scheme:light dark;--text:#1d2126;--quiet:#667080;--line:#dde2e8;--page:#fff}
@media (prefers-color-scheme:dark){:root{--text:#e5e8ec;--quiet:#98a2b0;--line:#343b45;--page:#14181c}}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.45 system-ui,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 24px 60px}h1{font-size:25px}
svg{width:100%;height:auto}svg text{font:11.5px system-ui,sans-serif;fill:var(--quiet)}
line{stroke:var(--line)}rect:hover{opacity:.6}
table{border-collapse:collapse;width:100%;font-size:14px;margin-top:24px}
td,th{padding:4px 10px 4px 0;border-bottom:1px solid var(--line);text-align:right;font-variant-numeric:tabular-nums}
td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}th{color:var(--quiet);font-weight:500;font-size:12px}
.timeline{cursor:crosshair;touch-action:pan-y;user-select:none}rect.mark{fill:var(--text);fill-opacity:.15;stroke:none}
.plot rect{vector-effect:non-scaling-stroke}.reset{font:13px system-ui,sans-serif}p{color:var(--quiet);font-size:13px}
.l1{fill:#ee8866}.l2{fill:#4477aa}.l3{fill:#44bb99}.l4{fill:#aa3377}`;

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}

/** A slice with how many others it lies in. */
type Placed = readonly [slice: Slice, depth: number];

/** Slices of one lane in the order of their beginnings. */
function nested(slices: readonly Slice[]): Placed[] {
  const open: Slice[] = [];
  return slices.toSorted((a, b) => a.ts - b.ts || b.dur - a.dur).map((slice) => {
    while (open.length > 0 && open.at(-1)!.ts + open.at(-1)!.dur <= slice.ts) open.pop();
    open.push(slice);
    return [slice, open.length - 1];
  });
}

function timeline(all: readonly Slice[]): string {
  const drawn = all.toSorted((a, b) => b.dur - a.dur).slice(0, MAX_SLICES);
  const from = Math.min(...all.map(({ ts }) => ts));
  const until = Math.max(...all.map(({ ts, dur }) => ts + dur));
  const x = (time: number) => LEFT + PICTURE * (time - from) / (until - from);
  let top = 10;
  const names: string[] = [], parts: string[] = [];
  for (const [tid, name] of lanes) {
    const placed = nested(drawn.filter((slice) => slice.tid === tid));
    if (placed.length === 0) continue;
    names.push(`<text x="${LEFT - 10}" y="${top + 14}" text-anchor="end">${name}</text>`);
    parts.push(...placed.map((each) => rectOf(each, top, x)));
    top += ROW * (1 + Math.max(...placed.map(([, depth]) => depth))) + GAP;
  }
  const shares = Array.from({ length: 6 }, (_, k) => k / 5);
  const marks = shares.map((share) => {
    const at = LEFT + PICTURE * share, label = `${((until - from) * share / 1000).toFixed(2)} ms`;
    return `<line x1="${at}" x2="${at}" y1="4" y2="${top}"/><text class="time" data-share="${share}" ` +
      `x="${at}" y="${top + 14}" text-anchor="${share === 1 ? "end" : "middle"}">${label}</text>`;
  });
  const script = zoomScript({
    ...{ left: LEFT, width: PICTURE, columns: until - from, minSpan: 1 },
    labelOf: `(time) => (time / 1000).toFixed(2) + " ms"`,
  });
  return `<p>Drag across the picture, or turn the wheel over it, to look closer; double-click to see all.</p>` +
    `<svg class="timeline" viewBox="0 0 ${WIDTH} ${
      top + 20
    }" role="img" aria-label="What ran when">` +
    `<clipPath id="picture"><rect x="${LEFT}" y="0" width="${PICTURE}" height="${top}"/></clipPath>` +
    `${marks.join("")}${names.join("")}<g clip-path="url(#picture)"><g class="plot">${
      parts.join("")
    }` +
    `</g></g><rect class="mark" y="4" width="0" height="${top - 4}"/></svg>` +
    `<button class="reset" hidden>Show all</button>${script.text}`;
}

/** A slice of a lane that begins at `top`; its name is shown where one points at it. */
function rectOf(
  [{ name, ts, dur, tid }, depth]: Placed,
  top: number,
  x: (time: number) => number,
): string {
  const width = Math.max(x(ts + dur) - x(ts), 0.01); // to be seen when one looks closer
  return `<rect class="l${tid}" x="${x(ts).toFixed(3)}" y="${top + ROW * depth}" ` +
    `height="${ROW - 3}" width="${width.toFixed(3)}">` +
    `<title>${escaped(name)}: ${dur.toFixed(1)} us</title></rect>`;
}

/** The page; where nothing was traced, it says so. */
export function profilerPage(): string {
  const slices = lastSlices();
  const row = (cells: readonly string[], tag: string) =>
    `<tr>${cells.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join("")}</tr>`;
  const rows = withShares(profilerRows()).map(([each, share]) => row(cellsOf(each, share), "td"));
  const body = slices.length === 0
    ? "<p>Nothing was traced: run something between profiler.trace() and its end.</p>"
    : `${timeline(slices)}<table>${row(columns, "th")}${rows.join("")}</table>`;
  return `<!doctype html><html lang="en"><meta charset="utf-8">` +
    `<meta name="viewport" content="width=device-width, initial-scale=1">` +
    `<title>What ran</title><style>${style}</style><main><h1>What ran</h1>${body}</main></html>`;
}
