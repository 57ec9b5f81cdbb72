/**
 * Attention as tile programs: on matrix units (tensor cores) for half types, by warps or by warpgroups of four,
 * on GPUs without them by groups of work-items, on CPUs by work-items alone.
 *
 * Written by hand it took on an H200, float16, 8 x 12 heads of 1024 x 64, in us: forward 85, gradient of queries 85,
 * of keys and values 114; by `mma.sync` 99, 132 and 188. Of 128 features 192, 240 and 374.
 *
 * This folder (`attention/`) has the templates of attention; it imports `parts/`, `opencl/codegen/`,
 * `backend/tile/` and `kernel/`. `lists.ts` asks it with attention kernels and gets plans and OpenCL C.
 */
import {
  type AttentionKernel,
  attentionReach,
  type HeadMatrix,
  headsOf,
} from "../../../kernel/attention.ts";
import type { Scratch } from "../../../kernel/template.ts";
import type { TileKernel } from "../../../tile/language/statements.ts";
import { attendsOn, ROWS, WARP } from "../../../tile/matrix_units.ts";
import { partBuffers } from "../../../tile/programs/attention/attention_parts.ts";
import type { AttentionPart } from "../../../tile/programs/attention/attention.ts";
import { featureForm, keysOfTurn } from "../../../tile/programs/attention/feature_form.ts";
import type { FragmentForm } from "../../../tile/programs/attention/fragment_blocks.ts";
import { blockSize, SIDE } from "../../../tile/programs/attention/item_blocks.ts";
import { laneForm } from "../../../tile/programs/attention/lane_blocks.ts";
import { LANES } from "../../../tile/programs/attention/lane_products.ts";
import {
  featureAttention,
  fragmentAttention,
  itemAttention,
  joinedAttention,
  laneAttention,
  lanePartsOf,
} from "../../../tile/programs/attention/programs.ts";
import type { NameOf } from "../../../tile/programs/kernel_values.ts";
import type { Generated } from "../../codegen/generated.ts";
import type { KernelSequence, Planned, Template } from "../parts/template.ts";
import { generatedTile } from "../parts/tile_text.ts";

/** Columns that are walked at a time. */
const COLUMNS = 64;
/** Rows of more features would not leave registers for the sums. */
const MAX_FEATURES = 128;
/** From this many queries on a warp takes two rows of instructions. */
const MIN_PAIRED_QUERIES = 512;
/** Features of rows that warpgroups multiply. */
const WARPGROUP_FEATURES = 64;

/** Queries that are few, and groups of them for a compute unit where keys are cut in parts. */
const FEW_QUERIES = 8, GROUPS = 4;
/** Parts of keys, at most: each is read when they are joined. */
const MAX_PARTS = 64;

type Plan = Planned<AttentionKernel>;
type ProgramOf = (plan: Plan, part: AttentionPart, nameOf: NameOf) => TileKernel;

/** A few queries, as of a text that is written token by token: groups take parts of the filled keys. */
export const filledAttention: Template<AttentionKernel, Plan> = {
  name: "attention to filled keys",
  matches: (kernel, target) =>
    kernel.filled && kernel.queries <= FEW_QUERIES && (!target.isGpu || target.warps)
      ? { kernel, target }
      : null,
  emit: (plan) => {
    const { kernel, target } = plan, parts = partsOf(plan), scratch = scratchOf(plan);
    const form = featureForm(kernel, target.isGpu);
    return [featureAttention, ...parts > 1 ? [joinedAttention] : []].map((programOf) =>
      rendered(plan, (nameOf) => programOf(kernel, form, parts, nameOf), scratch)
    );
  },
  workItems: ({ kernel, target }) => {
    const { rows, items } = featureForm(kernel, target.isGpu);
    return headsOf(kernel) * Math.ceil(kernel.queries / rows) * items;
  },
  scratch: scratchOf,
};

function partsOf({ kernel, target }: Plan): number {
  const form = featureForm(kernel, target.isGpu);
  const groups = headsOf(kernel) * Math.ceil(kernel.queries / form.rows);
  const wanted = Math.ceil(GROUPS * target.computeUnits / groups);
  return Math.min(wanted, Math.ceil(kernel.keys / keysOfTurn(form)), MAX_PARTS);
}

function scratchOf(plan: Plan): readonly Scratch[] {
  const parts = partsOf(plan);
  return parts > 1 ? partBuffers(plan.kernel, parts) : [];
}

