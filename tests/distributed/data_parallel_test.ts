import { assertEquals } from "@std/assert";
import { compile, distributed, nn, Tensor } from "../../mod.ts";
import { hasOpenCL } from "../opencl.ts";
import { assertGood, hasMpirun, mpirun } from "./mpirun.ts";

for (const [ranks, device] of [[2, "cl"], [4, "cpu"]] as const) {
  Deno.test({
    name: `DataParallel: ${ranks} ranks on "${device}" learn what one learns from everything`,
    ignore: !hasMpirun || device === "cl" && !hasOpenCL,
    fn: async () => assertGood(await mpirun(ranks, "data_parallel_program.ts", [device]), ranks),
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
