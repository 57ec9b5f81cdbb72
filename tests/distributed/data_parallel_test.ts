import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { compile, distributed, nn, Tensor } from "../../mod.ts";
import { taperedGroups } from "../../tensor/distributed/exchange/bucket.ts";
import { hasOpenCL } from "../opencl.ts";
import { assertGood, type Ended, hasMpirun, mpirun } from "./mpirun.ts";

/** Ways to run a program in the same ranks. */
class Ways {
  #ended: Promise<Ended> | undefined;

  constructor(
    readonly ranks: number,
    readonly program: string,
    readonly device: "cl" | "cpu",
    readonly ways: readonly string[],
  ) {}

  /** A test for each way; the first that runs has all of them run. */
  test(nameOf: (way: string) => string): void {
    for (const way of this.ways) {
      Deno.test({
        name: nameOf(way),
        ignore: !hasMpirun || this.device === "cl" && !hasOpenCL,
        fn: async () => assertGood(await this.#run(), this.ranks, `${this.device},${way}`),
      });
    }
  }

  #run(): Promise<Ended> {
    const args = [this.program, ...this.ways.map((way) => `${this.device},${way}`)];
    return this.#ended ??= mpirun(this.ranks, "ways/in_turn_program.ts", args);
  }
}

for (const [ranks, device] of [[2, "cl"], [4, "cpu"]] as const) {
  new Ways(ranks, "data_parallel_program.ts", device, ["host", "device"]).test((way) =>
    `DataParallel: ${ranks} ranks on "${device}" that add up on the ${way} learn what one ` +
    "learns from everything"
  );
}

new Ways(2, "early_program.ts", "cl", ["host", "device"]).test((way) =>
  `DataParallel: gradients leave while a replay goes on, and add up on the ${way}`
);

for (
  const [ranks, device, how] of [
    [2, "cl", "default"],
    // It changes what a device says before there is one: ranks of its own.
    [2, "cl", "device,without gates"],
    [3, "cpu", "host"],
  ] as const
) {
  new Ways(ranks, "laws_program.ts", device, [how]).test((way) =>
    `${ranks} ranks on "${device}", adding up by ${
      way.replace(",", " ")
    }, learn what one learns: ` +
    "shards, parts of batches, tied weights, missing gradients, half types, statistics of all"
  );
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
  const resnet = [
    9,
    9,
    9,
    4.5,
    2.25,
    2.25,
    2.25,
    1.125,
    0.5,
    0.5,
    0.5,
    0.25,
    0.1,
    0.1,
    0.1,
    0.1,
    0.01,
  ];
  const groups = taperedGroups(resnet.map((size) => size * MiB), (size) => size);
  assert(groups.length <= 6 && bytesOf(groups.at(-1)!) <= MiB);
});
