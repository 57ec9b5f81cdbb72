/** A value that one kernel multiplies and adds: it must be there before. */
import { assertAlmostEquals, assertEquals } from "@std/assert";
import { Tensor, withDevice } from "../../mod.ts";
import { testOnBackends } from "../opencl.ts";

testOnBackends("what a product reads is not computed by the product's kernel", async (backend) => {
  await withDevice(backend, async () => {
    const x = Tensor.fromHost(Float32Array.from({ length: 6 * 8 }, (_, k) => k / 50), {
      shape: [6, 8],
    });
    const twice = Tensor.eye(8).mul(2).realize();
    const z = x.exp();
    const y = z.add(z.matmul(twice).tanh().add(z));
    const expected = Array.from({ length: 48 }, (_, k) => {
      const v = Math.exp(k / 50);
      return 2 * v + Math.tanh(2 * v);
    });
    const values = [...await y.toHost()].map(Number);
    assertEquals(values.length, 48);
    values.forEach((v, k) => assertAlmostEquals(v, expected[k]!, 1e-5));
  });
});
