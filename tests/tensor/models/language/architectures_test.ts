import { assert, assertEquals, assertRejects } from "@std/assert";
import { loadSafetensors, noGrad, saveSafetensors, Tensor } from "../../../../mod.ts";
import { FileFormatError } from "../../../../tensor/io/mod.ts";
import { LanguageModel } from "../../../../tensor/models/mod.ts";
import { writeGguf } from "../small_gguf.ts";
import { fixtures, textOf, tokens, withModel, writeModel } from "../small_models.ts";
import { inFolder } from "../../../temporary_folder.ts";
import { testOnCPU } from "../../../opencl.ts";

/** Names but for those of mixtures, which are held together, whatever files call them. */
const plainNames = (names: readonly string[]) =>
  new Set(names.filter((name) => !/experts?[._]|_moe\.|shared_mlp|mlp\.gate\./.test(name)));

for (const [name, fixture] of Object.entries(fixtures)) {
  testOnCPU(
    `LanguageModel computes and writes what transformers does: ${name}`,
    () =>
      withModel(async (lm) => {
        assertEquals(
          plainNames(Object.keys(lm.model.stateDict())),
          plainNames(Object.keys(fixture.shapes)),
        );
        const { ids, rows, logits, greedy } = fixture;
        const all = noGrad(() => lm.forward(textOf(ids)));
        const values = await all.toHost("float32"), vocabulary = all.shape[2]!;
        rows.forEach((row, k) => {
          for (let j = 0; j < vocabulary; j++) {
            const ours = values[row * vocabulary + j]!, due = logits[k * vocabulary + j]!;
            assert(
              Math.abs(ours - due) < 2e-4 * (1 + Math.abs(due)),
              `${row}, ${j}: ${ours}, ${due}`,
            );
          }
        });
        const options = { maxTokens: greedy.length, ignoreEnd: true };
        assertEquals(await Array.fromAsync(lm.generateIds(ids, options)), greedy);
        const both = await lm.generateBatch([ids.slice(0, 3), ids], options);
        assertEquals(both[1], greedy, "beside a shorter one");
        const alone = await Array.fromAsync(lm.generateIds(ids.slice(0, 3), options));
        // Texts side by side rotate as the longest of them does.
        if (name !== "long positions") assertEquals(both[0], alone, "the shorter one");
      }, fixture),
  );
}

/** Parts of configurations that the header of a GGUF file does not say: as llama.cpp has them. */
const unsaid: Readonly<Record<string, Record<string, unknown>>> = {
  gemma2: { query_pre_attn_scalar: 8 },
  gemma3_text: {
    query_pre_attn_scalar: 8,
    layer_types: ["sliding_attention", "sliding_attention"],
    rope_parameters: {
      full_attention: { rope_theta: 1000, rope_type: "default" },
      sliding_attention: { rope_theta: 10_000, rope_type: "default" },
    },
  },
};

for (const [name, plain] of Object.entries(fixtures)) {
  // Variants are of folders: files of GGUF have other words for them, or none.
  if (name.includes(" ")) continue;
  testOnCPU(
    `architectures: a GGUF file gives what the folder gives: ${name}`,
    () =>
      inFolder(async (folder) => {
        const fixture = { ...plain, config: { ...plain.config, ...unsaid[name] } };
        await writeModel(folder, fixture);
        await writeGguf(`${folder}/model.gguf`, fixture, tokens);
        const { ids } = fixture, found: Float32Array[] = [], written: number[][] = [];
        for (const path of [folder, `${folder}/model.gguf`]) {
          using lm = await LanguageModel.load(path);
          using all = noGrad(() => lm.forward(textOf(ids)));
          found.push(await all.toHost("float32"));
          const options = { maxTokens: 20, ignoreEnd: true };
          written.push(await Array.fromAsync(lm.generateIds(ids, options)));
        }
        const far = found[0]!.map((x, k) => Math.abs(x - found[1]![k]!) / (1 + Math.abs(x)));
        assert(far.every((x) => x < 1e-5), `${Math.max(...far)}`);
        assertEquals(written[1], written[0]);
      }),
  );
}

