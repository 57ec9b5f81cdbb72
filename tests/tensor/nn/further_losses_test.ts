/** Losses of probabilities, of vectors and of sequences, against PyTorch. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { compile, manualSeed, nn, optim, ShapeError, Tensor } from "../../../mod.ts";
import { assertClose, fixture } from "../../fixtures/pytorch.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { learn } from "../training.ts";

type Reduction = "mean" | "sum" | "none" | "batchMean";
type Loss = (inputs: readonly Tensor[], reduction: Reduction) => Tensor;

/** The losses of `fixtures/pytorch/further_losses.py`. */
const losses: Readonly<Record<string, Loss>> = {
  nll: ([x, t], r) => nn.nll(x!, t!, { reduction: some(r) }),
  nll_weight: ([x, t, weight], r) =>
    new nn.NLLLoss({ reduction: some(r), weight: weight!, ignoreIndex: 2 }).forward(x!, t!),
  nll_images: ([x, t], r) => nn.nll(x!, t!, { reduction: some(r) }),
  bce: ([x, t], r) => nn.bce(x!, t!, { reduction: some(r) }),
  bce_edges: ([x, t], r) => nn.bce(x!, t!, { reduction: some(r) }),
  bce_weight: ([x, t, weight], r) =>
    new nn.BCELoss({ reduction: some(r), weight: weight! }).forward(x!, t!),
  kl: ([x, t], reduction) => nn.klDiv(x!, t!, { reduction }),
  kl_log: ([x, t], reduction) => new nn.KLDivLoss({ reduction, logTarget: true }).forward(x!, t!),
  smooth_l1: ([x, t], r) => nn.smoothL1(x!, t!, { reduction: some(r), beta: 0.5 }),
  smooth_l1_zero: ([x, t], r) =>
    new nn.SmoothL1Loss({ reduction: some(r), beta: 0 }).forward(x!, t!),
  cosine: ([x, y]) => nn.cosineSimilarity(x!, y!),
  cosine_axis: ([x, y]) => nn.cosineSimilarity(x!, y!, { axis: 0, eps: 1e-3 }),
  cosine_embedding: ([x, y, t], r) =>
    new nn.CosineEmbeddingLoss({ reduction: some(r), margin: 0.1 }).forward(x!, y!, t!),
  triplet: ([x, y, z], r) => nn.triplet(x!, y!, z!, { reduction: some(r) }),
  triplet_swap: ([x, y, z], r) =>
    nn.triplet(x!, y!, z!, { reduction: some(r), margin: 2, p: 1, swap: true }),
  triplet_p3: ([x, y, z], r) =>
    new nn.TripletMarginLoss({ reduction: some(r), p: 3 }).forward(x!, y!, z!),
  info_nce: ([x, y], r) => nn.infoNCE(x!, y!, { reduction: some(r), temperature: 0.2 }),
  info_nce_negatives: ([x, y, negatives], r) =>
    nn.infoNCE(x!, y!, { reduction: some(r), temperature: 0.2, negatives: negatives! }),
  ctc: ([x, t, i, s], r) => nn.ctc(x!.logSoftmax(-1), t!, i!, s!, { reduction: some(r) }),
  ctc_zero: ([x, t, i, s], r) =>
    new nn.CTCLoss({ reduction: some(r), zeroInfinity: true })
      .forward(x!.logSoftmax(-1), t!, i!, s!),
};

function some(reduction: Reduction): "mean" | "sum" | "none" {
  assert(reduction !== "batchMean");
  return reduction;
}

for (const [name, loss] of Object.entries(losses)) {
  testOnBackends(`the loss ${name} and its gradient are PyTorch's`, async (backend) => {
    const run = await fixture("further_losses", backend);
    const inputs = Object.keys(run).filter((key) => key.startsWith(`${name}.input.`)).sort()
      .map((key) => run[key]!);
    for (const reduction of ["mean", "sum", "none", "batchMean"] as const) {
      const prefix = `${name}.${reduction.toLowerCase()}`;
      if (!run[`${prefix}.loss`]) continue;
      const input = inputs[0]!.detach();
      input.requiresGrad = true;
      const value = loss([input, ...inputs.slice(1)], reduction);
      value.sum().backward();
      await assertClose(value, run[`${prefix}.loss`]!, 1e-5, `${prefix} loss`);
      await assertClose(input.grad!, run[`${prefix}.gradient`]!, 1e-5, `${prefix} gradient`);
    }
  });
}

