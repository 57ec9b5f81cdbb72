/** Kernels by warpgroups hold against the built-in backend, on any device: their instructions are emulated. */
import type { WgmmaTile } from "../../../../backend/opencl/templates/wgmma/wgmma_tile.ts";
import { assertEquals } from "@std/assert";
import { type DType, Tensor } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";
import { convolution, numbers } from "./few_digits.ts";
import { holdsOnUnits, withEmulatedUnits } from "./matrix_unit_emulation.ts";

/** Stands for a tuning: the same tile for every shape. */
class OneTile extends Map<string, { tile: WgmmaTile; parts: number }> {
  readonly #tile: WgmmaTile;

  constructor(tile: WgmmaTile) {
    super();
    this.#tile = tile;
  }

  override get(key: string) {
    return key.startsWith("warpgroups") ? { tile: this.#tile, parts: 1 } : undefined;
  }
}

type Make = (dtype: DType) => Tensor;

/** Each has another layout: channels are terms, or rows and columns; windows move in steps, apart, or not. */
const convolutions: Readonly<Record<string, Make>> = {
  "a convolution of odd sizes": convolution([1, 60, 7, 15], [64, 60, 3, 3], { padding: 1 }),
  "a dilated convolution in groups and steps": convolution([4, 64, 9, 6], [128, 32, 3, 1], {
    groups: 2,
    dilation: 2,
    padding: 1,
    stride: 2,
  }),
  "a convolution of single pixels in steps": convolution([4, 64, 8, 8], [64, 64, 1, 1], {
    stride: 2,
  }),
  "the gradient of an image, in steps": convolution([4, 64, 8, 8], [32, 64, 3, 3], {
    stride: 2,
    padding: 1,
  }, "image"),
  "the gradient of a weight, in steps": convolution([4, 36, 8, 8], [64, 36, 3, 3], {
    stride: 2,
    padding: 1,
  }, "weight"),
};

const cases: Readonly<Record<string, Make>> = {
  "sizes that fill no tile": (t) => numbers(t, 70, 136).matmul(numbers(t, 136, 72)),
  "both operands transposed, an odd number of columns": (t) =>
    numbers(t, 72, 136).transpose().matmul(numbers(t, 77, 72).transpose()),
  "a batch with a residual": (t) =>
    numbers(t, 3, 65, 64).matmul(numbers(t, 3, 64, 80)).add(numbers(t, 80)).relu()
      .add(numbers(t, 3, 65, 80)),
  "heads in the middle": (t) => {
    const q = numbers(t, 2, 66, 3, 64).transpose(1, 2);
    return q.matmul(q.transpose(-1, -2));
  },
  "wide rows": (t) => numbers(t, 70, 136).matmul(numbers(t, 136, 72)).add(numbers(t, 72)),
  "wide rows, both transposed, from an odd place on": (t) =>
    numbers(t, 73, 72).slice([1, 73]).transpose()
      .matmul(numbers(t, 81, 80).slice([1, 81], [8, 80]).transpose()),
  "wide rows, two products of one matrix": (t) => {
    const x = numbers(t, 70, 136);
    return Tensor.concat([x.matmul(numbers(t, 136, 72)), x.matmul(numbers(t, 136, 80)).add(1)], 1);
  },
  "products of their own operands, which share a launch": (t) => {
    const one = () => numbers(t, 72, 136).matmul(numbers(t, 136, 72));
    return Tensor.stack([one(), one(), one()]);
  },
  "a result that is stored transposed": (t) =>
    numbers(t, 72, 72).matmul(numbers(t, 72, 136)).transpose().mul(2).add(0),
};

const limits: Partial<Record<DType, number>> = { float32: 1e-6, float16: 2e-3, bfloat16: 1.6e-2 };

function holds(dtype: DType, name: string, texts: string[]): Promise<void> {
  const make = (cases[name] ?? convolutions[name])!;
  return holdsOnUnits({ name, dtype, make, texts, sign: "WG_COPY", limit: limits[dtype]! });
}

const small: WgmmaTile = { bm: 64, bn: 64, stages: 2 },
  two: WgmmaTile = { bm: 128, bn: 128, stages: 3 };
const plain = Object.keys(cases).filter((name) => !name.startsWith("wide"));
const wide = Object.keys(cases).filter((name) => name.startsWith("wide"));

const runs: readonly (readonly [what: string, DType, WgmmaTile, names: string[]])[] = [
  ["products of float16 in small tiles", "float16", small, plain],
  ["products of bfloat16 in tiles of two warpgroups", "bfloat16", two, plain.slice(0, 2)],
  ["products of float32 in six of bfloat16", "float32", small, wide],
  ["convolutions and their gradients", "float16", small, Object.keys(convolutions)],
];

for (const [what, dtype, tile, names] of runs) {
  testOpenCL(`emulated warpgroups compute ${what}`, () => {
    const tuned = new OneTile(tile);
    return withEmulatedUnits({ matrixUnits: "mma", warpgroups: true, tuned }, async (texts) => {
      for (const name of names) await holds(dtype, name, texts);
      const isShared = texts.some((text) => /parts_a = a\d/.test(text));
      assertEquals(isShared, dtype === "float32", "the second product has the parts of the first");
    });
  });
}
