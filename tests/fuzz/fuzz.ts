/**
 * `deno task fuzz --seconds N --seed S --texts GRAPHS`: random graphs of tensors, with gradients, computed by the plain
 * evaluator and, on every backend that there is, fused in one schedule, read one by one, operation by
 * operation, and compiled. A graph whose numbers differ is made small and printed. The same seed tries
 * the same graphs. Then the kernels of further graphs are built for devices that are not there: `texts.ts`;
 * and loops that train, of random steps, must not take more and more memory. With `--files N` it tries damaged
 * files instead: `files.ts`.
 */
import fc from "fast-check";
import type { Backend } from "../../backend/execution/backend.ts";
import { backendOf } from "../../backend/internal.ts";
import {
  type BackendName,
  compile,
  manager,
  manualSeed,
  type Tensor,
  withDevice,
} from "../../mod.ts";
import { reference } from "../backend/cpu/strategies.ts";
import { hasOpenCL } from "../opencl.ts";
import { fuzzFiles } from "./files.ts";
import { program } from "../tensor/execution/step_programs.ts";
import {
  apart,
  build,
  difference,
  follow,
  type Graph,
  graphs,
  leavesOf,
  type Numbers,
  oneByOne,
  together,
} from "../tensor/graphs/graph.ts";
import { buildRandomTexts, inWords } from "./texts.ts";

/** A way to compute a graph. */
type Way = (backend: Backend, graph: Graph) => Numbers[];

const ways: Readonly<Record<string, Way>> = {
  "fused": (backend, graph) => together(backend, build(graph)),
  "one by one": (backend, graph) => oneByOne(backend, build(graph)),
  "operation by operation": (backend, graph) => apart(backend, build(graph)),
  "compiled": (_, graph) => {
    const run = compile((...leaves: Tensor[]) => follow(graph, leaves));
    const call = (round: number): Tensor[] => {
      manualSeed(17);
      return run(...leavesOf(graph, round));
    };
    call(1);
    return call(0).map((t) => [...t.toHostSync() as Iterable<number | bigint>].map(Number));
  },
};

/** The device and the way in which a graph is computed. */
export type Place = readonly [backend: BackendName, way: string];

/** Every way on the built-in backend; on OpenCL, where a kernel takes long to build, the usual one. */
export const places: readonly Place[] = [
  ...Object.keys(ways).map((way): Place => ["cpu", way]),
  ...(hasOpenCL ? [["cl", "fused"] as const, ["cl", "compiled"] as const] : []),
];

/** The fault of a graph at a place, or null. */
export function faultOf(graph: Graph, [name, way]: Place): string | null {
  const wanted = withDevice("cpu", () => apart(reference, build(graph)));
  const backend = backendOf(manager.default(name));
  return difference(withDevice(name, () => ways[way]!(backend, graph)), wanted, graph);
}

/** A graph as a program: its leaves, then a line for each step. */
export function describe({ shapes, dtype, steps, derivatives }: Graph): string {
  const leaves = shapes.map((shape, k) => `t${k} = ${dtype}[${shape.join(", ")}]`);
  const lines = steps.map(({ op, of: [i, j], numbers }, k) => {
    const count = shapes.length + k, at = (back: number): string => `t${count - 1 - back % count}`;
    return `t${count} = ${op}(${at(i)}, ${at(j)}; ${numbers.join(", ")})`;
  });
  return [...leaves, ...lines, `derivatives: ${derivatives}`].join("\n");
}

/** The result of trying graphs for a while. */
export interface Outcome {
  /** The number of graphs that were tried. */
  readonly tried: number;
  /** The smallest graph that fails, with what is wrong; null where none does. */
  readonly failure: { readonly graph: Graph; readonly fault: string } | null;
}

/** Of the time, how much OpenCL may take. */
const SHARE_OF_OPENCL = 0.5;

