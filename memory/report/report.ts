import { formatBytes } from "../core/bytes.ts";
import type { DeviceMemory } from "../devices/device_memory.ts";
import type { LiveAllocation } from "../core/errors.ts";
import { type Content, html, type Markup } from "./html.ts";
import { leakSection } from "./leaks.ts";
import { largestByOrigin } from "../core/live_allocations.ts";
import { type MemoryEvent, originOf } from "./memory_event.ts";
import type { Recorder } from "./recorder.ts";
import {
  formatTime,
  Palette,
  segmentChart,
  timelineChart,
  timelineControls,
} from "./report_charts.ts";
import { style } from "./report_style.ts";
import { layOut, type Timeline } from "./timeline.ts";

/**
 * One self-contained HTML page about a device's memory: the figures, the timeline of a recording,
 * who held memory at its peak and who holds it now, and every segment with its blocks.
 *
 * @param memory The device's memory.
 * @param recorder A recording of it; without one, the page shows the present only.
 */
// deno-lint-ignore no-explicit-any -- any kind of memory can be reported
export function reportPage(memory: DeviceMemory<any>, recorder: Recorder | null): string {
  const name = recorder?.nameOf(memory.pool);
  const events = (recorder?.events() ?? []).filter(({ device }) => device === name);
  const timeline = events.length > 0 ? layOut(events) : null;
  const origins = new Map(
    events.filter(({ action }) => action === "alloc").map((event) => [event.id!, originOf(event)]),
  );
  const nameOf = (id: number, label: string | undefined) =>
    origins.get(id) ?? label ?? "unlabelled";
  const live = largestByOrigin(
    memory.pool.liveBlocks(),
    ({ id, label }) => nameOf(id, label),
    20,
  );
  const names = [...timeline?.peak.origins ?? [], ...live].map(({ origin }) => origin);
  const palette = new Palette([...new Set(names)]);
  const page = html`
    <!doctype html>
    <html lang="en">
      <meta charset="utf-8">
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <title>Memory of ${memory.name}</title>
      <style>${style}</style>
      <main>
    <h1>Memory of ${memory.name}</h1>
    <p class="hint">${new Date().toISOString().slice(0, 19).replace("T", " ")} UTC, ${memory.pool
      .constructor.name}${timeline ? `, ${events.length.toLocaleString("en")} events` : ""}</p>
    ${cards(memory)}
    <section><h2>Timeline</h2>${timeline
      ? timelineSection(timeline, palette, memory)
      : noRecording()}
    </section>
    <div class="columns">
    ${timeline
      ? originTable(
        `At the peak, ${formatTime(timeline.peak.time)}`,
        timeline.peak.origins,
        palette,
      )
      : []}
    ${originTable("Live now", live, palette)}
    </div>
    ${timeline ? leakSection(events) : []}
    <section><h2>Segments</h2>
    <p class="hint">What is held from the driver. Coloured blocks are live, pale ones free, hatched ones free
    once another queue is done.</p>
    ${segmentChart(memory.pool.segments(), palette, nameOf)}</section>
    <div class="columns">${counterTable(memory)}${retryTable(memory, events)}</div>
      </main>
    </html>
  `;
  return page.text;
}

// deno-lint-ignore no-explicit-any -- see reportPage
function cards(memory: DeviceMemory<any>): Markup {
  const s = memory.stats;
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
  const cards: [string, string, string][] = [
    ["live", formatBytes(s.currentAllocated), `peak ${formatBytes(s.peakAllocated)}`],
    ["reserved", formatBytes(s.reservedBytes), `peak ${formatBytes(s.peakReservedBytes)}`],
    [
      "cached",
      formatBytes(s.bytesCached),
      `largest block ${formatBytes(memory.pool.largestFreeBytes)}`,
    ],
    ["limit", formatBytes(s.limitBytes), `device ${formatBytes(s.totalBytes)}`],
    ["hit rate", percent(s.hitRate), `${s.hits} of ${s.hits + s.misses}`],
    ["native allocations", String(s.nativeAllocs), `${s.subBuffers} sub-buffers`],
    [
      "waste",
      s.peakRequestedBytes > 0
        ? `${(s.peakReservedBytes / s.peakRequestedBytes).toFixed(2)}×`
        : "–",
      "peak reserved / requested",
    ],
    ["out of memory", String(s.numOoms), `${s.numRetries} saved by a retry`],
  ];
  return html`<div class="cards">${
    cards.map(([name, value, note]) =>
      html`
        <div class="card">
          <div class="name">${name}</div>
          <div class="value">${value}</div>
          <div class="hint">${note}</div>
        </div>
      `
    )
  }</div>`;
}

