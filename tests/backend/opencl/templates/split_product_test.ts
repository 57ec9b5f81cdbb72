import { assertEquals, assertStringIncludes } from "@std/assert";
import { Tensor, withDevice } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";

testOpenCL(
  "a long sum with few results is computed in parts, with what follows it",
  () =>
    withDevice("cl", async () => {
      const n = 60_000;
      const a = Tensor.arange(n * 4).remainder(3).reshape([n, 4]).cast("float32").realize();
      const b = Tensor.arange(n * 20).remainder(5).reshape([n, 20]).cast("float32").realize();
      const bias = Tensor.arange(20).cast("float32");
      const product = a.transpose().matmul(b).add(bias).mul(2);
      assertStringIncludes(product.explain(), "_part");
      const result = await product.toHost();
      for (const [i, j] of [[0, 0], [1, 7], [3, 19]] as const) {
        let sum = 0;
        for (let k = 0; k < n; k++) sum += ((k * 4 + i) % 3) * ((k * 20 + j) % 5);
        assertEquals(result[i * 20 + j], (sum + j) * 2);
      }
    }),
);

testOpenCL(
  "a sum of a prime number of terms is computed in one",
  () =>
    withDevice("cl", async () => {
      const n = 65_537;
      const a = Tensor.ones([n, 4]).realize();
      const product = a.transpose().matmul(a);
      assertEquals([...await product.toHost() as Float32Array], new Array(16).fill(n));
    }),
);
