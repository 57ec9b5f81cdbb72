import { assert, assertEquals } from "@std/assert";
import { Toposort } from "../../../backend/graph/toposort.ts";
import type { Node } from "../../../backend/graph/node.ts";
import { defaultFusion, hostTarget } from "../../../backend/kernel/target.ts";
import { fuse, type Unit } from "../../../backend/schedule/fusion/fuse.ts";
import type { Group, Limits } from "../../../backend/schedule/fusion/group.ts";
import { growGroup } from "../../../backend/schedule/fusion/grow_group.ts";
import { isLoopSplit } from "../../../backend/schedule/fusion/loops.ts";
import { lowerGroup } from "../../../backend/schedule/fusion/lower_group.ts";
import { analyse, type NodeInfo } from "../../../backend/schedule/fusion/node_info.ts";
import { schedule } from "../../../backend/schedule/schedule.ts";
import { apply, constant, leaf, map, product, sum } from "./nodes.ts";

function infosOf(...wanted: Node[]): NodeInfo[] {
  const sorted = new Toposort();
  for (const node of wanted) sorted.add(node);
  return analyse(sorted.order, new Set(wanted));
}

const unlimited: Limits = {
  splits: new Map(),
  storesPadding: true,
  storesRepeats: false,
  storesDecoded: false,
  storesProducts: false,
  cutsRows: false,
  storesRows: false,
};

function unitsOf(...wanted: Node[]): Unit[] {
  return fuse(infosOf(...wanted), { target: hostTarget, planKernel: null });
}

/** The roles of a group's members, users first. */
const rolesOf = ({ members }: Group): string[] => members.map(({ role }) => role);

Deno.test("fuse takes operations into the group of what is asked for, down to memory", () => {
  const x = leaf([4, 6]);
  const units = unitsOf(map("exp", map("mul", x, constant(2, [4, 6]))));
  assertEquals(units.map(({ kind }) => kind), ["group"]);
  const [unit] = units;
  assert(unit?.kind === "group");
  assertEquals(rolesOf(unit.group), ["map", "map", "leaf", "load"]);
});

Deno.test("fuse puts a unit behind those that it reads", () => {
  const x = leaf([8, 6]), hidden = map("neg", product(x, leaf([6, 4])));
  const units = unitsOf(product(hidden, leaf([4, 3])));
  const roots = units.map((unit) => unit.kind === "group" ? unit.group.root.node : null);
  assertEquals(roots[0], hidden);
  assertEquals(units.length, 2);
});

Deno.test("growGroup changes nothing outside: what it decides is its result", () => {
  const x = leaf([8, 6]), rows = sum(map("exp", x), 1);
  const out = product(map("mul", x, x), leaf([6, 4]));
  const infos = infosOf(out, rows);
  const before = infos.map(({ accounted, materialized }) => ({ accounted, materialized }));
  const root = infos.find(({ node }) => node === out)!;
  const group = growGroup(root, unlimited, defaultFusion);
  assert(!isLoopSplit(group));
  assertEquals(infos.map(({ accounted, materialized }) => ({ accounted, materialized })), before);
  // The operand of the product must be in memory, and is told so in the result alone.
  assertEquals(group.stores.map(({ node }) => node), [out.inputs[0]]);
});

Deno.test("growGroup asks for a split where one loop must be two, and is made with it", () => {
  const x = leaf([4, 6]);
  const transposed = apply({ kind: "permute", axes: [1, 0] }, x, [6, 4]);
  const flat = map("neg", apply({ kind: "reshape" }, transposed, [24]));
  const root = infosOf(flat).at(-1)!;
  const split = growGroup(root, unlimited, defaultFusion);
  assert(isLoopSplit(split));
  assertEquals(split.factor, 4);
  const splits = new Map([[split.loop, split.factor]]);
  const group = growGroup(root, { ...unlimited, splits }, defaultFusion);
  assert(!isLoopSplit(group));
  assertEquals(group.loops.sizes, [6, 4]);
});

Deno.test("lowerGroup writes the same kernel for a group each time", () => {
  const x = leaf([16, 32]);
  const root = infosOf(sum(map("exp", map("neg", x)), 1)).at(-1)!;
  const group = growGroup(root, unlimited, defaultFusion);
  assert(!isLoopSplit(group));
  const { kernel, inputs, outputs } = lowerGroup(group);
  assertEquals(lowerGroup(group).kernel, kernel);
  assertEquals([inputs.map((i) => i.node), outputs.map((o) => o.node)], [[x], [root.node]]);
  assertEquals(kernel.label, "neg_exp_sum");
  assertEquals([kernel.outer.length, kernel.inner.length], [1, 1]);
});

Deno.test("two results of a value that nobody asks for are one unit: a step's state and parameter", () => {
  const [n, skip] = [4, leaf([4, 4])];
  const gradient = sum(leaf([n, n, 3]), 2);
  const momentum = leaf([n, n]), parameter = leaf([n, n]);
  const next = map("add", map("mul", momentum, constant(0.9, [n, n])), gradient);
  const state = map("where", skip, momentum, next);
  const learned = map("where", skip, parameter, map("sub", parameter, next));
  const units = unitsOf(state, learned);
  const outputs = units.map((unit) =>
    unit.kind === "group" ? unit.group.members.filter(({ isOutput }) => isOutput).length : 0
  );
  assertEquals(outputs, [2]);
});

Deno.test("an operation that does not fuse reads what was reshaped where it lies", () => {
  const sorted = (x: Node): Node =>
    apply({ kind: "argsort", descending: false }, apply({ kind: "reshape" }, x, [2048]), [2048]);
  const [only, ...others] = schedule([sorted(leaf([64, 32]))]).kernels;
  assertEquals([only?.kernel.label, others.length], ["argsort", 0]);
  const value = map("exp", leaf([64, 32]));
  const plan = schedule([sorted(value), value]);
  assertEquals(plan.kernels.map(({ kernel }) => kernel.label), ["exp", "argsort"]);
});
