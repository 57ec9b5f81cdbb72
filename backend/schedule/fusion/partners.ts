/**
 * Partners: values that are asked for and that one kernel computes together, where that spares reading or
 * storing others. The new state of an optimizer and the new parameter share a step that nobody asks for; the
 * sums of a gradient and of its products with the input of a batch norm walk the same elements.
 */
import type { Node } from "../../graph/node.ts";
import { sameShape } from "../../graph/shape.ts";
import type { FusionRules } from "../../kernel/target.ts";
import type { Group, Limits } from "./group.ts";
import { growGroup } from "./grow_group.ts";
import { isLoopSplit } from "./loops.ts";
import { isServed, type NodeInfo } from "./node_info.ts";

/** So many values are looked at for one kernel, and so many of them share it. */
const MAX_SEEN = 64, MAX_JOINED = 5;
/** Values so many times smaller than the rows cost nothing to read again. */
const SMALL = 8;

/** Finds the partners of groups. */
export class Partners {
  readonly #produced: ReadonlySet<NodeInfo>;
  readonly #rules: FusionRules;
  /** The elementwise values that are asked for, by what they are computed from. */
  readonly #users = new Map<NodeInfo, NodeInfo[]>();
  /** The reduction that a value of as many elements follows from, by the value's index. */
  readonly #reductions: (Node | null)[] = [];
  /** Those values in topological order, by the form of the reduction. */
  readonly #alike = new Map<string, NodeInfo[]>();

  /**
   * @param infos All nodes in topological order.
   * @param produced Those that a unit computes; it grows.
   * @param rules What the device says about fusion.
   */
  constructor(infos: readonly NodeInfo[], produced: ReadonlySet<NodeInfo>, rules: FusionRules) {
    this.#produced = produced;
    this.#rules = rules;
    for (const info of infos) {
      this.#noteUse(info);
      if (rules.joinsReductions) this.#noteReduction(info);
    }
  }

  #noteUse(info: NodeInfo): void {
    if (!info.materialized || info.node.op.kind !== "elementwise") return;
    for (const input of info.inputs) if (!input.node.isLeaf) addTo(this.#users, input, info);
  }

  #noteReduction(info: NodeInfo): void {
    const reduction = this.#reductionBehind(info);
    this.#reductions.push(reduction);
    if (reduction) addTo(this.#alike, formOf(reduction), info);
  }

  #reductionBehind({ node, inputs }: NodeInfo): Node | null {
    const { kind } = node.op;
    if (node.isLeaf) return null;
    if (kind === "reduce") return node;
    if (kind !== "elementwise" && kind !== "cast" && kind !== "reshape") return null;
    for (const { node: { size }, index } of inputs) {
      const found = this.#reductions[index];
      if (found && size === node.size) return found;
    }
    return null;
  }

  /** The group with its partners. */
  join(group: Group, limits: Limits): Group {
    const roles = new Set(group.members.map(({ role }) => role));
    if (roles.has("contract") || roles.has("gather") || group.pieces.length > 0) return group;
    return roles.has("reduce")
      ? this.#withReductions(group, limits)
      : this.#withUsers(group, limits);
  }

  /** True for values that are asked for, and that no unit which is not planned yet reads. */
  #isFree(info: NodeInfo, { root }: Group): boolean {
    return info !== root && info.materialized && isServed(info) && !this.#produced.has(info);
  }

  /** Other users of values that would have to be stored for them. */
  #withUsers(group: Group, limits: Limits): Group {
    const { root, stores } = group;
    const partners = new Set(
      stores.flatMap((stored) => this.#users.get(stored) ?? []).filter((user) =>
        this.#isFree(user, group) && sameShape(user.node.shape, root.node.shape)
      ),
    );
    if (partners.size === 0) return group;
    const together = growGroup(root, limits, this.#rules, [...partners]);
    // What the partners read beside, they would read in a kernel of their own.
    const spares = !isLoopSplit(together) && stores.some((info) => !together.stores.includes(info));
    return spares ? together : group;
  }

  /** Other reductions over the same rows, of values that the group reads as well. */
  #withReductions(group: Group, limits: Limits): Group {
    const { root } = group, reduction = this.#reductions[root.index];
    if (!reduction) return group;
    const alike = this.#alike.get(formOf(reduction))!;
    const before = alike.slice(0, alike.findLastIndex(({ index }) => index < root.index) + 1);
    const partners: NodeInfo[] = [], large = reduction.inputs[0]!.size / SMALL;
    let found = group;
    for (const info of before.slice(-MAX_SEEN).toReversed()) {
      if (partners.length === MAX_JOINED) break;
      if (!this.#isFree(info, group) || found.members.some((member) => member.info === info)) {
        continue;
      }
      const together = this.#together(found, info, [...partners, info], limits, large);
      if (together === null) continue;
      partners.push(info);
      found = together;
    }
    return found;
  }

  /** The group with one more reduction; null where it cannot hold it, or reads nothing with it. */
  #together(
    group: Group,
    info: NodeInfo,
    partners: readonly NodeInfo[],
    limits: Limits,
    large: number,
  ): Group | null {
    if (!sameRows(info.node, group.root.node)) return null;
    const alone = growGroup(info, limits, this.#rules);
    if (isLoopSplit(alone)) return null;
    const read = largeReads(group, large);
    if (largeReads(alone, large).intersection(read).size === 0) return null;
    const together = growGroup(group.root, limits, this.#rules, partners);
    if (isLoopSplit(together)) return null;
    const outputs = new Set(together.members.filter((m) => m.isOutput).map((m) => m.info));
    const reductions = together.members.filter(({ role }) => role === "reduce").length;
    const before = group.members.filter(({ role }) => role === "reduce").length;
    return partners.every((partner) => outputs.has(partner)) && reductions > before
      ? together
      : null;
  }
}

/** The large values that a group reads from memory, or stores as it goes. */
function largeReads({ members }: Group, large: number): Set<NodeInfo> {
  return new Set(
    members.filter(({ role, info, isOutput }) =>
      (role === "load" || isOutput) && info.node.size >= large
    )
      .map(({ info }) => info),
  );
}

/** Equal for reductions over the same axes of the same shape. */
function formOf({ op, inputs }: Node): string {
  return op.kind === "reduce" ? `${op.axes}|${inputs[0]!.shape}` : "";
}

/** True for shapes that are the same but for axes of one element. */
function sameRows(a: Node, b: Node): boolean {
  return sameShape(a.shape.filter((n) => n > 1), b.shape.filter((n) => n > 1));
}

function addTo<K, V>(lists: Map<K, V[]>, key: K, value: V): void {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}
