/**
 * Draws the picture of the README: the memory of two training steps of a small transformer, block by
 * block, as `memory.report()` draws it.
 *
 *     deno run -A bench/memory_picture.ts examples/guide/images/memory.svg
 */
import { manualSeed, memory, type MemoryEvent, nn, optim, Tensor } from "@netcl/netcl";
import { saveFileSync } from "../ffi/host/atomic_file.ts";
import { originOf } from "../memory/report/memory_event.ts";
import { Palette, timelineChart } from "../memory/report/report_charts.ts";
import { style } from "../memory/report/report_style.ts";
import { layOut } from "../memory/report/timeline.ts";
import { filesOrExit } from "./arguments.ts";

const help = "deno run -A bench/memory_picture.ts PICTURE.svg";

/** Enough for what the eye can tell apart, in a file of some 150 KB. */
const COLUMNS = 420, BLOCKS = 150;

/** Keys of colours below the picture: so many beside each other, in units of the picture. */
const KEY_COLUMNS = 4, KEY = { width: 285, height: 20 };

/** Events of two steps of training: what they allocate and release. */
async function record(): Promise<readonly MemoryEvent[]> {
  manualSeed(0);
  const layer = () => new nn.TransformerEncoderLayer(128, 4, { dimFeedforward: 512, dropout: 0 });
  const model = new nn.Sequential(layer(), layer(), layer(), new nn.Linear(128, 32));
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
  const step = async () => {
    const loss = model.forward(Tensor.randn([16, 64, 128])).square().mean();
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    await loss.item();
  };
  await step();
  using recording = memory.record();
  for (let k = 0; k < 2; k++) await step();
  return recording.events();
}

/** The k-th key: a colour or a line, and its meaning. */
function keyOf(text: string, drawn: string, k: number, isLine = false): string {
  const x = 78 + (k % KEY_COLUMNS) * KEY.width, y = Math.floor(k / KEY_COLUMNS) * KEY.height;
  const sample = isLine
    ? `<path class="${drawn}" d="M${x} ${y + 6}h11"/>`
    : `<rect class="${drawn}" x="${x}" y="${y}" width="11" height="11"/>`;
  return `${sample}<text x="${x + 17}" y="${y + 10}">${text}</text>`;
}

/** The timeline of the recording's busiest device as an SVG document. */
function draw(events: readonly MemoryEvent[]): string {
  const devices = Map.groupBy(events, ({ device }) => device);
  const [busiest] = [...devices.values()].toSorted((a, b) => b.length - a.length);
  const timeline = layOut(busiest!, COLUMNS, BLOCKS);
  const origins = busiest!.filter(({ action }) => action === "alloc").map(originOf);
  const weight = (origin: string) =>
    timeline.peak.origins.find((each) => each.origin === origin)?.nbytes ?? 0;
  let top = 0;
  const palette = new Palette([...new Set(origins)].toSorted((a, b) => weight(b) - weight(a)));
  const legend = palette.origins.map((origin, k) => keyOf(origin, palette.classOf(origin), k));
  const keys = [
    ...legend,
    keyOf("smaller and shorter-lived blocks", "others", legend.length),
    keyOf("reserved from the driver", "reserved", legend.length + 1, true),
  ];
  const height = Math.ceil(keys.length / KEY_COLUMNS) * KEY.height;
  return timelineChart(timeline, palette, Infinity).text.trim()
    .replace(/<title>[^<]*<\/title>/g, "")
    .replace(/viewBox="0 0 (\S+) (\S+)"/, (_, width, own) => {
      top = Number(own);
      return `viewBox="0 0 ${width} ${top + height}"`;
    })
    .replace(/<\/svg>$/, () => `<g transform="translate(0 ${top})">${keys.join("")}</g></svg>`)
    .replace(/\s*\n\s*/g, "\n")
    .replace("<svg ", `<svg xmlns="http://www.w3.org/2000/svg" `)
    .replace(">", `><style>${style.text}</style>`);
}

if (import.meta.main) {
  const [path] = filesOrExit(help);
  if (path === undefined) {
    console.error(help);
    Deno.exitCode = 2;
  } else {
    saveFileSync(path, draw(await record()));
  }
}