/** Tries graphs for so long, or until one fails; a failing one is made small where it failed. */
export function fuzz(seconds: number, seed: number, check = faultOf): Outcome {
  const start = performance.now();
  let openCL = 0, failing: Place | null = null, tried = 0;
  const isWanted = ([backend]: Place): boolean =>
    backend === "cpu" || openCL <= SHARE_OF_OPENCL * (performance.now() - start);
  const property = fc.property(graphs(8), (graph) => {
    tried++;
    for (const place of failing ? [failing] : places.filter(isWanted)) {
      const before = performance.now(), fault = check(graph, place);
      if (place[0] === "cl") openCL += performance.now() - before;
      if (fault === null) continue;
      failing = place;
      throw new Error(fault);
    }
  });
  const outcome = fc.check(property, {
    seed,
    numRuns: 1e9,
    interruptAfterTimeLimit: seconds * 1000,
    markInterruptAsFailure: false,
  });
  const [found] = outcome.counterexample ?? [];
  if (!outcome.failed || !found || !failing) return { tried, failure: null };
  const place: Place = failing, graph = withoutNeedless(found, (g) => check(g, place) !== null);
  return { tried, failure: { graph, fault: `${place[1]} on ${place[0]}: ${check(graph, place)}` } };
}

/** The graph without the steps that its failing does not need. */
function withoutNeedless(graph: Graph, fails: (graph: Graph) => boolean): Graph {
  for (let k = graph.steps.length - 1; k >= 0 && graph.steps.length > 1; k--) {
    const smaller = { ...graph, steps: graph.steps.filter((_, i) => i !== k) };
    if (fails(smaller)) graph = smaller;
  }
  return graph;
}

function numberOf(name: string, fallback: number): number {
  const at = Deno.args.indexOf(`--${name}`);
  if (at < 0) return fallback;
  const value = Number(Deno.args[at + 1]);
  if (Number.isFinite(value) && value >= 0) return value;
  console.error(`Cannot fuzz with --${name} ${Deno.args[at + 1] ?? ""}: pass a number`);
  Deno.exit(2);
}

/** Flags, with their defaults. */
const defaults = { seconds: 60, seed: Date.now() % 2 ** 31, texts: 2000, files: 0 };

/** So many seconds of fuzzing are one loop that trains, whose memory must not grow. */
const SECONDS_A_LOOP: Readonly<Record<BackendName, number>> = { cpu: 2, cl: 20 };

function trainInLoops(seed: number, seconds: number): void {
  for (const backend of hasOpenCL ? ["cpu", "cl"] as const : ["cpu"] as const) {
    const count = Math.ceil(seconds / SECONDS_A_LOOP[backend]);
    const args = ["--device", backend, "--seed", `${seed}`, "--count", `${count}`];
    const { code } = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", program, ...args],
      env: { NETCL_DETERMINISTIC: "1" },
      stdout: "inherit",
      stderr: "inherit",
    }).outputSync();
    if (code !== 0) Deno.exit(code);
  }
}

async function main(): Promise<void> {
  const names = [...Object.keys(defaults), "only"].map((name) => `--${name}`);
  const unknown = Deno.args.find((arg, k) =>
    !names.includes(arg) && !names.includes(Deno.args[k - 1] ?? "")
  );
  if (unknown !== undefined) {
    console.error(
      `Cannot fuzz with "${unknown}": pass --seconds N, --seed S, --texts GRAPHS, --files N, --only FORMAT`,
    );
    Deno.exit(2);
  }
  const [seconds, seed, texts, files] = (["seconds", "seed", "texts", "files"] as const).map((
    name,
  ) => numberOf(name, defaults[name])) as [number, number, number, number];
  const at = Deno.args.indexOf("--only"), only = at < 0 ? "" : Deno.args[at + 1];
  if (files > 0) Deno.exit(await fuzzFiles(files, seed, only) ? 0 : 1);
  const where = places.map(([backend, way]) => `${way} on ${backend}`).join(", ");
  console.log(`Trying graphs for ${seconds} s, from seed ${seed}: ${where}`);
  const { tried, failure } = fuzz(seconds, seed);
  if (failure !== null) fail(failure.fault, failure.graph);
  console.log(`${tried} graphs mean the same in every way`);
  trainInLoops(seed, seconds);
  if (!hasOpenCL || texts === 0) return;
  const { built, refused } = buildRandomTexts(texts, seed);
  if (refused !== null) fail(inWords(refused), refused.from.graph);
  console.log(`${built} kernels of ${texts} graphs for GPUs and CPUs of every kind build`);
}

function fail(fault: string, graph: Graph): never {
  console.log(`${fault}\n\n${describe(graph)}\n\n${JSON.stringify(graph)}`);
  Deno.exit(1);
}

if (import.meta.main) await main();
