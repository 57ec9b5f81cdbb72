import { fileURLToPath } from "node:url";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { loadSafetensors, nn, noGrad, optim, Tensor } from "../../../../mod.ts";
import { type Adapters, LanguageModel, loadAdapters, lora } from "../../../../tensor/models/mod.ts";
import { FileFormatError } from "../../../../tensor/io/mod.ts";
import { inFolder } from "../../../temporary_folder.ts";
import { testOnBackends, testOnCPU } from "../../../opencl.ts";
import type { Decoder } from "../../../../tensor/models/language/decoder/decoder.ts";
import { PackedMatrix } from "../../../../tensor/models/weights/packed_matrix.ts";
import type { TokenEmbedding } from "../../../../tensor/models/weights/projection.ts";
import { writeGguf } from "../small_gguf.ts";
import { fixtures, textOf, tokens, weightsOf, withModel } from "../small_models.ts";
import { learn } from "../../training.ts";

const url = new URL("losses.json", import.meta.url);
const { names, losses } = JSON.parse(Deno.readTextFileSync(url)) as {
  names: string[];
  losses: number[];
};
const fixture = fixtures.qwen2!;
const targets = ["q_proj", "v_proj", "down_proj"];

/** Adapters that begin as those of make.py. */
function begun(lm: LanguageModel): Adapters {
  const adapters = lora(lm.model, { rank: 4, alpha: 8, targets });
  const state = Object.entries(adapters.stateDict()).map(([name, tensor]) =>
    [name, name.includes("lora_A") ? weightsOf(name, tensor.shape) : tensor] as const
  );
  adapters.loadStateDict(Object.fromEntries(state));
  return adapters;
}

/** Other kernels of a GPU add in another order. */
function assertClose(
  found: ArrayLike<unknown>,
  expected: ArrayLike<unknown>,
  what: string,
  to = 1e-3,
): void {
  assertEquals(found.length, expected.length, what);
  const apart = Array.from(found, (x, k) => Math.abs(Number(x) - Number(expected[k])));
  assert(apart.every((d) => d < to), `${what}: ${Math.max(...apart)} apart`);
}

const idsOf = () => textOf(fixture.ids);

async function train(lm: LanguageModel, adapters: Adapters, steps: number): Promise<number[]> {
  const optimizer = new optim.AdamW(adapters.parameters(), { lr: 1e-2, weightDecay: 1e-2 });
  const ids = idsOf(), labels = Tensor.fromHost(Int32Array.from(fixture.ids.slice(1)));
  const found: number[] = [];
  for (let k = 0; k < steps; k++) {
    using loss = learn(optimizer, lm.forward(ids).slice(0, [0, -1]).crossEntropy(labels));
    found.push(await loss.item());
  }
  return found;
}

testOnBackends(
  "lora learns as PEFT does, step by step, and changes nothing else",
  () =>
    withModel(async (lm) => {
      const weight = () => lm.model.stateDict()["model.layers.0.self_attn.q_proj.weight"]!.toHost();
      const before = await weight(), plain = await lm.forward(idsOf()).toHost();
      using adapters = begun(lm);
      assertEquals(new Set(Object.keys(adapters.stateDict())), new Set(names));
      assertClose(await lm.forward(idsOf()).toHost(), plain, "nothing changes at first");
      const found = await train(lm, adapters, losses.length);
      found.forEach((loss, k) =>
        assert(Math.abs(loss - losses[k]!) < 1e-3, `step ${k}: ${loss}, ${losses[k]} expected`)
      );
      assertEquals(await weight(), before);
      const learned = await noGrad(() => lm.forward(idsOf())).toHost();
      adapters.isActive = false;
      assertEquals(await lm.forward(idsOf()).toHost(), plain, "switched off");
      adapters.isActive = true;
      adapters.merge();
      assertClose(await lm.forward(idsOf()).toHost(), learned, "merged");
    }),
);

testOnCPU(
  "lora: adapters are saved as PEFT has them, loaded, and swapped",
  () =>
    withModel(async (lm, folder) => {
      const adapters = begun(lm);
      await train(lm, adapters, 3);
      const learned = await lm.forward(idsOf()).toHost(), first = adapters.stateDict();
      await adapters.save(`${folder}/adapter`);
      const config = JSON.parse(await Deno.readTextFile(`${folder}/adapter/adapter_config.json`));
      assertEquals([config.peft_type, config.r, config.lora_alpha], ["LORA", 4, 8]);
      const saved = await loadSafetensors(`${folder}/adapter/adapter_model.safetensors`);
      assertEquals(new Set(Object.keys(saved)), new Set(names));
      await train(lm, adapters, 3);
      const later = await lm.forward(idsOf()).toHost();
      adapters.loadStateDict(first);
      assertEquals(await lm.forward(idsOf()).toHost(), learned, "swapped");
      adapters.dispose();
      using again = await loadAdapters(lm.model, `${folder}/adapter`);
      assertEquals(await lm.forward(idsOf()).toHost(), learned, "loaded");
      assert(`${later}` !== `${learned}` && again.options.rank === 4);
      assertThrows(() => again.loadStateDict({}), RangeError, "are missing, such as base_model");
      const odd = { ...config, use_dora: true };
      await Deno.writeTextFile(`${folder}/adapter/adapter_config.json`, JSON.stringify(odd));
      const load = () => loadAdapters(lm.model, `${folder}/adapter`);
      await assertRejects(load, FileFormatError, "use_dora");
    }),
);

