/**
 * Windows of a few elements, side by side in vectors on CPU devices: poolings and their gradients,
 * what is padded, what is put together from every second element.
 */
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { type WindowForm, windowForm } from "../../codegen/vectors/window_lanes.ts";
import { emitWindows, linesOfItem } from "../../codegen/vectors/window_rows.ts";
import { hasWideVectors } from "../parts/register_tile.ts";
import { emitting, type LoopTemplate, type Planned } from "../parts/template.ts";

interface WindowPlan extends Planned<LoopKernel> {
  readonly form: WindowForm;
}

/** Lines of windows a work-item. */
export const windowRows: LoopTemplate<WindowPlan> = {
  name: "windows side by side",
  matches: (kernel, target) => {
    if (target.isGpu || !hasWideVectors(target)) return null;
    const form = windowForm(kernel);
    return form && { kernel, target, form };
  },
  emit: emitting((emitter, { form }) => emitWindows(emitter, form)),
  workItems: ({ kernel, form }) => Math.ceil(extent(kernel, form.rows) / linesOfItem(kernel, form)),
};
