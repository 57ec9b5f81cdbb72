/**
 * Draws what `deno task bench --json` measured as an SVG that reads well on light and dark pages:
 *
 *     deno run -A bench/chart.ts figures.json chart.svg
 *
 * A bar is how many times as fast as a peer netcl is, on a logarithmic scale.
 */
import { saveFileSync } from "../ffi/host/atomic_file.ts";
import { filesOrExit } from "./arguments.ts";

const help = "deno run -A bench/chart.ts FIGURES.json CHART.svg [PEER]";

/** What is read of a record that bench/run.ts wrote. */
export interface BenchRecord {
  readonly date: string;
  /** What each participant calls itself, by name. */
  readonly titles: Readonly<Record<string, string>>;
  readonly results: readonly {
    readonly work: string;
    readonly unit: string;
    /** The medians by name, in `unit`. */
    readonly figures: Readonly<Record<string, number>>;
  }[];
}

interface Bar {
  readonly label: string;
  /** Above 1 netcl is faster. */
  readonly ratio: number;
  readonly detail: string;
}

const LABELS = 330, WIDTH = 860, ROW = 26, TOP = 70;

/** Units of which more is better; of all others less is. */
const rates = /\/s$/;

/** The bars of the works that both have measured, in the order of the record. */
export function barsOf(record: BenchRecord, peer: string): Bar[] {
  return record.results.flatMap(({ work, unit, figures }) => {
    const ours = figures["netcl"], theirs = figures[peer];
    if (ours === undefined || theirs === undefined || !(ours > 0 && theirs > 0)) return [];
    const ratio = rates.test(unit) ? ours / theirs : theirs / ours;
    const detail = `${brief(ours)} and ${brief(theirs)} ${unit}`;
    return [{ label: work, ratio, detail }];
  });
}

function brief(value: number): string {
  return String(Number(value.toPrecision(value >= 100 ? 3 : 2)));
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

/**
 * The chart.
 *
 * @param record What bench/run.ts wrote.
 * @param peer With whom netcl is compared, by the name in `figures`.
 * @returns An SVG document.
 * @throws {RangeError} When no work was measured with both.
 */
export function drawChart(record: BenchRecord, peer: string): string {
  const bars = barsOf(record, peer);
  if (bars.length === 0) {
    throw new RangeError(`Cannot draw: no work has figures of netcl and ${peer}`);
  }
  const powers = bars.map(({ ratio }) => Math.log2(ratio));
  const least = Math.min(-1, Math.floor(Math.min(...powers)));
  const most = Math.max(1, Math.ceil(Math.max(...powers)));
  const x = (power: number) => LABELS + (WIDTH - LABELS - 70) * (power - least) / (most - least);
  const height = TOP + ROW * bars.length + 34;
  const marks = Array.from({ length: most - least + 1 }, (_, k) => least + k);
  const grid = marks.map((power) =>
    `<line class="${power === 0 ? "even" : "grid"}" x1="${x(power)}" x2="${x(power)}" ` +
    `y1="${TOP - 8}" y2="${height - 30}"/><text class="tick" x="${x(power)}" y="${height - 12}" ` +
    `text-anchor="middle">${power < 0 ? `1/${2 ** -power}` : 2 ** power}</text>`
  );
  const rows = bars.map(({ label, ratio, detail }, row) => {
    const y = TOP + ROW * row, [from, to] = [x(0), x(Math.log2(ratio))];
    const left = Math.min(from, to), width = Math.max(Math.abs(to - from), 1);
    return `<text x="${LABELS - 12}" y="${y + 13}" text-anchor="end">${escaped(label)}</text>` +
      `<rect class="${ratio >= 1 ? "ahead" : "behind"}" x="${left.toFixed(1)}" y="${y}" ` +
      `width="${width.toFixed(1)}" height="${ROW - 8}" rx="2"><title>${
        escaped(detail)
      }</title></rect>` +
      `<text class="value" x="${(Math.max(from, to) + 6).toFixed(1)}" y="${y + 13}">` +
      `${ratio.toFixed(2)}</text>`;
  });
  const title = `How many times as fast as ${record.titles[peer] ?? peer}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" ` +
    `width="${WIDTH}" height="${height}" role="img" aria-label="${escaped(title)}">
<style>
text { font: 13px Helvetica, Arial, sans-serif; fill: #374151 }
.title { font-size: 17px; fill: #111827 }
.tick { font-size: 12px; fill: #6b7280 }
.grid { stroke: #d1d5db } .even { stroke: #6b7280; stroke-width: 1.5 }
.ahead { fill: #2563eb } .behind { fill: #93c5fd }
@media (prefers-color-scheme: dark) {
  text { fill: #d1d5db } .title { fill: #f9fafb } .tick { fill: #9ca3af }
  .grid { stroke: #374151 } .even { stroke: #9ca3af } .ahead { fill: #60a5fa } .behind { fill: #1e40af }
}
</style>
<text class="title" x="24" y="30">${escaped(title)}</text>
<text class="tick" x="24" y="50">${escaped(record.titles["netcl"] ?? "netcl")}, ${
      record.date.slice(0, 10)
    }; longer to the right is faster</text>
${[...grid, ...rows].join("\n")}
</svg>
`;
}

if (import.meta.main) {
  const [source, target, peer = "torch"] = filesOrExit(help);
  if (source === undefined || target === undefined) {
    console.error(help);
    Deno.exitCode = 2;
  } else {
    saveFileSync(target, drawChart(JSON.parse(Deno.readTextFileSync(source)), peer));
  }
}
