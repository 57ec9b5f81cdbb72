/** Random numbers in vectors are those of the other backends, bit for bit, wherever an element stands. */
import { assertStringIncludes } from "@std/assert";
import { noGrad, Tensor, withDevice } from "../../../../mod.ts";
import { testOpenCL, testVectors } from "../../../opencl.ts";
import { assertSameOnBoth } from "../both.ts";

/** Draws, and the ways to read them: the counters of lanes are 1, or more, or fewer than 0 apart. */
const draws: Record<string, () => Tensor> = {
  "a part of a vector": () => Tensor.rand([17]),
  "many work-items": () => Tensor.rand([41, 1003]),
  "columns as rows": () => Tensor.rand([60, 37]).permute([1, 0]),
  "every second element": () => Tensor.rand([30, 66]).slice([1, null, 2], [1, null, 2]),
  "from the end": () => Tensor.rand([30, 40]).flip(1),
  "counters about 2^32": () => Tensor.rand([2 ** 33]).slice([2 ** 32 - 5, 2 ** 32 + 60]),
  "columns that many apart": () =>
    Tensor.rand([2 ** 13, 2 ** 20]).slice([4090, 4100], [0, null, 1 << 15]),
  "summed along rows": () => Tensor.rand([20, 48]).gt(0.5).cast("int32").sum(1),
  "summed along columns": () => Tensor.rand([20, 48]).gt(0.5).cast("int32").sum(0),
  "whole numbers": () => Tensor.randint(-5, 1000, [300]),
};

testOpenCL("random numbers in vectors are the reference's", () => assertSameOnBoth(draws));

testVectors("random numbers are drawn in vectors", () => {
  withDevice("cl", () =>
    noGrad(() => {
      const x = Tensor.ones([64, 100]).realize();
      for (const t of [Tensor.rand([50]), x.mul(Tensor.rand(x.shape).gt(0.5)), x.bernoulli()]) {
        assertStringIncludes(t.explain(), "philox_16(");
      }
    }));
});
