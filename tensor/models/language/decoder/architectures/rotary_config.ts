/** Rotation of positions, as configurations say it: plain, or stretched for longer texts. */
import { ConfigReader, type RawConfig, type RotaryConfig } from "./config.ts";

const DEFAULT_BASE = 10_000;

/** The base of the wave lengths, under the names that it has. */
const baseOf = (reader: ConfigReader): number =>
  reader.optional("rope_theta", "rotary_emb_base") ?? DEFAULT_BASE;

type Stretch = (reader: ConfigReader, features: number, context: number) => Partial<RotaryConfig>;

/** The kinds of `rope_type`. Sources: the functions of these names in transformers' modeling_rope_utils.py. */
const stretches: Readonly<Record<string, Stretch>> = {
  default: () => ({}),
  // Positions of pictures have three numbers, those of texts the same one three times.
  mrope: () => ({}),
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
  // Its base grows only with texts that are longer than the model was made for, and there are none.
  dynamic: () => ({}),
  // B. Peng et al., YaRN, 2023: short waves stay, long ones are stretched, those between in part.
  yarn: (reader, features, context) => {
    const original = reader.optional("original_max_position_embeddings") ?? context;
    const factor = reader.optional("factor") ?? context / original;
    const base = baseOf(reader);
    /** The index of the frequency that turns so many times within the original context. */
    const indexOf = (turns: number) =>
      features * Math.log(original / (turns * 2 * Math.PI)) / (2 * Math.log(base));
    const isWhole = reader.raw.truncate !== false;
    const fast = indexOf(reader.optional("beta_fast") || 32);
    const slow = indexOf(reader.optional("beta_slow") || 1);
    const low = Math.max(isWhole ? Math.floor(fast) : fast, 0);
    const high = Math.min(isWhole ? Math.ceil(slow) : slow, features - 1);
    const width = high === low ? 0.001 : high - low;
    const grown = (scale: number) => factor <= 1 ? 1 : 0.1 * scale * Math.log(factor) + 1;
    const [one, all] = [reader.optional("mscale"), reader.optional("mscale_all_dim")];
    return {
      slowdown: (_, k) => {
        const stretched = Math.min(Math.max((k - low) / width, 0), 1);
        return 1 / (stretched / factor + 1 - stretched);
      },
      magnitude: reader.optional("attention_factor") ??
        (one && all ? grown(one) / grown(all) : grown(1)),
    };
  },
  // Phi-3's: one factor a frequency, other ones for texts that are longer than those it first saw.
  longrope: (reader, features, context) => {
    const original = reader.optional("original_max_position_embeddings") ?? context;
    const factor = reader.optional("factor") ?? context / original;
    const slowdown = (name: string): RotaryConfig["slowdown"] => {
      const factors = reader.raw[name];
      if (!Array.isArray(factors) || factors.length !== features / 2) {
        throw new TypeError(`Cannot read the model: ${name} must have ${features / 2} numbers`);
      }
      return (_, k) => Number(factors[k]);
    };
    const magnitude = reader.optional("attention_factor") ??
      (factor > 1 ? Math.sqrt(1 + Math.log(factor) / Math.log(original)) : 1);
    const base = baseOf(reader);
    const long = { base, features, slowdown: slowdown("long_factor"), magnitude };
    return {
      slowdown: slowdown("short_factor"),
      magnitude,
      ...context > original ? { beyond: { positions: original, rotary: long } } : {},
    };
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
  const base = baseOf(reader);
  const share = reader.optional("partial_rotary_factor", "rotary_pct") ?? 1;
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
