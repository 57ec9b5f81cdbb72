import { assert, assertEquals } from "@std/assert";
import { distributed, Tensor } from "../../mod.ts";
import { hasOpenCL } from "../opencl.ts";
import { assertGood, hasMpirun, mpirun } from "./mpirun.ts";

for (const [ranks, device] of [[2, "cl"], [4, "cpu"]] as const) {
  Deno.test({
    name: `Group: collective operations on tensors of every type, ${ranks} ranks on "${device}"`,
    ignore: !hasMpirun || device === "cl" && !hasOpenCL,
    fn: async () => assertGood(await mpirun(ranks, "group_program.ts", [device]), ranks),
  });
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
