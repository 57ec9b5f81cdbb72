// Suite: first; takes long.
import { assert, assertEquals } from "@std/assert";
import {
  checkpoint,
  compile,
  type DType,
  grad,
  manager,
  manualSeed,
  memory,
  nn,
  realizeAll,
  Tensor,
  withDevice,
} from "../../../mod.ts";
import { backendOf } from "../../../backend/internal.ts";
import { runCollector } from "../../../memory/mod.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { testOnBackends, testOpenCL } from "../../opencl.ts";
import { withCapabilities } from "../capabilities.ts";
import { assertNumbers, leaf, numbersOf } from "../numbers.ts";
import { withDeviceType } from "../../backend/opencl/fixture.ts";
import { kernelsOf } from "../training.ts";

const attend = nn.scaledDotProductAttention;

// Few scores are several operations there, being faster; here they are to be the one operation.
const { capabilities } = backendOf(manager.default("cpu"));
(capabilities as { minAttentionScores: number }).minAttentionScores = 0;

/** The sizes and options of a case. */
interface Case {
  readonly lead: readonly number[];
  /** Queries, keys, features of both, features of values. */
  readonly sizes: readonly [queries: number, keys: number, features: number, values: number];
  readonly mask?: "bool" | "added" | "padding" | "closed rows";
  readonly isCausal?: boolean;
  readonly dropout?: number;
  readonly dtype?: DType;
}

const isCausal = true;
const cases: Record<string, Case> = {
  plain: { lead: [2, 3], sizes: [70, 70, 16, 16] },
  "odd sizes": { lead: [3], sizes: [33, 77, 13, 7] },
  "few queries": { lead: [2], sizes: [5, 130, 13, 7] },
  causal: { lead: [2], sizes: [130, 130, 8, 8], isCausal },
  "causal, more keys": { lead: [2], sizes: [40, 90, 8, 8], isCausal },
  "causal, fewer keys": { lead: [2], sizes: [90, 40, 8, 8], isCausal },
  "bool mask": { lead: [2, 2], sizes: [40, 65, 16, 16], mask: "bool" },
  "added mask": { lead: [2, 2], sizes: [40, 65, 16, 16], mask: "added" },
  padding: { lead: [2, 2], sizes: [40, 65, 16, 16], mask: "padding" },
  "closed rows": { lead: [2], sizes: [20, 30, 16, 16], mask: "closed rows", isCausal },
  dropout: { lead: [2], sizes: [40, 65, 16, 16], dropout: 0.3 },
  "dropout, causal": { lead: [2, 2], sizes: [65, 65, 16, 16], dropout: 0.5, isCausal },
  float16: { lead: [2], sizes: [70, 50, 24, 40], dtype: "float16" },
  bfloat16: { lead: [2], sizes: [70, 50, 24, 40], dtype: "bfloat16" },
  "whole vectors of features": { lead: [2, 2], sizes: [150, 100, 48, 20], isCausal },
  "large features": { lead: [1], sizes: [20, 20, 129, 200] },
};

function maskOf({ mask, lead, sizes: [queries, keys] }: Case): Tensor | null {
  if (!mask) return null;
  if (mask === "padding") return Tensor.rand([lead[0]!, 1, 1, keys]).gt(0.3).realize();
  const drawn = Tensor.rand([lead.at(-1)!, queries, keys]);
  if (mask === "bool") return drawn.gt(0.4).realize();
  if (mask === "added") return drawn.mul(4).maskedFill(drawn.gt(0.8), -Infinity).realize();
  const isOpen = Tensor.rand([queries, 1]).gt(0.5);
  return drawn.gt(0.2).logicalAnd(isOpen).realize();
}

/** Output and gradients, computed in the given type: float64 takes several operations. */
function attention(
  leaves: readonly Tensor[],
  seed: Tensor,
  mask: Tensor | null,
  each: Case,
): Tensor[] {
  manualSeed(7);
  const [q, k, v] = leaves as [Tensor, Tensor, Tensor];
  const { isCausal = false, dropout = 0 } = each;
  const output = attend(q, k, v, { ...(mask && { mask }), isCausal, dropout });
  return [output, ...grad([output], leaves, { gradients: [seed] })];
}

/** The same value, to be differentiated by. */
function leafOf(x: Tensor): Tensor {
  return leaf(x.detach().realize());
}

/** The same in float64, where attention takes several operations: built in, where they need no compiler. */
function wide(x: Tensor): Tensor {
  return x.detach().to("cpu").cast("float64");
}

async function assertNear(found: Tensor, expected: Tensor, within: number, what: string) {
  assertEquals(found.shape, expected.shape, what);
  const scale = Math.max(1e-3, await expected.abs().max().item());
  const error = await wide(found).sub(expected).abs().max().item();
  assert(error <= within * scale, `${what}: ${error} of ${scale}`);
}

