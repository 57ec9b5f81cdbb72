/** Gradients of a few of many rows: sums of those rows, which what reads them gathers. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { backendOf } from "../../../backend/internal.ts";
import {
  type BackendName,
  compile,
  type DType,
  grad,
  manager,
  manualSeed,
  nn,
  optim,
  profiler,
  Tensor,
} from "../../../mod.ts";
import { testOnBackends, testOnCPU, testOpenCL } from "../../opencl.ts";
import { withCapabilities } from "../capabilities.ts";
import { leaf } from "../numbers.ts";
import { learn } from "../training.ts";

/** Runs as on a device that gathers gradients, or on one that has them whole. */
function gathering<R>(name: BackendName, gathers: boolean, run: () => Promise<R>): Promise<R> {
  return withCapabilities(name, { gathersGradients: gathers }, run);
}

const rows = 2 ** 12;
/** Some twice, some often, the first and the last. */
const ids = (count: number): Tensor => {
  const id = (k: number) => k % 5 === 0 ? 7 : k % 7 === 0 ? rows - 1 : (k * 37) % rows;
  return Tensor.fromHost(Int32Array.from({ length: count }, (_, k) => id(k)));
};

const shapes: readonly (readonly number[])[] = [[rows, 65], [rows, 5, 13], [rows * 64]];

for (const dtype of ["float32", "float16", "bfloat16"] as const satisfies readonly DType[]) {
  testOnBackends(`gradients of few of many rows are those of all, in ${dtype}`, async (backend) => {
    for (const shape of shapes) {
      const gradient = async (gathers: boolean): Promise<unknown> => {
        manualSeed(5);
        const x = leaf(Tensor.rand(shape).cast(dtype).realize());
        const weights = Tensor.rand([301, ...shape.slice(1)]).cast(dtype).realize();
        return await gathering(backend, gathers, () => {
          const [found] = grad([x.indexSelect(0, ids(301)).mul(weights).sum()], [x]);
          return found!.cast("float32").toHost();
        });
      };
      assertEquals(await gradient(true), await gradient(false));
    }
  });
}

testOnBackends("an embedding learns the same where its gradient is gathered", async (backend) => {
  const learned = (gathers: boolean): Promise<unknown> =>
    gathering(backend, gathers, async () => {
      manualSeed(2);
      const table = new nn.Embedding(rows, 64, { paddingIndex: 7 });
      const optimizer = new optim.AdamW(table.parameters(), { lr: 0.1 });
      const step = (ids: Tensor) => learn(optimizer, table.forward(ids).square().sum());
      const compiled = compile(step), losses: number[] = [];
      for (const call of [step, step, compiled, compiled, compiled, step]) {
        losses.push(await call(ids(200)).item() as number);
      }
      const after = await table.weight.grad!.toHost();
      return [losses, await table.weight.toHost(), after];
    });
  assertEquals(await learned(true), await learned(false));
});

testOnCPU("second derivatives of picked rows", async () => {
  const x = leaf(Tensor.rand([rows, 64]).realize());
  const y = x.indexSelect(0, ids(9)).pow(3).sum();
  const [slope] = grad([y], [x], { createGraph: true });
  const [second] = grad([slope!.sum()], [x]);
  const picked = new Set(await ids(9).toArray() as number[]);
  const sums = await second!.sum(1).toArray() as number[];
  sums.forEach((sum, row) => assertEquals(sum !== 0, picked.has(row)));
});

testOpenCL("an embedding's update goes over its rows once", async () => {
  if (!backendOf(manager.default("cl")).capabilities.gathersGradients) return;
  const table = new nn.Embedding(rows, 64), picked = ids(100).realize();
  const optimizer = new optim.SGD(table.parameters(), { lr: 0.1 });
  const step = compile((ids: Tensor): Tensor => learn(optimizer, table.forward(ids).sum()));
  for (let k = 0; k < 3; k++) await step(picked).item();
  profiler.reset();
  await step(picked).item();
  // Rows are looked up, read and written: 7 times the weights with zeros and sums of all rows.
  const bytes = profiler.counters().bytesMoved, weights = rows * 64 * 4;
  assert(bytes < 4 * weights, `${bytes} bytes for ${weights}`);
});

testOnBackends("an index that no row has is an error of its gradient, too", async () => {
  const x = leaf(Tensor.rand([rows, 64]).realize());
  const [found] = grad([x.indexSelect(0, Tensor.fromHost(Int32Array.of(3, rows))).sum()], [x]);
  await assertRejects(() => found!.toArray(), RangeError, `${rows}`);
});
