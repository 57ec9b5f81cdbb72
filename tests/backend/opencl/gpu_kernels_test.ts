/** Kernels that are written for GPUs, run on whatever device there is. */
import { assert, assertEquals } from "@std/assert";
import { Tensor, withDevice } from "../../../mod.ts";
import { testOpenCL } from "../../opencl.ts";
import { withDeviceType } from "./fixture.ts";

const withGpu = (fn: () => Promise<void>): Promise<void> => withDeviceType("gpu", fn);

/** Compares what a device makes with what the built-in backend makes. */
async function compare(name: string, make: () => Tensor, limit = 1e-6): Promise<void> {
  const wanted = await withDevice("cpu", () => make().toHost()) as Float32Array;
  const found = await make().toHost() as Float32Array;
  assertEquals(found.length, wanted.length, name);
  const scale = wanted.reduce((most, v) => Math.max(most, Math.abs(Number(v))), 1);
  wanted.forEach((v, k) => {
    const d = Math.abs(Number(found[k]) - Number(v));
    assert(d <= limit * scale, `${name}: element ${k} is ${found[k]}, not ${v}`);
  });
}

const wave = (n: number, step = 0.37) =>
  Float32Array.from({ length: n }, (_, i) => Math.sin(i * step));
const ids = (n: number, bound: number) =>
  Int32Array.from({ length: n }, (_, i) => (i * 7919 + (i >> 3)) % bound);

testOpenCL(
  "a GPU's scatter of shared indices adds the rows of an index in order",
  () =>
    withGpu(async () => {
      for (
        const [rows, columns, count] of [[50, 3, 7], [2500, 130, 5], [3000, 5, 4000], [1, 1, 1]]
      ) {
        const make = (mode: "scatterAdd" | "indexSelect") => () => {
          const index = Tensor.fromHost(ids(rows!, count!));
          const source = Tensor.fromHost(wave(rows! * columns!), { shape: [rows!, columns!] });
          const base = Tensor.fromHost(wave(count! * columns!, 0.1), { shape: [count!, columns!] });
          if (mode === "scatterAdd") {
            return base.scatterAdd(0, index.unsqueeze(1).expand([rows!, columns!]), source);
          }
          const table = Tensor.fromHost(wave(count! * columns!), { shape: [count!, columns!] });
          table.requiresGrad = true;
          table.indexSelect(0, index).mul(source).sum().backward();
          return table.grad!;
        };
        await compare(`indexSelect's gradient, ${rows} into ${count}`, make("indexSelect"));
        await compare(`scatterAdd, ${rows} into ${count}`, make("scatterAdd"));
      }
    }),
);

testOpenCL(
  "a GPU reduces few long rows in parts, along any of the loops",
  () =>
    withGpu(async () => {
      const x = () => Tensor.fromHost(wave(4 * 3 * 6000), { shape: [4, 3, 6000] }).add(0.5);
      await compare("over the outer and the inner axis", () => x().mul(2).sum([0, 2]), 2e-6);
      await compare("a few long rows", () => x().sum([2]), 2e-6);
      await compare("the whole", () => x().sum(), 2e-6);
      await compare("variance", () => x().variance([0, 2]), 1e-5);
      await compare("normalized", () => {
        const t = x();
        return t.sub(t.mean([0, 2], { keepDims: true }))
          .div(t.variance([0, 2], { keepDims: true }).add(1e-5).sqrt());
      }, 1e-5);
      await compare("short rows", () => x().reshape([-1, 100]).softmax(1), 2e-6);
      await compare("the greatest", () => x().reshape([40, -1]).argmax(1));
    }),
);

testOpenCL("a GPU's tiles multiply elements of every type", () =>
  withGpu(async () => {
    for (const dtype of ["float16", "bfloat16", "int32", "int64"] as const) {
      const make = () => {
        const a = Tensor.fromHost(ids(70 * 33, 9), { shape: [70, 33] }).cast(dtype);
        const b = Tensor.fromHost(ids(33 * 40, 7), { shape: [33, 40] }).cast(dtype);
        return a.matmul(b).cast("float32");
      };
      await compare(dtype, make, 1e-2);
    }
  }));
