/** Kernels of one work-item per independent row of work. */
import type { Parameter } from "../../../codegen/emit.ts";
import { needsWideIndices } from "../../../kernel/index_range.ts";
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import { generated } from "../../codegen/generated.ts";
import type { Target } from "../../../kernel/target.ts";
import { type KernelSequence, type Planned, single, type SpecialTemplate } from "./template.ts";

/** Collects scalar parameters under their position. */
export class Parameters {
  readonly list: Parameter[] = [];

  /** The name of an argument of the type of indices. */
  index(value: number): string {
    return `p${this.list.push({ kind: "index", value }) - 1}`;
  }
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
    emit: (plan): KernelSequence => {
      const { kernel, target } = plan, p = new Parameters();
      const text = `  const Index row = get_global_id(0);\n${body(kernel, p)}`;
      return single(generated({
        inputs: kernel.inputs,
        outputs: [kernel.output.dtype],
        parameters: p.list,
        checksIndices: kernel.op === "scatter",
        isWide: needsWideIndices(kernel, target.narrowEnd),
        body: text,
        global: [Math.ceil(workItems(plan) / GROUP) * GROUP],
        local: [GROUP],
      }));
    },
  };
}
