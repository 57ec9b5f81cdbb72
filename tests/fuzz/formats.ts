/** The formats that are read: good files of each, and what reads them and looks at what it gives. */
import { gunzipSync } from "node:zlib";
import {
  decodeIdx,
  decodeImage,
  decodeNpy,
  decodeNpz,
  decodeSafetensors,
  decodeTorch,
  decodeWav,
  type HostArray,
  loadCheckpoint,
  loadCsv,
  loadSafetensors,
  nn,
  noGrad,
  optim,
  saveCheckpoint,
  saveSafetensors,
  Tensor,
  withDevice,
} from "../../mod.ts";
import { gunzip } from "../../tensor/io/core/gzip.ts";
import { parseJsonObject } from "../../tensor/io/core/json.ts";
import { decodeGguf } from "../../tensor/io/gguf/gguf.ts";
import { Embedder, LanguageModel, loadAdapters, loadOnnx } from "../../tensor/models/mod.ts";
import { Tokenizer } from "../../tensor/models/mod.ts";
import { writeGguf } from "../tensor/models/small_gguf.ts";
import {
  type Fixture,
  fixtures,
  tokenizer,
  tokens,
  writeModel,
} from "../tensor/models/small_models.ts";
import type { Bytes, Structure } from "./damage.ts";
import {
  blocks,
  gzipped,
  json,
  png,
  protobuf,
  riff,
  safetensors,
  table,
  zip,
} from "./structures.ts";

/** A good file. */
export interface Sample {
  readonly name: string;
  readonly bytes: Bytes;
  // deno-lint-ignore no-explicit-any -- parts of any kind
  readonly structure?: Structure<any>;
}

/** A format. */
export interface Format extends Disposable {
  samples(): Sample[];
  /** Reads a file in place of the sample of that name. */
  read(bytes: Bytes, name: string): Promise<void>;
}

type Structures = Readonly<Record<string, Sample["structure"]>>;

const url = (path: string): URL => new URL(`../tensor/${path}`, import.meta.url);

/** The files of a folder of fixtures, and their forms by how their names end. */
function samplesOf(folder: string, structures: Structures): Sample[] {
  return Object.entries(structures).flatMap(([ending, structure]) =>
    [...Deno.readDirSync(url(folder))].filter(({ name }) => name.endsWith(ending))
      .map(({ name }) => sampleOf(name, Deno.readFileSync(url(`${folder}/${name}`)), structure))
  );
}

function sampleOf(name: string, bytes: Bytes, structure: Sample["structure"]): Sample {
  return structure ? { name, bytes, structure } : { name, bytes };
}

/** Throws where an array's values are not as many as its shape says, nested deep or in a ring as it may be. */
function look(what: unknown): void {
  const all = new Set([what]);
  for (const next of all) {
    if (typeof next !== "object" || next === null || ArrayBuffer.isView(next)) continue;
    const { data, shape } = next as HostArray, isArray = shape && ArrayBuffer.isView(data);
    if (isArray && data.length !== shape.reduce((product, n) => product * n, 1)) {
      throw new Error(`${data.length} values have the shape [${shape}]`);
    }
    for (const part of Object.values(next)) all.add(part);
  }
}

/** A format whose bytes are read in memory. */
function inMemory(
  folder: string,
  structures: Structures,
  decode: (bytes: Bytes) => unknown,
  unpack = (bytes: Bytes): Bytes => bytes,
): () => Format {
  return () => ({
    samples: () =>
      samplesOf(folder, structures).map((each) => ({ ...each, bytes: unpack(each.bytes) })),
    read: async (bytes) => look(await decode(bytes)),
    [Symbol.dispose]: () => {},
  });
}

/** A format of a folder of files, one of which is hostile. */
async function inFolder(
  write: (folder: string) => Promise<unknown>,
  structures: Structures,
  load: (folder: string, name: string) => Promise<unknown>,
): Promise<Format> {
  const folder = await Deno.makeTempDir({ prefix: "netcl_fuzz_" });
  await write(folder);
  const all = [...Deno.readDirSync(folder)].filter(({ isFile }) => isFile);
  const samples = Object.entries(structures).flatMap(([ending, structure]) =>
    all.filter(({ name }) => name.endsWith(ending)).map(({ name }) =>
      sampleOf(name, Deno.readFileSync(`${folder}/${name}`), structure)
    )
  );
  return {
    samples: () => samples,
    async read(bytes, name) {
      const good = samples.find((sample) => sample.name === name)!;
      Deno.writeFileSync(`${folder}/${name}`, bytes);
      try {
        await withDevice("cpu", () => load(folder, name));
      } finally {
        Deno.writeFileSync(`${folder}/${name}`, good.bytes);
      }
    },
    [Symbol.dispose]: () => Deno.removeSync(folder, { recursive: true }),
  };
}

