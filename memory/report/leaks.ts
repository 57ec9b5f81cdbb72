/** Finds what grows all along in a recording, and says how to read that. */
import { formatBytes } from "../core/bytes.ts";
import { html, type Markup } from "./html.ts";
import { type MemoryEvent, originOf } from "./memory_event.ts";

/** Blocks of one origin that become more and more. */
export interface Growth {
  readonly origin: string;
  /** The number of live blocks after each quarter of the events. */
  readonly counts: readonly number[];
  /** Their bytes at the end. */
  readonly nbytes: number;
}

/** Moments of a recording at which is counted what lives. */
const LOOKS = 4;

/**
 * Origins of which more blocks live after each quarter of the recording than before it, most bytes
 * first; in the first one there may be none yet. What is made once, and what comes and goes, is none
 * of them; a list that is filled on purpose is.
 */
export function growing(events: readonly MemoryEvent[]): Growth[] {
  const live = new Map<string, Held>(), origins = new Map<number, string>();
  const counts = new Map<string, number[]>();
  for (let look = 1; look <= LOOKS; look++) {
    const [start, end] = [look - 1, look].map((k) => Math.round(k * events.length / LOOKS));
    for (const event of events.slice(start, end)) count(event, live, origins);
    for (const [origin, held] of live) {
      counts.set(origin, [...counts.get(origin) ?? Array<number>(look - 1).fill(0), held.count]);
    }
  }
  return [...counts]
    .filter(([, seen]) => seen.every((count, k) => k === 0 || count > seen[k - 1]!))
    .map(([origin, seen]) => ({ origin, counts: seen, nbytes: live.get(origin)!.nbytes }))
    .sort((a, b) => b.nbytes - a.nbytes);
}

/** Live blocks of one origin. */
interface Held {
  count: number;
  nbytes: number;
}

function count(
  event: MemoryEvent,
  live: Map<string, Held>,
  origins: Map<number, string>,
): void {
  if (event.action !== "alloc" && event.action !== "free") return;
  const sign = event.action === "alloc" ? 1 : -1;
  const origin = sign > 0 ? originOf(event) : origins.get(event.id!)!;
  origins.set(event.id!, origin);
  const sum = live.get(origin) ?? { count: 0, nbytes: 0 };
  sum.count += sign;
  sum.nbytes += sign * event.nbytes;
  live.set(origin, sum);
}

/** Pictures of a few steps: how high memory is, from 0 to 1, over the time. */
const shapes = {
  healthy: [[0, 0.3, 0.6, 0.9, 0.6, 0.3], [0.3, 0.6, 0.9, 0.6, 0.3], [0.3, 0.6, 0.9, 0.6, 0.3]],
  leak: [[0, 0.25, 0.5, 0.3, 0.15], [0.4, 0.65, 0.45, 0.35], [0.6, 0.85, 0.65, 0.55], [0.8, 1]],
  warming: [[0, 0.2, 0.35, 0.5, 0.65, 0.75], [0.8, 0.82, 0.8, 0.82], [0.8, 0.82, 0.8, 0.82]],
} as const;

function picture(steps: readonly (readonly number[])[]): Markup {
  const heights = steps.flat(), width = 150, height = 46;
  const points = heights.map((share, k) =>
    `${(k * width / (heights.length - 1)).toFixed(1)},${
      (height - 2 - share * (height - 6)).toFixed(1)
    }`
  );
  return html`
    <svg class="shape" viewBox="0 0 ${width} ${height}" role="presentation">
      <polyline points="${points.join(" ")}" />
    </svg>
  `;
}

/** The part of the report that says what to look for, and what it has found. */
export function leakSection(events: readonly MemoryEvent[]): Markup {
  const found = growing(events).slice(0, 5);
  return html`
    <section>
      <h2>What a leak looks like</h2>
      <div class="shapes">
        <p>${picture(
          shapes.healthy,
        )}<b>Healthy</b>: the same hill with every step, and the same valley after it.</p>
        <p>${picture(
          shapes.warming,
        )}<b>Filling</b>: it grows at first (weights, the optimizer's state, what is read
          ahead) and then stays.</p>
        <p>${picture(
          shapes.leak,
        )}<b>A leak</b>: stairs. Each valley is higher than the last, and the colour that
          gets thicker is the line to look at.</p>
      </div>
      ${found.length === 0
        ? html`<p class="empty">In this recording nothing grew all along.</p>`
        : html`
          <p>Grew all along in this recording:</p>
          <ul>${found.map(({ origin, counts, nbytes }) =>
            html`<li><b>${origin}</b>: ${counts.join(", ")} blocks, ${
              formatBytes(nbytes)
            } in the end</li>`
          )}</ul>
          <p
            class="hint">A list that is filled on purpose looks the same. Else it is mostly one of these: losses that are
            kept as tensors (keep <code>await loss.item()</code>), a graph that is kept and never gone through
            (<code>backward()</code>, <code>detach()</code> or <code>noGrad</code>), a cache without a bound, or a loop
            that never awaits, so that forgotten tensors are not collected.</p>
        `}
    </section>
  `;
}