testOnCPU(
  "textWeights: of a model that sees pictures the part that writes texts is read",
  () =>
    inFolder(async (folder) => {
      const { config, shapes, ids, greedy } = fixtures.llama!, path = `${folder}/model.safetensors`;
      const named = [
        (name: string) => `language_model.${name}`,
        (name: string) => name.replace("model.", "model.language_model."),
      ];
      for (const name of named) {
        await writeModel(folder, { ...fixtures.llama!, shapes });
        const state = await loadSafetensors(path);
        const own = Object.entries(state).map(([key, tensor]) => [name(key), tensor]);
        const vision = { "vision_tower.layers.0.weight": Tensor.ones([2]) };
        await saveSafetensors(path, { ...Object.fromEntries(own), ...vision });
        const whole = { model_type: "some_vl", vision_config: {}, text_config: config };
        await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify(whole));
        using lm = await LanguageModel.load(folder);
        const options = { maxTokens: greedy.length, ignoreEnd: true };
        assertEquals(await Array.fromAsync(lm.generateIds(ids, options)), greedy);
      }
    }),
);

testOnCPU(
  "LanguageModel.load takes what config.json leaves out from the architecture",
  () =>
    inFolder(async (folder) => {
      const { config, ...rest } = fixtures.gpt2!;
      const { activation_function: _, tie_word_embeddings: __, layer_norm_epsilon: ___, ...short } =
        config;
      await writeModel(folder, { config: short, ...rest });
      using lm = await LanguageModel.load(folder);
      const options = { maxTokens: rest.greedy.length, ignoreEnd: true };
      assertEquals(await Array.fromAsync(lm.generateIds(rest.ids, options)), rest.greedy);
    }),
);

Deno.test("LanguageModel.load names settings that it does not read, and weights that are not there", () =>
  inFolder(async (folder) => {
    const refused = async (name: string, change: object, message: string, without = "") => {
      const { config, shapes, ...rest } = fixtures[name]!;
      const { [without]: _, ...kept } = shapes;
      await writeModel(folder, { config: { ...config, ...change }, shapes: kept, ...rest });
      const error = await assertRejects(() => LanguageModel.load(folder), Error, message);
      assert(error instanceof TypeError || error instanceof FileFormatError, error.name);
    };
    await refused("gemma3_text", { use_bidirectional_attention: true }, "Embedder.load");
    await refused("llama", { quantization_config: { quant_method: "awq" } }, '"awq"');
    await refused("llama", { hidden_act: "mish" }, '"mish"');
    await refused("llama", { num_key_value_heads: 3 }, "3 heads of keys");
    await refused("llama", { rope_parameters: { rope_type: "other" } }, '"other"');
    await refused("llama", {}, '"lm_head.weight"', "lm_head.weight");
    await refused("llama", { vocab_size: 49 }, "[49,16]");
    for (const layers of [2 ** 40, 2 ** 26]) {
      await refused("llama", { num_hidden_layers: layers }, "num_hidden_layers");
    }
    await refused("qwen2_moe", { num_experts_per_tok: 13 }, "takes 13 experts of 12");
    await refused("qwen2_moe", { moe_intermediate_size: 9 }, "[8,16]");
    const bias = "model.layers.1.self_attn.q_proj.bias";
    await refused("llama", {}, bias, bias);
    await refused("qwen2", {}, bias, bias);
  }));

Deno.test("architectures: LanguageModel.load names the tensors that are missing or that no part takes", async () => {
  await inFolder(async (folder) => {
    const fixture = fixtures.qwen2!, { "model.norm.weight": norm, ...rest } = fixture.shapes;
    await writeModel(folder, { ...fixture, shapes: rest });
    await assertRejects(() => LanguageModel.load(folder), FileFormatError, '"model.norm.weight"');
    const shapes = { ...rest, "model.norm.weight": norm!, "model.layers.0.extra.weight": [2] };
    await writeModel(folder, { ...fixture, shapes });
    await assertRejects(() => LanguageModel.load(folder), FileFormatError, "layers.0.extra.weight");
    await writeModel(folder, { ...fixture, config: { ...fixture.config, model_type: "mamba" } });
    const error = await assertRejects(() => LanguageModel.load(folder), TypeError, '"mamba"');
    assert(error.message.includes("gemma2"), error.message);
    await assertRejects(() => LanguageModel.load(`${folder}/none`), Error, "none");
  });
});
