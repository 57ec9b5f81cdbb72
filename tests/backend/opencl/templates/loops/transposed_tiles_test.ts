/** Maps that read operands across, on a GPU: by tiles, with the values of the built-in backend. */
import { assert, assertEquals } from "@std/assert";
import { planKernel } from "../../../../../backend/opencl/templates/generate.ts";
import { type DType, Tensor, withDevice } from "../../../../../mod.ts";
import { testOpenCL } from "../../../../opencl.ts";
import { withDeviceType } from "../../fixture.ts";
import { gpuTarget } from "../chosen_template.ts";
import { loopKernelsOf } from "../../../loop_kernels.ts";

/** The templates of what computes a tensor on a GPU. */
function templatesOf(make: () => Tensor): string[] {
  return loopKernelsOf(make, { target: gpuTarget, planKernel })
    .map((kernel) => planKernel(kernel, gpuTarget).name);
}

function counted(shape: readonly number[], dtype: DType = "float32"): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  return Tensor.arange(size).remainder(251).cast(dtype).reshape(shape).realize();
}

const works: readonly (readonly [name: string, make: () => Tensor])[] = [
  ["a matrix", () => counted([130, 161]).transpose().contiguous()],
  ["axes exchanged among others", () => counted([3, 70, 5, 33]).permute([2, 3, 0, 1]).contiguous()],
  ["a sum with what is transposed twice, and a row", () => {
    const x = counted([160, 130]);
    return counted([130, 160]).mul(2).add(x.transpose()).sub(x.transpose().add(counted([160])));
  }],
  ["bfloat16 padded around", () => {
    const x = counted([140, 150], "bfloat16").transpose();
    return x.pad([[1, 2], [3, 0]]).add(1);
  }],
  ["int64", () => counted([129, 140], "int64").transpose().contiguous()],
  [
    "float64 of every second column",
    () => counted([300, 129], "float64").slice([1, null, 2]).transpose().contiguous(),
  ],
];

Deno.test("transposedTiles takes large maps that read across, and no small ones", () => {
  for (const [name, make] of works) {
    assertEquals(templatesOf(make).at(-1), "transposed tiles", name);
  }
  for (const shape of [[8, 9], [9000, 3]]) {
    const names = templatesOf(() => counted(shape).transpose().contiguous());
    assert(!names.includes("transposed tiles"), `${shape}`);
  }
});

for (const [name, make] of works) {
  testOpenCL(`transposedTiles has the values of the built-in backend: ${name}`, async () => {
    const wanted = await withDevice("cpu", () => make().toHost());
    await withDeviceType("gpu", async () => assertEquals(await make().toHost(), wanted));
  });
}
