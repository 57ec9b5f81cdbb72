// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
/** Results of operations are the caller's to dispose of, also where it had nothing to do. */
import { assertEquals } from "@std/assert";
import { einsum, memory, nn, Tensor } from "../../mod.ts";
import { isEager } from "../../backend/internal.ts";
import { testOnBackends } from "../opencl.ts";

/** Large enough to be in device memory. */
const N = 64;

const ofMatrix: Record<string, (x: Tensor) => Tensor> = {
  reshape: (x) => x.reshape([N, N]),
  expand: (x) => x.expand([N, N]),
  "expand by -1": (x) => x.expand([-1, -1]),
  slice: (x) => x.slice(),
  "slice of all": (x) => x.slice(null, [0, N]),
  sliceAssign: (x) => x.sliceAssign([[0, 0]], 5),
  permute: (x) => x.permute([0, 1]),
  transpose: (x) => x.transpose(1, 1),
  squeeze: (x) => x.squeeze(),
  "squeeze of one axis": (x) => x.squeeze(0),
  flip: (x) => x.flip([]),
  pad: (x) => x.pad([[0, 0], [0, 0]]),
  roll: (x) => x.roll(N * N),
  repeat: (x) => x.repeat([1, 1]),
  split: (x) => x.split(N)[0]!,
  chunk: (x) => x.chunk(1)[0]!,
  index: (x) => x.index([null, null]),
  repeatInterleave: (x) => x.repeatInterleave(1, 0),
  einsum: (x) => einsum("ij->ij", x),
  flatten: (x) => x.flatten(0, 0),
  concat: (x) => Tensor.concat([x]),
  sum: (x) => x.sum([]),
  prod: (x) => x.prod([]),
  max: (x) => x.max([]),
  min: (x) => x.min([]),
  clamp: (x) => x.clamp(),
  contiguous: (x) => x.contiguous(),
  "Dropout in use": (x) => new nn.Dropout(0.5).eval().forward(x),
  "Dropout of nothing": (x) => new nn.Dropout(0).forward(x),
  Flatten: (x) => new nn.Flatten().forward(x),
};

for (const [name, fn] of Object.entries(ofMatrix)) {
  testOnBackends(`${name} returns a tensor of its own`, () => {
    using x = Tensor.arange(N * N, { dtype: "float32" }).reshape([N, N]).realize();
    x.requiresGrad = true;
    const before = memory.stats().numAllocs;
    {
      using y = fn(x);
      if (name !== "contiguous" && !isEager()) {
        y.realize();
        assertEquals(memory.stats().numAllocs, before, "the memory is shared");
      }
      y.mul(3).sum().backward();
    }
    assertEquals(x.disposed, false);
    assertEquals(x.slice(0, -1).itemSync(), N - 1);
    assertEquals(x.grad!.sum().itemSync(), 3 * N * N);
  });
}

testOnBackends("scalars, vectors and what is empty have tensors of their own, too", () => {
  const scalar = Tensor.fromHost(2), vector = Tensor.fromHost([1, 2]);
  const truth = Tensor.fromHost(true), empty = Tensor.zeros([0, 2]);
  const cases: [Tensor, Tensor][] = [
    [scalar, scalar.sum()],
    [scalar, scalar.max()],
    [scalar, scalar.sort().values],
    [truth, truth.any()],
    [truth, truth.all()],
    [vector, vector.transpose()],
    [empty, empty.softmax()],
    [empty, empty.logSoftmax()],
    [empty, empty.roll(1)],
    [empty, empty.chunk(2)[0]!],
    [vector, Tensor.meshgrid([vector])[0]!],
    [vector, vector.chunk(1)[0]!],
    [vector, vector.clone()],
    [vector, vector.unsqueeze(0).unbind()[0]!],
  ];
  for (const [x, y] of cases) {
    y.dispose();
    assertEquals(x.disposed, false);
    assertEquals(x.toHostSync().length, x.size);
  }
});
