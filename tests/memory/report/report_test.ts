import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import {
  DeviceMemory,
  memory,
  type MemoryEvent,
  OutOfMemoryError,
  Recorder,
  registerDeviceMemory,
  SimulatedSource,
  SlabPool,
  unregisterDeviceMemory,
} from "../../../memory/mod.ts";
import { html } from "../../../memory/report/html.ts";
import { growing } from "../../../memory/report/leaks.ts";
import { reportPage } from "../../../memory/report/report.ts";
import { layOut } from "../../../memory/report/timeline.ts";
import { manager, profiler, Tensor } from "../../../mod.ts";
import "../../opencl.ts"; // opens the devices outside of any test
import { findBrowser, Page } from "../../examples/browser.ts";
import { sequenceLengths, transformerTrace } from "../transformer_trace.ts";
import { fileURLToPath } from "node:url";

function event(action: "alloc" | "free", id: number, nbytes: number): MemoryEvent {
  return { time: id, action, device: "card", id, nbytes, label: `block ${id}` };
}

Deno.test("A timeline stacks blocks in the order of their allocation and lets them come down", () => {
  const { blocks, columns, peak, drawn } = layOut([
    event("alloc", 1, 100),
    event("alloc", 2, 50),
    event("alloc", 3, 10),
    event("free", 2, 50),
    event("free", 1, 100),
    event("alloc", 4, 5),
  ]);
  assertEquals(columns, 6);
  assertEquals(blocks.map(({ origin, steps, end }) => [origin, steps, end]), [
    ["block 1", [[0, 0]], 4],
    ["block 2", [[1, 100]], 3],
    ["block 3", [[2, 150], [3, 100], [4, 0]], 6],
    ["block 4", [[5, 10]], 6],
  ]);
  assertEquals(drawn, [100, 150, 160, 110, 10, 15]);
  assertEquals([peak.nbytes, peak.column], [160, 2]);
  assertEquals(peak.origins.map(({ origin }) => origin), ["block 1", "block 2", "block 3"]);
});

Deno.test("A timeline draws the largest areas and sums the others up", () => {
  const events = [
    event("alloc", 1, 1000),
    ...[2, 3, 4, 5].flatMap((id) => [event("alloc", id, 10), event("free", id, 10)]),
  ];
  const { blocks, others } = layOut(events, 2200, 1);
  assertEquals(blocks.map(({ origin }) => origin), ["block 1"]);
  assertEquals(others, [0, 10, 0, 10, 0, 10, 0, 10, 0]);
});

Deno.test("A timeline of many events has no more columns than asked for, and its heights add up", () => {
  const { events } = transformerTrace(2, () => 64);
  const recorded = events.map(([sign, id, nbytes]) =>
    event(sign > 0 ? "alloc" : "free", id, nbytes)
  );
  const { columns, blocks, drawn, others, peak } = layOut(recorded, 300, 50);
  assertEquals([columns, blocks.length], [300, 50]);
  const most = Math.max(...drawn.map((bytes, i) => bytes + others[i]!));
  assert(most <= 2 * peak.nbytes && drawn.every((bytes) => bytes >= 0));
  for (const { steps, end } of blocks) {
    steps.forEach(([column], i) => assert(i === 0 || column > steps[i - 1]![0]));
    assert(end >= steps.at(-1)![0]);
  }
});

Deno.test("Nothing that a label says becomes part of the page", () => {
  assertEquals(html`<b>${"<script>\"&'"}</b>`.text, "<b>&lt;script&gt;&quot;&amp;&#39;</b>");
  const card = new DeviceMemory(new SlabPool(new SimulatedSource()), { name: "<card>" });
  using recorder = new Recorder();
  recorder.attach(card.name, card.pool);
  card.allocate(64, { label: "<script>alert(1)</script>" });
  const page = reportPage(card, recorder);
  assert(!page.includes("<script>alert") && page.includes("&lt;script&gt;alert"));
});

