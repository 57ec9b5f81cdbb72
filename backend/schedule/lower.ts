/** Lowers units of work to kernels, and nodes to the buffers between them. */
import type { Node } from "../graph/node.ts";
import { sizeOf } from "../graph/shape.ts";
import { attentionKernel } from "./fusion/attention.ts";
import type { Unit } from "./fusion/fuse.ts";
import type { AddedNode } from "./rewrites/rewriting.ts";
import { lowerGroup } from "./fusion/lower_group.ts";
import { customKernel, specialKernel } from "./fusion/special.ts";
import type { KernelGraph, Step, ValueBuffer } from "./passes/kernel_graph.ts";

/** Request to a graph: its nodes by position, and those of them that are results. */
export interface Request {
  /** The nodes that `wanted` is made from, in topological order, with their positions. */
  readonly order: readonly Node[];
  /** Nodes asked for now; a node may be there twice. */
  readonly wanted: readonly Node[];
  /** Those of them that are read later. */
  readonly later: readonly Node[];
}

/**
 * The kernels of units of work, which are in an order in which they can run.
 *
 * @param added Nodes that a rewrite put behind those of the request.
 */
export function lower(
  units: readonly Unit[],
  { order, wanted }: Pick<Request, "order" | "wanted">,
  added: readonly AddedNode[] = [],
): KernelGraph {
  const buffers = order.map(({ dtype, size, id, storage }): ValueBuffer => ({
    dtype,
    size,
    made: id,
    isStored: storage !== null,
  }));
  for (const { node: { dtype, size }, made } of added) {
    buffers.push({ dtype, size, made, isStored: false });
  }
  const steps = units.map((unit) => lowerUnit(unit, buffers));
  return {
    buffers,
    steps,
    wanted: new Set(positionsOf(wanted)),
    saved: new Set(),
  };
}

function positionsOf(nodes: Iterable<Node>): number[] {
  return Array.from(nodes, ({ position }) => position);
}

/** @param buffers Those of the nodes; temporaries are added behind them. */
function lowerUnit(unit: Unit, buffers: ValueBuffer[]): Step {
  switch (unit.kind) {
    case "group": {
      const { kernel, inputs, outputs } = lowerGroup(unit.group);
      return {
        kernel,
        inputs: inputs.map(({ node }) => node.position),
        outputs: outputs.map(({ node }) => node.position),
      };
    }
    case "special": {
      const { info: { node }, fill } = unit;
      return {
        kernel: specialKernel(node, fill),
        inputs: positionsOf(unit.operands.map((operand) => operand.node)),
        outputs: [node.position],
      };
    }
    case "attention":
      return {
        kernel: attentionKernel(unit.call, unit.outputs, unit.operands),
        inputs: unit.operands.map(({ node }) => node.position),
        outputs: unit.outputs.map(({ node }) => node.position),
      };
    case "custom":
      return lowerCall(unit, buffers);
  }
}

/** A user's kernel writes all of its outputs: those that nobody reads are temporaries. */
function lowerCall(
  { call, outputs, operands }: Extract<Unit, { readonly kind: "custom" }>,
  buffers: ValueBuffer[],
): Step {
  const read = new Map(outputs.map(({ node }) => [
    node.op.kind === "custom" ? node.op.output : -1,
    node.position,
  ]));
  const { made } = buffers[outputs[0]!.node.position]!;
  const stored = call.outputs.flatMap(({ shape }, k) => sizeOf(shape) > 0 ? [k] : []);
  return {
    kernel: customKernel(call, operands.map(({ node }) => node), stored),
    inputs: operands.map(({ node }) => node.position),
    outputs: stored.map((k) => {
      const { shape, dtype } = call.outputs[k]!;
      const temporary = { dtype, size: sizeOf(shape), made, isStored: false };
      return read.get(k) ?? buffers.push(temporary) - 1;
    }),
  };
}
