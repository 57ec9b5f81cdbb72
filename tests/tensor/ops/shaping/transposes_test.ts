/** T, mT, dot and unfold where they are no matrices, and their errors. */
import { assertEquals, assertThrows } from "@std/assert";
import { ShapeError, Tensor } from "../../../../mod.ts";
import { testOnCPU } from "../../../opencl.ts";

testOnCPU("T reverses all axes, mT the last two; a vector stays one, as another tensor", () => {
  const x = Tensor.arange(0, 24).reshape([2, 3, 4]);
  assertEquals([x.T.shape, x.mT.shape], [[4, 3, 2], [2, 4, 3]]);
  assertEquals(x.T.toHostSync(), x.permute([2, 1, 0]).toHostSync());
  const vector = Tensor.ones([3]), same = vector.T;
  assertEquals(same !== vector, true);
  assertEquals(same.toHostSync(), Float32Array.of(1, 1, 1));
  assertThrows(() => vector.mT, ShapeError, "axis");
  assertThrows(() => x.dot(x), ShapeError, "two vectors of one length");
  assertThrows(() => x.unfold(1, 4, 1), ShapeError, "windows of 4: it has 3");
  assertThrows(() => x.unfold(1, 2, 0), RangeError, "step");
});