function trainedCard(): DeviceMemory<never> {
  const totalBytes = 800 * 2 ** 20;
  const pool = new SlabPool(new SimulatedSource());
  return new DeviceMemory(pool, { name: "card", totalBytes }) as unknown as DeviceMemory<never>;
}

/** Three steps of a transformer, with the names that its parts have. */
function train(card: DeviceMemory<never>): void {
  const { events } = transformerTrace(3, sequenceLengths["lengths 64 to 256, varying"]!);
  const names = ["layer norm", "qkv = matmul", "softmax", "projection", "gelu", "residual"];
  const live = new Map<number, { release(): void }>();
  for (const [sign, id, nbytes] of events) {
    if (sign < 0) {
      live.get(id)!.release();
      live.delete(id);
      continue;
    }
    const label = id < 197 ? "parameters" : nbytes > 2e7 ? "logits" : names[id % names.length]!;
    live.set(id, card.allocate(nbytes, { label }));
  }
}

Deno.test("The report is one page with figures, timeline, peak, segments and no foreign resource", () => {
  const device = {}, card = trainedCard();
  registerDeviceMemory(device, card);
  using _recorder = memory.record({ stacks: true });
  train(card);
  const path = Deno.makeTempFileSync({ suffix: ".html" });
  memory.report(path, device);
  const page = Deno.readTextFileSync(path);
  Deno.removeSync(path);
  unregisterDeviceMemory(device);
  assertStringIncludes(page, "Memory of card");
  assert(!/(src|href)=|@import|url\((?!#)|https?:/.test(page), "nothing comes from elsewhere");
  assertMatch(page, /parameters at report_test\.[jt]s:\d+/);
  for (const heading of ["Timeline", "At the peak", "Live now", "Segments", "Counters"]) {
    assertStringIncludes(page, heading);
  }
  assert((page.match(/<path class="o-/g) ?? []).length > 200, "blocks are drawn one by one");
  assert(page.length < 600_000, `${page.length} bytes`);
  assert(!/NaN|Infinity|undefined/.test(page), "every coordinate is a number");
});

Deno.test("Without a recording the report shows the present and says how to get more", () => {
  const card = trainedCard();
  card.allocate(1000, { label: "weights" });
  const page = reportPage(card, null);
  assertStringIncludes(page, "memory.record(");
  assertStringIncludes(page, "weights");
  assertStringIncludes(page, "segment 0");
});

Deno.test("The report of a device that nobody used is a page too", () => {
  const page = reportPage(trainedCard(), new Recorder());
  assertStringIncludes(page, "Nothing is live.");
  assert(!/NaN|undefined|-Infinity/.test(page));
});

/** A list that grows, what comes and goes, and what is made once. */
function withLeak(card: DeviceMemory<never>, steps: number): void {
  card.allocate(1000, { label: "weights" });
  for (let step = 0; step < steps; step++) {
    card.allocate(64, { label: "losses.push" });
    card.allocate(5000, { label: "activation" }).release();
  }
}

Deno.test("What grows all along is named, what comes and goes and what is made once is not", () => {
  const card = trainedCard();
  using recorder = new Recorder();
  recorder.attach(card.name, card.pool);
  withLeak(card, 8);
  assertEquals(
    growing(recorder.events()).map(({ origin, counts, nbytes }) => [
      ...[origin, counts.length, counts.at(-1), nbytes],
    ]),
    [["losses.push", 4, 8, 512]],
  );
  const page = reportPage(card, recorder);
  assertStringIncludes(page, "What a leak looks like");
  assertMatch(page, /<b>losses\.push<\/b>: \d, \d, \d, 8 blocks, 512 bytes in the end/);
  assertEquals(growing([]), []);
  assertEquals(growing([event("alloc", 1, 10), event("alloc", 1, 10)]), [], "too short to tell");
});

Deno.test("A model much smaller than a segment fills the picture, which says what is held above it", () => {
  const card = trainedCard(), small = 100_000;
  using recorder = new Recorder();
  recorder.attach(card.name, card.pool);
  card.allocate(small, { label: "weights" });
  const page = reportPage(card, recorder);
  assertMatch(page, /\d+ MiB are reserved: above the picture/);
  assertMatch(page, />112 KiB</, "the scale ends near what lives");
  card.allocate(40 * 2 ** 20, { label: "activations" });
  assert(!reportPage(card, recorder).includes("above the picture"));
});

/** A page with a timeline as it shows: how far it is stretched, and the labels below. */
async function lookAt(page: Page): Promise<readonly [scale: number, labels: unknown]> {
  const scale = "/scale\\(([\\d.]+)/.exec(document.querySelector('.plot')" +
    ".getAttribute('transform'))?.[1] ?? 1";
  const labels = "[...document.querySelectorAll('.time')].map((each) => each.textContent).join()";
  return [Number(await page.evaluate(scale)), await page.evaluate(labels)];
}

/** Drags over a quarter of the timeline, and has everything shown again. */
async function lookCloser(page: Page, shoot: (name: string) => Promise<void>, name: string) {
  const box = JSON.parse(
    await page.evaluate(
      "JSON.stringify(document.querySelector('svg.timeline').getBoundingClientRect())",
    ) as string,
  );
  const at = (share: number): [number, number] => [box.x + share * box.width, box.y + 100];
  const [whole, allLabels] = await lookAt(page);
  assertEquals(whole, 1);
  await page.drag([at(0.25), at(0.4), at(0.5)]);
  const [marked, labels] = await lookAt(page);
  assert(marked > 3.3 && marked < 4.8, `a quarter of the picture fills it: ${marked}`);
  assert(labels !== allLabels, "the times are those of what is shown");
  await shoot(name);
  const [x, y] = at(0.5);
  await page.send("Input.dispatchMouseEvent", {
    ...{ type: "mouseWheel", x, y, deltaX: 0, deltaY: -400 },
  });
  const [closer] = await lookAt(page);
  assert(closer > 2 * marked, `the wheel looks closer: ${closer}`);
  await page.evaluate("document.querySelector('.reset').click()");
  assertEquals(await lookAt(page), [1, allLabels]);
}

const browser = findBrowser();

Deno.test("The reports can be looked at closer in a browser: see out/memory_report.png", {
  ignore: browser === null,
}, async () => {
  const card = trainedCard();
  using recorder = new Recorder({ stacks: true });
  recorder.attach(card.name, card.pool);
  train(card);
  card.setLimit(640 * 2 ** 20);
  try {
    card.allocate(2 ** 29);
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
  }
  withLeak(card, 40);
  const out = fileURLToPath(new URL("../../../out/", import.meta.url));
  Deno.mkdirSync(out, { recursive: true });
  Deno.writeTextFileSync(`${out}memory_report.html`, reportPage(card, recorder));
  {
    using _trace = profiler.trace();
    using _span = profiler.span("products");
    const x = Tensor.ones([200, 200], { device: manager.default("cpu") });
    for (let k = 0; k < 5; k++) x.matmul(x).realize();
  }
  profiler.report(`${out}profile.html`);
  await using page = await Page.open(browser!, `file://${out}memory_report.html`);
  const size = { width: 1280, height: 1700, deviceScaleFactor: 1, mobile: false };
  await page.send("Emulation.setDeviceMetricsOverride", size);
  const shoot = async (name: string) => {
    const { data } = await page.send("Page.captureScreenshot", { format: "png" });
    const png = Uint8Array.from(atob(data as string), (byte) => byte.charCodeAt(0));
    assert(png.length > 20_000, "a page without a picture would be smaller");
    Deno.writeFileSync(`${out}${name}.png`, png);
  };
  await shoot("memory_report");
  await lookCloser(page, shoot, "memory_report_closer");
  await page.goTo(`file://${out}profile.html`);
  await shoot("profile");
  await lookCloser(page, shoot, "profile_closer");
});