function copyFrom(path: string, ending: string) {
  return async (folder: string): Promise<void> => {
    for (const { name } of Deno.readDirSync(url(path))) {
      if (name.endsWith(ending)) await Deno.copyFile(url(`${path}/${name}`), `${folder}/${name}`);
    }
  };
}

function disposeAll(tensors: Readonly<Record<string, Tensor>>): void {
  for (const tensor of Object.values(tensors)) tensor.dispose();
}

/** A model in two files, and their index. */
async function writeShards(folder: string): Promise<void> {
  const names = { a: "one.safetensors", b: "one.safetensors", c: "two.safetensors" };
  const of = (length: number) => Tensor.rand([length, 3], { device: "cpu" });
  await saveSafetensors(`${folder}/one.safetensors`, { a: of(2), b: of(3) });
  await saveSafetensors(`${folder}/two.safetensors`, { c: of(4) });
  const index = JSON.stringify({ metadata: { total_size: 108 }, weight_map: names });
  await Deno.writeTextFile(`${folder}/model.safetensors.index.json`, index);
}

/** A run to be saved: a model, its optimizer, a schedule. */
function run() {
  const model = new nn.Sequential(new nn.Linear(2, 3), new nn.BatchNorm1d(3));
  const optimizer = new optim.Adam(model.parameters());
  return { model, optimizer, scheduler: new optim.ExponentialLR(optimizer, { gamma: 0.9 }) };
}

/** Computes with a model, and holds its scores against what the configuration says. */
async function compute(path: string): Promise<void> {
  using lm = await LanguageModel.load(path);
  using ids = Tensor.fromHost(Int32Array.of(1, 5, 9), { shape: [1, 3] });
  using scores = noGrad(() => lm.forward(ids));
  const found = await scores.toHost();
  look({ data: found, shape: scores.shape });
}

const texts = ["hello ab", "", "ünï 🙂 1+1"];

async function encodeTexts(path: string): Promise<void> {
  const contents = parseJsonObject(await Deno.readFile(path), path);
  const read = new Tokenizer({ tokenizer: contents, config: {} });
  for (const each of texts) read.decode(read.encode(each));
}

/** Tokenizers of other kinds, with all that may stand around a model. */
async function writeTokenizers(folder: string): Promise<void> {
  const { model, added_tokens } = tokenizer, { vocab } = model;
  const around = {
    added_tokens,
    normalizer: {
      type: "Sequence",
      normalizers: [
        { type: "NFKC" },
        { type: "Lowercase" },
        { type: "Replace", pattern: { String: " " }, content: "_" },
      ],
    },
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        {
          type: "Split",
          pattern: { Regex: "\\p{N}{1,3}|\\s+" },
          behavior: "Isolated",
          invert: false,
        },
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
      ],
    },
    post_processor: {
      type: "TemplateProcessing",
      single: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
      pair: [],
      special_tokens: { "<s>": { id: "<s>", ids: [0], tokens: ["<s>"] } },
    },
    decoder: { type: "ByteLevel" },
  };
  const pieces = { type: "WordPiece", unk_token: "<pad>", continuing_subword_prefix: "##", vocab };
  const scored = { type: "Unigram", unk_id: 2, vocab: tokens.map((token, k) => [token, -k / 8]) };
  const bert = {
    normalizer: { type: "BertNormalizer" },
    pre_tokenizer: { type: "BertPreTokenizer" },
  };
  const files = {
    plain: tokenizer,
    bytes: { ...around, model: { ...model, merges: [["a", "b"], ["h", "e"]] } },
    pieces: { ...tokenizer, ...bert, decoder: { type: "WordPiece" }, model: pieces },
    scored: { ...around, decoder: { type: "Metaspace", replacement: "_" }, model: scored },
  };
  for (const [name, contents] of Object.entries(files)) {
    await Deno.writeTextFile(`${folder}/${name}.json`, JSON.stringify(contents));
  }
}

