/** The programs of attention by what multiplies. */
import { type AttentionKernel, headsOf } from "../../../kernel/attention.ts";
import { withExpressions } from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import { WARP } from "../../matrix_units.ts";
import { Program } from "../../program.ts";
import { itemUnit, type Unit, vectorUnit } from "../../units.ts";
import type { NameOf } from "../kernel_values.ts";
import { type AttentionPart, writeAttention } from "./attention.ts";
import { JOINING_ITEMS, joinParts } from "./attention_parts.ts";
import type { Blocks } from "./blocks.ts";
import { FeatureBlocks } from "./feature_blocks.ts";
import { type FeatureForm, keysOfTurn } from "./feature_form.ts";
import { FragmentBlocks, type FragmentForm, WARPS } from "./fragment_blocks.ts";
import { HeadValues } from "./head_values.ts";
import { type BlockSize, ItemBlocks, SIDE } from "./item_blocks.ts";
import { BLOCK, LaneBlocks, type LaneForm } from "./lane_blocks.ts";
import { LANES } from "./lane_products.ts";

function programOf(
  part: AttentionPart,
  kernel: AttentionKernel,
  unit: Unit,
  nameOf: NameOf,
  blocks: (p: Program) => Blocks,
  parts = 1,
): TileKernel {
  return withExpressions(() => {
    const p = new Program(unit, (value) => nameOf({ kind: "index", value }));
    return writeAttention(part, new HeadValues(kernel, p, nameOf), blocks(p), parts);
  });
}

/** Attention of half types on matrix units: outputs are buffers `o0`, ..., inputs `a0`, ... */
export const fragmentAttention = (
  part: AttentionPart,
  kernel: AttentionKernel,
  form: FragmentForm,
  nameOf: NameOf,
): TileKernel =>
  programOf(
    part,
    kernel,
    itemUnit("shuffle", WARP, WARPS),
    nameOf,
    (p) => new FragmentBlocks(p, form),
  );

/**
 * Attention by groups of work-items.
 *
 * @param crossing How those that share rows join them.
 */
export const itemAttention = (
  part: AttentionPart,
  kernel: AttentionKernel,
  size: BlockSize,
  crossing: "shuffle" | "local",
  nameOf: NameOf,
): TileKernel =>
  programOf(part, kernel, itemUnit(crossing, SIDE, SIDE), nameOf, (p) => new ItemBlocks(p, size));

/** Attention of a few queries, of a part of the keys. */
export const featureAttention = (
  kernel: AttentionKernel,
  form: FeatureForm,
  parts: number,
  nameOf: NameOf,
): TileKernel =>
  programOf(
    "forward",
    kernel,
    form.isGPU ? itemUnit("shuffle", form.items, 1) : vectorUnit(LANES),
    nameOf,
    (p) => new FeatureBlocks(p, form),
    parts,
  );

/** The join of what groups have of parts of the keys. */
export const joinedAttention = (
  kernel: AttentionKernel,
  form: FeatureForm,
  parts: number,
  nameOf: NameOf,
): TileKernel =>
  withExpressions(() => {
    const unit = form.isGPU ? itemUnit("shuffle", JOINING_ITEMS, 1) : vectorUnit(LANES);
    const p = new Program(unit, (value) => nameOf({ kind: "index", value }));
    const { rows, isGPU, valueRun } = form, columns = keysOfTurn(form);
    const values = new HeadValues(kernel, p, nameOf);
    return joinParts(values, { rows, columns, parts }, isGPU ? 1 : valueRun);
  });

/** Attention by work-items alone, with vectors of rows. */
export const laneAttention = (
  part: AttentionPart,
  kernel: AttentionKernel,
  form: LaneForm,
  nameOf: NameOf,
): TileKernel => programOf(part, kernel, vectorUnit(LANES), nameOf, (p) => new LaneBlocks(p, form));

/** A part of a pass by work-items alone, and what these take. */
export interface LanePart {
  readonly part: AttentionPart;
  readonly form: LaneForm;
}

/** No core has so much more work than the others that computing scores once does not make up for it. */
const MAX_IMBALANCE = 1.25;

/**
 * The kernels of a pass: keys and values get their gradients in one kernel, queries in another, or all in one.
 *
 * @param cores Work-items that run at once.
 * @param bytes Local memory of a work-item.
 * @param formOf The form for so many rows.
 */
export function lanePartsOf(
  kernel: AttentionKernel,
  cores: number,
  bytes: number,
  formOf: (rows: number) => LaneForm,
): LanePart[] {
  const { backward, stored, queries, keys } = kernel, ofKeys = formOf(keys);
  if (backward === null) return [{ part: "forward", form: formOf(queries) }];
  if (takesHeads(kernel, cores, bytes, ofKeys)) return [{ part: "headGradients", form: ofKeys }];
  return [
    ...stored.includes(0) ? [{ part: "queryGradient", form: formOf(queries) } as const] : [],
    ...stored.some((output) => output > 0) ? [{ part: "keyGradient", form: ofKeys } as const] : [],
  ];
}

/** True when a work-item computes all gradients of a head: float32, rows of whole vectors. */
function takesHeads(
  kernel: AttentionKernel,
  cores: number,
  bytes: number,
  { own }: LaneForm,
): boolean {
  const { stored, outputs, features, valueFeatures, isInterleaved } = kernel;
  const heads = headsOf(kernel), turns = Math.ceil(heads / cores);
  const width = own * LANES, columns = features + valueFeatures;
  const floats = width * (2 * columns + features + 3 * BLOCK) + BLOCK * (columns + features);
  return stored.includes(0) && stored.length > 1 && !isInterleaved && 4 * floats <= bytes &&
    outputs[stored.indexOf(0)]!.dtype === "float32" && features % LANES === 0 &&
    turns * cores <= MAX_IMBALANCE * heads;
}
