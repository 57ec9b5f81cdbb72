/** Draws figures of `deno task bench` as an SVG that reads well on light and dark pages. */

/** The part of a record that is read, that bench/run.ts wrote. */
export interface BenchRecord {
  readonly date: string;
  /** The own name of each participant, by its key. */
  readonly titles: Readonly<Record<string, string>>;
  readonly results: readonly {
    readonly work: string;
    /** The words of the work for readers of a page. */
    readonly label: string;
    readonly unit: string;
    /** The medians by name, in `unit`. */
    readonly figures: Readonly<Record<string, number>>;
  }[];
}

/** One work beside its peers. */
export interface Comparison {
  readonly label: string;
  readonly unit: string;
  readonly ours: number;
  readonly peers: readonly Bar[];
}

/** The ratio of netcl to a peer. */
export interface Bar {
  readonly peer: string;
  readonly theirs: number;
  /** The factor by which netcl is faster; below 1 it is behind. */
  readonly ratio: number;
}

const LABELS = 372, WIDTH = 900, ROW = 15, GAP = 10, TOP = 88;

/** Units of which more is better; of all others less is. */
const rates = /\/s$/;

/**
 * The works that netcl and at least one peer have measured, in the order of the record.
 *
 * @param peers By the names in `figures`.
 */
export function comparisons(record: BenchRecord, peers: readonly string[]): Comparison[] {
  return record.results.flatMap(({ label, unit, figures }) => {
    const ours = figures["netcl"];
    if (ours === undefined || !(ours > 0)) return [];
    const bars = peers.flatMap((peer) => {
      const theirs = figures[peer];
      if (theirs === undefined || !(theirs > 0)) return [];
      return [{ peer, theirs, ratio: rates.test(unit) ? ours / theirs : theirs / ours }];
    });
    return bars.length === 0 ? [] : [{ label, unit, ours, peers: bars }];
  });
}

/** A figure with two or three digits. */
export function brief(value: number): string {
  return String(Number(value.toPrecision(value >= 100 ? 3 : 2)));
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

/**
 * The chart: a group of bars a work, one a peer.
 *
 * @param record What bench/run.ts wrote.
 * @param peers With whom netcl is compared, by the names in `figures`.
 * @returns An SVG document.
 * @throws {RangeError} When no work was measured with any of them.
 */
export function drawChart(record: BenchRecord, peers: readonly string[]): string {
  const works = comparisons(record, peers);
  if (works.length === 0) {
    throw new RangeError(`Cannot draw: no work has figures of netcl and ${peers.join(" or ")}`);
  }
  const powers = works.flatMap(({ peers }) => peers.map(({ ratio }) => Math.log2(ratio)));
  const least = Math.min(-1, Math.floor(Math.min(...powers)));
  const most = Math.max(1, Math.ceil(Math.max(...powers)));
  const x = (power: number) => LABELS + (WIDTH - LABELS - 70) * (power - least) / (most - least);
  let y = TOP;
  const groups = works.map((work) => {
    const top = y;
    y += ROW * work.peers.length + GAP;
    return group(work, top, peers, x);
  });
  const height = y + 34;
  const grid = Array.from({ length: most - least + 1 }, (_, k) => least + k).map((power) =>
    `<line class="${power === 0 ? "even" : "grid"}" x1="${x(power)}" x2="${x(power)}" ` +
    `y1="${TOP - 8}" y2="${height - 30}"/><text class="tick" x="${x(power)}" y="${height - 12}" ` +
    `text-anchor="middle">${power < 0 ? `1/${2 ** -power}` : 2 ** power}</text>`
  );
  const title = "How many times as fast as PyTorch";
  const keys = peers.map((peer, at) =>
    `<rect class="peer${at}" x="${24 + 380 * at}" y="56" width="12" height="12" rx="2"/>` +
    `<text class="tick" x="${42 + 380 * at}" y="66">${escaped(record.titles[peer] ?? peer)}</text>`
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" ` +
    `width="${WIDTH}" height="${height}" role="img" aria-label="${escaped(title)}">
<style>
text { font: 13px Helvetica, Arial, sans-serif; fill: #374151 }
.title { font-size: 17px; fill: #111827 }
.tick, .value { font-size: 12px; fill: #6b7280 }
.grid { stroke: #d1d5db } .even { stroke: #6b7280; stroke-width: 1.5 }
.peer0 { fill: #2563eb } .peer1 { fill: #d97706 }
@media (prefers-color-scheme: dark) {
  text { fill: #d1d5db } .title { fill: #f9fafb } .tick, .value { fill: #9ca3af }
  .grid { stroke: #374151 } .even { stroke: #9ca3af } .peer0 { fill: #60a5fa } .peer1 { fill: #fbbf24 }
}
</style>
<text class="title" x="24" y="26">${escaped(title)}</text>
<text class="tick" x="24" y="44">${escaped(record.titles["netcl"] ?? "netcl")}, ${
      record.date.slice(0, 10)
    }; bars to the right: netcl is faster; logarithmic</text>
${[...keys, ...grid, ...groups].join("\n")}
</svg>
`;
}

/** The bars of a work, below each other, and its label. */
function group(
  { label, unit, ours, peers }: Comparison,
  top: number,
  all: readonly string[],
  x: (power: number) => number,
): string {
  const middle = top + ROW * peers.length / 2 + 4;
  const bars = peers.map(({ peer, theirs, ratio }, row) => {
    const y = top + ROW * row, [from, to] = [x(0), x(Math.log2(ratio))];
    const left = Math.min(from, to), width = Math.max(Math.abs(to - from), 1);
    return `<rect class="peer${all.indexOf(peer)}" x="${left.toFixed(1)}" y="${y}" ` +
      `width="${width.toFixed(1)}" height="${ROW - 3}" rx="2"><title>${
        escaped(`${brief(ours)} and ${brief(theirs)} ${unit}`)
      }</title></rect>` +
      `<text class="value" x="${(Math.max(from, to) + 6).toFixed(1)}" y="${y + 10}">` +
      `${ratio.toFixed(2)}</text>`;
  });
  return `<text x="${LABELS - 12}" y="${middle}" text-anchor="end">${escaped(label)}</text>` +
    bars.join("");
}
