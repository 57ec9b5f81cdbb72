import { assertEquals, assertThrows } from "@std/assert";
import { backendOf, manager } from "../../../../backend/internal.ts";
import { OpenCLError, withFaults } from "../../../../ffi/mod.ts";
import { Tensor } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";

testOpenCL("OpenCLBackend: a long sum whose second launch fails holds no memory", () => {
  const device = manager.default("cl");
  const { memory } = backendOf(device);
  using x = Tensor.ones([1 << 20], { device }).realize();
  assertEquals(x.sum().itemSync(), 1 << 20);
  const before = memory.stats.requestedBytes;
  for (const nth of [1, 2]) {
    assertThrows(
      () =>
        withFaults([{ call: "clEnqueueNDRangeKernel", nth, status: -5 }], () => x.sum().realize()),
      OpenCLError,
      "CL_OUT_OF_RESOURCES",
    );
    assertEquals(memory.stats.requestedBytes, before);
  }
});
