/**
 * The templates of the OpenCL backend, in the order in which they are asked; the last of each list takes
 * what is left. To add one: a file beside those (`parts/template.ts` says what it is), and its place here.
 *
 * This folder turns kernels of the IR (`backend/kernel`) and data about a device (`Target`) into texts and
 * launch sizes, which the runtime builds and launches. `lists.ts`, `generate.ts` and `launch_steps.ts` import
 * the templates; those (`gemm/`, `convolution/`, `mma/`, `wgmma/`, `attention/`, `loops/`, `special/`) import `parts/`,
 * what they share; all of them import the writers of `opencl/codegen`. Nothing here imports the runtime or
 * OpenCL, so every text can be looked at without a device.
 */
import type { AttentionKernel } from "../../kernel/attention.ts";
import type { LoopKernel, SpecialKernel } from "../../kernel/kernel.ts";
import {
  filledAttention,
  itemsAttention,
  lanesAttention,
  mmaAttention,
} from "./attention/tile_attention.ts";
import { channelLanes } from "./convolution/channel_lanes.ts";
import { depthwiseConvolution } from "./convolution/depthwise.ts";
import { depthwiseGradient } from "./convolution/depthwise_gradient.ts";
import { directConvolution } from "./convolution/direct_convolution.ts";
import { weightGradient } from "./convolution/weight_gradient.ts";
import { winogradConvolution } from "./convolution/winograd.ts";
import { generalContraction } from "./gemm/general_contraction.ts";
import { innerProductGemm } from "./gemm/inner_product_gemm.ts";
import { localMemoryGemm } from "./gemm/local_memory_gemm.ts";
import { packedGemv } from "./gemm/packed_gemv.ts";
import { registerTiledGemm } from "./gemm/register_tiled_gemm.ts";
import { shortSums } from "./gemm/short_sums.ts";
import { itemRows } from "./loops/item_rows.ts";
import { packedCopies } from "./loops/packed_copy.ts";
import { pairTiles } from "./loops/pair_tiles.ts";
import { columnGroups, groupReduction, registerRows } from "./loops/shared_rows.ts";
import { shortRows } from "./loops/short_rows.ts";
import { transposedMaps } from "./loops/transposed_maps.ts";
import { transposedTiles } from "./loops/transposed_tiles.ts";
import { vectorItems } from "./loops/vector_items.ts";
import { vectorRows } from "./loops/vector_rows.ts";
import { windowRows } from "./loops/window_rows.ts";
import { mmaGemm } from "./mma/mma_gemm.ts";
import type { ContractionTemplate } from "./parts/contraction_shape.ts";
import type { Template } from "./parts/template.ts";
import { blockScan } from "./special/block_scan.ts";
import { groupArgsort } from "./sorting/group_argsort.ts";
import { mergeArgsort } from "./sorting/merge_argsort.ts";
import { rowScan } from "./special/scan.ts";
import { recurrence } from "./special/recurrence.ts";
import { countedScatter } from "./special/counted_scatter.ts";
import { rangeScatter } from "./special/range_scatter.ts";
import { groupScatter, lineScatter, stripScatter } from "./special/scatter.ts";
import { groupSelection } from "./sorting/group_selection.ts";
import { rowSelection } from "./sorting/row_selection.ts";
import { sortedScatter } from "./special/sorted_scatter.ts";
import { sharedScatter } from "./special/shared_scatter.ts";
import { wgmmaGemm } from "./wgmma/wgmma_gemm.ts";

/** Sums of products of two operands, with what follows them. */
export const contractions: readonly ContractionTemplate[] = [
  wgmmaGemm,
  mmaGemm,
  localMemoryGemm,
  depthwiseGradient,
  depthwiseConvolution,
  weightGradient,
  winogradConvolution,
  channelLanes,
  directConvolution,
  registerTiledGemm,
  innerProductGemm,
  packedGemv,
  shortSums,
  generalContraction,
];

/** Maps and reductions. */
export const loops: readonly Template<LoopKernel>[] = [
  packedCopies,
  pairTiles,
  columnGroups,
  registerRows,
  groupReduction,
  vectorRows,
  transposedMaps,
  vectorItems,
  transposedTiles,
  windowRows,
  shortRows,
  itemRows,
];

/** Attention and its gradients. */
export const attentions: readonly Template<AttentionKernel>[] = [
  filledAttention,
  mmaAttention,
  itemsAttention,
  lanesAttention,
];

/** Operations whose loops carry state. */
export const specials: readonly Template<SpecialKernel>[] = [
  countedScatter,
  groupScatter,
  sortedScatter,
  sharedScatter,
  rangeScatter,
  stripScatter,
  lineScatter,
  blockScan,
  rowScan,
  groupSelection,
  rowSelection,
  groupArgsort,
  mergeArgsort,
  recurrence,
];
