import { assert, assertEquals } from "@std/assert";
import { distributed, Tensor } from "../../mod.ts";
import { testWay } from "./ways/test_ways.ts";

for (const [ranks, device] of [[2, "cl"], [4, "cpu"]] as const) {
  testWay(
    `Group: collective operations on tensors of every type, ${ranks} ranks on "${device}"`,
    ranks,
    `group_program.ts?${device}`,
  );
}

Deno.test("without mpirun a program is one rank of one, and its values stay", async () => {
  using group = distributed.init();
  assertEquals([group.rank, group.size, group.localRank], [0, 1, 0]);
  const x = Tensor.fromHost([1, 2, 3]);
  await group.allReduce([x], "mean");
  await group.broadcast([x]);
  await group.barrier();
  assertEquals(await x.toArray(), [1, 2, 3]);
  assertEquals(await (await group.allGather(x)).toArray(), [1, 2, 3]);
  assertEquals(await (await group.reduceScatter(x, "max")).toArray(), [1, 2, 3]);
  assert(distributed.init() === group);
});
