/** Values that a gradient needs beside learned tensors stay, whatever becomes of their tensors. */
import { assertEquals } from "@std/assert";
import { nn, Tensor } from "../../../mod.ts";
import { testOnCPU } from "../../opencl.ts";

interface Constants {
  readonly at: Tensor;
  readonly mask: Tensor;
  readonly labels: Tensor;
  readonly shares: Tensor;
}

function constants(): Constants {
  const whole = { dtype: "int32" } as const;
  return {
    at: Tensor.fromHost([[0, 1, 2], [1, 1, 1]], whole).add(0),
    mask: Tensor.fromHost([1, 0, 1]).gt(0),
    labels: Tensor.fromHost([1, 0, 2, 1], whole).add(0),
    shares: Tensor.fromHost([[0.25, 0.5, 0.25]]).add(0),
  };
}

const programs: Readonly<Record<string, (x: Tensor, c: Constants) => Tensor>> = {
  gather: (x, { at }) => x.gather(0, at),
  scatter: (x, { at }) => x.scatter(0, at, x.slice([0, 2])),
  scatterAdd: (x, { at }) => x.scatterAdd(0, at, x.slice([0, 2])),
  indexSelect: (x, { labels }) => x.indexSelect(0, labels),
  indexAdd: (x, { labels }) => x.indexAdd(0, labels, x),
  index: (x, { labels }) => x.index([labels]),
  indexPut: (x, { labels }) => x.indexPut([labels], x.mul(2), { accumulate: true }),
  maskedFill: (x, { mask }) => x.maskedFill(mask, 0),
  where: (x, { mask }) => mask.where(x, x.mul(2)),
  crossEntropy: (x, { labels }) => x.crossEntropy(labels),
  nll: (x, { labels }) => nn.nll(x.logSoftmax(1), labels),
  bce: (x, { shares }) => nn.bce(x.sigmoid(), shares.expand([4, 3])),
  mul: (x, { shares }) => x.mul(shares),
};

testOnCPU("tensors that a gradient reads may be disposed of before backward", async () => {
  const data = [[0.5, -1, 2], [1, 0.25, -0.5], [3, 2, 1], [0, 0.5, 1]];
  const gradient = async (program: typeof programs[string], isDisposed: boolean) => {
    const x = Tensor.fromHost(data, { requiresGrad: true }), c = constants();
    const all = Object.values(c) as Tensor[];
    for (const tensor of all) tensor.realize();
    const y = program(x, c).realize(), loss = y.square().sum();
    await loss.item();
    if (isDisposed) { for (const tensor of all) tensor.dispose(); }
    loss.backward();
    return x.grad!.toArray();
  };
  for (const [name, program] of Object.entries(programs)) {
    assertEquals(await gradient(program, true), await gradient(program, false), name);
  }
});
