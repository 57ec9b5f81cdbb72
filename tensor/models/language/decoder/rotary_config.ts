/** Rotation of positions, as configurations say it: plain, or stretched for longer texts. */
import { ConfigReader, type RawConfig, type RotaryConfig } from "./config.ts";

type Stretch = (reader: ConfigReader, features: number, context: number) => Partial<RotaryConfig>;

/** The kinds of `rope_type`. Sources: the functions of these names in transformers' modeling_rope_utils.py. */
const stretches: Readonly<Record<string, Stretch>> = {
  default: () => ({}),
  linear: (reader) => {
    const factor = reader.number("factor");
    return { slowdown: () => factor };
  },
  llama3: (reader) => {
    const factor = reader.number("factor");
    const low = reader.number("low_freq_factor"), high = reader.number("high_freq_factor");
    const original = reader.number("original_max_position_embeddings");
    return {
      slowdown: (wave) => {
        if (wave < original / high) return 1;
        if (wave > original / low) return factor;
        const share = (original / wave - low) / (high - low);
        return 1 / ((1 - share) / factor + share);
      },
    };
  },
  // As GGUF files of Llama 3 say it: one factor a frequency.
  factors: (reader) => {
    const { factors } = reader.raw;
    return { slowdown: (_, k) => Number((factors as readonly number[])[k]) };
  },
  // Phi-3's: one factor a frequency, other ones for texts that are longer than those it first saw.
  longrope: (reader, features, context) => {
    const original = reader.number("original_max_position_embeddings"), ratio = context / original;
    const name = ratio > 1 ? "long_factor" : "short_factor", factors = reader.raw[name];
    if (!Array.isArray(factors) || factors.length !== features / 2) {
      throw new TypeError(`Cannot read the model: ${name} must have ${features / 2} numbers`);
    }
    const magnitude = reader.optional("attention_factor") ??
      (ratio > 1 ? Math.sqrt(1 + Math.log(ratio) / Math.log(original)) : 1);
    return { slowdown: (_, k) => Number(factors[k]), magnitude };
  },
};

/**
 * The rotation of one kind of layers.
 *
 * @param raw The configuration; newer ones have `rope_parameters`, older ones `rope_scaling`.
 * @param headFeatures Features of a head.
 * @param context How many positions the model is for.
 * @param kind The kind of layer, where kinds rotate in other ways.
 */
export function rotaryOf(
  raw: RawConfig,
  headFeatures: number,
  context: number,
  kind?: string,
): RotaryConfig {
  const all = (raw.rope_parameters ?? raw.rope_scaling ?? {}) as RawConfig;
  const own = (kind && all[kind] ? all[kind] : all) as RawConfig;
  const reader = new ConfigReader({ ...raw, ...own });
  const base = reader.optional("rope_theta") ?? 10_000;
  const share = reader.optional("partial_rotary_factor") ?? 1;
  const features = reader.optional("rotary_dim") ?? Math.floor(headFeatures * share);
  const type = String(own.rope_type ?? own.type ?? "default");
  const stretch = Object.hasOwn(stretches, type) ? stretches[type]! : null;
  if (!stretch) {
    throw new TypeError(
      `Cannot read the model: its positions are stretched by "${type}"; netcl knows ${
        Object.keys(stretches).join(", ")
      }`,
    );
  }
  return { base, features, slowdown: () => 1, magnitude: 1, ...stretch(reader, features, context) };
}
