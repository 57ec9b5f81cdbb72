import { assertEquals } from "@std/assert";
import { compile, distributed, nn, Tensor } from "../../mod.ts";
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
