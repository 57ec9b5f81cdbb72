import { assertEquals } from "@std/assert";
import { compile, distributed, nn, Tensor } from "../../mod.ts";
import { hasOpenCL } from "../opencl.ts";
import { assertGood, hasMpirun, mpirun } from "./mpirun.ts";

for (
  const [ranks, device, reduceOn] of [
    [2, "cl", "host"],
    [2, "cl", "device"],
    [4, "cpu", "host"],
    [4, "cpu", "device"],
  ] as const
) {
  Deno.test({
    name:
      `DataParallel: ${ranks} ranks on "${device}" that add up on the ${reduceOn} learn what one ` +
      "learns from everything",
    ignore: !hasMpirun || device === "cl" && !hasOpenCL,
    fn: async () =>
      assertGood(await mpirun(ranks, "data_parallel_program.ts", [device, reduceOn]), ranks),
  });
}

for (const reduceOn of ["host", "device"]) {
  Deno.test({
    name: `DataParallel: gradients leave while a replay goes on, and add up on the ${reduceOn}`,
    ignore: !hasMpirun || !hasOpenCL,
    fn: async () => assertGood(await mpirun(2, "early_program.ts", ["cl", reduceOn]), 2),
  });
}

for (
  const [ranks, device, ...how] of [
    [2, "cl", "default"],
    [2, "cl", "device", "without gates"],
    [3, "cpu", "host"],
  ] as const
) {
  Deno.test({
    name: `${ranks} ranks on "${device}", adding up by ${how.join(" ")}, learn what one learns: ` +
      "shards, parts of batches, tied weights, missing gradients, half types, statistics of all",
    ignore: !hasMpirun || device === "cl" && !hasOpenCL,
    fn: async () => assertGood(await mpirun(ranks, "laws_program.ts", [device, ...how]), ranks),
  });
}

Deno.test("DataParallel of one rank is the module itself, also within compile()", async () => {
  const model = new nn.Linear(2, 1), group = distributed.init();
  using parallel = new distributed.DataParallel(model, group);
  const forward = compile((x: Tensor) => parallel.forward(x));
  using x = Tensor.ones([3, 2]);
  for (let k = 0; k < 3; k++) {
    assertEquals(await forward(x).toArray(), await model.forward(x).toArray());
  }
  parallel.synchronize();
  parallel.reduceGradients();
  assertEquals(parallel.noSync(() => 7), 7);
});
