/** Eigenvalues and vectors of matrices that are divided into parts: what is left out, turned, and put behind. */
import { assert } from "@std/assert";
import { linalg, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

type Real = "float32" | "float64";

const transposed = (x: Tensor): Tensor => x.transpose(-1, -2);
const largest = (x: Tensor): number => x.abs().max().itemSync();

/** Matrices of `n` rows by what their parts do. */
function matrices(n: number, dtype: Real): Record<string, Tensor> {
  const place = Tensor.arange(n).cast(dtype),
    diagonal = linalg.diag(Tensor.ones([n - 1], { dtype }), 1);
  const beside = diagonal.add(transposed(diagonal));
  // Numbers from -1 to 1, the same on every device.
  const some = place.unsqueeze(-1).mul(place.add(1)).mul(1.7).sin(), ten = place.div(10).floor();
  const isInBlock = ten.unsqueeze(-1).eq(ten).cast(dtype);
  return {
    "that differ": some.add(transposed(some)),
    "of small numbers": some.add(transposed(some)).mul(1e-18),
    "of two on the diagonal": beside.sub(Tensor.eye(n, { dtype }).mul(2)),
    "of pairs (Wilkinson)": linalg.diag(place.sub((n - 1) / 2).abs()).add(beside),
    "of blocks": some.add(transposed(some)).mul(isInBlock),
    "that are a diagonal": linalg.diag(place),
    "of rank 2": some.slice(null, [0, 1]).matmul(transposed(some.slice(null, [0, 1])))
      .add(Tensor.ones([n, n], { dtype }).mul(3)),
    "of zeros": Tensor.zeros([n, n], { dtype }),
  };
}

/** Checks values and vectors; `error` is of the largest value. */
function check(a: Tensor, error: number, title: string): void {
  const { values, vectors } = linalg.eigh(a), n = a.shape.at(-1)!;
  const size = largest(values) || 1;
  const back = vectors.mul(values.div(size).unsqueeze(-2)).matmul(transposed(vectors));
  const inner = transposed(vectors).matmul(vectors);
  const far = largest(back.sub(a.div(size))),
    skew = largest(inner.sub(Tensor.eye(n, { dtype: a.dtype })));
  assert(far <= error, `${title}: the matrix is given back to ${far}`);
  assert(skew <= error, `${title}: vectors are orthonormal to ${skew}`);
  const last = values.slice(null, [1, n]), first = values.slice(null, [0, n - 1]);
  assert(last.sub(first).min().itemSync() >= 0, `${title}: values ascend`);
}

testOnBackends("tridiagonalEigen of parts of one size and of rows behind the last", () => {
  for (const n of [34, 131]) {
    for (const [dtype, error] of [["float32", 2e-5], ["float64", 2e-14]] as const) {
      const all = matrices(n, dtype), title = `${dtype}, ${n} rows`;
      const batch = Tensor.stack(Object.values(all)).realize();
      for (const [k, name] of Object.keys(all).entries()) {
        check(batch.slice([k, k + 1]), error, `matrices ${name}, ${title}`);
      }
      check(
        Tensor.concat([batch.slice([0, 1]), batch.slice([3, 5])], 0),
        error,
        `a batch, ${title}`,
      );
    }
  }
});

testOnBackends("tridiagonalEigen of numbers that are none ends", () => {
  const { values } = linalg.eigh(Tensor.full([70, 70], NaN));
  assert(values.ne(values).all().itemSync());
});