function timelineSection(
  timeline: Timeline,
  palette: Palette,
  // deno-lint-ignore no-explicit-any -- see reportPage
  memory: DeviceMemory<any>,
): Content {
  return [
    html`<p class="hint">Every block while it lives, stacked; the line above is what is held from the driver.
Columns are events, not time: the labels say when. Point at a block to see what it is; drag across the picture, or
turn the wheel over it, to look closer, and double-click to see all again.</p>`,
    timelineChart(timeline, palette, memory.pool.limitBytes),
    timelineControls(timeline),
    html`
      <ul
        class="legend">${palette.origins.map((origin) =>
          html`<li><i class="${palette.classOf(origin)}"></i>${origin}</li>`
        )}<li><i class="o-rest"></i>others</li><li><i class="others"></i>smaller and shorter-lived</li>
      <li><i class="reserved"></i>reserved</li></ul>
    `,
  ];
}

function noRecording(): Markup {
  return html`<p class="empty">No recording was running. Call <code>memory.record({ stacks: true })</code>
before the part that matters, and write the report while it runs.</p>`;
}

function originTable(
  title: string,
  origins: readonly LiveAllocation[],
  palette: Palette,
): Markup {
  const total = origins.reduce((sum, { nbytes }) => sum + nbytes, 0);
  const rows = origins.slice(0, 20).map(({ origin, count, nbytes }) => {
    const share = total === 0 ? 0 : 100 * nbytes / total;
    return html`
      <tr>
        <td><i class="${palette.classOf(origin)}"></i>${origin}</td>
        <td class="number">${count}</td>
        <td class="number">${formatBytes(nbytes)}</td>
        <td class="bar">
          <div class="${palette.classOf(origin)}" style="width:${share.toFixed(1)}%"></div>
        </td>
      </tr>
    `;
  });
  return html`<section><h2>${title}</h2>${
    rows.length === 0 ? html`<p class="empty">Nothing is live.</p>` : html`
      <table>
        <thead>
          <tr>
            <th>made by<th class="number">blocks<th class="number">bytes<th></thead>
      <tbody>${rows}</tbody></table>
    `
  }</section>`;
}

// deno-lint-ignore no-explicit-any -- see reportPage
function counterTable(memory: DeviceMemory<any>): Markup {
  const s = memory.stats;
  const rows: [string, number][] = [
    ["allocations", s.numAllocs],
    ["releases", s.numFrees],
    ["given back to the driver", s.nativeFrees],
    ["fences between queues", s.fences],
    ["double releases", s.doubleReleases],
    ["leaks that were reclaimed", s.leaksReclaimed],
  ];
  return html`
    <section>
      <h2>Counters</h2>
      <table>
        <tbody>${rows.map(([name, value]) =>
          html`
            <tr>
              <td>${name}</td>
              <td class="number">${value.toLocaleString("en")}</td>
            </tr>
          `
        )}</tbody>
      </table>
    </section>
  `;
}

// deno-lint-ignore no-explicit-any -- see reportPage
function retryTable(memory: DeviceMemory<any>, events: readonly MemoryEvent[]): Markup {
  const steps = Object.entries(memory.stats.rungs);
  const ooms = events.filter(({ action }) => action === "oom");
  return html`<section><h2>When memory was short</h2>${
    steps.length === 0 && ooms.length === 0 ? html`<p class="empty">It never was.</p>` : html`
      <table>
        <tbody>${steps.map(([name, count]) =>
          html`
            <tr>
              <td>${name}</td>
              <td class="number">${count}</td>
            </tr>
          `
        )}${ooms.slice(-8).map(({ time, nbytes }) =>
          html`
            <tr>
              <td>no room for ${formatBytes(nbytes)}</td>
              <td class="number">at ${formatTime(time)}</td>
            </tr>
          `
        )}</tbody>
      </table>
    `
  }</section>`;
}
