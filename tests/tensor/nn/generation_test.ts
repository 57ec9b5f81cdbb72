// A GPT of today: rotary embedding, RMSNorm, SwiGLU, a cache of keys and values, top-k sampling.
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  compile,
  manualSeed,
  memory,
  nn,
  noGrad,
  optim,
  profiler,
  realizeAll,
  ShapeError,
  Tensor,
} from "../../../mod.ts";
import { KernelRunners } from "../../../backend/cpu/kernel_runners.ts";
import { isEager } from "../../../backend/internal.ts";
import { assertClose } from "../../fixtures/pytorch.ts";
import { testOnBackends } from "../../opencl.ts";
import { kernelsOf, learn } from "../training.ts";

const [WORDS, WIDTH, HEADS, CAPACITY] = [11, 16, 2, 12];

class Block extends nn.Module<[x: Tensor, cache?: nn.KeyValueCache]> {
  norm1 = new nn.RMSNorm(WIDTH);
  qkv = new nn.Linear(WIDTH, 3 * WIDTH, { bias: false });
  out = new nn.Linear(WIDTH, WIDTH, { bias: false });
  norm2 = new nn.RMSNorm(WIDTH);
  mlp = new nn.SwiGLU(WIDTH, 2 * WIDTH);
  rotary = new nn.RotaryEmbedding(WIDTH / HEADS);

  forward(x: Tensor, cache?: nn.KeyValueCache): Tensor {
    const y = x.add(this.#attend(this.norm1.forward(x), cache));
    return y.add(this.mlp.forward(this.norm2.forward(y)));
  }

  #attend(x: Tensor, cache?: nn.KeyValueCache): Tensor {
    const [n, length] = x.shape as [number, number];
    const parts = this.qkv.forward(x).reshape([n, length, 3, HEADS, WIDTH / HEADS]);
    const [q, k, v] = [0, 1, 2].map((part) => parts.slice(null, null, part).transpose(1, 2));
    const [query, key] = [q!, k!].map((t) => this.rotary.forward(t, cache?.position ?? 0));
    const seen = cache?.append(key!, v!);
    const heads = seen
      ? nn.scaledDotProductAttention(query!, seen.keys, seen.values, { mask: seen.mask })
      : nn.scaledDotProductAttention(query!, key!, v!, { isCausal: true });
    return this.out.forward(heads.transpose(1, 2).reshape(x.shape));
  }
}

class GPT extends nn.Module<[ids: Tensor, caches?: nn.KeyValueCache[]]> {
  words = new nn.Embedding(WORDS, WIDTH);
  blocks = [new Block(), new Block()];
  norm = new nn.RMSNorm(WIDTH);
  head = new nn.Linear(WIDTH, WORDS, { bias: false });

  forward(ids: Tensor, caches: nn.KeyValueCache[] = []): Tensor {
    let x = this.words.forward(ids);
    for (const [k, block] of this.blocks.entries()) x = block.forward(x, caches[k]);
    return this.head.forward(this.norm.forward(x));
  }
}

/** A cache for each layer of a model. */
function cachesOf({ blocks }: GPT): nn.KeyValueCache[] {
  const sizes = { heads: HEADS, capacity: CAPACITY, features: WIDTH / HEADS };
  return blocks.map(() => new nn.KeyValueCache(sizes));
}

/** Draws one of the three likeliest words, by Gumbel noise. */
async function sample(logits: Tensor): Promise<number> {
  const { values, indices } = logits.topk(3);
  const noise = values.randLike().clamp(1e-9).log().neg().log().neg();
  return await indices.gather(0, values.add(noise).argmax(0).reshape([1])).item();
}

testOnBackends("a GPT generates the same with a cache, and builds no kernels", async () => {
  manualSeed(5);
  const model = new GPT().eval(), caches = cachesOf(model);
  const words = [3, 1, 4, 1];
  const ids = (of: number[]): Tensor => Tensor.fromHost(Int32Array.from(of)).unsqueeze(0);
  let given = words.slice();
  let built = 0;
  while (words.length < CAPACITY) {
    const logits = noGrad(() => model.forward(ids(given), caches).slice(0, -1)).realize();
    if (words.length === 6) built = profiler.counters().programsBuilt;
    const next = await sample(logits);
    if (words.length > 6) assertEquals(profiler.counters().programsBuilt, built);
    if (words.length % 3 === 0) {
      const whole = noGrad(() => model.forward(ids(words)).slice(0, -1)).realize();
      await assertClose(logits, whole, 1e-5, `logits behind ${words.length} words`);
      built = profiler.counters().programsBuilt;
    }
    words.push(next);
    given = [next];
  }
  assertEquals(caches.map((cache) => cache.length), [CAPACITY - 1, CAPACITY - 1]);
  for (const cache of caches) cache.dispose();
  model.dispose();
});