const encoder = (JSON.parse(
  Deno.readTextFileSync(url("models/embedding/encoders.json")),
) as Record<string, Fixture>).bert!;
const jsonFiles = { ".json": json };
const pictures = "io/pictures/fixtures", arrays = "io/fixtures", torch = "io/torch/fixtures";

/** By name: what opens a format. */
export const formats: Readonly<Record<string, () => Format | Promise<Format>>> = {
  "npy": inMemory(arrays, { ".npy": undefined }, decodeNpy),
  "npz": inMemory(arrays, { ".npz": zip() }, decodeNpz),
  "safetensors": inMemory(arrays, { ".safetensors": safetensors }, decodeSafetensors),
  "safetensors, several": () =>
    inFolder(
      writeShards,
      { ".json": json, ".safetensors": safetensors },
      async (folder) => disposeAll(await loadSafetensors(`${folder}/model.safetensors.index.json`)),
    ),
  "idx": inMemory(
    arrays,
    { ".idx.gz": undefined },
    decodeIdx,
    (bytes) => new Uint8Array(gunzipSync(bytes)),
  ),
  "gzip": inMemory(arrays, { ".idx.gz": gzipped }, (bytes) => gunzip(bytes)),
  "csv": () =>
    inFolder(
      (folder) => Deno.writeTextFile(`${folder}/a.csv`, 'a,"b ""c""",d\r\n1,2.5,-3e2\n4,"5",6\n'),
      { ".csv": table },
      async (folder) => look(await loadCsv(`${folder}/a.csv`, { header: true })),
    ),
  "torch, zip": inMemory(
    torch,
    { "zip.pt": zip(), "numpy5.pt": zip(), "big_endian.pt": zip() },
    decodeTorch,
  ),
  "torch, stream": inMemory(
    torch,
    { "legacy.pt": undefined, "protocol0.pt": undefined },
    decodeTorch,
  ),
  "torch, tar": inMemory(torch, { "tar.pt": blocks(512) }, decodeTorch),
  "wav": inMemory("io/sound/fixtures", { ".wav": riff }, decodeWav),
  "png": inMemory(pictures, { ".png": png }, decodeImage),
  "jpeg": inMemory(pictures, { ".jpg": undefined }, decodeImage),
  "gif": inMemory(pictures, { ".gif": undefined }, decodeImage),
  "bmp": inMemory(pictures, { ".bmp": undefined }, decodeImage),
  "webp": inMemory(pictures, { ".webp": riff }, decodeImage),
  "gguf": inMemory("io/gguf/fixtures", { ".gguf": undefined }, decodeGguf),
  "onnx": () =>
    inFolder(
      copyFrom("models/onnx/fixtures", ".onnx"),
      { ".onnx": protobuf },
      async (folder, name) => (await loadOnnx(`${folder}/${name}`)).dispose(),
    ),
  "tokenizer.json": () =>
    inFolder(writeTokenizers, jsonFiles, (folder, name) => encodeTexts(`${folder}/${name}`)),
  "model, folder": () =>
    inFolder((folder) => writeModel(folder, fixtures.qwen2!), jsonFiles, compute),
  "model, gguf": () =>
    inFolder(
      (folder) => writeGguf(`${folder}/model.gguf`, fixtures.llama!, tokens, true),
      { ".gguf": undefined },
      (folder) => compute(`${folder}/model.gguf`),
    ),
  "embedder": () =>
    inFolder((folder) => writeModel(folder, encoder), jsonFiles, async (folder) => {
      using embedder = await Embedder.load(folder);
      using vectors = await embedder.embed(["ab", "c"]);
      await vectors.toHost();
    }),
  "training state": () =>
    inFolder(
      (folder) =>
        withDevice("cpu", () => saveCheckpoint(`${folder}/a.safetensors`, { ...run(), epoch: 1 })),
      { ".safetensors": safetensors },
      async (folder) => {
        await loadCheckpoint(`${folder}/a.safetensors`, run());
      },
    ),
  "adapters": async () => {
    const folder = await Deno.makeTempDir();
    await writeModel(folder, fixtures.qwen2!);
    const lm = await withDevice("cpu", () => LanguageModel.load(folder));
    await Deno.remove(folder, { recursive: true });
    const peft = "models/adapters/peft/odd";
    return inFolder(
      copyFrom(peft, ""),
      { ".json": json, ".safetensors": safetensors },
      async (folder) => (await loadAdapters(lm.model, folder)).dispose(),
    );
  },
};
