/** An index or label out of range is an error at the next read, also where a gradient alone is read. */
import { assert, assertRejects, assertThrows } from "@std/assert";
import { compile, nn, Tensor } from "../../../mod.ts";
import { hasOpenCL, testOnBackends } from "../../opencl.ts";

const ints = (...values: number[]): Tensor => Tensor.fromHost(Int32Array.from(values));
const labels = (): Tensor => ints(0, 9);

/** Losses of a matrix [2, 3], each with an index that it does not have. */
const losses: Record<string, (w: Tensor) => Tensor> = {
  "crossEntropy": (w) => w.crossEntropy(labels()),
  "a negative label": (w) => w.crossEntropy(ints(0, -9)),
  "crossEntropy without a reduction": (w) => w.crossEntropy(labels(), { reduction: "none" }).sum(),
  "crossEntropy, smoothed": (w) => w.crossEntropy(labels(), { labelSmoothing: 0.1 }),
  "crossEntropy with labels to ignore": (w) => w.crossEntropy(labels(), { ignoreIndex: 0 }),
  "crossEntropy with weights": (w) => w.crossEntropy(labels(), { weight: Tensor.ones([3]) }),
  "nll": (w) => nn.nll(w.logSoftmax(1), labels()),
  "gather": (w) => w.gather(1, labels().reshape([2, 1])).sum(),
  "indexSelect": (w) => w.indexSelect(0, labels()).sum(),
  "embedding": (w) => w.embedding(labels()).sum(),
  "index": (w) => w.index([labels()]).sum(),
  "scatter into it": (w) => w.scatter(0, labels().reshape([2, 1]), Tensor.ones([2, 1])).sum(),
  "scatterAdd into it": (w) => w.scatterAdd(0, labels().reshape([2, 1]), Tensor.ones([2, 1])).sum(),
  "scatter of it": (w) => Tensor.zeros([2, 3]).scatter(0, ints(0, 9, 0).reshape([1, 3]), w).sum(),
  "scatterAdd of it": (w) =>
    Tensor.zeros([2, 3]).scatterAdd(0, ints(0, 9, 0).reshape([1, 3]), w).sum(),
};

testOnBackends("a copy on another device tells of an index out of range", (backend) => {
  const other = backend === "cpu" && hasOpenCL ? "cl" : "cpu";
  const w = Tensor.ones([2, 3]);
  assertThrows(() => losses["embedding"]!(w).to(other).itemSync(), RangeError, "out of range");
});

testOnBackends("a gradient that is read alone tells of an index out of range", async () => {
  for (const isCompiled of [false, true]) {
    for (const [name, loss] of Object.entries(losses)) {
      const w = Tensor.ones([2, 3], { requiresGrad: true });
      const plain = (): void => {
        w.grad = null;
        loss(w).backward();
      };
      const step = isCompiled ? compile(plain) : plain;
      for (let call = 0; call < (isCompiled ? 2 : 1); call++) {
        const read = (): Promise<unknown> => (step(), w.grad!.toHost());
        const error = await assertRejects(async () => await read(), RangeError);
        assert(/9 is (none|out of range)/.test(error.message), `${name}: ${error.message}`);
      }
    }
  }
});