testOnBackends("a GPT of such parts learns", async () => {
  manualSeed(6);
  const model = new GPT();
  const adam = new optim.Adam(model.parameters(), { lr: 1e-2 });
  const ids = Tensor.randint(0, WORDS, [2, 7]).realize();
  const losses: number[] = [];
  for (let step = 0; step < 15; step++) {
    const logits = model.forward(ids.slice(null, [0, -1])).reshape([-1, WORDS]);
    using loss = learn(adam, logits.crossEntropy(ids.slice(null, [1, null]).reshape([-1])));
    losses.push(await loss.item());
  }
  assert(losses.at(-1)! < 0.5 * losses[0]!, `${losses}`);
  adam.dispose();
  model.dispose();
});

testOnBackends("a token in a KeyValueCache leaves nothing behind", () => {
  using cache = new nn.KeyValueCache({ heads: 2, capacity: 12, features: 8 });
  using rows = Tensor.randn([1, 2, 1, 8]).realize();
  const held = Array.from({ length: 6 }, () => {
    using mask = cache.append(rows, rows).mask;
    return memory.stats(mask.device).currentAllocated;
  });
  assert(held.slice(2).every((bytes) => bytes <= held[1]!), `${held}`);
});

testOnBackends("a word takes each layer once, whatever is in the caches of others", () => {
  if (isEager()) return;
  manualSeed(8);
  const kernels = (layers: number, wrap: typeof compile): number => {
    const model = new GPT().eval();
    model.blocks = Array.from({ length: layers }, () => new Block()).map((block) => block.eval());
    const caches = cachesOf(model);
    const forward = wrap((ids: Tensor) => noGrad(() => model.forward(ids, caches)));
    const ids = Tensor.full([1, 1], 3, { dtype: "int32" }).realize();
    for (let word = 0; word < 4; word++) forward(ids).realize().dispose();
    return kernelsOf(() => forward(ids).realize().dispose());
  };
  for (const wrap of [compile, ((fn) => fn) as typeof compile]) {
    const [two, four, six] = [2, 4, 6].map((layers) => kernels(layers, wrap));
    // Kernels of a layer, and no more for a layer behind more of them; some share launches.
    assert(six! - four! <= four! - two! + 2, `${two}, ${four}, ${six}`);
  }
});

testOnBackends("rows that wait in a cache are those that were appended", async () => {
  using cache = new nn.KeyValueCache({ heads: 1, capacity: 5, features: 1 });
  const masks: Tensor[] = [];
  for (let at = 0; at < 5; at++) {
    using rows = Tensor.fromHost([at]).reshape([1, 1, 1, 1]), computed = rows.add(1);
    masks.push(cache.append(rows, computed).mask);
    if (at === 2) await masks[1]!.toArray();
  }
  const masked = await Promise.all(masks.map((mask) => mask.cast("int32").sum().item()));
  assertEquals(masked, [1, 2, 3, 4, 5]);
  cache.clear();
  using nine = Tensor.full([1, 1, 1, 1], 9);
  const { keys, values } = cache.append(nine, nine);
  assertEquals(await keys.flatten().toArray(), [9, 1, 2, 3, 4]);
  assertEquals(await values.flatten().toArray(), [9, 2, 3, 4, 5]);
});

