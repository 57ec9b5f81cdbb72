/** Kernels that are written for GPUs, run on whatever device there is. */
import { assert, assertEquals } from "@std/assert";
import { Tensor, withDevice } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";
import { withDeviceType } from "../fixture.ts";

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

testOpenCL(
  "a GPU finds the first of the best elements of few long rows in parts, of every type, NaN before all",
  () =>
    withGpu(async () => {
      const coarse = (n: number) => wave(n).map((v) => Math.round(v * 50) + 60);
      for (const shape of [[70_001], [2, 65_539], [3, 300, 100]]) {
        for (const dtype of ["float32", "float16", "bfloat16", "uint8", "int64"] as const) {
          const n = shape.reduce((a, b) => a * b, 1);
          const x = () => Tensor.fromHost(coarse(n), { shape }).cast(dtype);
          const axis = shape.length - 1;
          await compare(`argmax of ${dtype} ${shape}`, () => x().argmax(axis));
          await compare(`argmin of ${dtype} ${shape}`, () => x().argmin(axis));
          await compare(`argmax of all of ${dtype} ${shape}`, () => x().argmax());
        }
      }
      for (const spots of [[5], [5, 60_000], [69_999, 69_998]]) {
        const values = coarse(70_001);
        for (const at of spots) values[at] = NaN;
        await compare(`argmax with NaN at ${spots}`, () => Tensor.fromHost(values).argmax(0));
        await compare(`argmin with NaN at ${spots}`, () => Tensor.fromHost(values).argmin(0));
      }
      const none = () => Tensor.full([70_001], -Infinity).contiguous();
      await compare("argmax where all are equal", () => none().argmax(0));
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

testOpenCL(
  "a GPU's tiles read convolutions of any geometry, masked, strided, in groups, of odd sizes",
  () =>
    withGpu(async () => {
      const cases = [
        { image: [3, 5, 13, 17], weight: [7, 5, 3, 3], options: { padding: 1 } },
        { image: [2, 6, 11, 9], weight: [8, 3, 5, 3], options: { groups: 2, padding: [2, 0] } },
        { image: [2, 4, 19, 15], weight: [4, 1, 3, 3], options: { groups: 4, stride: 2 } },
        { image: [1, 3, 33, 20], weight: [65, 3, 7, 7], options: { stride: 2, padding: 3 } },
        { image: [2, 9, 12, 12], weight: [10, 9, 3, 3], options: { dilation: 2, padding: 2 } },
        { image: [5, 37, 7, 7], weight: [33, 37, 1, 1], options: { stride: 2 } },
      ] as const;
      for (const c of cases) {
        const { image, weight, options } = c;
        // A CPU's driver takes seconds to build such a kernel: few of the combinations stand for all.
        const isFirst = cases.indexOf(c) === 0;
        for (const dtype of isFirst ? ["float32", "bfloat16"] as const : ["float32"] as const) {
          const name = `${dtype} ${image} by ${weight}, ${JSON.stringify(options)}`;
          const run = (part: "value" | "image" | "weight") => () => {
            const size = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
            const of = (shape: readonly number[], step: number) =>
              Tensor.fromHost(wave(size(shape), step), { shape: [...shape] }).cast(dtype).realize();
            const x = of(image, 0.37), w = of(weight, 0.21);
            x.requiresGrad = w.requiresGrad = true;
            const y = x.conv2d(w, options).relu();
            if (part !== "value") y.backward(of(y.shape, 0.53));
            const found = part === "value" ? y : part === "image" ? x.grad! : w.grad!;
            return found.cast("float32");
          };
          const limit = dtype === "float32" ? 2e-6 : 2e-2;
          for (const part of isFirst ? ["value", "image", "weight"] as const : ["value"] as const) {
            await compare(`${part} of ${name}`, run(part), limit);
          }
        }
      }
    }),
);