async function agrees(name: string, each: Case): Promise<void> {
  manualSeed(3);
  const { lead, sizes: [queries, keys, features, values], dtype = "float32" } = each;
  const draw = (...shape: number[]): Tensor => Tensor.randn(shape).cast(dtype).realize();
  const given = [
    draw(...lead, queries, features),
    draw(...lead, keys, features),
    draw(...lead, keys, values),
  ];
  const seed = draw(...lead, queries, values), mask = maskOf(each);
  const leaves = given.map(leafOf);
  const found = attention(leaves, seed, mask, each);
  const wides = given.map((x) => leafOf(wide(x)));
  const expected = withDevice("cpu", () => {
    return attention(wides, wide(seed), mask && mask.to("cpu"), each);
  });
  const within = { float32: 2e-6, float16: 2e-3, bfloat16: 1.6e-2 }[dtype as "float32"];
  for (const [k, what] of ["output", "query", "key", "value"].entries()) {
    assertEquals(found[k]!.dtype, dtype);
    await assertNear(found[k]!, expected[k]!, within, `${name}, ${what}`);
  }
}

for (const [name, each] of Object.entries(cases)) {
  testOnBackends(`attention in one operation, ${name}: float64 agrees`, () => agrees(name, each));
}

testOpenCL("all gradients of a head are one kernel where heads are spread over the cores", () => {
  const { deviceType } = manager.default("cl");
  if (deviceType === "gpu") return;
  const leaves = Array.from({ length: 3 }, () => leafOf(Tensor.rand([64, 8, 16])));
  const [q, k, v] = leaves as [Tensor, Tensor, Tensor];
  const gradients = [Tensor.rand([64, 8, 16]).realize()];
  const run = (): void => realizeAll(grad([attend(q, k, v)], leaves, { gradients }));
  run();
  // Attention, the sums of its output times the gradient, all gradients.
  assertEquals(kernelsOf(run), 3);
});

testOpenCL("attention in one operation: what GPUs without matrix units run agrees", () => {
  return withDeviceType("gpu", async () => {
    for (const name of ["odd sizes", "causal, more keys", "closed rows", "dropout", "float16"]) {
      await agrees(name, cases[name]!);
    }
  });
});

/** Leaves of so many heads that begin as rows of one projection, as MultiheadAttention has them. */
function heads(x: Tensor, count: number): Tensor[] {
  const [n, l, width] = x.shape as [number, number, number];
  return x.split(width / 3, -1).map((part) =>
    part.reshape([n, l, count, width / 3 / count]).transpose(1, 2)
  );
}

testOnBackends("attention in one operation reads heads where they lie", async () => {
  manualSeed(5);
  const x = Tensor.randn([2, 21, 3 * 24], { requiresGrad: true }).realize();
  const [found, expected] = [x, leafOf(wide(x))].map((x) => {
    const [q, k, v] = heads(x, 3) as [Tensor, Tensor, Tensor];
    const y = attend(q, k, v, { isCausal: true }).transpose(1, 2).reshape([2, 21, 24]);
    return [y, ...grad([y.square().sum()], [x])];
  });
  await assertNear(found![0]!, expected![0]!, 2e-6, "output");
  await assertNear(found![1]!, expected![1]!, 2e-6, "gradient");
});

testOnBackends("attention in one operation: keys of fewer heads broadcast", async () => {
  manualSeed(5);
  const shapes = [[2, 2, 3, 20, 8], [2, 2, 1, 30, 8], [2, 2, 1, 30, 8]];
  const leaves = shapes.map((shape) => Tensor.randn(shape, { requiresGrad: true }).realize());
  const wides = leaves.map((x) => leafOf(wide(x)));
  const [found, expected] = [leaves, wides].map(([q, k, v]) => {
    const y = attend(q!, k!, v!);
    return [y, ...grad([y.square().sum()], [q!, k!, v!])];
  });
  for (let k = 0; k < 4; k++) await assertNear(found![k]!, expected![k]!, 2e-6, `${k}`);
});

/** Matrix units have tiles of attention for half types only. */
function typeInOneOperation(backend: string): "float32" | "float16" {
  const { attention } = backendOf(manager.default(backend)).capabilities;
  return attention.has("float32") ? "float32" : "float16";
}