testOnBackends("KeyValueCache holds what was appended, and says when it is full", async () => {
  using cache = new nn.KeyValueCache({ heads: 1, capacity: 4, features: 1, dtype: "float16" });
  const rows = (...of: number[]): Tensor => Tensor.fromHost(of).reshape([1, 1, of.length, 1]);
  cache.append(rows(1, 2), rows(3, 4));
  const { keys, values, mask } = cache.append(rows(5, 6), rows(7, 8));
  assertEquals(await keys.flatten().toArray(), [1, 2, 5, 6]);
  assertEquals(await values.flatten().toArray(), [3, 4, 7, 8]);
  assertEquals(await mask.cast("int32").toArray(), [[1, 1, 1, 0], [1, 1, 1, 1]]);
  assertThrows(() => cache.append(rows(1), rows(1)), RangeError, "holds 4 of 4");
  cache.clear();
  assertEquals([cache.length, await cache.position.item()], [0, 0]);
  const again = cache.append(rows(9), rows(9));
  assertEquals(await again.mask.cast("int32").toArray(), [[1, 0, 0, 0]]);
  assertThrows(() => cache.append(rows(1), rows(1, 2)), ShapeError, "[1, 1, L, 1]");
  assertThrows(() => new nn.KeyValueCache({ heads: 1 } as never), TypeError, "capacity");
});

testOnBackends("KeyValueCache.position stays what it was when more are appended", async () => {
  using cache = new nn.KeyValueCache({ heads: 1, capacity: 8, features: 2 });
  const [q, k] = [Tensor.randn([1, 1, 3, 2]).realize(), Tensor.ones([1, 1, 3, 2])];
  const rotary = new nn.RotaryEmbedding(2), rotated = await rotary.forward(q, 0).toArray();
  for (const wrap of [<F>(fn: F): F => fn, compile as <F>(fn: F) => F]) {
    const turned = wrap((x: Tensor) => {
      const { position } = cache;
      cache.append(k, k);
      return rotary.forward(x, position);
    });
    const before = cache.position;
    assertEquals(await turned(q).toArray(), rotated);
    assertEquals([await before.item(), await cache.position.item()], [0, 3]);
    cache.clear();
    assertEquals(await turned(q).toArray(), rotated);
    assertEquals(await before.item(), 0);
    cache.clear();
  }
});

/** One layer that attends to all keys so far, which are put together anew for each word. */
class GrowingBlock extends nn.Module<[x: Tensor, past: [Tensor, Tensor] | null]> {
  qkv = new nn.Linear(WIDTH, 3 * WIDTH);
  out = new nn.Linear(WIDTH, WIDTH);
  mlp = new nn.SwiGLU(WIDTH, 2 * WIDTH);

  forward(x: Tensor, past: [Tensor, Tensor] | null): Tensor {
    return this.attend(x, past)[0];
  }

  attend(x: Tensor, past: [Tensor, Tensor] | null): [Tensor, [Tensor, Tensor]] {
    const [query, k, v] = this.qkv.forward(x).split(WIDTH, -1).map((part) =>
      part.reshape([1, -1, HEADS, WIDTH / HEADS]).transpose(1, 2)
    ) as [Tensor, Tensor, Tensor];
    const keys = past ? Tensor.concat([past[0], k], 2) : k;
    const values = past ? Tensor.concat([past[1], v], 2) : v;
    const heads = nn.scaledDotProductAttention(query, keys, values);
    const y = x.add(this.out.forward(heads.transpose(1, 2).reshape(x.shape)));
    return [y.add(this.mlp.forward(y)), [keys, values]];
  }
}

/** The number of kernels that a backend makes while `fn` runs. */
function runnersMade(fn: () => void): number {
  const { prototype } = KernelRunners, { of } = prototype;
  let count = 0;
  prototype.of = function (kernel) {
    count++;
    return of.call(this, kernel);
  };
  try {
    fn();
  } finally {
    prototype.of = of;
  }
  return count;
}

testOnBackends("a word behind a cache that grows needs no kernel but those of its length", () => {
  if (isEager()) return;
  manualSeed(7);
  const blocks = Array.from({ length: 4 }, () => new GrowingBlock());
  const x = Tensor.randn([1, 1, WIDTH]).realize();
  let past: ([Tensor, Tensor] | null)[] = blocks.map(() => null);
  const word = (): void =>
    noGrad(() => {
      let y = x;
      const seen = blocks.map((block, k) => {
        const [next, own] = block.attend(y, past[k]!);
        y = next;
        return own;
      });
      realizeAll([y, ...seen.flat()]);
      past.flat().forEach((former) => former?.dispose());
      past = seen;
    });
  for (let length = 0; length < 12; length++) word();
  const built = profiler.counters().programsBuilt;
  // Keys and values put together, scores, their softmax, the weighted values: each once for all layers.
  for (let length = 12; length < 32; length++) assert(runnersMade(word) <= 6, `at ${length}`);
  assert(profiler.counters().programsBuilt - built <= 2, "programs for 20 words");
});
