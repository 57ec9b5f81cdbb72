/** Small models as GGUF files: the names, orders and offsets that llama.cpp's converter gives them. */
import { weightsOf } from "./small_models.ts";
import type { Fixture } from "./small_models.ts";

type Value = number | string | readonly string[];

class Writer {
  readonly #bytes: number[] = [];

  u32(value: number): void {
    this.#bytes.push(...new Uint8Array(Uint32Array.of(value).buffer));
  }

  u64(value: number): void {
    this.#bytes.push(...new Uint8Array(BigUint64Array.of(BigInt(value)).buffer));
  }

  text(value: string): void {
    const bytes = new TextEncoder().encode(value);
    this.u64(bytes.length);
    this.#bytes.push(...bytes);
  }

  /** A whole number as uint32, another one as float32; a text; a list of texts. */
  value(value: Value): void {
    if (typeof value === "string") {
      this.u32(8);
      this.text(value);
    } else if (typeof value === "number") {
      this.u32(Number.isInteger(value) ? 4 : 6);
      const array = Number.isInteger(value) ? Uint32Array.of(value) : Float32Array.of(value);
      this.#bytes.push(...new Uint8Array(array.buffer));
    } else {
      for (const n of [9, 8]) this.u32(n);
      this.u64(value.length);
      for (const text of value) this.text(text);
    }
  }

  append(bytes: Uint8Array): void {
    this.align();
    for (const byte of bytes) this.#bytes.push(byte);
  }

