// Suite: alone; asks what all blocks of the process come to.
/** Records of operations live as long as somebody may go backward through them, and no longer. */
import { assertAlmostEquals, assertEquals } from "@std/assert";
import { grad, memory, nn, realizeAll, Tensor } from "../../../mod.ts";
import { isEager } from "../../../backend/internal.ts";
import { testOnBackends } from "../../opencl.ts";

function learned(): Tensor {
  const x = Tensor.fromHost([0.5, -1, 2, 1.5]).realize();
  x.requiresGrad = true;
  return x;
}

/** Growth of what is held, in bytes, after each of some turns since the first two. */
function growthOf(turn: () => void): number[] {
  const held = Array.from({ length: 6 }, () => {
    turn();
    return memory.stats().requestedBytes;
  });
  return held.slice(2).map((bytes) => bytes - held[1]!);
}

const flat = [0, 0, 0, 0];

testOnBackends("a record lives while what was computed from its results does", async () => {
  const x = learned(), { values, indices } = x.cummax(0);
  realizeAll([values, indices]);
  const y = values.mul(values);
  values.dispose();
  indices.dispose();
  y.realize();
  const [g] = grad([y], [x], { gradients: [y.onesLike()], createGraph: true });
  y.dispose();
  assertEquals(await g.toArray(), [2, 0, 8, 0]);
  const [second] = grad([g], [x], { gradients: [g.onesLike()] });
  assertEquals(await second.toArray(), [4, 0, 4, 0]);
});

testOnBackends("a record goes with the last result above it", () => {
  const x = learned();
  const grown = growthOf(() => {
    const h = x.exp().realize(), { values, indices } = h.sort(0), y = values.mul(h).realize();
    for (const made of [h, values, indices, y]) made.dispose();
  });
  if (!isEager()) assertEquals(grown, flat);
});

testOnBackends("a loss leaves no number on its way behind", () => {
  const x = learned(), target = x.detach().mul(2).realize();
  const half = x.detach().cast("float16").realize(), other = half.mul(2).realize();
  half.requiresGrad = true;
  const losses: Record<string, () => Tensor> = {
    smoothL1: () => nn.smoothL1(x, target, { beta: 0.5 }),
    klDiv: () => nn.klDiv(x, target, { reduction: "batchMean" }),
    triplet: () => nn.triplet(half, other, other),
    huber: () => nn.huber(x, target, { delta: 0.5 }),
  };
  for (const [name, lossOf] of Object.entries(losses)) {
    const grown = growthOf(() => {
      const loss = lossOf();
      loss.backward();
      const leaf = x.grad === null ? half : x;
      realizeAll([loss, leaf.grad!]);
      leaf.grad!.dispose();
      leaf.grad = null;
      loss.dispose();
    });
    if (!isEager()) assertEquals(grown, flat, name);
  }
});

testOnBackends("grad gives tensors of their own, also where a gradient goes through", async () => {
  const a = learned(), b = learned(), y = a.add(b), weights = y.detach().onesLike();
  const [ga, gb] = grad([y], [a, b], { gradients: [weights] });
  assertEquals(ga === gb, false);
  ga.dispose();
  assertEquals(await gb.toArray(), [1, 1, 1, 1]);
  gb.dispose();
  assertAlmostEquals(await weights.sum().item(), 4);
});
