import { assert, assertEquals } from "@std/assert";
import { allReduceMs, type Cluster, stepCost } from "../../bench/distributed/cost_model.ts";
import { clusters, drawScaling } from "../../bench/scaling.ts";

const work = { name: "", forwardMs: 10, backwardMs: 20, stepMs: 1, gradientBytes: 50e6 };

Deno.test("an all-reduce moves twice the bytes, and takes messages that grow with the logarithm", () => {
  assertEquals(allReduceMs(1e6, 1, 1, 10), 0);
  const near = (a: number, b: number) => assert(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);
  near(allReduceMs(1e6, 2, 1, 10), 1 + 0.02);
  near(allReduceMs(0, 1024, 1, 10), 0.2);
  near(allReduceMs(1e6, 1024, 1, 0), 2 * 1023 / 1024);
});

Deno.test("a step on one rank costs nothing beside, more ranks and slower networks cost more", () => {
  for (const cluster of clusters) {
    assertEquals(stepCost(work, cluster, 1).efficiency, 1);
    let former = 1;
    for (const ranks of [2, 8, 64, 1024]) {
      const { efficiency, totalMs, exposedMs } = stepCost(work, cluster, ranks);
      assert(efficiency > 0 && efficiency <= former);
      assert(Math.abs(totalMs - exposedMs - 31) < 1e-9);
      former = efficiency;
    }
  }
  const [slow, , fast] = clusters.map((cluster) => stepCost(work, cluster, 64).efficiency);
  assert(slow! < fast!);
});

Deno.test("several buckets hide behind backward what one cannot", () => {
  const cluster: Cluster = { ...clusters[2]!, networkGBs: 20 };
  const one = stepCost(work, cluster, 64, 1e9), many = stepCost(work, cluster, 64, 5e6);
  assert(many.exposedMs < one.exposedMs / 3, `${many.exposedMs} of ${one.exposedMs} ms`);
});

Deno.test("the guide's chart is the one that the cost model draws", async () => {
  const path = new URL("../../examples/guide/images/scaling.svg", import.meta.url);
  assertEquals(await Deno.readTextFile(path), drawScaling());
});
