// Suite: first; takes long.
/**
 * Random graphs have the same values and gradients however they are computed: fused in one schedule,
 * read one by one, each operation by itself, on either backend, by the plain evaluator.
 *
 * NETCL_GRAPH_SECONDS=60 tries new graphs for so long; otherwise the same few are tried every time.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
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
import { ignoreOn, testOnBackends, testOnCPU } from "../opencl.ts";
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
} from "./graphs/graph.ts";
import { runDeno } from "../run_deno.ts";
import { numbersOf } from "./numbers.ts";

const seconds = Number(Deno.env.get("NETCL_GRAPH_SECONDS") ?? 0);

type Sizes = "small" | "large";

function check(
  size: number,
  runs: number,
  property: (graph: Graph) => void,
  sizes: Sizes = "small",
): void {
  const limits = seconds > 0
    ? { numRuns: 1e9, interruptAfterTimeLimit: seconds * 1000, endOnFailure: false }
    : { numRuns: runs, seed: 20 };
  fc.assert(fc.property(graphs(size, { sizes }), property), limits);
}

/** The plain evaluator, one operation at a time: nothing between the graph and its meaning. */
function meaning(graph: Graph): Numbers[] {
  return withDevice("cpu", () => apart(reference, build(graph)));
}

function assertMeans(
  graph: Graph,
  way: string,
  compute: () => Numbers[],
  wanted: readonly Numbers[],
): void {
  const text = difference(compute(), wanted, graph);
  assert(text === null, `${way}: ${text}`);
}

testOnCPU("random graphs mean the same fused, one by one and apart", () => {
  const cpu = backendOf(manager.active);
  check(8, 160, (graph) => {
    const wanted = meaning(graph);
    assertMeans(graph, "fused by the reference", () => together(reference, build(graph)), wanted);
    assertMeans(graph, "fused", () => together(cpu, build(graph)), wanted);
    assertMeans(graph, "one by one", () => oneByOne(cpu, build(graph)), wanted);
  });
});

/** Checks graphs that are computed in one schedule, on the active device. */
function checkFused(size: number, runs: number, sizes?: Sizes): void {
  const backend = backendOf(manager.active);
  check(size, runs, (graph) => {
    assertMeans(graph, "fused", () => together(backend, build(graph)), meaning(graph));
  }, sizes);
}

testOnCPU("long random graphs mean the same", () => checkFused(40, 25));
testOnCPU("random graphs of larger tensors mean the same", () => checkFused(6, 30, "large"));
Deno.test("random graphs mean the same (cl)", { ignore: ignoreOn("cl") }, () => {
  withDevice("cl", () => checkFused(6, 8));
});

testOnBackends("compiled graphs mean in every call what they mean uncompiled", (backend) => {
  check(6, backend === "cpu" ? 50 : 3, (graph) => {
    const run = compile((...leaves: Tensor[]) => follow(graph, leaves));
    for (let round = 0; round < 4; round++) {
      const compute = (fn: (...leaves: Tensor[]) => Tensor[]): Numbers[] => {
        manualSeed(round >> 1);
        return fn(...leavesOf(graph, round)).map((t) => numbersOf(t));
      };
      const wanted = compute((...leaves) => follow(graph, leaves));
      assertMeans(graph, `call ${round}`, () => compute(run), wanted);
    }
  });
});

async function eagerly(backend: BackendName, seed: number, numRuns: number): Promise<Numbers[][]> {
  const script = new URL("graphs/eager.ts", import.meta.url).href;
  const args = ["run", "-A", script, backend, `${seed}`, `${numRuns}`];
  const { success, out, err } = await runDeno(args, { env: { NETCL_EAGER: "1" } });
  assert(success, err);
  const printed: string[][][] = JSON.parse(out);
  return printed.map((values) => values.map((numbers) => numbers.map(Number)));
}

testOnBackends("random graphs mean the same with NETCL_EAGER=1", async (backend) => {
  const seed = seconds > 0 ? Date.now() % 1e6 : 21, numRuns = backend === "cpu" ? 60 : 2;
  const found = await eagerly(backend, seed, numRuns);
  fc.sample(graphs(8), { seed, numRuns }).forEach((graph, k) => {
    const text = difference(found[k]!, meaning(graph), graph);
    assert(text === null, `${text} in ${JSON.stringify(graph)}`);
  });
});

Deno.test("each step is taken", () => {
  const seen = new Set(
    fc.sample(graphs(8), { numRuns: 300, seed: 20 }).flatMap((g) => g.steps.map(({ op }) => op)),
  );
  assertEquals(seen.size > 75, true, `${seen.size} kinds of steps`);
});
