import type { Range, SplitWork } from "../../../distributed/tensor_parallel/split_work.ts";
import type { WeightPart } from "../../weights/weight_part.ts";
import type { LayerPart, OuterPart } from "./architectures/architecture.ts";
import type { DecoderConfig } from "./architectures/config.ts";

/** Inner features are divided between blocks of packed weights where there are enough of them. */
const INNER_UNITS = [256, 32, 1];

/** A rank's part of a decoder: heads, inner features and tokens; norms and positions are everybody's. */
export class RankParts {
  /** With the heads of this rank. */
  readonly config: DecoderConfig;
  readonly #parts: Readonly<Partial<Record<LayerPart | OuterPart, WeightPart>>>;

  /**
   * Divides the work.
   *
   * @param innerWidth Features of the feed-forward layers.
   * @param isGrouped True where rows for queries, keys and values lie head by head of keys.
   * @throws {RangeError} When heads cannot be divided so.
   * @throws {TypeError} When a norm is over the features of all heads.
   */
  constructor(config: DecoderConfig, innerWidth: number, work: SplitWork, isGrouped: boolean) {
    const { queries, keys } = headsOf(config, work), { heads, keyHeads, headFeatures } = config;
    const sharesKeys = work.size > keyHeads;
    this.config = { ...config, heads: lengthOf(queries), keyHeads: lengthOf(keys), sharesKeys };
    this.#parts = {};
    if (work.size === 1) return;
    requireApart(config, isGrouped && sharesKeys, work);
    const features = ([begin, end]: Range): Range => [begin * headFeatures, end * headFeatures];
    const behind = (count: number, [begin, end]: Range): Range => [begin + count, end + count];
    const query = features(queries), key = features(keys);
    const inner = innerRange(innerWidth, work), tokens = work.range(config.vocabulary);
    const all = heads * headFeatures, allKeys = keyHeads * headFeatures;
    const rows = (...ranges: Range[]): WeightPart => ({ rows: ranges, columns: null });
    const columns = (range: Range): WeightPart => ({ rows: null, columns: [range] });
    this.#parts = {
      embedding: rows(tokens),
      head: rows(tokens),
      query: rows(query),
      key: rows(key),
      value: rows(key),
      queryKeyValue: isGrouped
        ? rows(features(keys.map((k) => k * (heads / keyHeads + 2)) as unknown as Range))
        : rows(query, behind(all, key), behind(all + allKeys, key)),
      output: columns(query),
      gate: rows(inner),
      up: rows(inner),
      gateUp: rows(inner, behind(innerWidth, inner)),
      down: columns(inner),
    };
  }

  /** The part of a matrix that this rank reads; undefined for all of it. */
  of(part: LayerPart | OuterPart): WeightPart | undefined {
    return this.#parts[part];
  }
}

/** Throws for what ranks cannot compute alone. */
function requireApart(
  { headNorms, experts }: DecoderConfig,
  isShared: boolean,
  { size }: SplitWork,
): void {
  if (headNorms === "each" && !isShared && !experts) return;
  const reason = experts
    ? "it has experts"
    : headNorms === "all"
    ? "its norms are over the features of all heads"
    : "its matrices have queries, keys and values head by head, and there are fewer heads of keys";
  throw new TypeError(`Cannot split the model over ${size} ranks: ${reason}`);
}

function lengthOf([begin, end]: Range): number {
  return end - begin;
}

/** The heads of a rank: those of some keys, or where these are fewer than ranks, some of one's. */
function headsOf(
  { heads, keyHeads }: DecoderConfig,
  work: SplitWork,
): { readonly queries: Range; readonly keys: Range } {
  const group = heads / keyHeads, { size } = work;
  if (size <= keyHeads) {
    const keys = work.range(keyHeads);
    return { keys, queries: [keys[0] * group, keys[1] * group] };
  }
  if (size % keyHeads === 0 && heads % size === 0) {
    const queries = work.range(heads), first = Math.floor(queries[0] / group);
    return { queries, keys: [first, first + 1] };
  }
  throw new RangeError(
    `Cannot split ${heads} heads, with ${keyHeads} of keys, over ${size} ranks: take ${keyHeads} ranks ` +
      `at most, or a multiple that divides ${heads}`,
  );
}

function innerRange(width: number, work: SplitWork): Range {
  const unit = INNER_UNITS.find((unit) => width % unit === 0 && width / unit >= work.size);
  if (unit !== undefined) return work.range(width, unit);
  throw new RangeError(`Cannot split ${width} inner features over ${work.size} ranks: take fewer`);
}
