/** `bytesMoved` counts what kernels read and write, the same on every backend. */
import { assertEquals } from "@std/assert";
import { nn, noGrad, profiler, Tensor, withDevice } from "../../../mod.ts";
import { isEager } from "../../../backend/internal.ts";
import { testOnBackends } from "../../opencl.ts";

const KB = 1024, MB = 1024 * KB;

/** Of a second run: what has waited on the host comes back in the first. */
function bytesOf(compute: () => Tensor): number {
  const run = (): void => noGrad(() => compute().realize()).dispose();
  run();
  profiler.reset();
  run();
  return profiler.counters().bytesMoved;
}

testOnBackends("bytesMoved counts each element that is read once, and the results", (name) => {
  if (isEager()) return; // every operation is a kernel of its own
  withDevice(name, () => {
    const a = Tensor.rand([1024, 1024]).realize(), b = Tensor.rand([1024, 1024]).realize();
    const table = new nn.Embedding(4096, 256), ids = Tensor.fromHost(Int32Array.of(7)).realize();
    table.weight.realize();
    assertEquals(bytesOf(() => a.add(b)), 3 * 4 * MB);
    assertEquals(bytesOf(() => a.matmul(b)), 3 * 4 * MB);
    // The row, where it goes, and which it is.
    assertEquals(bytesOf(() => table.forward(ids) as Tensor), 2 * KB + 4);
  });
});
