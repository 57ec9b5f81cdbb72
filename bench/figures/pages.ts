/**
 * Writes the figures of a whole run on an idle machine (`deno task bench --device gpu --figures
 * bench/figures/h200.json`) into the pages: README's chart and the sentence on what is behind, the table of
 * the performance guide.
 *
 *     deno run -A bench/figures/pages.ts [--record bench/figures/h200.json]
 */
import { saveFileSync } from "../../ffi/host/atomic_file.ts";
import { fileURLToPath } from "node:url";
import { argumentsOrExit, flagValues } from "../arguments.ts";
import { type BenchRecord, brief, type Comparison, comparisons, drawChart } from "./chart.ts";

const at = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** The peers of the pages: what people write, and PyTorch's fastest mode. */
export const peers: readonly string[] = ["torch", "torch-graphs"];

const modes: Readonly<Record<string, string>> = {
  "torch": "PyTorch eager",
  "torch-graphs": "torch.compile, CUDA graphs",
};

/** Works that README and its chart show: models, and what they are made of at sizes that fill a GPU. */
const shown = [
  /^(gpt|resnet|embedding|lstm|attention|mlp|cnn|llama|vit|unet|diffusion|gat)\S* \S+ compiled$/,
  /^resnet18-inference/,
  /^(softmax|layernorm|gelu) \S+ compiled$/,
  /^matmul 4096$/,
  /^matmul-float16/,
  /^(conv2d|conv2d-backward|sort|scatter-add|chain|sum) (32|\d\.\d+e[67])$/,
];

/** The part of a record that README shows. */
export function shownOf(record: BenchRecord): BenchRecord {
  const results = record.results.filter(({ work }) => shown.some((name) => name.test(work)));
  return { ...record, results };
}

/** A text that a page has between two comments with a name. */
interface Passage {
  readonly page: string;
  readonly name: string;
  readonly text: string;
}

/** The ratio of netcl to the fastest of the peers. */
function worst({ peers }: Comparison): number {
  return Math.min(...peers.map(({ ratio }) => ratio));
}

/** The sentence that names the works that are behind the better mode. */
export function behindOf(record: BenchRecord): string {
  const behind = comparisons(record, peers).filter((work) => worst(work) < 0.995)
    .toSorted((a, b) => worst(a) - worst(b));
  if (behind.length === 0) return "In this run it was behind in none of the works.";
  const names = behind.map((work) => `${work.label} (${worst(work).toFixed(2)})`);
  return `Behind the faster of PyTorch's two modes in this run: ${names.join("; ")}.`;
}

/** The table of the guide, a work a line. */
export function tableOf(record: BenchRecord): string {
  const head = ["work", "netcl", ...peers.map((peer) => modes[peer]!)];
  const rows = comparisons(record, peers).map(({ label, unit, ours, peers: bars }) => {
    const theirs = peers.map((peer) => bars.find((bar) => bar.peer === peer)?.theirs);
    return [label, ...[ours, ...theirs].map((v) => v === undefined ? "" : `${brief(v)} ${unit}`)];
  });
  const lines = [head, head.map(() => "---"), ...rows];
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** The words of the pages on a record. */
export function passages(record: BenchRecord): Passage[] {
  return [
    { page: "README.md", name: "behind", text: behindOf(shownOf(record)) },
    { page: "examples/guide/performance.md", name: "figures", text: tableOf(record) },
  ];
}

/** The place of a passage in its page. */
export function placeOf(name: string): RegExp {
  return new RegExp(`(<!-- ${name} -->\n)[^]*?(<!-- /${name} -->)`);
}

/** The record that the pages are made of. */
export function readRecord(path = at("bench/figures/h200.json")): BenchRecord {
  return JSON.parse(Deno.readTextFileSync(path));
}

if (import.meta.main) {
  const { record: path } = argumentsOrExit((args) =>
    flagValues(args, { record: { type: "string" } })
  );
  const record = readRecord(path);
  saveFileSync(at("examples/guide/images/bench.svg"), drawChart(shownOf(record), peers));
  for (const { page, name, text } of passages(record)) {
    const old = Deno.readTextFileSync(at(page)), place = placeOf(name);
    if (!place.test(old)) throw new Error(`Cannot write "${name}" into ${page}: no such place`);
    saveFileSync(at(page), old.replace(place, (_, from, to) => `${from}\n${text}\n${to}`));
  }
  const pages = passages(record).map(({ page }) => at(page));
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", ...pages] }).spawn().status;
}
