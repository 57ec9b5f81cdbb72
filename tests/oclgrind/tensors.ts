/**
 * The kernels that netcl generates, on shapes that are small and not round, with buffers of exactly
 * the right size wherever the inputs come from here. For `check.ts`; on a device it only shows that
 * it runs.
 */
import { Buffer, device, manualSeed, nn, optim, Tensor } from "../../mod.ts";

using cl = device("cl");
const context = cl.context!, queue = cl.queue!;

/** A tensor over a buffer without a spare byte, so that one element too far is out of bounds. */
function exact(shape: readonly number[], scale = 1): Tensor {
  const size = shape.reduce((product, length) => product * length, 1);
  const data = Float32Array.from({ length: size }, (_, i) => Math.sin(i + 1) * scale);
  const buffer = new Buffer(context, data.byteLength, { data });
  return Tensor.fromBuffer(buffer, { shape, dtype: "float32" });
}

const cases: { readonly [name: string]: () => Tensor | Tensor[] } = {
  elementwise: () => exact([7, 5]).mul(exact([5])).add(exact([7, 1])).relu(),
  functions: () => {
    const x = exact([13]);
    return x.exp().add(x.tanh()).add(x.abs().sqrt()).add(x.sigmoid()).mul(x.gelu()).sub(x.silu());
  },
  compare: () => Tensor.where(exact([11]).gt(0), exact([11]), exact([1])),
  sums: () => [exact([3, 5, 7]).sum(), exact([3, 5, 7]).sum(1), exact([3, 5, 7]).mean([0, 2])],
  extremes: () => [exact([37]).max(), exact([5, 9]).argmax(1), exact([5, 9]).variance(0)],
  softmax: () => [exact([5, 17]).softmax(1), exact([5, 17]).logSoftmax(0)],
  cumsum: () => exact([3, 11]).cumsum(1),
  matmul: () => [
    exact([5, 7]).matmul(exact([7, 3])),
    exact([33, 17]).matmul(exact([17, 35])),
    exact([2, 3, 5]).matmul(exact([2, 5, 4])),
  ],
  views: () => [
    exact([4, 6]).transpose().slice([1, 5, 2]).flip(0).pad([[1, 2], [0, 1]]),
    Tensor.concat([exact([3, 2]), exact([1, 2])], 0).reshape([2, 4]),
    exact([3, 1]).expand([3, 5]).permute([1, 0]),
  ],
  indices: () => {
    const rows = Tensor.fromHost(new Int32Array([2, 0, 2]));
    return [
      exact([3, 5]).indexSelect(0, rows),
      Tensor.zeros([3, 5]).scatterAdd(0, rows.reshape([3, 1]).expand([3, 5]), exact([3, 5])),
      rows.oneHot(4),
    ];
  },
  convolution: () => {
    const x = exact([2, 3, 7, 6]);
    return [
      x.conv2d(exact([4, 3, 3, 3]), { bias: exact([4]), stride: 2, padding: 1 }),
      x.maxPool2d(2),
      x.avgPool2d(3, { stride: 1, padding: 1 }),
    ];
  },
  random: () => [Tensor.rand([19]), Tensor.randn([19])],
  casts: () => [exact([9], 10).cast("int32"), exact([9]).gt(0).cast("float32")],
};

/** One step of training: forward, backward and update. */
async function train(): Promise<void> {
  const model = new nn.Sequential(new nn.Linear(6, 10), new nn.ReLU(), new nn.Linear(10, 3));
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.01 });
  const labels = Tensor.fromHost(new Int32Array([0, 2, 1, 1, 0]));
  for (let step = 0; step < 2; step++) {
    const loss = model.forward(exact([5, 6])).crossEntropy(labels);
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    await loss.item();
  }
}

manualSeed(1);
const chosen = Deno.args.length > 0 ? Deno.args : [...Object.keys(cases), "train"];
for (const name of chosen) {
  if (name === "train") await train();
  else for (const tensor of [cases[name]!()].flat()) await tensor.toHost();
  await queue.finish();
  console.log(`${name} ran`);
}
