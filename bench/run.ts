/**
 * `deno task bench`: netcl beside its peers, in turn and in the same run. Prints a table of medians,
 * the ratios to the peers and whether the targets are met; peers that are not installed are left out
 * and named. What a shared machine does besides shows in the load that is printed.
 */
import { cpus } from "node:os";
import { saveFileSync } from "../ffi/host/atomic_file.ts";
import { argumentsOrExit, flagValues } from "./arguments.ts";
import { type Peer, peerNames, start } from "./peers.ts";
import { judgeAll, type Row, table } from "./report.ts";
import { type DeviceClass, labelOf, nameOf, type PeerName, type Work, works } from "./works.ts";

const help = `deno task bench [options]
  --only A,B     works whose names begin with one of these, such as matmul,"mlp 64"
  --peers A,B    these peers only (${peerNames.join(", ")})
  --device D     cl (the default), cpu (the built-in backend) or gpu
  --json FILE    writes what was measured
  --figures FILE the same for pages: refused of a part, and where others compute, now or meanwhile
  --quick        fewer and shorter samples`;

type Who = PeerName | "netcl";

/** The choices of a run. */
export interface Options {
  readonly only: readonly string[];
  readonly peers: readonly PeerName[];
  readonly device: DeviceClass;
  readonly json: string | undefined;
  /** The file of a whole run on an idle machine, from which pages are made. */
  readonly figures: string | undefined;
  readonly quick: boolean;
}

/** @throws {TypeError} For what is not understood, and for --figures of a part of what there is. */
export function parseOptions(args: string[]): Options | null {
  const string = { type: "string" } as const, boolean = { type: "boolean" } as const;
  const options = { only: string, peers: string, device: string, json: string, figures: string };
  const values = flagValues(args, { ...options, quick: boolean, help: boolean });
  if (values.help === true) return null;
  const { only, peers, device = "cl", json, figures, quick = false } = values;
  if (figures !== undefined && (quick || only !== undefined || peers !== undefined)) {
    throw new TypeError("Cannot write --figures of a part: leave out --quick, --only and --peers");
  }
  if (device !== "cl" && device !== "cpu" && device !== "gpu") {
    throw new TypeError(`Cannot measure on --device ${device}: write cl, cpu or gpu`);
  }
  const wanted = peers?.split(",") ?? peerNames;
  const unknown = wanted.find((name) => !peerNames.includes(name as PeerName));
  if (unknown !== undefined) {
    throw new TypeError(`Cannot ask peer "${unknown}": there are ${peerNames.join(", ")}`);
  }
  return {
    only: only?.split(",") ?? [""],
    peers: wanted as PeerName[],
    device,
    json,
    figures,
    quick,
  };
}

/** Starts netcl and the peers that there are; says which are left out. */
async function startAll({ peers, device }: Options): Promise<Map<Who, Peer[]>> {
  const running = new Map<Who, Peer[]>();
  // On a GPU only those that compute there are comparable.
  const comparable = peers.filter((peer) =>
    device === "gpu" ? ["torch", "torch-graphs"].includes(peer) : peer !== "torch-graphs"
  );
  for (const name of ["netcl", ...comparable] as const) {
    try {
      running.set(name, await start(name, device));
      console.log(`${name}: ${running.get(name)![0]!.title}`);
    } catch (error) {
      console.log(`left out: ${name}: ${error instanceof Error ? error.message : error}`);
      if (name === "netcl") break;
    }
  }
  return running;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}

/** One work, in rounds that begin with another peer each. */
async function measure(work: Work, running: Map<Who, Peer[]>, quick: boolean): Promise<Row> {
  const [rounds, samples, milliseconds] = quick ? [3, 3, 3] : [5, 7, 8];
  let lanes = [...running].flatMap(([who, peers]) => peers.map((peer) => ({ who, peer })))
    .map((lane) => ({ ...lane, times: [] as number[] }));
  const measured = [...lanes];
  for (let round = 0; round < rounds; round++) {
    for (const lane of [...lanes.slice(round), ...lanes.slice(0, round)]) {
      const { value, error } = await lane.peer.measure(work, samples, milliseconds);
      if (value !== undefined) lane.times.push(value);
      else lanes = lanes.filter((other) => other !== lane);
      if (error !== undefined && error !== "not offered") {
        console.log(`${lane.who} fails at ${nameOf(work)}: ${error}`);
      }
    }
  }
  const values: Row["values"] = {};
  for (const { who, times } of measured) {
    if (times.length === 0) continue;
    // The machine's limit is its best round, not the median.
    const typical = who === "machine" ? Math.min(...times) : median(times);
    values[who] = Math.min(values[who] ?? Infinity, typical);
  }
  return { work, values };
}

