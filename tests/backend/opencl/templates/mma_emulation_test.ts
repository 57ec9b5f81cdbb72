/** Kernels of matrix units hold against the built-in backend, on any device: their instructions are emulated. */
import { convolution, numbers } from "./few_digits.ts";
import type { MmaTile } from "../../../../backend/tile/programs/matrix_gemm.ts";
import type { DType, Tensor } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";
import { holdsOnUnits, withEmulatedUnits } from "./matrix_unit_emulation.ts";

/** Small tiles of four warps, so that there are many edges and short texts. */
const tiles: Readonly<Record<2 | 4, MmaTile>> = {
  2: { bm: 32, bn: 64, bk: 32, wm: 16, wn: 32, stages: 2 },
  4: { bm: 64, bn: 32, bk: 16, wm: 32, wn: 16, stages: 3 },
};

/** Stands for a tuning: for every shape on matrix units the small tile. */
class SmallTiles extends Map<string, { tile: MmaTile; parts: number }> {
  override get(key: string) {
    if (!key.startsWith("matrix-units")) return undefined;
    return { tile: tiles[key.startsWith("matrix-units16") ? 2 : 4], parts: 1 };
  }
}

type Make = (dtype: DType) => Tensor;

/** Of float32 these are as many products as matrix units are asked for at least. */
const cases: Readonly<Record<string, Make>> = {
  "a product of odd sizes": (t) => numbers(t, 161, 167).matmul(numbers(t, 167, 163)),
  "both operands transposed": (t) =>
    numbers(t, 168, 160).transpose().matmul(numbers(t, 170, 168).transpose()),
  "heads in the middle": (t) => {
    const q = numbers(t, 4, 108, 5, 40).transpose(1, 2);
    return q.matmul(q.transpose(-1, -2));
  },
  "every second row, reversed columns": (t) =>
    numbers(t, 400, 168).slice([null, null, 2]).matmul(numbers(t, 168, 130).flip([1])),
  "a convolution": convolution([3, 17, 19, 21], [33, 17, 3, 3], { padding: 1 }, "value"),
  "a convolution in steps": convolution([5, 16, 33, 31], [34, 16, 3, 3], {
    stride: 2,
    padding: 1,
  }, "value"),
  "a dilated convolution in groups": convolution([3, 32, 21, 20], [64, 16, 3, 3], {
    groups: 2,
    dilation: 2,
    padding: 2,
  }, "value"),
  "the gradient of an image": convolution([3, 33, 19, 21], [17, 33, 3, 3], { padding: 1 }, "image"),
  "the gradient of a weight": convolution(
    [3, 33, 19, 21],
    [34, 33, 3, 3],
    { padding: 1 },
    "weight",
  ),
};

/** A CPU takes seconds for the larger ones: each type is tried where its kernels differ from those of others. */
const namesOf: Readonly<Partial<Record<DType, readonly string[]>>> = {
  float32: ["a product of odd sizes", "a convolution in steps", "the gradient of a weight"],
  float16: Object.keys(cases),
  bfloat16: ["a convolution"],
};

const limits: Partial<Record<DType, number>> = { float32: 3e-6, float16: 2e-3, bfloat16: 1.6e-2 };

for (const dtype of ["float32", "float16", "bfloat16"] as const) {
  testOpenCL(`kernels of matrix units compute ${dtype} right, on emulated units`, () => {
    const change = { matrixUnits: "mma", warpgroups: false, tuned: new SmallTiles() } as const;
    return withEmulatedUnits(change, async (texts) => {
      for (const name of namesOf[dtype]!) {
        const make = cases[name]!, limit = limits[dtype]!;
        await holdsOnUnits({ name, dtype, make, texts, sign: "MMA_", limit });
      }
    });
  });
}
