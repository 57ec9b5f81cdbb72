import { assert, assertEquals, assertRejects } from "@std/assert";
import { saveSafetensors, Tensor } from "../../../../mod.ts";
import { FileFormatError } from "../../../../tensor/io/mod.ts";
import { Embedder, LanguageModel } from "../../../../tensor/models/mod.ts";
import { inFolder } from "../../../temporary_folder.ts";
import { testOnBackends, testOnCPU } from "../../../opencl.ts";
import { writeGguf } from "../small_gguf.ts";
import {
  type Fixture,
  fixtures as decoders,
  tokens,
  weightsOf,
  writeModel,
} from "../small_models.ts";

interface EncoderFixture extends Fixture {
  readonly texts: number[][];
  readonly vectors: number[][];
}

const url = new URL("encoders.json", import.meta.url);
const fixtures = JSON.parse(Deno.readTextFileSync(url)) as Record<string, EncoderFixture>;

for (const [name, fixture] of Object.entries(fixtures)) {
  testOnBackends(
    `Embedder gives transformers' vectors, of texts of several lengths: ${name}`,
    () =>
      inFolder(async (folder) => {
        await writeModel(folder, fixture);
        if (fixture.config.use_bidirectional_attention) {
          await assertRejects(() => LanguageModel.load(folder), TypeError, "Embedder.load");
        }
        using embedder = await Embedder.load(folder, { normalize: false });
        assertEquals(
          new Set(
            Object.keys(embedder.model.stateDict()).map((key) => key.replace(/^model\./, "")),
          ),
          new Set(Object.keys(fixture.shapes)),
        );
        const texts = fixture.texts.map((ids) => embedder.tokenizer.decode(ids));
        using vectors = await embedder.embed(texts);
        const found = await vectors.toArray() as number[][];
        assertVectors(found, fixture.vectors);
      }),
  );
}

function assertVectors(found: readonly number[][], due: readonly number[][]): void {
  due.forEach((vector, row) =>
    vector.forEach((x, k) => assert(Math.abs(found[row]![k]! - x) < 2e-5, `${row}, ${k}`))
  );
}

/** Settings that differ in GGUF files. */
const inGguf = {
  "bert": {},
  "nomic_bert": {},
  "modernbert": {},
  "gemma3, ahead": { model_type: "gemma-embedding", global_attn_every_n_layers: 2 },
};

for (const [name, config] of Object.entries(inGguf)) {
  testOnBackends(
    `Embedder reads GGUF files, and pools as they say: ${name}`,
    () =>
      inFolder(async (folder) => {
        const plain = fixtures[name]!, path = `${folder}/model.gguf`, { texts } = plain;
        const fixture = { ...plain, config: { ...plain.config, ...config } };
        await writeGguf(path, fixture, tokens);
        using mean = await Embedder.load(path, { normalize: false });
        assertVectors(await mean.forward(texts).toArray() as number[][], plain.vectors);
        await writeGguf(path, fixture, tokens, false, { pooling_type: 2 });
        using first = await Embedder.load(path, { normalize: false, dtype: "packed" });
        await writeModel(folder, plain);
        using wanted = await Embedder.load(folder, { normalize: false, pooling: "first" });
        const far = first.forward(texts).sub(wanted.forward(texts)).abs().max();
        assert(await far.item() < 2e-5);
        using normal = await Embedder.load(path);
        const lengths = await normal.forward(texts).norm(-1).toNumbers();
        for (const length of lengths) assert(Math.abs(length - 1) < 1e-5);
        await writeGguf(path, fixture, tokens, false, { pooling_type: 4 });
        await assertRejects(() => Embedder.load(path), TypeError, "pooling_type is 4");
      }),
  );
}

const sentences = JSON.parse(Deno.readTextFileSync(new URL("sentences.json", import.meta.url))) as {
  files: Record<string, unknown>;
  texts: string[];
  vectors: number[][];
};

