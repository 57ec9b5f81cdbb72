/** Reflections of several blocks. */
import { assert, assertEquals } from "@std/assert";
import { linalg, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

const largest = (x: Tensor): number => x.abs().max().itemSync();

testOnBackends("factored and productOf give matrices of several blocks back", () => {
  for (const [m, n] of [[300, 290], [290, 300], [600, 40]] as const) {
    const rows = Tensor.arange(m).cast("float64"), columns = Tensor.arange(n).cast("float64");
    const a = rows.unsqueeze(-1).mul(columns.add(1)).mul(1.7).sin().realize();
    for (const mode of ["reduced", "complete"] as const) {
      const { q, r } = linalg.qr(a, { mode }), title = `${m} x ${n}, ${mode}`;
      const one = Tensor.eye(q.shape[1]!, { dtype: "float64" });
      assert(largest(q.matmul(r).sub(a)) < 1e-12, `${title}: Q R`);
      assert(largest(q.transpose().matmul(q).sub(one)) < 1e-13, `${title}: orthonormal columns`);
      assertEquals(largest(r.tril(-1)), 0, `${title}: a triangle`);
    }
  }
});

testOnBackends("blocksOf has the reflections of LAPACK's form, fewer of them than columns", () => {
  const dtype = "float64", [m, n] = [200, 150];
  const w = Tensor.arange(m * n).cast(dtype).mul(1.7).sin().reshape([m, n]).div(9);
  const v = w.tril(-1).add(Tensor.eye(m, { dtype }).slice(null, [0, n])).realize();
  const tau = v.square().sum(0).reciprocal().mul(2).realize();
  for (const count of [0, 20, 150]) {
    let product = Tensor.eye(m, { dtype }).slice(null, [0, n]);
    for (let k = count - 1; k >= 0; k--) {
      const one = v.slice(null, [k, k + 1]), share = tau.slice([k, k + 1]);
      product = product.sub(one.mul(share).matmul(one.transpose().matmul(product))).realize();
    }
    const q = linalg.householder(w, tau.slice([0, count]));
    assert(largest(q.sub(product)) < 1e-13, `${count} reflections`);
  }
});
