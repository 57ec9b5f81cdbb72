// Suite: first, optimized kernels; kernels that compute for longer than the optimizer takes.
/**
 * Attention by products of whole matrices, whose scores are computed again in `backward`: float64
 * everywhere, float32 where products are faster than tiles. Held against the operations as written.
 */
import { assert, assertEquals } from "@std/assert";
import {
  compile,
  grad,
  manager,
  manualSeed,
  memory,
  nn,
  realizeAll,
  Tensor,
} from "../../../../mod.ts";
import { backendOf, isEager } from "../../../../backend/internal.ts";
import { attentionWeights } from "../../../../tensor/nn/attention/scaled_dot_product_attention.ts";
import { dropout } from "../../../../tensor/nn/layers/dropout.ts";
import { stateOf } from "../../../../tensor/core/internals.ts";
import { withDeviceType } from "../../../backend/opencl/fixture.ts";
import { paperGPU, withPaperDevice } from "../../../backend/paper_device.ts";
import { testOnBackends, testOpenCL } from "../../../opencl.ts";
import { withCapabilities } from "../../capabilities.ts";

const LEAD = [5], QUERIES = 61, KEYS = 83, FEATURES = 13, VALUES = 7;

/** Tests as on devices that keep no scores for backward, however few they are. */
function testKeepingNone(name: string, run: () => void): void {
  testOnBackends(name, (backend) => withCapabilities(backend, { keptAttentionBytes: 0 }, run));
}

type Options = NonNullable<Parameters<typeof nn.scaledDotProductAttention>[3]>;

/** As the page of the operation says it. */
function written(q: Tensor, k: Tensor, v: Tensor, options: Options): Tensor {
  const weights = attentionWeights(q, k, options);
  return (options.dropout ? dropout(weights, options.dropout) : weights).matmul(v);
}

const masks: Record<string, () => Tensor | undefined> = {
  "no mask": () => undefined,
  "a mask of keys": () => Tensor.rand([KEYS]).gt(0.3).realize(),
  "a mask with rows that see nothing": () =>
    Tensor.rand([QUERIES, KEYS]).gt(0.2).logicalAnd(Tensor.rand([QUERIES, 1]).gt(0.3)).realize(),
  "numbers that are added": () => {
    const drawn = Tensor.rand([...LEAD, QUERIES, KEYS], { dtype: "float64" });
    return drawn.mul(3).maskedFill(drawn.gt(0.9), -Infinity).realize();
  },
};

function leaves(): Tensor[] {
  return [[QUERIES, FEATURES], [KEYS, FEATURES], [KEYS, VALUES]].map((shape) =>
    Tensor.randn([...LEAD, ...shape], { dtype: "float64", requiresGrad: true }).realize()
  );
}

function assertNear(found: Tensor, wanted: Tensor, what: string): void {
  assertEquals(found.shape, wanted.shape, what);
  const most = Math.max(1e-3, wanted.abs().max().itemSync());
  const error = found.sub(wanted).abs().max().itemSync();
  assert(error <= 1e-11 * most, `${what}: ${error} of ${most}`);
}

for (const [name, makeMask] of Object.entries(masks)) {
  for (const isCausal of [false, true]) {
    testKeepingNone(
      `${name}${isCausal ? ", causal" : ""}: values, gradients of the operations`,
      () => {
        manualSeed(11);
        const inputs = leaves(), mask = makeMask();
        const seed = Tensor.randn([...LEAD, QUERIES, VALUES], { dtype: "float64" }).realize();
        const results = [nn.scaledDotProductAttention, written].map((attend) => {
          const [q, k, v] = inputs as [Tensor, Tensor, Tensor];
          const y = attend(q, k, v, { isCausal, ...(mask && { mask }) });
          return [y, ...grad([y], inputs, { gradients: [seed] })];
        });
        assertEquals(stateOf(results[0]![0]!).gradFn?.name, "attention", "it is one operation");
        ["output", "query", "key", "value"].forEach((what, k) =>
          assertNear(results[0]![k]!, results[1]![k]!, what)
        );
      },
    );
  }
}

