/** Kernels of one work-item per independent row of work. */
import type { Parameter } from "../../../codegen/emit.ts";
import { needsWideIndices } from "../../../kernel/index_range.ts";
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import { type Generated, generated } from "../../codegen/generated.ts";
import type { Target } from "../../../kernel/target.ts";
import type { Planned, SpecialTemplate } from "./template.ts";
import type { Scratch } from "../../../kernel/template.ts";

/** Collects scalar parameters under their position. */
export class Parameters {
  readonly list: Parameter[] = [];

  /** The name of an argument of the type of indices. */
  index(value: number): string {
    return `p${this.list.push({ kind: "index", value }) - 1}`;
  }
}

/** A kernel of an operation whose loops carry state, of so many groups; it is written with its arguments. */
export function generatedSpecial(
  { kernel, target }: Planned<SpecialKernel>,
  write: (p: Parameters) => string,
  groups: number,
  local: number,
  scratch: readonly Pick<Scratch, "dtype">[] = [],
): Generated {
  const p = new Parameters(), body = write(p);
  return generated({
    inputs: kernel.inputs,
    outputs: [kernel.output.dtype, ...scratch.map(({ dtype }) => dtype)],
    parameters: p.list,
    checksIndices: kernel.op === "scatter",
    isWide: needsWideIndices(kernel, target.narrowEnd),
    body,
    global: [groups * local],
    local: [local],
  });
}

/** Work-items of a group; each walks a row of its own. */
const GROUP = 16;

type Op = SpecialKernel["op"];
type KernelOf<O extends Op> = SpecialKernel & { readonly op: O };

/**
 * A template in which a work-item, whose number is `row`, does a row of work by itself: it fits every
 * device and every size.
 *
 * @param rows How many rows a kernel has.
 * @param body The text of one row.
 */
export function rowTemplate<O extends Op>(
  name: string,
  op: O,
  rows: (kernel: KernelOf<O>) => number,
  body: (kernel: KernelOf<O>, p: Parameters) => string,
): SpecialTemplate<Planned<KernelOf<O>>> {
  const workItems = ({ kernel }: Planned<KernelOf<O>>): number => Math.max(rows(kernel), 1);
  return {
    name,
    matches: (kernel: SpecialKernel, target: Target) =>
      kernel.op === op ? { kernel: kernel as KernelOf<O>, target } : null,
    workItems,
    emit: (plan) => [generatedSpecial(
      plan,
      (p) => `  const Index row = get_global_id(0);\n${body(plan.kernel, p)}`,
      Math.ceil(workItems(plan) / GROUP),
      GROUP,
    )],
  };
}