/** Attention of half types whose rows lie in pieces of 16 bytes. */
export const mmaAttention: Template<AttentionKernel, Plan> = {
  name: "mma attention",
  matches: (kernel, target) =>
    attendsOn(target.matrixUnits) && fits(kernel) ? { kernel, target } : null,
  emit: (plan) =>
    kernelsOf(
      plan,
      (plan, part, nameOf) => fragmentAttention(part, plan.kernel, formOf(plan, part), nameOf),
    ),
  workItems: ({ kernel }) => headsOf(kernel) * Math.ceil(kernel.queries / ROWS) * WARP,
};

/** A work-group takes a block of rows. */
export const itemsAttention: Template<AttentionKernel, Plan> = {
  name: "tiled attention",
  matches: (kernel, target) => target.isGpu ? { kernel, target } : null,
  emit: (plan) =>
    kernelsOf(plan, ({ kernel, target }, part, nameOf) => {
      const { features, valueFeatures } = kernel, longest = Math.max(features, valueFeatures);
      const kept = part === "forward" ? [features] : [features, valueFeatures];
      const size = blockSize(target.localMemory, kept, longest);
      return itemAttention(part, kernel, size, target.warps ? "shuffle" : "local", nameOf);
    }),
  workItems: ({ kernel }) => headsOf(kernel) * Math.ceil(kernel.queries / SIDE) * SIDE * SIDE,
};

/** A work-item takes the rows that vectors have lanes for: it fits every device. */
export const lanesAttention: Template<AttentionKernel, Plan> = {
  name: "lanes attention",
  matches: (kernel, target) => ({ kernel, target }),
  emit: (plan) => {
    const { kernel, target } = plan, bytes = target.isGpu ? 0 : target.localMemory;
    const parts = lanePartsOf(kernel, target.computeUnits, bytes, laneForm);
    return parts.map(({ part, form }) =>
      rendered(plan, (nameOf) => laneAttention(part, kernel, form, nameOf))
    );
  },
  workItems: ({ kernel }) =>
    headsOf(kernel) * Math.ceil(kernel.queries / (laneForm(kernel.queries).own * LANES)),
};

function fits(kernel: AttentionKernel): boolean {
  const { query, key, value, features, valueFeatures, backward } = kernel;
  const { dtype } = query;
  if (dtype !== "float16" && dtype !== "bfloat16") return false;
  const sizes = [features, valueFeatures];
  if (sizes.some((n) => n % ROWS !== 0 || n > MAX_FEATURES)) return false;
  const matrices = [query, key, value, ...(backward ? [backward.gradient] : [])];
  return matrices.every((at) => at.dtype === dtype && liesInPieces(at));
}

/** True where rows are contiguous and begin at multiples of 16 bytes. */
function liesInPieces({ column, row, offset, lead }: HeadMatrix): boolean {
  return column === 1 && [row, offset, ...lead].every((step) => step % 8 === 0);
}

function formOf({ kernel, target }: Plan, part: AttentionPart): FragmentForm {
  const { features, valueFeatures, queries, isCausal } = kernel;
  const longest = Math.max(features, valueFeatures), isKeyed = part === "keyGradient";
  const byWarpgroups = target.warpgroups &&
    features === WARPGROUP_FEATURES && valueFeatures === WARPGROUP_FEATURES;
  const isPaired = part === "forward" && !byWarpgroups && longest <= 64 &&
    queries >= MIN_PAIRED_QUERIES && !isCausal;
  return {
    dtype: kernel.query.dtype as FragmentForm["dtype"],
    tiles: isPaired ? 2 : 1,
    // Both sums and both blocks of scores must fit into the registers.
    columns: isKeyed && longest > 64 ? COLUMNS / 2 : COLUMNS,
    holdsRows: !byWarpgroups && !isKeyed,
    byWarpgroups,
  };
}

/** The kernels of a pass: keys and values get their gradients in one kernel, queries in another. */
function kernelsOf(plan: Plan, programOf: ProgramOf): KernelSequence {
  const { backward, stored } = plan.kernel;
  const parts: AttentionPart[] = backward
    ? [
      ...stored.includes(0) ? ["queryGradient" as const] : [],
      ...stored.some((output) => output > 0) ? ["keyGradient" as const] : [],
    ]
    : ["forward"];
  return parts.map((part) => written(plan, part, programOf));
}

const written = (plan: Plan, part: AttentionPart, programOf: ProgramOf): Generated =>
  rendered(plan, (nameOf) => programOf(plan, part, nameOf));

function rendered(
  { kernel, target }: Plan,
  programOf: (nameOf: NameOf) => TileKernel,
  scratch: readonly Scratch[] = [],
): Generated {
  return generatedTile({
    inputs: kernel.inputs,
    outputs: [...kernel.outputs, ...scratch].map(({ dtype }) => dtype),
    isWide: attentionReach(kernel) >= target.narrowEnd,
  }, programOf);
}
