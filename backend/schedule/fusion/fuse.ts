/**
 * Divides a graph into units of work: groups of nodes that share loops, and operations that take a kernel
 * of their own. Only which nodes belong together is decided here; indices and expressions come later.
 *
 * The walk goes from the last node to the first, so a unit never depends on one made before it: that is
 * what makes it safe to store a second value from the same loops. Linear in the number of nodes, no
 * recursion.
 *
 * This folder (`fusion/`) goes from nodes to kernels. It imports `graph/`, `kernel/` and the
 * buffers of `passes/`. `schedule.ts` hands it a sorted graph; `lower.ts` gets groups and their
 * kernels.
 */
import type { AttentionCall } from "../../graph/attention.ts";
import type { CustomCall } from "../../graph/custom.ts";
import { coefficient } from "../../kernel/affine.ts";
import { extent, type Load, type LoopKernel, readsPacked } from "../../kernel/kernel.ts";
import { channelConvolution } from "../../kernel/forms/channel_convolution.ts";
import { multipliesPacked } from "../../kernel/forms/packed_product.ts";
import { primitives } from "../../graph/primitives.ts";
import type { Node } from "../../graph/node.ts";
import type { Op } from "../../graph/op.ts";
import type { FusionRules } from "../../kernel/target.ts";
import type { PlanningDevice } from "../../kernel/template.ts";
import { type AttentionOperand, attentionOperands } from "./attention.ts";
import type { Group, Limits } from "./group.ts";
import { growGroup } from "./grow_group.ts";
import { isLoopSplit } from "./loops.ts";
import { lowerGroup } from "./lower_group.ts";
import { inputInfo, isServed, type NodeInfo } from "./node_info.ts";
import { Partners } from "./partners.ts";
import { isSpecial } from "./special.ts";
import { leavesIdle } from "../passes/split_reduction.ts";

/** Operations of this cost, in additions, count in what follows a product. */
const MIN_COSTLY = 8;
/** With fewer products a kernel for a copy is not worth its launch. */
const MIN_REPEATED_PRODUCTS = 1 << 20;

/** Work of one launch. */
export type Unit =
  | { readonly kind: "group"; readonly group: Group }
  /** An operation that does not fuse, and the values in memory that it reads. */
  | {
    readonly kind: "special";
    readonly info: NodeInfo;
    readonly operands: readonly NodeInfo[];
    /** The number that a scatter's base is everywhere: it is no operand then. */
    readonly fill: number | null;
  }
  /** A call of a user's kernel, with those of its outputs that are read. */
  | {
    readonly kind: "custom";
    readonly call: CustomCall;
    readonly outputs: readonly NodeInfo[];
    readonly operands: readonly NodeInfo[];
  }
  /** Attention, with those of its outputs that are read. */
  | {
    readonly kind: "attention";
    readonly call: AttentionCall;
    readonly outputs: readonly NodeInfo[];
    readonly operands: readonly AttentionOperand[];
  };

/**
 * The units of a graph, in the order in which they can run.
 *
 * @param infos All nodes in topological order. Those that are asked for are `materialized`; so are in the
 *   end all that a unit reads from memory.
 * @param device What the device says about fusion.
 */
export function fuse(infos: readonly NodeInfo[], device: PlanningDevice): Unit[] {
  const units: Unit[] = [];
  const produced = new Set<NodeInfo>();
  const calls = callsOf(infos);
  const partners = new Partners(infos, produced, device.target.fusion);
  for (const info of infos.toReversed()) {
    const { node } = info;
    if (node.isLeaf || produced.has(info)) continue;
    if (node.op.kind === "custom" || node.op.kind === "attention") {
      const unit = callUnit(info, node.op, calls.get(node.op.call)!, device.target.fusion);
      if (unit) units.push(unit);
    } else if (!info.materialized || node.size === 0) continue;
    else if (isSpecial(node.op)) {
      const fill = device.target.fusion.fillsScatters ? fillOf(node) : null;
      units.push({ kind: "special", info, operands: storedOperands(info, fill !== null), fill });
    } else {
      const group = groupOf(info, device, partners);
      commit(group);
      produced.add(info);
      for (const member of group.members) if (member.isOutput) produced.add(member.info);
      units.push({ kind: "group", group });
    }
  }
  return units.reverse();
}

/** The largest group that the device has a good kernel for. */
function groupOf(root: NodeInfo, device: PlanningDevice, partners: Partners): Group {
  const splits = new Map<string, number>();
  const storesPadding = device.planKernel === null && !device.target.fusion.padsChannels;
  let limits: Limits = {
    splits,
    storesPadding,
    storesRepeats: false,
    storesDecoded: false,
    storesProducts: false,
    cutsRows: false,
    storesRows: false,
  };
  for (;;) {
    const group = growGroup(root, limits, device.target.fusion);
    if (isLoopSplit(group)) {
      splits.set(group.loop, group.factor);
      continue;
    }
    const stricter = stricterLimits(group, limits, device);
    if (stricter === null) return partners.join(group, limits);
    limits = stricter;
  }
}

