/** Recurrent layers on CPU devices: the tile program. */
import { gateCounts } from "../../../graph/op.ts";
import { needsWideIndices } from "../../../kernel/index_range.ts";
import { LANES, type LaneTile } from "../../../tile/programs/attention/lane_products.ts";
import {
  type Recurrence,
  recurrence as recurrentSteps,
} from "../../../tile/programs/lanes/recurrence.ts";
import type { Planned, SpecialTemplate } from "../parts/template.ts";
import { generatedTile } from "../parts/tile_text.ts";

/** `rows` is how many rows of the batch a work-item takes. */
interface RecurrencePlan extends Planned<Recurrence> {
  readonly rows: number;
}

/** Rows whose sums stay in registers. */
const MAX_ROWS = 8;
/** Vectors of sums in registers; what is multiplied needs the others. */
const MAX_SUMS = 24;

/** A few rows of the batch a work-item. */
export const recurrence: SpecialTemplate<RecurrencePlan> = {
  name: "recurrence",
  matches: (kernel, target) => {
    if (kernel.op !== "recurrence") return null;
    const turns = Math.ceil(kernel.batch / (MAX_ROWS * target.computeUnits));
    const rows = Math.ceil(kernel.batch / Math.max(1, turns * target.computeUnits));
    return { kernel, target, rows: Math.max(1, rows) };
  },
  emit: (plan) => {
    const { kernel, target, rows } = plan;
    const form = { rows, lanes: LANES, tile: tileOf(plan), byBlocks: false } as const;
    return [generatedTile({
      inputs: kernel.inputs,
      outputs: [kernel.output.dtype],
      isWide: needsWideIndices(kernel, target.narrowEnd),
    }, (nameOf) => recurrentSteps(kernel, form, nameOf))];
  },
  workItems: ({ kernel, rows }) => Math.ceil(kernel.batch / rows),
};

/** All rows at a time, and as many vectors as divide the columns. */
function tileOf({ kernel, rows }: RecurrencePlan): LaneTile {
  const { pass, gates, columns } = kernel;
  const width = pass === "forward" ? gateCounts[gates].gates * columns : columns;
  const wanted = [4, 3, 2, 1].filter((vectors) => vectors * rows <= MAX_SUMS);
  return { step: rows, vectors: wanted.find((n) => width / LANES % n === 0)! };
}