testKeepingNone("productAttention: the dropped weights are dropped in backward", () => {
  const [q, k, v] = leaves() as [Tensor, Tensor, Tensor];
  const results = [nn.scaledDotProductAttention, written].map((attend) => {
    manualSeed(5);
    const y = attend(q, k, v, { dropout: 0.4 });
    return [y, ...grad([y.square().sum()], [q, k, v])];
  });
  for (let at = 0; at < 4; at++) assertNear(results[0]![at]!, results[1]![at]!, `${at}`);
});

testKeepingNone("productAttention: second derivatives and compiled calls agree", () => {
  const [q, k, v] = leaves() as [Tensor, Tensor, Tensor];
  const results = [nn.scaledDotProductAttention, written].map((attend) => {
    const [first] = grad([attend(q, k, v, {}).square().sum()], [q], { createGraph: true });
    return grad([first!.square().sum()], [k])[0]!;
  });
  assertNear(results[0]!, results[1]!, "second");
  const step = (q: Tensor): Tensor => {
    const y = nn.scaledDotProductAttention(q, k, v, { isCausal: true });
    return grad([y.square().sum()], [k])[0]!;
  };
  const compiled = compile(step), wanted = step(q);
  for (let call = 0; call < 3; call++) assertNear(compiled(q), wanted, `call ${call}`);
});

/** No more scores are in memory than those of a layer or two. */
function holdsFewScores(): void {
  const { capabilities } = backendOf(manager.active), layers = 6;
  const has = (capabilities.attention as Set<string>).delete("float32");
  try {
    const [q, k, v] = [0, 1, 2].map(() =>
      Tensor.randn([16, 300, 8], { requiresGrad: true }).realize()
    ) as [Tensor, Tensor, Tensor];
    const scoreBytes = 16 * 300 * 300 * 4;
    const run = (): void => {
      let x = q;
      for (let layer = 0; layer < layers; layer++) x = nn.scaledDotProductAttention(x, k, v);
      for (const gradient of grad([x.square().sum()], [q, k, v])) gradient.realize().dispose();
    };
    run();
    const before = memory.stats().requestedBytes;
    memory.resetPeakStats();
    run();
    const scores = (memory.stats().peakRequestedBytes - before) / scoreBytes;
    // What a pass works on, twice in backward; with all layers' there are 6 more.
    assert(scores < 5, `${scores} times the scores of a layer`);
  } finally {
    if (has) (capabilities.attention as Set<string>).add("float32");
  }
}

testOnBackends("productAttention: scores of layers are not in memory side by side", () => {
  if (!isEager()) holdsFewScores();
});

testOpenCL("productAttention: scores of layers on a GPU do not wait for each other", () => {
  return withDeviceType("gpu", () => Promise.resolve(holdsFewScores()));
});

testOpenCL(
  "productAttention: a GPU has the scores of a few heads at a time, forward and backward",
  () => {
    const shape = [32, 8, 512, 32], scores = 32 * 8 * 512 * 512 * 4;
    const device = paperGPU({ warps: true, warpgroups: true, matrixUnits: "mma" });
    let peak = NaN;
    withPaperDevice(device, () => {}, () => {
      const inputs = Array.from({ length: 3 }, () => Tensor.zeros(shape).realize());
      for (const input of inputs) input.requiresGrad = true;
      const [q, k, v] = inputs as [Tensor, Tensor, Tensor];
      const gradients = [Tensor.ones(shape).realize()];
      const step = () => grad([nn.scaledDotProductAttention(q, k, v)], inputs, { gradients });
      for (const tensor of step()) tensor.realize().dispose();
      memory.resetPeakStats();
      const found = step();
      realizeAll(found);
      for (const tensor of found) tensor.dispose();
      peak = memory.stats().peakAllocated - memory.stats().bytesAllocated;
    }, { custom: () => {} });
    assert(peak < 2.5 * scores, `${peak} bytes for ${scores} bytes of scores`);
  },
);