  align(): void {
    while (this.#bytes.length % 32 > 0) this.#bytes.push(0);
  }

  get bytes(): Uint8Array {
    return Uint8Array.from(this.#bytes);
  }
}

const outer: Readonly<Record<string, string>> = {
  "model.embed_tokens": "token_embd",
  "model.norm": "output_norm",
  "lm_head": "output",
  "transformer.wte": "token_embd",
  "transformer.wpe": "position_embd",
  "transformer.ln_f": "output_norm",
  "embeddings.word_embeddings": "token_embd",
  "embeddings.tok_embeddings": "token_embd",
  "embeddings.position_embeddings": "position_embd",
  "embeddings.token_type_embeddings": "token_types",
  "embeddings.LayerNorm": "token_embd_norm",
  "embeddings.norm": "token_embd_norm",
  "emb_ln": "token_embd_norm",
  "final_norm": "output_norm",
};

const inLayers: Readonly<Record<string, string>> = {
  "input_layernorm": "attn_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.qkv_proj": "attn_qkv",
  "self_attn.o_proj": "attn_output",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "post_attention_layernorm": "ffn_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.gate_up_proj": "ffn_up",
  "post_feedforward_layernorm": "post_ffw_norm",
  "mlp.down_proj": "ffn_down",
  "ln_1": "attn_norm",
  "attn.c_attn": "attn_qkv",
  "attn.c_proj": "attn_output",
  "ln_2": "ffn_norm",
  "mlp.c_fc": "ffn_up",
  "mlp.c_proj": "ffn_down",
  "mlp.gate": "ffn_gate_inp",
  "mlp.experts.gate_proj": "ffn_gate_exps",
  "mlp.experts.up_proj": "ffn_up_exps",
  "mlp.experts.down_proj": "ffn_down_exps",
  "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
  "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
  "mlp.shared_expert.up_proj": "ffn_up_shexp",
  "mlp.shared_expert.down_proj": "ffn_down_shexp",
  "attention.self.query": "attn_q",
  "attention.self.key": "attn_k",
  "attention.self.value": "attn_v",
  "attention.output.dense": "attn_output",
  "attention.output.LayerNorm": "attn_output_norm",
  "intermediate.dense": "ffn_up",
  "output.dense": "ffn_down",
  "output.LayerNorm": "layer_output_norm",
  "attn.Wqkv": "attn_qkv",
  "attn.out_proj": "attn_output",
  "norm1": "attn_output_norm",
  "mlp.fc11": "ffn_up",
  "mlp.fc12": "ffn_gate",
  "mlp.fc2": "ffn_down",
  "norm2": "layer_output_norm",
  "attn_norm": "attn_norm",
  "attn.Wo": "attn_output",
  "mlp_norm": "ffn_norm",
  "mlp.Wi": "ffn_up",
  "mlp.Wo": "ffn_down",
};

/** Some have a norm behind attention, which is called as that in front of what follows. */
const withEnds: Readonly<Record<string, string>> = {
  ...inLayers,
  "post_attention_layernorm": "post_attention_norm",
  "pre_feedforward_layernorm": "ffn_norm",
};
const ended = /^(gemma[23-]|olmo2|exaone4|seed_oss)/;

function nameOf(name: string, type: string): string {
  const [, rest, kind] = /^(.*)\.(weight|bias)$/.exec(name.replace(/\.experts\.\d+/, ".experts"))!;
  const layer = /^(?:model\.layers|transformer\.h|encoder\.layers?|layers)\.(\d+)\.(.*)$/.exec(
    rest!,
  );
  const part = layer
    ? `blk.${layer[1]}.${(ended.test(type) ? withEnds : inLayers)[layer[2]!]}`
    : outer[rest!] ?? outer[`model.${rest}`];
  return `${part}.${kind}`;
}

const keys: readonly (readonly [theirs: string, ...ours: string[]])[] = [
  ["context_length", "max_position_embeddings", "n_positions"],
  ["embedding_length", "hidden_size", "n_embd"],
  ["block_count", "num_hidden_layers", "n_layer"],
  ["feed_forward_length", "intermediate_size"],
  ["attention.head_count", "num_attention_heads", "n_head"],
  ["attention.head_count_kv", "num_key_value_heads"],
  ["attention.key_length", "head_dim"],
  ["attention.layer_norm_rms_epsilon", "rms_norm_eps"],
  [
    "attention.layer_norm_epsilon",
    "layer_norm_epsilon",
    "layer_norm_eps",
    "norm_epsilon",
    "norm_eps",
  ],
  ["expert_count", "num_experts"],
  ["expert_used_count", "num_experts_per_tok"],
  ["expert_feed_forward_length", "moe_intermediate_size"],
  ["attention.scale", "attention_multiplier"],
  ["embedding_scale", "embedding_multiplier"],
  ["residual_scale", "residual_multiplier"],
  ["logit_scale", "logits_scaling"],
  ["attention.sliding_window", "sliding_window", "local_attention"],
  ["attention.sliding_window_pattern", "global_attn_every_n_layers"],
  ["attn_logit_softcapping", "attn_logit_softcapping"],
  ["final_logit_softcapping", "final_logit_softcapping"],
];

/** Numbers of a tensor as the converter changes them, with their shape. */
async function converted(
  name: string,
  shape: readonly number[],
  { config }: Fixture,
): Promise<[Float32Array, readonly number[]]> {
  const type = String(config.model_type);
  using tensor = weightsOf(name, shape);
  const values = new Float32Array(await tensor.toHost("float32"));
  if (/^(gemma|nemotron)/.test(type) && name.endsWith("norm.weight")) {
    return [values.map((x) => x + 1), shape];
  }
  if (type === "gpt2" && /\.(c_\w+)\.weight$/.test(name)) {
    const [rows, columns] = shape as [number, number];
    const turned = values.map((_, k) => values[k % rows * columns + Math.floor(k / rows)]!);
    return [turned, [columns, rows]];
  }
  const part = /\.([qk])_proj\./.exec(name)?.[1];
  if (!part || !["llama", "mistral", "smollm3", "granite"].includes(type)) return [values, shape];
  // Features that are rotated together lie side by side.
  const heads = Number(config[part === "q" ? "num_attention_heads" : "num_key_value_heads"]);
  const rows = shape[0]!, width = values.length / rows, features = rows / heads;
  const paired = values.map((_, k) => {
    const row = Math.floor(k / width), feature = row % features;
    const from = row - feature + feature % 2 * features / 2 + Math.floor(feature / 2);
    return values[from * width + k % width]!;
  });
  return [paired, shape];
}

/** The names of architectures that are others there. */
const architectures: Readonly<Record<string, string>> = {
  mistral: "llama",
  gemma3_text: "gemma3",
  qwen2_moe: "qwen2moe",
  nomic_bert: "nomic-bert",
  modernbert: "modern-bert",
};

/** Writes a model into a GGUF file; `isPacked`: matrices of whole blocks as Q8_0; `own`: more of its header. */
export async function writeGguf(
  path: string,
  fixture: Fixture,
  tokens: readonly string[],
  isPacked = false,
  own: Readonly<Record<string, Value>> = {},
): Promise<void> {
  const { config, shapes } = fixture, type = String(config.model_type);
  const architecture = architectures[type] ?? type;
  const rope = config.rope_parameters as
    | Record<string, number & Record<string, number>>
    | undefined;
  const head = Number(config.hidden_size) / Number(config.num_attention_heads);
  const metadata: [string, Value][] = [
    ["general.architecture", architecture],
    ["tokenizer.ggml.model", "gpt2"],
    ["tokenizer.ggml.pre", "default"],
    ["tokenizer.ggml.tokens", tokens],
    ["tokenizer.ggml.merges", []],
    ...config.eos_token_id === undefined
      ? []
      : [["tokenizer.ggml.eos_token_id", Number(config.eos_token_id)] as [string, Value]],
    ...Object.entries(own).map(([name, value]): [string, Value] => [
      `${architecture}.${name}`,
      value,
    ]),
  ];
  for (const [theirs, ...ours] of keys) {
    const value = ours.map((name) => config[name]).find((value) => typeof value === "number");
    if (value !== undefined) metadata.push([`${architecture}.${theirs}`, value as number]);
  }
  if (rope) {
    const base = Number(
      (rope.full_attention as Record<string, number>)?.rope_theta ?? rope.rope_theta,
    );
    metadata.push([`${architecture}.rope.freq_base`, base]);
    const near = (rope.sliding_attention as Record<string, number>)?.rope_theta;
    if (/^(modernbert|gemma-)/.test(type)) {
      metadata.push([`${architecture}.rope.freq_base_swa`, near!]);
    }
    const share = Number(rope.partial_rotary_factor ?? 1);
    if (share < 1) metadata.push([`${architecture}.rope.dimension_count`, head * share]);
  }
  const tensors: GgufTensor[] = [];
  // Experts in the order of their numbers.
  const { compare } = new Intl.Collator("en", { numeric: true });
  for (const name of Object.keys(shapes).sort(compare)) {
    const [values, own] = await converted(name, shapes[name]!, fixture);
    const isBlocks = isPacked && own.length === 2 && own[1]! % Q8_0.elements === 0;
    tensors.push({
      name: nameOf(name, type),
      shape: own,
      type: isBlocks ? Q8_0.type : 0,
      bytes: isBlocks ? blocksOf(values) : new Uint8Array(values.slice().buffer),
    });
  }
  await Deno.writeFile(path, fileOf(metadata, stacked(tensors)));
}

/** Tensors with those of experts one behind the other, in one. */
function stacked(tensors: readonly GgufTensor[]): GgufTensor[] {
  const all = Map.groupBy(tensors, ({ name }) => name);
  return [...all].map(([name, each]) => {
    const { shape, type } = each[0]!, bytes = each.flatMap(({ bytes }) => [...bytes]);
    const own = each.length > 1 ? [each.length, ...shape] : shape;
    return { name, shape: own, type, bytes: Uint8Array.from(bytes) };
  });
}

/** A tensor of a file: of type 0, float32, or of blocks. */
interface GgufTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly type: number;
  readonly bytes: Uint8Array;
}

/** Blocks of a scale of float16 and 32 numbers of 8 bits. */
const Q8_0 = { type: 8, elements: 32, bytes: 34 };

function blocksOf(values: Float32Array): Uint8Array {
  const out = new Uint8Array(values.length / Q8_0.elements * Q8_0.bytes),
    view = new DataView(out.buffer);
  for (let at = 0, to = 0; at < values.length; at += Q8_0.elements, to += Q8_0.bytes) {
    const block = values.subarray(at, at + Q8_0.elements);
    const scale = Math.max(...block.map(Math.abs)) / 127;
    view.setUint16(to, new Uint16Array(Float16Array.of(scale).buffer)[0]!, true);
    block.forEach((value, k) => view.setInt8(to + 2 + k, scale && Math.round(value / scale)));
  }
  return out;
}

function fileOf(
  metadata: readonly [string, Value][],
  tensors: readonly GgufTensor[],
): Uint8Array {
  const file = new Writer();
  for (const n of [0x46554747, 3]) file.u32(n);
  for (const n of [tensors.length, metadata.length]) file.u64(n);
  for (const [name, value] of metadata) {
    file.text(name);
    file.value(value);
  }
  let offset = 0;
  for (const { name, shape, type, bytes } of tensors) {
    file.text(name);
    file.u32(shape.length);
    for (const n of shape.toReversed()) file.u64(n);
    file.u32(type);
    file.u64(offset);
    offset += Math.ceil(bytes.byteLength / 32) * 32;
  }
  file.align();
  for (const { bytes } of tensors) file.append(bytes);
  file.align();
  return file.bytes;
}
