/** Small models with weights by a formula, and what transformers computes of them: fixtures/make.py. */
import { crc32 } from "node:zlib";
import { saveSafetensors, Tensor } from "../../../mod.ts";
import { LanguageModel, type LoadModelOptions } from "../../../tensor/models/mod.ts";
import { inFolder } from "../../temporary_folder.ts";

/** A model and its reference. */
export interface Fixture {
  readonly config: Record<string, unknown>;
  readonly shapes: Record<string, number[]>;
  readonly ids: number[];
  readonly rows: number[];
  readonly logits: number[];
  readonly greedy: number[];
}

const url = new URL("language/fixtures/architectures.json", import.meta.url);
/** By architecture. */
export const fixtures = JSON.parse(Deno.readTextFileSync(url)) as Record<string, Fixture>;

/** The weights of fixtures/make.py. */
export function weightsOf(name: string, shape: readonly number[]): Tensor {
  const size = shape.reduce((a, b) => a * b, 1), seed = crc32(name);
  const data = Float32Array.from({ length: size }, (_, k) => {
    const first = (Math.imul(k + 1, 2654435761) + seed) >>> 0;
    const u = ((Math.imul(first, 1103515245) + 12345) >>> 0) / 2 ** 32 - 0.5;
    return shape.length > 1
      ? u * 4 / Math.sqrt(shape.at(-1)!)
      : u * 0.5 + Number(name.endsWith("weight"));
  });
  return Tensor.fromHost(data, { shape: [...shape] });
}

/** A token for each of these letters; the first three are special. */
export const letters = "<s>|</s>|<pad>|abcdefghijklmnopqrstuvwxyz .:!?0123456789-+";

/** The tokens of small models. */
export const tokens: readonly string[] = [
  ...letters.split("|").slice(0, 3),
  ...letters.split("|")[3]!,
].slice(0, 48);
const special = (id: number) => ({
  id,
  content: tokens[id]!,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: true,
});

/** Their tokenizer.json. */
export const tokenizer = {
  version: "1.0",
  added_tokens: [0, 1, 2].map(special),
  normalizer: null,
  pre_tokenizer: null,
  post_processor: null,
  decoder: { type: "Fuse" },
  model: {
    type: "BPE",
    vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
    merges: [],
  },
};

const template =
  "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role + (m.name or '') + ': ' + m.content + '.' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";

/** Writes a model into a folder. */
export async function writeModel(folder: string, { config, shapes }: Fixture): Promise<void> {
  const weights = Object.entries(shapes).map(([name, shape]) => [name, weightsOf(name, shape)]);
  await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify(config));
  await Deno.writeTextFile(`${folder}/tokenizer.json`, JSON.stringify(tokenizer));
  await Deno.writeTextFile(`${folder}/chat_template.jinja`, template);
  await saveSafetensors(`${folder}/model.safetensors`, Object.fromEntries(weights));
}

/** Runs a test with a small model on the active device, loaded from a folder of its own. */
export function withModel(
  fn: (lm: LanguageModel, folder: string) => void | Promise<void>,
  fixture = fixtures.qwen2!,
  options: LoadModelOptions = {},
): Promise<void> {
  return inFolder(async (folder) => {
    await writeModel(folder, fixture);
    using lm = await LanguageModel.load(folder, options);
    await fn(lm, folder);
  });
}

/** Ids as a batch of one text. */
export function textOf(ids: readonly number[]): Tensor {
  return Tensor.fromHost(Int32Array.from(ids), { shape: [1, ids.length] });
}
