import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { compile, distributed, nn, Tensor } from "../../mod.ts";
import { taperedGroups } from "../../tensor/distributed/exchange/bucket.ts";
import { testWay } from "./ways/test_ways.ts";

for (const [ranks, device] of [[2, "cl"], [4, "cpu"]] as const) {
  for (const where of ["host", "device"]) {
    testWay(
      `DataParallel: ${ranks} ranks on "${device}" that add up on the ${where} learn what one ` +
        "learns from everything",
      ranks,
      `data_parallel_program.ts?${device},${where}`,
    );
  }
}

for (const where of ["host", "device"]) {
  testWay(
    `DataParallel: gradients leave while a replay goes on, and add up on the ${where}`,
    2,
    `early_program.ts?cl,${where}`,
  );
}

/** As on a GPU: copies have queues of their own, and wait for kernels, or the host does for other ranks. */
const gates = (kind: string) => ({
  NETCL_GATES: kind,
  NETCL_TEST_APART: "1",
  // A kernel that waits keeps a thread of PoCL, and copies need one.
  ...kind === "kernels" && { POCL_MAX_PTHREAD_COUNT: "3", POCL_AFFINITY: "0" },
});
for (
  const [ranks, device, how, env] of [
    [2, "cl", "default", {}],
    [2, "cl", "device", gates("0")],
    [2, "cl", "device", gates("kernels")],
    [3, "cpu", "host", {}],
    [3, "cpu", "default", {}],
  ] as const
) {
  const kind = "NETCL_GATES" in env ? ` with gates ${env.NETCL_GATES}` : "";
  testWay(
    `${ranks} ranks on "${device}", adding up by ${how}${kind}, learn what one learns: shards, ` +
      "parts of batches, tied weights, missing gradients, half types, statistics of all",
    ranks,
    `laws_program.ts?${device},${how}`,
    { env },
  );
}
testWay(
  "DataParallel: gradients leave while a replay goes on, and devices wait for them by kernels",
  2,
  "early_program.ts?cl,device",
  { env: gates("kernels") },
);

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

Deno.test("buckets between devices are few, and the last is small: devices wait for that one", () => {
  const MiB = 2 ** 20, sizes = fc.array(fc.integer({ min: 1, max: 12 * MiB }), { maxLength: 60 });
  const bytesOf = (items: number[]) => items.reduce((sum, size) => sum + size, 0);
  fc.assert(fc.property(sizes, (sizes) => {
    const groups = taperedGroups(sizes, (size) => size);
    assertEquals(groups.flat(), sizes);
    let left = bytesOf(sizes);
    for (const group of groups) {
      const limit = Math.min(25 * MiB, Math.max(MiB, 0.75 * left));
      assert(group.length === 1 || bytesOf(group) <= limit);
      left -= bytesOf(group);
    }
    const last = groups.at(-1) ?? [];
    assert(last.length <= 1 || bytesOf(last) <= MiB);
  }));
  // A ResNet-18's gradients: 45 MB in the order of its backward, half of them in the first layers of it.
  const stages = [[9, 3], [4.5, 1], [2.25, 3], [1.125, 1], [0.5, 3], [0.25, 1], [0.1, 4], [
    0.01,
    1,
  ]];
  const resnet = stages.flatMap(([size, count]) => new Array<number>(count!).fill(size!));
  const groups = taperedGroups(resnet.map((size) => size * MiB), (size) => size);
  assert(groups.length <= 6 && bytesOf(groups.at(-1)!) <= MiB);
});
