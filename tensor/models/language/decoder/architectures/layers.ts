/** Layers that differ: in their windows, and in whether they rotate positions. */
import type { ConfigReader, DecoderConfig, LayerConfig, RawConfig } from "./config.ts";
import { rotaryOf } from "./rotary_config.ts";
import type { Difference } from "./architecture.ts";

/** True for each layer that sees a window: as `layer_types` says, else those that `isNear` picks. */
export function nearLayers(
  { raw }: ConfigReader,
  { layers }: DecoderConfig,
  isNear: (layer: number) => boolean,
): boolean[] {
  const kinds = raw.layer_types;
  return layers.map((_, k) => Array.isArray(kinds) ? kinds[k] === "sliding_attention" : isNear(k));
}

/** The same layers with a window, for those that are near. */
export const withWindows = (
  { layers }: DecoderConfig,
  window: number | null,
  near: readonly boolean[],
): Partial<DecoderConfig> => ({
  layers: layers.map((layer, k) => near[k] ? { ...layer, window } : layer),
});

/** All but each so many-th layer. */
export const allButEach = (period: number) => (layer: number): boolean =>
  (layer + 1) % period !== 0;

/** Every layer sees the window, if there is one. */
export const windowed: Difference = (reader, plain) =>
  withWindows(plain, reader.optional("sliding_window"), plain.layers.map(() => true));

/** Qwen's upper layers see a window where the configuration says so. */
export const upperWindows: Difference = (reader, plain) => {
  const isUsed = reader.raw.use_sliding_window === true;
  const first = reader.optional("max_window_layers") ?? 28;
  const window = isUsed ? reader.optional("sliding_window") : null;
  return withWindows(plain, window, nearLayers(reader, plain, (k) => k >= first));
};

/** Layers that see a window rotate positions, others see all, in any order. */
export const nearRotate: Difference = (reader, plain) => {
  const window = reader.optional("sliding_window");
  if (window === null) return {};
  const period = reader.optional("sliding_window_pattern", "_sliding_window_pattern") ?? 4;
  const near = nearLayers(reader, plain, allButEach(period));
  return {
    layers: plain.layers.map((layer, k) =>
      near[k] ? { ...layer, window } : { ...layer, rotary: null }
    ),
  };
};

/** Layers that see a window rotate positions in another way than those that see all. */
export function twoRotations(
  reader: ConfigReader,
  plain: DecoderConfig,
  window: number | null,
  near: readonly boolean[],
  nearRaw: RawConfig,
): Partial<DecoderConfig> {
  const rotary = (source: RawConfig, kind: string) =>
    rotaryOf(source, plain.headFeatures, plain.contextLength, kind);
  const far: LayerConfig = { window: null, rotary: rotary(reader.raw, "full_attention") };
  const local: LayerConfig = { window, rotary: rotary(nearRaw, "sliding_attention") };
  return { layers: near.map((isNear) => isNear ? local : far) };
}