/** Limits of a group that the device has no good kernel for; null where it has one. */
function stricterLimits(group: Group, limits: Limits, device: PlanningDevice): Limits | null {
  if (!group.members.some(({ role }) => role === "contract" || role === "reduce")) return null;
  const { kernel } = lowerGroup(group);
  if (!kernel.contraction) {
    const isIdle = !limits.cutsRows && leavesIdle(kernel, device.target);
    return isIdle ? { ...limits, cutsRows: true } : null;
  }
  // A GPU's general kernels read padding as fast as they would read what was stored.
  const storesMasked = !device.target.isGpu && !limits.storesPadding && isMasked(kernel);
  if (storesMasked && !isSpecialized(kernel, device)) {
    return { ...limits, storesPadding: true };
  }
  const { packsProducts } = device.target.fusion;
  if (readsPacked(kernel) && !limits.storesDecoded && !multipliesPacked(kernel, packsProducts)) {
    return { ...limits, storesDecoded: true };
  }
  if (!limits.storesRepeats && repeatsTerms(kernel) && !isSpecialized(kernel, device)) {
    return { ...limits, storesRepeats: true };
  }
  const isLong = epilogueCost(kernel) > device.target.fusion.maxEpilogue;
  return isLong && !limits.storesProducts ? { ...limits, storesProducts: true } : null;
}

/** True when there is a kernel for this form of contraction: padded or repeated operands. */
function isSpecialized(
  kernel: LoopKernel,
  { target, planKernel }: PlanningDevice,
): boolean {
  if (planKernel !== null) return planKernel(kernel, target).isSpecialized;
  return target.fusion.padsChannels && channelConvolution(kernel) !== null;
}

/**
 * True where a loop of a long sum walks one operand only, as in the gradient of a weight behind a pooling:
 * a copy of the other one costs less than products element by element (a DenseNet's transition: 11.5 ms).
 */
function repeatsTerms(kernel: LoopKernel): boolean {
  const { contraction: c, sizes, outer, inner } = kernel;
  if (c === null || extent(kernel, [...outer, ...inner]) < MIN_REPEATED_PRODUCTS) return false;
  const isStill = ({ index }: Load, s: number): boolean => coefficient(index, s) === 0;
  return c.k.some((s) => sizes[s]! > 1 && (isStill(c.a, s) || isStill(c.b, s)));
}

function isMasked({ contraction: c }: LoopKernel): boolean {
  return c !== null && c.a.bounds.length + c.b.bounds.length > 0;
}

/** The costs of those operations behind a product that take many instructions. */
function epilogueCost({ exprs }: LoopKernel): number {
  const costs = exprs.map((e) => e.op === "primitive" ? primitives[e.fn].cost : 0);
  return costs.filter((cost) => cost >= MIN_COSTLY).reduce((a, b) => a + b, 0);
}

/** Notes what a group decided about other nodes. */
function commit({ stores, served }: Group): void {
  for (const info of stores) info.materialized = true;
  for (const info of served) info.accounted++;
}

/** The number that the base of a scatter is everywhere; null where it may be several, or is written itself. */
function fillOf({ op, inputs }: Node): number | null {
  if (op.kind !== "scatter" || op.mode === "write") return null;
  let base = inputs[0]!;
  while (base.op.kind === "expand" || base.op.kind === "reshape") base = base.inputs[0]!;
  return base.op.kind === "constant" ? base.op.value : null;
}

/**
 * Operands of an operation in memory: a value that was reshaped is read where it lies. Of a scatter that reads no
 * base the source stands for it.
 */
function storedOperands(info: NodeInfo, isFilled = false): NodeInfo[] {
  const seen = new Set<NodeInfo>();
  for (const input of info.inputs) input.accounted++;
  return info.node.inputs.map((_, at) => {
    const k = isFilled && at === 0 ? 2 : at;
    let operand = inputInfo(info, k);
    while (!operand.node.isLeaf && !operand.materialized && operand.node.op.kind === "reshape") {
      const [source] = operand.inputs;
      if (!seen.has(operand) && isServed(operand)) source!.accounted++;
      seen.add(operand);
      operand = source!;
    }
    if (!operand.node.isLeaf) operand.materialized = true;
    return operand;
  });
}

type Call = CustomCall | AttentionCall;

/** The outputs of each call that gives several, in topological order. */
function callsOf(infos: readonly NodeInfo[]): ReadonlyMap<Call, readonly NodeInfo[]> {
  const calls = new Map<Call, NodeInfo[]>();
  for (const info of infos) {
    const { op } = info.node;
    if (op.kind !== "custom" && op.kind !== "attention" || info.node.isLeaf) continue;
    const known = calls.get(op.call);
    if (known) known.push(info);
    else calls.set(op.call, [info]);
  }
  return calls;
}

/** The call that an output is of, when the walk is at its first: by then it is known which are read. */
function callUnit(
  info: NodeInfo,
  op: Extract<Op, { readonly kind: "custom" | "attention" }>,
  all: readonly NodeInfo[],
  { attendsViews }: FusionRules,
): Unit | null {
  const outputs = all.filter(({ materialized, node }) => materialized && node.size > 0);
  if (info !== all[0] || outputs.length === 0) return null;
  if (op.kind === "attention") {
    const operands = attentionOperands(info, attendsViews || op.call.filled !== null);
    return { kind: "attention", call: op.call, outputs, operands };
  }
  return { kind: "custom", call: op.call, outputs, operands: storedOperands(info) };
}
