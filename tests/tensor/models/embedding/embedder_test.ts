import { assert, assertEquals, assertRejects } from "@std/assert";
import { withDevice } from "../../../../mod.ts";
import { Embedder } from "../../../../tensor/models/mod.ts";
import { inFolder } from "../../../temporary_folder.ts";
import "../../../opencl.ts";
import { type Fixture, writeModel } from "../small_models.ts";

interface EncoderFixture extends Fixture {
  readonly texts: number[][];
  readonly vectors: number[][];
}

const url = new URL("encoders.json", import.meta.url);
const fixtures = JSON.parse(Deno.readTextFileSync(url)) as Record<string, EncoderFixture>;

for (const [name, fixture] of Object.entries(fixtures)) {
  Deno.test(`Embedder gives the vectors of transformers, of texts of several lengths: ${name}`, async () => {
    await inFolder((folder) =>
      withDevice("cpu", async () => {
        await writeModel(folder, fixture);
        using embedder = await Embedder.load(folder, { normalize: false });
        const texts = fixture.texts.map((ids) => embedder.tokenizer.decode(ids));
        using vectors = await embedder.embed(texts);
        const found = await vectors.toArray() as number[][];
        fixture.vectors.forEach((due, row) =>
          due.forEach((x, k) => assert(Math.abs(found[row]![k]! - x) < 1e-5, `${row}, ${k}`))
        );
      })
    );
  });
}

Deno.test("Embedder makes vectors of length 1, by the pooling that is asked for", async () => {
  await inFolder((folder) =>
    withDevice("cpu", async () => {
      await writeModel(folder, fixtures.bert!);
      for (const pooling of ["mean", "first", "max"] as const) {
        using embedder = await Embedder.load(folder, { pooling, normalize: true });
        using vectors = await embedder.embed(["ab", "abcdefgh", "c".repeat(50)]);
        assertEquals(vectors.shape, [3, 16]);
        using lengths = vectors.norm(-1);
        for (const x of await lengths.toArray() as number[]) assert(Math.abs(x - 1) < 1e-5);
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
      const config = { ...fixtures.bert!.config, model_type: "mpnet" };
      await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify(config));
      await assertRejects(() => Embedder.load(folder), TypeError, "mpnet");
    })
  );
});

Deno.test("Embedder names what sentence-transformers says and it does not read, and cuts where it says", () =>
  inFolder((folder) =>
    withDevice("cpu", async () => {
      await writeModel(folder, fixtures.bert!);
      await Deno.mkdir(`${folder}/1_Pooling`);
      const write = (name: string, value: unknown) =>
        Deno.writeTextFile(`${folder}/${name}`, JSON.stringify(value));
      await write("sentence_bert_config.json", { max_seq_length: 4 });
      using short = await Embedder.load(folder);
      using a = await short.embed("abcd"), b = await short.embed("abcfhd");
      assertEquals(await a.toArray(), await b.toArray());
      await write("1_Pooling/config.json", { pooling_mode_lasttoken: true });
      await assertRejects(() => Embedder.load(folder), TypeError, "pooling_mode_lasttoken");
      using _chosen = await Embedder.load(folder, { pooling: "mean" });
      const both = { pooling_mode_cls_token: true, pooling_mode_mean_tokens: true };
      await write("1_Pooling/config.json", both);
      await assertRejects(
        () => Embedder.load(folder),
        TypeError,
        "cls_token and pooling_mode_mean",
      );
      await write("1_Pooling/config.json", { pooling_mode_mean_tokens: true });
      await write("modules.json", [{ type: "sentence_transformers.models.Dense" }]);
      await assertRejects(() => Embedder.load(folder), TypeError, '"Dense"');
      await write("modules.json", []);
      await write("config.json", { ...fixtures.bert!.config, is_decoder: true });
      await assertRejects(() => Embedder.load(folder), TypeError, "is_decoder");
      await write("config.json", { ...fixtures.bert!.config, hidden_act: "mish" });
      await assertRejects(() => Embedder.load(folder), TypeError, '"mish"');
    })
  ));
