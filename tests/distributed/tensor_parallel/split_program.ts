/** Language models that ranks hold together, each held against one that has everything; run by split_test.ts. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { device, distributed, Tensor } from "../../../mod.ts";
import { LanguageModel, lora, type Sampling } from "../../../tensor/models/mod.ts";
import { type Fixture, fixtures, tokens, writeModel } from "../../tensor/models/small_models.ts";
import { writeGguf } from "../../tensor/models/small_gguf.ts";
import { inFolder } from "../../temporary_folder.ts";
import { assertSameEverywhere } from "../ways/everywhere.ts";
import { wayOf } from "../ways/way.ts";

const { way, args } = wayOf(import.meta.url);
using _dev = device(args[0]!);
using group = distributed.init();
const { rank, size } = group;

/** The bytes that a model has on its device. */
function bytesOf({ model }: LanguageModel): number {
  const all = [...model.namedParameters(), ...model.namedBuffers()];
  return all.reduce((sum, [, tensor]) => sum + tensor.size, 0);
}

/** A cache of bytes has those of a rank's heads, each with its own scale. */
async function assertSameOfBytes(path: string, ids: number[], what: string): Promise<void> {
  const options = { cache: "int8" } as const, writing = { ignoreEnd: true, maxTokens: 6 };
  using whole = await LanguageModel.load(path, options);
  using split = await LanguageModel.load(path, { ...options, parallel: group });
  const [due, own] = [whole, split].map((lm) => Array.fromAsync(lm.generateIds(ids, writing)));
  assertEquals(await own, await due, `${what}, bytes`);
}

async function assertSame(path: string, { ids }: Fixture, what: string): Promise<void> {
  using whole = await LanguageModel.load(path);
  using split = await LanguageModel.load(path, { parallel: group });
  assert(bytesOf(split) < bytesOf(whole) * (1 / size + 0.3), `${what}: ${bytesOf(split)} bytes`);
  const given = Tensor.fromHost(Int32Array.from(ids), { shape: [1, ids.length] });
  const logits = split.forward(given);
  assert(await logits.allClose(whole.forward(given), { atol: 1e-3, rtol: 1e-3 }), what);
  await assertSameEverywhere(group, await logits.toNumbers(), what);
  const write = (lm: LanguageModel, options: Sampling = {}) =>
    Array.fromAsync(lm.generateIds(ids, { ignoreEnd: true, maxTokens: 12, ...options }));
  assertEquals(await write(split), await write(whole), what);
  // Each rank draws numbers of its own, and takes what rank 0 has chosen.
  group.manualSeed(7);
  const drawn = await write(split, { temperature: 1, topK: 20, repetitionPenalty: 1.2 });
  await assertSameEverywhere(group, drawn, `${what}, drawn`);
  await assertSameOfBytes(path, ids, what);
  const prompts = [ids, ids.slice(0, 2)], options = { ignoreEnd: true, maxTokens: 6 };
  assertEquals(
    await split.generateBatch(prompts, options),
    await whole.generateBatch(prompts, options),
    what,
  );
}

/** A llama whose rows are whole blocks; a rank of four begins within one. */
function packable(): Fixture {
  const { config, shapes, ...rest } = fixtures.llama!;
  const widths = new Map([[16, 64], [24, 128], [8, 32]]);
  const wide = Object.entries(shapes).map(([name, shape]) => [
    name,
    shape.map((length) => widths.get(length) ?? length),
  ]);
  const sizes = { hidden_size: 64, intermediate_size: 128, head_dim: 16 };
  return { ...rest, config: { ...config, ...sizes }, shapes: Object.fromEntries(wide) };
}

// Other devices compute the same by other kernels, whose compilation takes long. Three ranks have one, one
// and two heads of gpt2's.
const all = ["llama", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3", "gpt2"];
const few = size === 3 ? ["gpt2"] : ["phi3"];
for (const name of args[1] === "all" ? all : args[0] === "cpu" ? few : []) {
  await inFolder(async (folder) => {
    await writeModel(folder, fixtures[name]!);
    await assertSame(folder, fixtures[name]!, name);
    await writeGguf(`${folder}/model.gguf`, fixtures[name]!, tokens);
    await assertSame(`${folder}/model.gguf`, fixtures[name]!, `${name}, GGUF`);
  });
}
// Rows of queries, keys and values head by head; parts side by side, behind one norm or two.
const others = ["gpt_neox, a folder", "falcon, two norms", "stablelm, side by side"];
for (const name of args[1] === "all" ? others : []) {
  await inFolder(async (folder) => {
    await writeModel(folder, fixtures[name]!);
    await assertSame(folder, fixtures[name]!, name);
  });
}
if (args[1] === "all") {
  await inFolder(async (folder) => {
    await writeModel(folder, fixtures.olmo2!);
    const load = () => LanguageModel.load(folder, { parallel: group });
    await assertRejects(load, TypeError, "norms are over the features of all heads");
  });
}
await inFolder(async (folder) => {
  const path = `${folder}/model.gguf`, fixture = packable();
  await writeGguf(path, fixture, tokens, true);
  if (size === 3) {
    await assertRejects(() => LanguageModel.load(path, { parallel: group }), RangeError, "2 ranks");
    return;
  }
  await assertSame(path, fixture, "blocks that stay packed");
  {
    // Gradients of what all ranks have are those of the whole, of parts those of the part.
    using whole = await LanguageModel.load(path, { dtype: "float32" });
    using split = await LanguageModel.load(path, { dtype: "float32", parallel: group });
    const given = Tensor.fromHost(Int32Array.from(fixture.ids), { shape: [1, fixture.ids.length] });
    const next = Tensor.fromHost(Int32Array.from(fixture.ids, (id) => (id + 1) % 40));
    const isShared = size > Number(fixture.config.num_key_value_heads);
    for (const lm of [whole, split]) {
      lm.model.requireGrad(true);
      if (isShared && lm === split) {
        assertThrows(() => lm.forward(given), TypeError, "heads of keys");
      } else lm.forward(given).reshape([fixture.ids.length, -1]).crossEntropy(next).backward();
    }
    const all = new Map(whole.model.namedParameters());
    for (const [name, { grad, shape }] of isShared ? [] : split.model.namedParameters()) {
      const expected = all.get(name)!.grad!;
      const parts = shape.map((length, axis) => {
        const from = length === expected.shape[axis] ? 0 : rank * length;
        return [from, from + length] as [number, number];
      });
      assert(await grad!.allClose(expected.slice(...parts), { atol: 1e-4, rtol: 1e-3 }), name);
    }
    assertThrows(() => split.batch(), TypeError, "generateBatch");
    assertThrows(() => lora(split.model, { rank: 2, targets: ["q_proj"] }), TypeError, "parallel");
  }
  // A chat goes on from what all ranks have read.
  using split = await LanguageModel.load(path, { parallel: group });
  using whole = await LanguageModel.load(path);
  const written = await Promise.all(
    [split, whole].map((lm) => lm.generateText("ab", { maxTokens: 8, ignoreEnd: true })),
  );
  assertEquals(written[0], written[1]);
});
console.log(`rank ${rank} of ${size}, tensor_parallel/${way}: good`);
