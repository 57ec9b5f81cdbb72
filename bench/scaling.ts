/**
 * Scaling of data-parallel training from 8 to 1,024 ranks, by the cost model of
 * distributed/cost_model.ts: a table, and with a file name a chart.
 *
 *     deno run -A bench/scaling.ts [examples/guide/images/scaling.svg]
 */
import { saveFileSync } from "../ffi/host/atomic_file.ts";
import { filesOrExit } from "./arguments.ts";
import { type Cluster, stepCost, type Workload } from "./distributed/cost_model.ts";

/** Steps on one H100, measured by bench/run.ts; a third of the time is the forward pass. */
const works: readonly Workload[] = [
  {
    name: "ResNet-18 for 32x32, 128 samples a rank",
    forwardMs: 10,
    backwardMs: 20,
    stepMs: 1,
    gradientBytes: 11.17e6 * 4,
  },
  {
    name: "GPT of 10.7M, 64x256 tokens a rank",
    forwardMs: 13.5,
    backwardMs: 27,
    stepMs: 1.5,
    gradientBytes: 10.74e6 * 4,
  },
];

const host = { ranksPerHost: 8, copyGBs: 50, hostGBs: 200 };

/** Ethernet and InfiniBand as they are bought; latency of MPI over TCP, and over RDMA. */
export const clusters: readonly Cluster[] = [
  { name: "25 Gbit/s Ethernet", ...host, networkGBs: 2.5, latencyUs: 30 },
  { name: "100 Gbit/s Ethernet", ...host, networkGBs: 11, latencyUs: 20 },
  { name: "400 Gbit/s InfiniBand", ...host, networkGBs: 45, latencyUs: 2 },
];

const counts = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

function printTable(): void {
  for (const work of works) {
    console.log(`\n${work.name}: share of perfect scaling, and milliseconds that are not hidden`);
    console.log(["ranks", ...clusters.map(({ name }) => name)].join(" | "));
    for (const count of counts.filter((count) => count >= 8)) {
      const cells = clusters.map((cluster) => {
        const { efficiency, exposedMs } = stepCost(work, cluster, count);
        return `${efficiency.toFixed(2)} (${exposedMs.toFixed(1)})`;
      });
      console.log([count, ...cells].join(" | "));
    }
  }
}

const LEFT = 56, TOP = 64, WIDTH = 860, PLOT = 320, HEIGHT = 250;
const colors = ["#dc2626", "#d97706", "#2563eb"];

/** One plot a model, beside each other: a line a network, over the logarithm of the ranks. */
export function drawScaling(): string {
  const plots = works.map((work, at) => drawPlot(work, LEFT + at * (PLOT + 100)));
  const title = "How much of n times one rank's samples a second n ranks reach (computed)";
  const legend = clusters.map(({ name }, k) =>
    `<line x1="${LEFT + 220 * k}" x2="${LEFT + 220 * k + 24}" y1="${TOP + HEIGHT + 62}" ` +
    `y2="${TOP + HEIGHT + 62}" stroke="${colors[k]}" stroke-width="2.5"/>` +
    `<text x="${LEFT + 220 * k + 32}" y="${TOP + HEIGHT + 66}">${name}</text>`
  );
  const height = TOP + HEIGHT + 84;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" ` +
    `width="${WIDTH}" height="${height}" role="img" aria-label="${title}">
<style>
text { font: 13px Helvetica, Arial, sans-serif; fill: #374151 }
.title { font-size: 16px; fill: #111827 } .tick { font-size: 12px; fill: #6b7280 }
.grid { stroke: #d1d5db } path { fill: none; stroke-width: 2.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #d1d5db } .title { fill: #f9fafb } .tick { fill: #9ca3af } .grid { stroke: #374151 }
}
</style>
<text class="title" x="${LEFT - 32}" y="28">${title}</text>
${[...plots, ...legend].join("\n")}
</svg>
`;
}

function drawPlot(work: Workload, left: number): string {
  const x = (count: number) => left + PLOT * Math.log2(count) / 10;
  const y = (efficiency: number) => TOP + HEIGHT * (1 - efficiency);
  const rows = [0, 0.25, 0.5, 0.75, 1].map((level) =>
    `<line class="grid" x1="${left}" x2="${left + PLOT}" y1="${y(level)}" y2="${y(level)}"/>` +
    `<text class="tick" x="${left - 8}" y="${y(level) + 4}" text-anchor="end">${level}</text>`
  );
  const columns = counts.filter((_, k) => k % 2 === 0).map((count) =>
    `<text class="tick" x="${x(count)}" y="${
      TOP + HEIGHT + 20
    }" text-anchor="middle">${count}</text>`
  );
  const lines = clusters.map((cluster, k) => {
    const points = counts.map((count) =>
      `${x(count).toFixed(1)},${y(stepCost(work, cluster, count).efficiency).toFixed(1)}`
    );
    return `<path d="M${points.join("L")}" stroke="${colors[k]}"/>`;
  });
  const name = `<text x="${left}" y="${TOP - 12}">${work.name}</text>`;
  const axis = `<text class="tick" x="${left + PLOT / 2}" y="${
    TOP + HEIGHT + 40
  }" text-anchor="middle">ranks, 8 a host</text>`;
  return [name, ...rows, ...columns, axis, ...lines].join("\n");
}

if (import.meta.main) {
  const [chart] = filesOrExit("deno run -A bench/scaling.ts [CHART.svg]");
  printTable();
  if (chart !== undefined) saveFileSync(chart, drawScaling());
}
