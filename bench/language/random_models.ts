/**
 * Language models of random weights, made on the device without a file: sizes of well-known models, in numbers or
 * in packed blocks.
 */
import { type DeviceHandle, Tensor } from "../../mod.ts";
import { fieldPlaces } from "../../backend/formats/block_format.ts";
import { formatTable } from "../../backend/formats/block_formats.ts";
import { withRole } from "../../tensor/nn/module/parameter.ts";
import type { BlockType } from "../../tensor/io/gguf/gguf_format.ts";
import { architectureOf } from "../../tensor/models/language/decoder/architectures/table.ts";
import {
  completeConfig,
  decoderConfig,
} from "../../tensor/models/language/decoder/architectures/decoder_config.ts";
import { buildDecoder } from "../../tensor/models/language/decoder/build_decoder.ts";
import type { Decoder } from "../../tensor/models/language/decoder/decoder.ts";
import type { RawConfig } from "../../tensor/models/language/decoder/architectures/config.ts";
import { undivided } from "../../tensor/distributed/tensor_parallel/split_work.ts";
import { PackedMatrix } from "../../tensor/models/weights/packed_matrix.ts";
import type { Weight } from "../../tensor/models/weights/projection.ts";
import type { WeightReader } from "../../tensor/models/weights/weight_reader.ts";

/** Settings that the Llamas below have in common. */
const llama3 = {
  model_type: "llama",
  vocab_size: 128_256,
  num_key_value_heads: 8,
  num_attention_heads: 32,
  max_position_embeddings: 8192,
  rms_norm_eps: 1e-5,
  rope_theta: 500_000,
} as const;

/** Configurations by the names of the command line. */
export const randomModels: Readonly<Record<string, RawConfig>> = {
  "1b": {
    ...llama3,
    hidden_size: 2048,
    intermediate_size: 8192,
    num_hidden_layers: 16,
    tie_word_embeddings: true,
  },
  "8b": { ...llama3, hidden_size: 4096, intermediate_size: 14_336, num_hidden_layers: 32 },
  // SmolLM2's sizes.
  "135m": {
    ...llama3,
    vocab_size: 49_152,
    hidden_size: 576,
    intermediate_size: 1536,
    num_attention_heads: 9,
    num_key_value_heads: 3,
    num_hidden_layers: 30,
    tie_word_embeddings: true,
  },
  tiny: {
    ...llama3,
    vocab_size: 1024,
    hidden_size: 512,
    intermediate_size: 1024,
    num_attention_heads: 8,
    num_hidden_layers: 2,
  },
};

/** Types of weights by the names of the command line. */
export const weightTypes = {
  bfloat16: "bfloat16",
  float16: "float16",
  float32: "float32",
  q4_0: "Q4_0",
  q4_1: "Q4_1",
  q8_0: "Q8_0",
  q4_k: "Q4_K",
  q6_k: "Q6_K",
} as const;

/** The name of a type of weights. */
export type WeightType = (typeof weightTypes)[keyof typeof weightTypes];

const isNumbers = (type: WeightType): type is "bfloat16" | "float16" | "float32" =>
  /float/.test(type);

/** Elements that a type packs together. */
export const blockLength = (type: WeightType): number =>
  isNumbers(type) ? 1 : formatTable[type].elements;

/** The size of a tensor by the end of its name. */
function shapeOf(name: string, raw: Record<string, unknown>): number[] {
  const size = (key: string) => raw[key] as number;
  const width = size("hidden_size"), inner = size("intermediate_size");
  const keys = width / size("num_attention_heads") * size("num_key_value_heads");
  if (/(embed_tokens|lm_head)\.weight$/.test(name)) return [size("vocab_size"), width];
  if (/(gate|up)_proj\.weight$/.test(name)) return [inner, width];
  if (name.endsWith("down_proj.weight")) return [width, inner];
  if (/[kv]_proj\.weight$/.test(name)) return [keys, width];
  if (/[qo]_proj\.weight$/.test(name)) return [width, width];
  return [width];
}

/** Blocks of random quants, whose scales are such that no number is large: on the device, fields apart. */
function randomBlocks(type: BlockType, count: number, device: DeviceHandle): Tensor {
  const format = formatTable[type], scale = format.elements === 256 ? 2 ** -14 : 2 ** -9;
  // The mean of quants times scales is as far from 0 as that of minima times theirs.
  const minimum = format.elements === 256 ? scale * 7.5 : -scale * 7.5;
  const parts = Object.entries(fieldPlaces(format)).map(([name, { bytes }]) => {
    if (name !== "scale" && name !== "minimum") {
      return Tensor.randint(0, 256, [count * bytes], { dtype: "uint8", device });
    }
    const halves = Float16Array.of(name === "scale" ? scale : minimum, minimum).slice(0, bytes / 2);
    const one = Tensor.fromHost(new Uint8Array(halves.buffer), { shape: [1, bytes], device });
    return one.expand([count, bytes]).reshape([-1]);
  });
  return Tensor.concat(parts).realize();
}

/** A reader of a file that is not there. */
class RandomWeights implements WeightReader {
  readonly #raw: RawConfig;
  readonly #type: WeightType;
  readonly #device: DeviceHandle;

  constructor(raw: RawConfig, type: WeightType, device: DeviceHandle) {
    this.#raw = raw;
    this.#type = type;
    this.#device = device;
  }

  has(name: string): boolean {
    return !name.endsWith(".bias");
  }

  unread(): string[] {
    return [];
  }

  shape(name: string): number[] {
    return shapeOf(name, this.#raw);
  }

  numbers(name: string): Promise<Tensor> {
    const ones = Tensor.ones(shapeOf(name, this.#raw), { device: this.#device });
    return Promise.resolve(withRole(ones.realize(), "parameter"));
  }

  matrix(name: string): Promise<Weight> {
    const shape = shapeOf(name, this.#raw) as [number, number], device = this.#device;
    const type = this.#type, elements = shape[0] * shape[1];
    if (isNumbers(type)) {
      const drawn = Tensor.randn(shape, { device }).mul(shape[1] ** -0.5).cast(type).realize();
      return Promise.resolve(withRole(drawn, "parameter"));
    }
    const blocks = randomBlocks(type, elements / blockLength(type), device);
    return Promise.resolve(new PackedMatrix(type, blocks, shape));
  }
}

/** A decoder of a size in {@linkcode randomModels}, with random weights of a type. */
export async function randomDecoder(
  size: string,
  type: WeightType,
  device: DeviceHandle,
): Promise<Decoder> {
  const row = architectureOf("llama"), raw = completeConfig(row, randomModels[size]!);
  const isTied = raw.tie_word_embeddings === true;
  const reader = new RandomWeights(raw, type, device);
  return await buildDecoder(row, decoderConfig(row, raw), reader, {
    device,
    isGguf: false,
    isTied,
    work: undivided,
  });
}