testOnBackends("where no sample has labels, blanks are all there is", async () => {
  const none = Tensor.zeros([2, 0], { dtype: "int32" });
  const scores = Tensor.zeros([3, 2, 4]).logSoftmax(-1);
  const losses = nn.ctc(scores, none, [3, 1], [0, 0], { reduction: "none" });
  await assertClose(losses, Tensor.fromHost([3 * Math.log(4), Math.log(4)]), 1e-6, "blanks");
});

testOnBackends("labels that do not fit into their input are infinitely unlikely", async () => {
  const scores = Tensor.zeros([2, 1, 3]).logSoftmax(-1);
  const labels = Tensor.fromHost(Int32Array.of(1, 1), { shape: [1, 2] });
  assertEquals(await nn.ctc(scores, labels, [2], [2]).item(), Infinity);
  assertEquals(await nn.ctc(scores, labels, [2], [2], { zeroInfinity: true }).item(), 0);
});

testOnBackends("a compiled step learns by crossEntropy of weighted probabilities", async () => {
  manualSeed(8);
  const layer = new nn.Linear(4, 3), x = Tensor.randn([6, 4]).realize();
  const target = Tensor.randn([6, 3]).mul(3).softmax(1).realize();
  const weight = Tensor.fromHost([1, 2, 3]);
  const sgd = new optim.SGD(layer.parameters(), { lr: 0.3 });
  const step = compile((input: Tensor) => {
    return learn(sgd, () => layer.forward(input).crossEntropy(target, { weight }));
  });
  const losses: number[] = [];
  for (let k = 0; k < 15; k++) losses.push(await step(x).item());
  assert(losses.at(-1)! < 0.8 * losses[0]!, `${losses}`);
});

testOnCPU("further losses name what does not fit", () => {
  const x = Tensor.ones([2, 3]), y = Tensor.ones([3]);
  const labels = Tensor.zeros([2], { dtype: "int32" });
  assertThrows(() => nn.klDiv(x, y), ShapeError, "klDiv");
  assertThrows(
    () => nn.nll(x, labels, { weight: Tensor.ones([2]) }),
    ShapeError,
    "nll with a weight",
  );
  assertThrows(() => x.crossEntropy(y), ShapeError, "labels are integers");
  assertThrows(() => x.crossEntropy(x, { ignoreIndex: 1 }), TypeError, "ignoreIndex 1");
  assertThrows(() => nn.triplet(x, x, y), ShapeError, "triplet");
  assertThrows(() => nn.cosineEmbedding(x, x, y), ShapeError, "[N, D] and [N]");
  assertThrows(() => nn.ctc(x, labels, [1], [1]), ShapeError, "[T, N, C]");
  assertThrows(() => nn.infoNCE(x, x, { negatives: y }), ShapeError, "[M, D]");
});

testOnBackends("klDiv hides no NaN in its gradients, and an infinity makes none", async () => {
  const x = Tensor.fromHost([-1, 0, -Infinity, -1, -2], { requiresGrad: true });
  const y = Tensor.fromHost([NaN, NaN, 1, 0, 1], { requiresGrad: true });
  nn.klDiv(x, y, { reduction: "sum" }).backward();
  assertEquals(await y.grad!.toArray(), [NaN, NaN, Infinity, 1, 3]);
  assertEquals(await x.grad!.toArray(), [NaN, NaN, -1, -0, -1]);
});

testOnBackends("NLLLoss: its weight moves with the module, and is no state", (backend) => {
  const loss = new nn.NLLLoss({ weight: Tensor.ones([3], { device: "cpu" }) }).to(backend);
  assertEquals([`${loss.weight!.device.backend}`, Object.keys(loss.stateDict())], [backend, []]);
  assertThrows(
    () => new nn.KLDivLoss({ reduction: "max" as "sum" }),
    TypeError,
    "Cannot make a KLDivLoss",
  );
});