const peft = (name: string) => fileURLToPath(new URL(`peft/${name}`, import.meta.url));
const peftLogits = JSON.parse(Deno.readTextFileSync(peft("logits.json"))) as Record<
  string,
  number[]
>;

/** Scores behind the last two tokens. */
const lastLogits = (lm: LanguageModel) =>
  noGrad(() => lm.forward(idsOf()).slice(0, [-2, fixture.ids.length])).toNumbers();

testOnBackends(
  "loadAdapters reads PEFT's of all ranks and factors; swaps, merges, saves them",
  () =>
    withModel(async (lm, folder) => {
      const bare = await lastLogits(lm);
      for (const [name, due] of Object.entries(peftLogits)) {
        const adapters = await loadAdapters(lm.model, peft(name));
        assertClose(await lastLogits(lm), due, name);
        await adapters.save(`${folder}/${name}`);
        adapters.dispose();
        assertClose(await lastLogits(lm), bare, "without");
        using again = await loadAdapters(lm.model, `${folder}/${name}`);
        assertClose(await lastLogits(lm), due, `${name}, saved by netcl`);
        assertEquals(
          Object.keys(again.stateDict()).sort(),
          Object.keys(await loadSafetensors(`${peft(name)}/adapter_model.safetensors`)).sort(),
        );
      }
      const merged = await loadAdapters(lm.model, peft("odd"));
      merged.merge();
      assertClose(await lastLogits(lm), peftLogits.odd!, "merged");
    }),
);

testOnBackends(
  "lora learns beside packed weights as beside the same ones decoded",
  () =>
    inFolder(async (folder) => {
      const wide = { hidden_size: 32, intermediate_size: 64 };
      const shapes = Object.entries(fixture.shapes).map(([name, shape]) => [
        name,
        shape.map((n) => ({ 16: 32, 24: 64, 8: 16 })[n] ?? n),
      ]);
      const config = { ...fixture.config, ...wide };
      const path = `${folder}/model.gguf`;
      await writeGguf(
        path,
        { ...fixture, config, shapes: Object.fromEntries(shapes) },
        tokens,
        true,
      );
      const found: number[][] = [];
      for (const dtype of [undefined, "float32"]) {
        using lm = await LanguageModel.load(path, dtype ? { dtype } : {});
        const isPacked = (lm.model as Decoder).parts.get("model.embed_tokens");
        assertEquals((isPacked as TokenEmbedding).weight instanceof PackedMatrix, !dtype);
        using adapters = begun(lm);
        found.push(await train(lm, adapters, 20));
        const learned = await lastLogits(lm);
        adapters.merge();
        assertClose(await lastLogits(lm), learned, "merged");
      }
      // Beside blocks rows are rounded to 16 bits; Adam divides by how large small gradients are.
      const [packed, decoded] = found as [number[], number[]];
      assertClose(packed.slice(0, 8), decoded.slice(0, 8), "first losses", 2e-4);
      assertClose(packed, decoded, "losses", 1e-2);
      assert(found[0]!.at(-1)! < found[0]![0]! - 1, `${found[0]}`);
    }),
);

testOnCPU(
  "loadAdapters names what PEFT does and it does not",
  () =>
    withModel(async (lm, folder) => {
      const config = JSON.parse(await Deno.readTextFile(`${peft("plain")}/adapter_config.json`));
      const weights = `${peft("plain")}/adapter_model.safetensors`;
      await Deno.copyFile(weights, `${folder}/adapter_model.safetensors`);
      const refused = async (change: object, message: string) => {
        const text = JSON.stringify({ ...config, ...change });
        await Deno.writeTextFile(`${folder}/adapter_config.json`, text);
        await assertRejects(() => loadAdapters(lm.model, folder), FileFormatError, message);
      };
      await refused({ modules_to_save: ["lm_head"] }, "modules_to_save");
      await refused({ layer_replication: [[0, 1]] }, "layer_replication");
      await refused({ lora_bias: true }, "lora_bias");
      await refused({ r: "4" }, "no rank r");
      await refused({ alpha_pattern: { "(": 2 } }, 'alpha_pattern "("');
    }),
);

testOnCPU("lora names the layers that there are, and drops while it learns only", async () => {
  const model = new nn.Sequential(new nn.Linear(4, 3), new nn.ReLU(), new nn.Linear(3, 2));
  const error = assertThrows(() => lora(model, { rank: 1, targets: ["q_proj"] }), RangeError);
  assert(error.message.includes("layers named 0, 2"), error.message);
  assertThrows(() => lora(model, { rank: 1, targets: [] }), RangeError);
  using adapters = lora(model, { rank: 2, targets: ["0"], dropout: 0.5 });
  adapters.parameters()[1]!.assign(Tensor.ones([3, 2]));
  const x = Tensor.ones([64, 4]),
    rows = async () => new Set((await model.forward(x).toArray() as number[][]).map(String)).size;
  assert(await rows() > 1);
  model.eval();
  assertEquals(await rows(), 1);
});
