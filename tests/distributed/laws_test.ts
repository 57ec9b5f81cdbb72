import { hasOpenCL } from "../opencl.ts";
import { assertGood, hasMpirun, mpirun } from "./mpirun.ts";

for (
  const [ranks, device, reduceOn] of [
    [2, "cl", "host"],
    [3, "cpu", "device"],
  ] as const
) {
  Deno.test({
    name: `${ranks} ranks on "${device}", adding up on the ${reduceOn}, learn what one learns: ` +
      "shards, parts of batches, tied weights, missing gradients, half types, statistics of all",
    ignore: !hasMpirun || device === "cl" && !hasOpenCL,
    fn: async () => assertGood(await mpirun(ranks, "laws_program.ts", [device, reduceOn]), ranks),
  });
}
