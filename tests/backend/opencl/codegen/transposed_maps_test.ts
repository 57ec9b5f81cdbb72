/** Maps that read operands across: squares are transposed, whatever is left of them at the edges. */
import { assertStringIncludes } from "@std/assert";
import { noGrad, Tensor, withDevice } from "../../../../mod.ts";
import { testOpenCL, testVectors } from "../../../opencl.ts";
import { assertSameOnBoth } from "../both.ts";

function counted(...shape: number[]): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  return Tensor.arange(size).remainder(8191).reshape(shape).cast("float32").realize();
}

const maps: Record<string, () => Tensor> = {
  "whole squares and parts": () => counted(130, 135).transpose(0, 1).contiguous(),
  "all axes reversed": () => counted(9, 10, 17, 21).permute([3, 2, 1, 0]).contiguous(),
  "beside what is read along": () =>
    counted(130, 135).transpose(0, 1).mul(counted(130)).add(counted(135, 130)),
  "two across, and a cast": () =>
    counted(129, 129).transpose(0, 1).sub(counted(129, 129).mul(2).realize().transpose(0, 1)).cast(
      "float16",
    ),
  "a part of it, from the end": () =>
    counted(140, 150).flip(0).transpose(0, 1).slice([3, 145], [5, 137]).contiguous(),
  "images as rows of channels": () => counted(3, 70, 9, 9).permute([0, 2, 3, 1]).contiguous(),
};

testOpenCL("maps that read across have the reference's values", () => assertSameOnBoth(maps));

testVectors("large transpositions turn squares", () => {
  const make = () => counted(200, 100).transpose(0, 1).contiguous();
  assertStringIncludes(withDevice("cl", () => noGrad(() => make().explain())), "transpose_16(");
});
