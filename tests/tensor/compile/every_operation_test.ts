/**
 * Every function of `nn`, and what stands around operations, can be part of a compiled function; the
 * operations themselves are in `tests/conformance/compiled_test.ts`.
 */
import { assertEquals } from "@std/assert";
import {
  amp,
  checkpoint,
  compile,
  customGradient,
  fft,
  grad,
  nn,
  noGrad,
  optim,
  Tensor,
} from "../../../mod.ts";
import { testOnCPU } from "../../opencl.ts";
import { outcomesOf } from "./outcomes.ts";

const withAGrad = (x: Tensor) => Object.assign(x.realize(), { requiresGrad: true });
const ints = (...values: number[]) => Tensor.fromHost(new Int32Array(values)).realize();

const activations = [
  ...["celu", "glu", "hardshrink", "hardtanh", "relu6", "selu", "softshrink"] as const,
  ...["softsign", "tanhshrink"] as const,
];

/** A call for each function of nn; the test says which ones lack. */
const functions: Readonly<Record<string, (x: Tensor, y: Tensor) => Tensor>> = {
  affineGrid: (x) => nn.affineGrid(x.reshape([4, 2, 3]), [4, 1, 2, 2]),
  bce: (x, y) => nn.bce(x, y),
  bceWithLogits: (x, y) => nn.bceWithLogits(x, y),
  cosineEmbedding: (x, y) => nn.cosineEmbedding(x, y, Tensor.fromHost([1, -1, 1, -1])),
  cosineSimilarity: (x, y) => nn.cosineSimilarity(x, y),
  crossEntropy: (x) => nn.crossEntropy(x, ints(1, 2, 3, 0)),
  ctc: (x) => nn.ctc(x.reshape([4, 1, 6]).logSoftmax(-1), ints(1, 2).reshape([1, 2]), [4], [2]),
  fold: (x) => nn.fold(x.reshape([1, 4, 6]), [3, 4], 2),
  gridSample: (x, y) => nn.gridSample(x.reshape([1, 1, 4, 6]), y.reshape([1, 3, 4, 2])),
  huber: (x, y) => nn.huber(x, y),
  infoNCE: (x, y) => nn.infoNCE(x, y),
  klDiv: (x, y) => nn.klDiv(x.log(), y),
  l1: (x, y) => nn.l1(x, y),
  mse: (x, y) => nn.mse(x, y),
  nll: (x) => nn.nll(x.logSoftmax(1), ints(1, 2, 3, 0)),
  scaledDotProductAttention: (x, y) =>
    nn.scaledDotProductAttention(...[x, y, y].map((t) => t.reshape([1, 2, 2, 6])) as Triple),
  smoothL1: (x, y) => nn.smoothL1(x, y),
  threshold: (x) => nn.threshold(x, 0.5, 0.1),
  triplet: (x, y) => nn.triplet(x, y, x.add(y)),
  unfold: (x) => nn.unfold(x.reshape([1, 1, 4, 6]), 2),
  ...Object.fromEntries(activations.map((name) => [name, (x: Tensor) => nn[name](x)])),
};
type Triple = [Tensor, Tensor, Tensor];

/** Functions that make something else than tensors from tensors, or none from none. */
const others = ["parameter", "buffer"];

const square = customGradient((x) => x.square(), (g, [x]) => [g.mul(x!).mul(2)]);
const doubled = (x: Tensor) => x.exp().mul(2);

/** Cases that are no functions of nn: other functions, options that take another way, layers with state. */
const calls: Readonly<Record<string, (x: Tensor, y: Tensor) => Tensor>> = {
  "positive weights": (x, y) => nn.bceWithLogits(x, y, { positiveWeight: Tensor.ones([6]) }),
  "a target that wants gradients": (x, y) => nn.bceWithLogits(y, x),
  checkpoint: (x) => checkpoint(doubled, x),
  customGradient: (x) => square(x),
  grad: (x) => grad([x.square().sum()], [x])[0]!.mul(x),
  autocast: (x, y) => amp.autocast("bfloat16", () => x.matmul(y.transpose())),
  noGrad: (x) => x.mul(noGrad(() => x.sum())),
  detach: (x) => x.mul(x.mul(2).detach()),
  clipGradNorm: (x) => {
    x.square().sum().backward();
    const norm = optim.clipGradNorm([x], 1);
    x.grad = null;
    return norm.mul(x);
  },
  "random numbers": (x) => x.mul(Tensor.randn([4, 6])).add(x.randLike()).add(x.bernoulli()),
  "made in the call": (x) => x.mul(Tensor.arange(6)).add(Tensor.eye(6).sum()).add(x.onesLike()),
  rfft: (x) => fft.rfft(x).absSquare(),
  "fft and ifft": (x, y) =>
    fft.ifft(fft.fft(x, { axis: 0 }).mul(fft.fft(y, { axis: 0 })), { axis: 0 }).real,
  irfft: (x) => fft.irfft(fft.fftshift(fft.rfft(x), [0]), { n: 6 }),
  dct: (x) => fft.dct(x),
  stft: (x) => fft.stft(x.flatten(), { n: 8 }).abs(),
  RotaryEmbedding: (x) => new nn.RotaryEmbedding(6).forward(x.reshape([1, 1, 4, 6])),
};

Deno.test("every function of nn is tried in compiled functions", () => {
  const isFunction = (value: unknown) =>
    typeof value === "function" && !/^class/.test(Function.prototype.toString.call(value));
  const there = Object.entries(nn).filter(([, value]) => isFunction(value)).map(([name]) => name);
  const known = [...Object.keys(functions), ...others];
  assertEquals(there.toSorted(), known.toSorted());
});

for (const [name, fn] of [...Object.entries(functions), ...Object.entries(calls)]) {
  testOnCPU(`calls of a compiled function are replayed: ${name}`, () => {
    const x = withAGrad(Tensor.rand([4, 6]).mul(0.8).add(0.1)), y = Tensor.rand([4, 6]).realize();
    const step = compile((y: Tensor) => {
      const loss = fn(x, y).sum();
      x.grad = null;
      loss.backward();
      return loss;
    });
    const outcomes = outcomesOf(() => [0, 1, 2, 3].forEach(() => step(y).dispose()));
    // The first call may find other gradients than the later ones.
    assertEquals(outcomes.slice(-2), ["followed", "followed"]);
  });
}
