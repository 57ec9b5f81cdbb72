/** The text part of models that see pictures, too: their texts are written by a language model that stands within. */
import type { NamedWeights } from "../weights/weight_reader.ts";
import type { RawConfig } from "./decoder/architectures/config.ts";

/** In front of names of the text part. */
const prefix = /^(model\.)?(language_model|text_model)\./;
/** Names of other parts begin so, or stand behind "model.". */
const isOther =
  /^(model\.)?(vision_\w+|visual|multi_modal_projector|mm_\w+|connector|image_\w+|audio_\w+|embed_vision|embed_audio)(\.|$)/;

/** The configuration of the text part; null for a model of texts alone. */
export function textConfig(config: RawConfig, file: NamedWeights): RawConfig | null {
  const { text_config: own, vision_config: seen, ...rest } = config;
  if (!own && !seen) return null;
  const hasHead = [...file.tensors.keys()].some((name) => /(^|\.)lm_head\.weight$/.test(name));
  const ends = { eos_token_id: rest.eos_token_id };
  const part = own ? { ...ends, ...(own as RawConfig) } : rest;
  return { ...part, tie_word_embeddings: !hasHead };
}

/** The weights of the text part, under the names that they have in models of texts alone. */
export function textWeights(file: NamedWeights): NamedWeights {
  const names = new Map(
    [...file.tensors.keys()].flatMap((name) =>
      isOther.test(name) ? [] : [[name.replace(prefix, "$1"), name]]
    ),
  );
  return {
    tensors: new Map([...names].map(([name, theirs]) => [name, file.tensors.get(theirs)!])),
    read: (name, begin, end) => file.read(names.get(name) ?? name, begin, end),
    decode: (name) => file.decode(names.get(name) ?? name),
  };
}
