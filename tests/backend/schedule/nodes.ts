/** Graphs for tests of planning, and devices that exist as data alone. */
import { Node } from "../../../backend/graph/node.ts";
import type { Op, ReduceFn } from "../../../backend/graph/op.ts";
import type { PrimitiveName } from "../../../backend/graph/primitives.ts";
import type { Shape } from "../../../backend/graph/shape.ts";
import { NARROW_END } from "../../../backend/kernel/index_range.ts";
import type { Target } from "../../../backend/kernel/target.ts";
import type {
  KernelPlan,
  KernelPlanner,
  PlanningDevice,
} from "../../../backend/kernel/template.ts";
import type { Schedule } from "../../../backend/schedule/schedule.ts";
import { planningRules } from "../../../backend/opencl/runtime/device_target.ts";
import { planKernel } from "../../../backend/opencl/templates/generate.ts";

export const leaf = (shape: Shape = [4, 6], bytes = new Uint8Array(4)): Node =>
  new Node({ kind: "data", bytes }, [], shape, "float32");

export const constant = (value: number, shape: Shape = []): Node =>
  new Node({ kind: "constant", value }, [], shape, "float32");

export const map = (fn: PrimitiveName, ...inputs: Node[]): Node =>
  new Node({ kind: "elementwise", fn }, inputs, inputs[0]!.shape, "float32");

export const apply = (op: Op, input: Node, shape: Shape = input.shape): Node =>
  new Node(op, [input], shape, input.dtype);

export const reduce = (fn: ReduceFn, input: Node, ...axes: number[]): Node =>
  apply({ kind: "reduce", fn, axes }, input, input.shape.filter((_, k) => !axes.includes(k)));

export const sum = (input: Node, ...axes: number[]): Node => reduce("sum", input, ...axes);

export const product = (a: Node, b: Node): Node =>
  new Node(
    { kind: "contract", batch: 0, m: 1, n: 1 },
    [a, b],
    [a.shape[0]!, b.shape[1]!],
    "float32",
  );

export const transposed = (x: Node): Node =>
  apply({ kind: "permute", axes: [1, 0] }, x, x.shape.toReversed());

/** A planner that knows one template for all kernels. */
export const planner = (plan: Partial<KernelPlan> = {}): KernelPlanner => () => ({
  ...{ name: "any", isSpecialized: true, sumParts: 1, variant: null, scratch: [] },
  ...plan,
});

/** The names of the kernels of a plan. */
export const labels = ({ kernels }: Schedule): string[] =>
  kernels.map(({ kernel }) => kernel.label);

/** A device of so many compute units, as planning sees it. */
export function deviceOf(isGpu: boolean, computeUnits: number): PlanningDevice {
  const target: Target = {
    isGpu,
    localMemory: 48 << 10,
    computeUnits,
    matrixUnits: null,
    warps: false,
    warpgroups: false,
    vectorWidth: isGpu ? 1 : 16,
    narrowEnd: NARROW_END,
    tuned: new Map(),
    ...planningRules(isGpu, computeUnits, 4352),
  };
  return { target, planKernel };
}

/** A GPU with the compute units of an H100, and a CPU of four cores. */
export const gpu: PlanningDevice = deviceOf(true, 132);
export const cpu: PlanningDevice = deviceOf(false, 4);