testOnBackends(
  "Embedder has sentence-transformers' poolings, layers, prompt and limit",
  () =>
    inFolder(async (folder) => {
      await writeModel(folder, fixtures.bert!);
      for (const part of ["1_Pooling", "2_Dense", "3_Dense"]) {
        await Deno.mkdir(`${folder}/${part}`);
      }
      for (const [name, contents] of Object.entries(sentences.files)) {
        await Deno.writeTextFile(`${folder}/${name}`, JSON.stringify(contents));
      }
      await Deno.writeTextFile(`${folder}/tokenizer_config.json`, '{"model_max_length":12}');
      const layers = [[["weight", [8, 96]], ["bias", [8]]], [["weight", [5, 8]]]] as const;
      for (const [k, layer] of layers.entries()) {
        const state = layer.map(([name, shape]) => [
          `linear.${name}`,
          weightsOf(`${k}.linear.${name}`, shape),
        ]);
        const path = `${folder}/${k + 2}_Dense/model.safetensors`;
        await saveSafetensors(path, Object.fromEntries(state));
      }
      using embedder = await Embedder.load(folder);
      using vectors = await embedder.embed(sentences.texts);
      const found = await vectors.toArray() as number[][];
      assertVectors(found, sentences.vectors);
    }),
);

testOnBackends(
  "Embedder takes the last token of a model that reads from left to right",
  () =>
    inFolder(async (folder) => {
      const { "lm_head.weight": _, ...shapes } = decoders.qwen3!.shapes;
      await writeModel(folder, { ...decoders.qwen3!, shapes });
      using embedder = await Embedder.load(folder, { pooling: "last" });
      // The same of a GGUF file, in whose header the pooling stands.
      const path = `${folder}/model.gguf`, last = { pooling_type: 3 };
      await writeGguf(path, { ...decoders.qwen3!, shapes }, tokens, false, last);
      using ofGguf = await Embedder.load(path, { normalize: false });
      const apart = embedder.forward([[5, 6, 7]]).sub(ofGguf.forward([[5, 6, 7]])).abs().max();
      assert(await apart.item() < 1e-5);
      const texts = ["abcdefg", "ab"];
      using both = await embedder.embed(texts), alone = await embedder.embed(texts[1]!);
      const [, second] = await both.toArray() as number[][],
        [own] = await alone.toArray() as number[][];
      second!.forEach((x, k) => assert(Math.abs(x - own![k]!) < 1e-5, `${k}`));
      using ids = Tensor.fromHost(Int32Array.from(embedder.tokenizer.encode("ab")), {
        shape: [1, 2],
      });
      const model = embedder.model as unknown as { forward(ids: Tensor): Tensor };
      const logits = await model.forward(ids).slice(0, 1).toNumbers();
      using vector = Tensor.fromHost(Float32Array.from(second!));
      const { "model.embed_tokens.weight": words } = embedder.model.stateDict();
      const due = await words!.matmul(vector).toNumbers();
      due.forEach((x, k) => assert(Math.abs(x - logits[k]!) < 1e-4, `${k}`));
    }),
);

testOnCPU(
  "Embedder makes vectors of length 1, by the pooling that is asked for",
  () =>
    inFolder(async (folder) => {
      await writeModel(folder, fixtures.bert!);
      for (const pooling of ["mean", "first", "max"] as const) {
        using embedder = await Embedder.load(folder, { pooling, normalize: true });
        using vectors = await embedder.embed(["ab", "abcdefgh", "c".repeat(50)]);
        assertEquals(vectors.shape, [3, 16]);
        using lengths = vectors.norm(-1);
        for (const x of await lengths.toArray() as number[]) assert(Math.abs(x - 1) < 1e-5);
        await assertRejects(
          () => embedder.embed(["ab", ""]),
          RangeError,
          "text 1: it has no tokens",
        );
        using none = await embedder.embed([]);
        assertEquals(none.shape[0], 0);
      }
      await Deno.mkdir(`${folder}/1_Pooling`);
      await Deno.writeTextFile(
        `${folder}/1_Pooling/config.json`,
        '{"pooling_mode_cls_token":true}',
      );
      using said = await Embedder.load(folder);
      using first = await Embedder.load(folder, { pooling: "first" });
      using a = await said.embed("abc"), b = await first.embed("abc");
      assertEquals(await a.toArray(), await b.toArray());
      for (const [name, value] of [["num_hidden_layers", 2 ** 26], ["model_type", "tapas"]]) {
        const config = { ...fixtures.bert!.config, [name!]: value };
        await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify(config));
        await assertRejects(() => Embedder.load(folder), TypeError, `${value}`);
      }
    }),
);