/** The figures of a work in a line: a run that is ended before its table has them. */
function figuresOf({ work, values }: Row): string {
  const all = Object.entries(values).map(([who, value]) =>
    `${who} ${work.figure(value).toPrecision(3)}`
  );
  return all.length === 0 ? "nothing measured" : `${all.join(", ")} ${work.unit}`;
}

/** The number of processes that wanted a core, and of cores. */
export interface Load {
  readonly oneMinute: number;
  readonly fiveMinutes: number;
  readonly cores: number;
}

function presentLoad(): Load {
  const [oneMinute, fiveMinutes] = Deno.loadavg();
  return {
    oneMinute: oneMinute!,
    fiveMinutes: fiveMinutes!,
    cores: navigator.hardwareConcurrency,
  };
}

const inWords = ({ oneMinute, fiveMinutes, cores }: Load): string =>
  `load ${oneMinute.toFixed(1)} (1 min), ${fiveMinutes.toFixed(1)} (5 min) on ${cores} cores`;

/** True where so little else runs that a run can be quoted: at most a core in eight, or one half. */
export function isIdle({ oneMinute, cores }: Pick<Load, "oneMinute" | "cores">): boolean {
  return oneMinute <= Math.max(0.5, cores / 8);
}

/** Time after which threads that spin for further work are asleep (libomp's are after 200 ms). */
const SPIN_MS = 300;
/** Time for which others are watched. */
const WATCH_MS = 200;

/** Cores that others compute on, while nothing of this run does: what began after the run did. */
async function coresOfOthers(): Promise<number> {
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  await pause(SPIN_MS);
  const before = idleShare();
  await pause(WATCH_MS);
  const after = idleShare(), total = after.total - before.total;
  const busy = total === 0 ? 0 : 1 - (after.idle - before.idle) / total;
  return busy * navigator.hardwareConcurrency;
}

function idleShare(): { idle: number; total: number } {
  let idle = 0, total = 0;
  for (const { times } of cpus()) {
    idle += times.idle;
    total += times.user + times.nice + times.sys + times.irq + times.idle;
  }
  return { idle, total };
}

/**
 * The reason why what was measured is no figure for pages, or null.
 *
 * @param load At the start.
 * @param others Cores that others computed on between the works.
 */
export function refusalOf(load: Load, others: readonly number[]): string | null {
  if (!isIdle(load)) return `${inWords(load)}; wait until the machine is idle`;
  const typical = others.length === 0 ? 0 : median(others), { cores } = load;
  if (isIdle({ oneMinute: typical, cores })) return null;
  return `others computed on ${typical.toFixed(1)} of ${cores} cores meanwhile; measure again`;
}

/**
 * Measures and prints; gives back the exit code.
 *
 * @param load The machine's load now; a test has another machine.
 */
export async function run(options: Options, load = presentLoad): Promise<number> {
  const { only, device, json, figures, quick } = options;
  const before = load(), others: number[] = [];
  const refused = (): boolean => {
    const reason = figures === undefined ? null : refusalOf(before, others);
    if (reason !== null) console.error(`Cannot write --figures: ${reason}`);
    return reason !== null;
  };
  if (refused()) return 1;
  const chosen = works.filter((work) =>
    (work.devices ?? [device]).includes(device) &&
    only.some((prefix) => nameOf(work).startsWith(prefix))
  );
  const running = await startAll(options);
  if (!running.has("netcl")) return 1;
  console.log(`at the start: ${inWords(before)}\n`);
  const rows: Row[] = [];
  for (const work of chosen) {
    if (figures !== undefined) others.push(await coresOfOthers());
    const row = await measure(work, running, quick);
    rows.push(row);
    console.error(`${rows.length}/${chosen.length} ${nameOf(work)}: ${figuresOf(row)}`);
  }
  const peers = [...running.keys()].filter((who) => who !== "netcl");
  console.log(table(rows, peers, device));
  const after = load();
  console.log(`\nat the end: ${inWords(after)}`);
  const isRefused = refused(), file = isRefused ? json : figures ?? json;
  if (file !== undefined) {
    const titles = Object.fromEntries([...running].map(([who, [peer]]) => [who, peer!.title]));
    const results = rows.map((row) => ({
      work: nameOf(row.work),
      label: labelOf(row.work),
      unit: row.work.unit,
      figures: Object.fromEntries(
        Object.entries(row.values).map(([who, value]) => [who, row.work.figure(value)]),
      ),
      verdicts: judgeAll(row, device),
    }));
    const date = new Date().toISOString(), loads = { before, after };
    const record = { date, device, quick, loads, titles, results };
    saveFileSync(file, JSON.stringify(record, null, 2));
  }
  await Promise.all([...running.values()].flat().map((peer) => peer.close()));
  return isRefused ? 1 : 0;
}

if (import.meta.main) {
  const options = argumentsOrExit(parseOptions);
  if (options === null) console.log(help);
  else Deno.exitCode = await run(options);
}
