/** Kernels of operations that do not fuse: those with loops of their own, and kernels of a user's own. */
import type { CustomCall } from "../../graph/custom.ts";
import type { DType } from "../../graph/dtype.ts";
import type { Node } from "../../graph/node.ts";
import { gateCounts, isRowOp, type Op, type RowOp } from "../../graph/op.ts";
import { type Shape, stridesOf } from "../../graph/shape.ts";
import type {
  CustomKernelCall,
  RowKernelOp,
  SpecialKernel,
  SpecialOp,
} from "../../kernel/kernel.ts";

/** True for operations whose loops carry state or scatter, and for those of a user: nothing fuses with them. */
export function isSpecial(op: Op): boolean {
  const { kind } = op;
  return isRowOp(op) || kind === "scatter" || kind === "custom" || kind === "attention" ||
    kind === "recurrence";
}

/** The kernel of a node that does not fuse; `fill` is what a scatter's base is everywhere, where it reads none. */
export function specialKernel(node: Node, fill: number | null): SpecialKernel {
  const special = specialOp(node);
  return {
    kind: "special",
    inputs: node.inputs.map((input): DType => input.dtype),
    output: { dtype: node.dtype, size: node.size },
    label: special.op,
    ...special,
    ...fill === null ? {} : { fill },
  };
}

/** A call of a user's kernel that stores the given outputs; the others are empty. */
export function customKernel(
  call: CustomCall,
  inputs: readonly Node[],
  stored: readonly number[],
): CustomKernelCall {
  return {
    kind: "custom",
    inputs: inputs.map((input): DType => input.dtype),
    stored,
    hasEmpty: stored.length < call.outputs.length || inputs.some(({ size }) => size === 0),
    call,
    label: call.kernel.name,
  };
}

/** Strides of a shape, 0 on the axes that broadcast. */
function broadcastStrides(shape: Shape): number[] {
  return stridesOf(shape).map((stride, axis) => shape[axis] === 1 ? 0 : stride);
}

function rowOp<O extends RowOp>({ kind, ...attributes }: O, node: Node): RowKernelOp {
  const [length, count] = [node.inputs[0]!, node].map(({ shape }) => shape[shape.length - 1]!);
  const sizes = { rows: node.size / count!, length, count };
  // TypeScript does not see that kind and attributes of a union still belong together.
  return { op: kind, ...attributes, ...sizes } as unknown as RowKernelOp;
}

function specialOp(node: Node): SpecialOp {
  const { op, shape } = node;
  if (isRowOp(op)) return rowOp(op, node);
  switch (op.kind) {
    case "scatter":
      return {
        op: "scatter",
        mode: op.mode,
        shape,
        sourceShape: node.inputs[2]!.shape,
        indexStrides: broadcastStrides(node.inputs[1]!.shape),
        axis: op.axis,
        opName: op.opName,
      };
    case "recurrence": {
      const { kind, ...attributes } = op;
      const [planes, columns] = op.pass === "forward"
        ? [node, node.inputs[1]!.shape[1]! / gateCounts[op.gates].gates]
        : [node.inputs[0]!, node.inputs[2]!.shape[1]!];
      const [steps, batch, features] = planes.shape.slice(1) as [number, number, number];
      return {
        op: kind,
        ...attributes,
        steps: steps - 1,
        batch,
        features,
        columns,
        planes: planes.shape[0]!,
      };
    }
    default:
      throw new Error(`${op.kind} has no kernel of its own`);
  }
}