testOnBackends("attention in one operation: its peak grows with the length", async (backend) => {
  const dtype = typeInOneOperation(backend);
  // What other tests left must not go meanwhile.
  runCollector();
  await new Promise((resolve) => setTimeout(resolve, 0));
  const peaks = [1024, 2048].map((l) => {
    const leaves = [0, 1, 2].map(() => leafOf(Tensor.randn([4, l, 8]).cast(dtype)));
    memory.resetPeakStats();
    const before = memory.stats().currentAllocated;
    const [q, k, v] = leaves as [Tensor, Tensor, Tensor];
    const output = attend(q, k, v, { isCausal: true });
    const found = grad([output.square().sum()], leaves).map((g) => g.realize());
    const peak = memory.stats().peakAllocated - before;
    for (const x of [...found, ...leaves]) x.dispose();
    return peak;
  });
  // The built-in backend has room for the scores of a tile, of a fixed size.
  const tile = backend === "cpu" ? 4 * 4 * 2 ** 20 : 0;
  assert(peaks[1]! <= 2.2 * peaks[0]! + tile, `${peaks}`);
  assert(peaks[1]! < 4 * 2048 * 2048, `${peaks}`);
});

testOnBackends("attention in one operation: compiled steps draw dropout anew", async () => {
  const q = Tensor.ones([2, 20, 8], { requiresGrad: true }).realize();
  const step = (): Tensor => {
    const y = attend(q, q, q, { dropout: 0.5 });
    return grad([y.sum()], [q])[0]!;
  };
  const compiled = compile(step);
  const run = async (fn: () => Tensor): Promise<number[][]> => {
    manualSeed(11);
    const found: number[][] = [];
    for (let k = 0; k < 4; k++) found.push(await fn().flatten().toNumbers() as number[]);
    return found;
  };
  const eager = await run(step), replayed = await run(compiled);
  assertEquals(replayed, eager);
  assert(`${eager[2]}` !== `${eager[3]}`);
});

testOnBackends("attention in one operation: checkpoints and second derivatives", async () => {
  manualSeed(5);
  const leaves = [0, 1, 2].map(() => Tensor.randn([2, 9, 4], { requiresGrad: true }).realize());
  const wides = leaves.map((x) => leafOf(wide(x)));
  const [found, expected] = [leaves, wides].map((leaves) => {
    const [q, k, v] = leaves as [Tensor, Tensor, Tensor];
    const first = grad([attend(q, k, v).square().sum()], leaves, { createGraph: true });
    return grad([first.map((g) => g.square().sum()).reduce((a, b) => a.add(b))], leaves);
  });
  for (let k = 0; k < 3; k++) await assertNear(found![k]!, expected![k]!, 1e-5, `second ${k}`);
  manualSeed(9);
  const [q, k, v] = leaves as [Tensor, Tensor, Tensor];
  const plain = grad([attend(q, k, v, { dropout: 0.2 }).sum()], leaves);
  manualSeed(9);
  const again = (q: Tensor, k: Tensor, v: Tensor): Tensor => attend(q, k, v, { dropout: 0.2 });
  const saved = grad([checkpoint(again, q, k, v).sum()], leaves);
  for (let k = 0; k < 3; k++) {
    assertEquals(await saved[k]!.toArray(), await plain[k]!.toArray());
  }
});

testOnBackends("attention in one operation: equal runs give equal bits", async () => {
  const leaves = [0, 1, 2].map(() => Tensor.randn([3, 100, 16], { requiresGrad: true }).realize());
  const [q, k, v] = leaves as [Tensor, Tensor, Tensor];
  const run = (): Promise<unknown[]> =>
    Promise.all(grad([attend(q, k, v).square().sum()], leaves).map((g) => g.toArray()));
  assertEquals(await run(), await run());
});

testOpenCL("heads of projections are stored side by side where a device does so", async () => {
  const dtype = typeInOneOperation("cl"), kinds: string[] = [];
  const run = (interleavesHeads: boolean): Promise<number[]> =>
    withCapabilities("cl", { interleavesHeads }, () => {
      manualSeed(4);
      const layer = new nn.MultiheadAttention(24, 3, { batchFirst: true });
      const x = leaf(Tensor.rand([2, 37, 24]).sub(0.5).realize());
      const y = layer.forward(x, x, x, { isCausal: true });
      const gradients = grad([y.square().sum()], [x, ...layer.parameters()]);
      const heads = (): Tensor => Tensor.ones([2, 3, 8, 4], { dtype }).realize();
      const projected = (): Tensor =>
        Tensor.ones([2, 8, 3, 4], { dtype }).realize().transpose(1, 2);
      for (const make of [heads, projected]) {
        kinds.push(nodeOf(attend(make(), make(), make())).op.kind);
      }
      return numbersOf(y, ...gradients);
    });
  assertNumbers(await run(true), await run(false), 1e-5);
  assertEquals(kinds, ["attention", "permute", "attention", "attention"]);
});
