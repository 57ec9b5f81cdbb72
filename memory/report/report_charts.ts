import { formatBytes } from "../core/bytes.ts";
import { type Content, html, type Markup } from "./html.ts";
import type { SegmentSnapshot } from "../core/pool.ts";
import type { DrawnBlock, Timeline } from "./timeline.ts";
import { zoomScript } from "./zoom.ts";

const PLOT = { left: 78, top: 14, width: 1100, height: 380, bottom: 50, right: 14 } as const;

/** Held memory is drawn while it is at most so many times what lives at the peak. */
const MAX_HELD = 4;

/** Origins by number; the first ones have colours of their own, the others share one. */
export class Palette {
  readonly #numbers: ReadonlyMap<string, number>;

  /** @param origins The most important ones first. */
  constructor(origins: readonly string[]) {
    this.#numbers = new Map(origins.slice(0, 12).map((origin, i) => [origin, i]));
  }

  /** The CSS class of an origin. */
  classOf(origin: string): string {
    const number = this.#numbers.get(origin);
    return number === undefined ? "o-rest" : `o-${number}`;
  }

  /** The origins that have a colour of their own. */
  get origins(): string[] {
    return [...this.#numbers.keys()];
  }
}

/** The live blocks over the recording, with the reserved bytes above them. */
export function timelineChart(timeline: Timeline, palette: Palette, limitBytes: number): Markup {
  const { peak, reserved } = timeline, held = Math.max(...reserved);
  // One segment may be much more than a small model needs, whose blocks would be a line at the bottom.
  const isAbove = held > MAX_HELD * peak.nbytes && peak.nbytes > 0;
  const most = Math.max(isAbove ? 1.1 * peak.nbytes : Math.max(peak.nbytes, held), 1);
  const top = niceCeiling(limitBytes < 1.5 * most ? Math.max(most, limitBytes) : most);
  const x = (column: number) => round(PLOT.left + PLOT.width * column / timeline.columns);
  const y = (bytes: number) => round(PLOT.top + PLOT.height * (1 - bytes / top));
  const width = PLOT.left + PLOT.width + PLOT.right;
  const height = PLOT.top + PLOT.height + PLOT.bottom;
  return html`
    <svg class="timeline" viewBox="0 0 ${width} ${height}" role="img"
      aria-label="Live blocks over the recording">
    <clipPath id="picture"><rect x="${PLOT.left}" y="0" width="${PLOT
      .width}" height="${height}" /></clipPath>
    ${axes(timeline, top, x, y)}
    <g clip-path="url(#picture)"><g class="plot">
    <g class="blocks">${timeline.blocks.map((block) => blockPath(block, palette, x, y))}</g>
    <path class="others" d="${othersPath(
      timeline,
      x,
      y,
    )}"><title>smaller and shorter-lived blocks</title></path>
    <path class="reserved" d="${stepPath(reserved, x, y)}"/>
    </g></g>
    ${isAbove ? aboveNote(held) : []}
    ${limitBytes <= top ? limitLine(limitBytes, y) : []}
    ${peakMarker(timeline, x, y)}
    <rect class="mark" y="${PLOT.top}" width="0" height="${PLOT.height}" />
    </svg>
  `;
}

/** The script that zooms into {@linkcode timelineChart}, on a page with one of them. */
export function timelineControls(timeline: Timeline): Markup {
  return html`
    <button class="reset" hidden>Show all</button>
    ${zoomScript({
      ...{ left: PLOT.left, width: PLOT.width, columns: timeline.columns, minSpan: 4 },
      labelOf: labelsOf(timeline),
    })}
  `;
}

/** JavaScript that writes the time of a column; to a microsecond. */
function labelsOf({ times }: Timeline): string {
  const rounded = times.map((time) => Math.round(time * 1000) / 1000);
  return `((times, format) => (column) => format(times[Math.floor(column)]))(${
    JSON.stringify(rounded)
  }, ${formatTime})`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** The next of 1, 1.25, 1.5, 1.75 and 2 times a power of two. */
function niceCeiling(bytes: number): number {
  const power = 2 ** Math.floor(Math.log2(bytes));
  return [1, 1.25, 1.5, 1.75, 2].map((times) => times * power).find((nice) => nice >= bytes)!;
}

type Scale = (value: number) => number;

function axes({ columns, times }: Timeline, top: number, x: Scale, y: Scale): Content {
  const heights = [0, 0.25, 0.5, 0.75, 1].map((share) => share * top);
  const ticks = Math.min(9, columns);
  const marks = Array.from({ length: ticks }, (_, i) => Math.floor(i * columns / ticks));
  const bottom = PLOT.top + PLOT.height;
  return [
    ...heights.map((bytes) =>
      html`
        <line class="grid" x1="${PLOT.left}" x2="${x(columns)}" y1="${y(bytes)}" y2="${y(bytes)}" />
        <text class="tick" x="${PLOT.left - 8}" y="${y(bytes) + 4}" text-anchor="end">${formatBytes(
          bytes,
        )}</text>
      `
    ),
    ...marks.map((column) =>
      html`<text class="tick time" data-share="${column / columns}" x="${x(column)}" y="${
        bottom + 18
      }">${formatTime(times[column]!)}</text>`
    ),
    html`
      <text class="tick" x="${PLOT.left + PLOT.width / 2}" y="${bottom +
        38}"
        text-anchor="middle">time, with equally many allocations and releases between two marks</text>
      <text class="tick" text-anchor="middle"
        transform="translate(14 ${PLOT.top +
          PLOT.height / 2}) rotate(-90)">bytes in live blocks</text>
    `,
  ];
}

/** Milliseconds for a reader. */
export function formatTime(milliseconds: number): string {
  if (milliseconds === 0) return "0";
  if (milliseconds < 1) return `${Math.round(milliseconds * 1000)} µs`;
  if (milliseconds < 1000) return `${Number(milliseconds.toPrecision(3))} ms`;
  return `${Number((milliseconds / 1000).toPrecision(4))} s`;
}

function blockPath(block: DrawnBlock, palette: Palette, x: Scale, y: Scale): Markup {
  const { origin, nbytes, steps, from, until } = block;
  const end = Math.max(block.end, steps[0]![0] + 0.3);
  const lower = steps.map(([column, below], i) =>
    `${i === 0 ? "M" : "H"}${x(column)}${i === 0 ? " " : "V"}${y(below)}`
  );
  const upper = steps.toReversed().map(([column, below]) => `V${y(below + nbytes)}H${x(column)}`);
  const life = until === null
    ? `live since ${formatTime(from)}`
    : `${formatTime(from)} to ${formatTime(until)}`;
  return html`
    <path class="${palette.classOf(origin)}" d="${lower.join("")}H${x(end)}${upper.join("")}Z">
      <title>${origin}: ${formatBytes(nbytes)}, ${life}</title>
    </path>
  `;
}

function othersPath({ drawn, others }: Timeline, x: Scale, y: Scale): string {
  const upper = drawn.map((bytes, i) => bytes + others[i]!);
  const back = drawn.map((bytes, i) => `V${y(bytes)}H${x(i)}`).reverse();
  return `${stepPath(upper, x, y)}${back.join("")}Z`;
}

function stepPath(values: readonly number[], x: Scale, y: Scale): string {
  let path = `M${x(0)} ${y(values[0] ?? 0)}`;
  values.forEach((value, i) => {
    if (i > 0 && value !== values[i - 1]) path += `H${x(i)}V${y(value)}`;
  });
  return `${path}H${x(values.length)}`;
}

function limitLine(limitBytes: number, y: Scale): Markup {
  const right = PLOT.left + PLOT.width;
  return html`
    <line class="limit" x1="${PLOT.left}" x2="${right}" y1="${y(limitBytes)}" y2="${y(
      limitBytes,
    )}" />
    <text class="note" x="${right - 4}" y="${y(limitBytes) -
      5}" text-anchor="end">limit ${formatBytes(limitBytes)}</text>
  `;
}

function aboveNote(held: number): Markup {
  return html`
    <text class="note" x="${PLOT.left + 8}"
      y="${PLOT.top + 12}">${formatBytes(held)} are reserved: above the picture</text>
  `;
}

function peakMarker({ peak, columns }: Timeline, x: Scale, y: Scale): Markup {
  const side = peak.column > columns / 2 ? "end" : "start", top = y(peak.nbytes);
  return html`
    <g data-column="${peak.column}" transform="translate(${x(peak.column)} 0)">
      <line class="peak" y1="${top}" y2="${PLOT.top + PLOT.height}" />
      <circle class="peak-dot" cy="${top}" r="3.5" />
      <text class="note" x="${side === "end" ? -7 : 7}" y="${Math.max(PLOT.top + 10, top - 6)}"
        text-anchor="${side}">peak ${formatBytes(peak.nbytes)}</text>
    </g>
  `;
}

/** The segments as bars, with their blocks. */
export function segmentChart(
  segments: readonly SegmentSnapshot[],
  palette: Palette,
  originOf: (id: number, label: string | undefined) => string,
): Markup {
  const largest = Math.max(...segments.map(({ nbytes }) => nbytes), 1);
  const width = 1000, row = 22;
  const shown = segments.toSorted((a, b) => b.nbytes - a.nbytes || a.id - b.id).slice(0, 64);
  const bars = shown.map(({ id, nbytes, blocks }, i) => {
    const scale = width / largest;
    const rects = blocks.map((block) => {
      const { allocation } = block;
      const origin = allocation ? originOf(allocation.id, allocation.label) : "";
      const kind = allocation ? palette.classOf(origin) : block.state;
      const text = allocation
        ? `${origin}: ${formatBytes(allocation.nbytes)} in ${formatBytes(block.nbytes)}`
        : `${block.state === "free" ? "free" : "free behind another queue's work"}: ${
          formatBytes(block.nbytes)
        }`;
      return html`
        <rect class="${kind}" x="${round(170 + block.offset * scale)}" y="${i * row +
          3}" width="${Math.max(0.6, round(block.nbytes * scale))}" height="16">
          <title>${text} at ${block.offset}</title>
        </rect>
      `;
    });
    return html`
      <text class="tick" x="160" y="${i * row + 15}"
        text-anchor="end">segment ${id}, ${formatBytes(nbytes)}</text>${rects}
    `;
  });
  const height = Math.max(1, shown.length) * row + 4;
  const rest = segments.length - shown.length;
  return html`
    <svg class="segments" viewBox="0 0 ${width + 180} ${height}" role="img"
      aria-label="Segments and their blocks">${bars}</svg>${rest > 0
        ? html`<p class="hint">and ${rest} smaller segments</p>`
        : []}
  `;
}
