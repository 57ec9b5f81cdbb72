/** Kernels for warps, on devices that have none: rows in registers, and sorting by digits. */
import { assert, assertEquals } from "@std/assert";
import { Tensor, withDevice } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";
import { withEmulatedUnits } from "../templates/matrix_unit_emulation.ts";

const testWarps = (name: string, fn: (texts: string[]) => Promise<void>): void =>
  testOpenCL(name, () => withEmulatedUnits({ warps: true, matrixUnits: null }, fn));

/** Compares what warps make with what the built-in backend makes. */
async function compare(
  name: string,
  texts: string[],
  make: () => Tensor,
  limit = 0,
): Promise<void> {
  const wanted = await withDevice("cpu", () => make().toHost());
  texts.length = 0;
  const found = await make().toHost();
  assert(texts.some((text) => text.includes("WARP_")), `${name} is for warps`);
  assertEquals(found.length, wanted.length, name);
  wanted.forEach((v, k) => {
    const d = Math.abs(Number(found[k]) - Number(v));
    assert(d <= limit || Object.is(v, found[k]), `${name}: element ${k} is ${found[k]}, not ${v}`);
  });
}

const wave = (n: number) => Float32Array.from({ length: n }, (_, i) => Math.sin(i * 0.37) * 3);
const ids = (n: number, bound: number) =>
  Int32Array.from({ length: n }, (_, i) => (i * 7919 + (i >> 3)) % bound);

testWarps("work-items of a warp join their parts of a row, and warps of a group", async (texts) => {
  for (const [rows, length] of [[5, 65], [130, 128], [2, 5000]]) {
    const shape = [rows!, length!], n = rows! * length!;
    const x = () => Tensor.fromHost(wave(n), { shape });
    await compare(`softmax ${shape}`, texts, () => x().softmax(1), 1e-6);
    await compare(`whole ${shape}`, texts, () => {
      const whole = Tensor.fromHost(ids(n, 99), { shape });
      return whole.sub(whole.max(1, { keepDims: true }));
    });
  }
});

testWarps("sorting by digits keeps the order of equal keys of 8 and 32 bits", async (texts) => {
  const values = wave(15_000);
  values[7] = NaN;
  values[9000] = -Infinity;
  const floats = () => Tensor.fromHost(values);
  await compare("floats", texts, () => floats().argsort(0));
  await compare("floats from above", texts, () => floats().argsort(0, { descending: true }));
  await compare("rows", texts, () => floats().reshape([3, 5000]).argsort(1));
  const bytes = () => Tensor.fromHost(ids(2049, 90)).cast("uint8");
  await compare("bytes", texts, () => bytes().argsort(0));
  await compare("bytes from above", texts, () => bytes().argsort(0, { descending: true }));
});

testWarps("scatters sort their targets by as many digits as those have", async (texts) => {
  for (const targets of [1, 37, 1000]) {
    const make = (mode: "add" | "set") => () => {
      const n = 9000, base = Tensor.zeros([targets]);
      const index = Tensor.fromHost(ids(n, targets)), source = Tensor.fromHost(ids(n, 50));
      if (mode === "add") return base.scatterAdd(0, index, source.cast("float32"));
      return base.indexPut([index], source.cast("float32"));
    };
    await compare(`added to ${targets}`, texts, make("add"));
    await compare(`set in ${targets}`, texts, make("set"));
  }
});