testOnCPU(
  "Embedder names what sentence-transformers says and it does not read, and cuts where it says",
  () =>
    inFolder(async (folder) => {
      await writeModel(folder, fixtures.bert!);
      await Deno.mkdir(`${folder}/1_Pooling`);
      const write = (name: string, value: unknown) =>
        Deno.writeTextFile(`${folder}/${name}`, JSON.stringify(value));
      await write("sentence_bert_config.json", { max_seq_length: 4 });
      using short = await Embedder.load(folder);
      using a = await short.embed("abcd"), b = await short.embed("abcdfh");
      assertEquals(await a.toArray(), await b.toArray());
      await write("1_Pooling/config.json", { pooling_mode: ["mean", "sum"] });
      await assertRejects(() => Embedder.load(folder), TypeError, "by mean and sum");
      using _chosen = await Embedder.load(folder, { pooling: "mean" });
      // Older files have a flag for each.
      await write("1_Pooling/config.json", {
        pooling_mode_mean_tokens: true,
        pooling_mode_cls_token: true,
      });
      using two = await Embedder.load(folder);
      using first = await Embedder.load(folder, { pooling: "first" });
      using mean = await Embedder.load(folder, { pooling: "mean" });
      const [both, one, other] = await Promise.all([two, first, mean].map(async (embedder) => {
        using vectors = await embedder.embed("abc");
        return await vectors.toNumbers();
      }));
      assertEquals(both, [...one!, ...other!]);
      await write("1_Pooling/config.json", { pooling_mode: "mean", include_prompt: false });
      const prompts = { prompts: { q: "ab" }, default_prompt_name: "q" };
      await write("config_sentence_transformers.json", prompts);
      await assertRejects(() => Embedder.load(folder), TypeError, 'its prompt "ab" out');
      await write("config_sentence_transformers.json", { default_prompt_name: "r" });
      await assertRejects(() => Embedder.load(folder), FileFormatError, '"r"');
      await write("config_sentence_transformers.json", {});
      await write("modules.json", [{ type: "sentence_transformers.models.WordEmbeddings" }]);
      await assertRejects(() => Embedder.load(folder), TypeError, '"WordEmbeddings"');
      await write("modules.json", [{ type: "models.Dense", path: "1_Pooling" }]);
      await write("1_Pooling/config.json", { activation_function: "torch.nn.Mish" });
      await assertRejects(() => Embedder.load(folder), TypeError, '"Mish"');
      for (const path of ["../other", 5]) {
        await write("modules.json", [{ type: "models.Pooling", path }]);
        await assertRejects(
          () => Embedder.load(folder),
          FileFormatError,
          "expected a folder in it",
        );
      }
      await write("modules.json", []);
      await write("config.json", { ...fixtures.bert!.config, position_embedding_type: "relative" });
      await assertRejects(() => Embedder.load(folder), TypeError, "position_embedding_type");
      await write("config.json", { ...fixtures.bert!.config, is_decoder: true });
      await assertRejects(() => Embedder.load(folder), TypeError, "is_decoder");
      await write("config.json", { ...fixtures.bert!.config, hidden_act: "mish" });
      await assertRejects(() => Embedder.load(folder), TypeError, '"mish"');
    }),
);
