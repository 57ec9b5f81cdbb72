/** Short windows side by side: each lane has one, whose elements are written out. */
import type { Emitter } from "../../../codegen/emit.ts";
import { neededBy } from "../../../kernel/analysis.ts";
import { extent } from "../../../kernel/kernel.ts";
import { rowProgram, writeRow } from "../../../kernel/row_program.ts";
import type { WorkSize } from "../generated.ts";
import { openRows } from "../indices.ts";
import { storageType } from "../types.ts";
import { emitElements } from "./lane_pairs.ts";
import type { LaneSums } from "./lane_sums.ts";
import { RowsInLanes } from "./rows_in_lanes.ts";
import { VectorBody } from "./vector_body.ts";
import { LANES, lanesOf } from "./vector_types.ts";
import { type WindowForm, windowReader } from "./window_lanes.ts";

/** Elements that a work-item reads. */
const ITEM_ELEMENTS = 8192;

/** Writes the windows of a kernel; a work-item takes lines of them. */
export function emitWindows(emitter: Emitter, form: WindowForm): WorkSize {
  const { kernel } = emitter, { lane, rows, pair } = form;
  const items = openRows(emitter, rows, linesOfItem(emitter.kernel, form));
  const size = emitter.size(lane);
  emitter.open(`for (Index i${lane} = 0; i${lane} < ${size}; i${lane} += ${LANES}) {`);
  emitter.line(`const int left = (int)min((Index)${LANES}, ${size} - i${lane});`);
  const windows = new WindowRows(emitter, form);
  if (pair !== null && !kernel.inner.includes(pair)) windows.storePlain();
  else writeRow(rowProgram(kernel), windows);
  emitter.close();
  emitter.close();
  return { global: [items], local: [1] };
}

/** Lines of windows that a work-item takes. */
export function linesOfItem(
  { sizes, inner }: Emitter["kernel"],
  { lane, pair }: WindowForm,
): number {
  const window = inner.reduce((n, s) => n * sizes[s]!, pair === null ? 1 : 2);
  return Math.ceil(ITEM_ELEMENTS / (sizes[lane]! * window));
}

/** The vector of 16 windows, of which `left` count. */
const lanes = { tag: "_0", left: "left" } as const;

/** The steps of windows. */
class WindowRows extends RowsInLanes {
  readonly #form: WindowForm;

  constructor(emitter: Emitter, form: WindowForm) {
    super(emitter, new VectorBody(emitter, form.lane, windowReader(emitter, form.lane)), [lanes]);
    this.#form = form;
  }

  /** A map whose pairs are a loop around it. */
  storePlain(): void {
    const { kernel } = this.emitter;
    const exprs = neededBy(kernel, kernel.outputs.map((o) => o.expr));
    this.storeEach({ kind: "storeEach", exprs, outputs: [...kernel.outputs.keys()], keeps: null });
  }

  protected override each(
    outputs: readonly number[],
    _: LaneSums | null,
    element: () => void,
  ): void {
    const emitter = this.emitter, { kernel } = emitter, { pair, inBlocks } = this.#form;
    const around = kernel.inner.filter((s) => s !== pair), length = extent(kernel, around);
    const blocks = inBlocks ? outputs : [];
    for (const o of blocks) {
      emitter.line(`${lanesOf(kernel.outputs[o]!.dtype).type} block${o}[${length}];`);
    }
    for (let at = 0; at < length; at++) {
      emitter.open("{");
      this.#declareElement(around, at);
      if (!inBlocks) {
        emitElements(emitter, this.body, pair, outputs, lanes, element);
      } else element();
      for (const o of blocks) {
        emitter.line(`block${o}[${at}] = ${this.body.name(kernel.outputs[o]!.expr, "_0")};`);
      }
      emitter.close();
    }
    if (blocks.length > 0) this.#storeBlocks(blocks, around, length);
  }

  /** Declares the indices of an element of a window. */
  #declareElement(around: readonly number[], at: number): void {
    let rest = at;
    for (const s of around.toReversed()) {
      const n = this.emitter.kernel.sizes[s]!;
      this.emitter.line(this.emitter.dialect.declareMutableIndex(`i${s}`, `${rest % n}`));
      rest = Math.floor(rest / n);
    }
  }

  #storeBlocks(outputs: readonly number[], around: readonly number[], length: number): void {
    const emitter = this.emitter;
    emitter.open("{");
    this.#declareElement(around, 0);
    for (const o of outputs) {
      const { dtype, index } = emitter.kernel.outputs[o]!;
      const T = storageType(dtype), pointer = `o${o} + ${emitter.affine(index)}`;
      emitter.line(`store_blocks_${T}((const ${T}*)block${o}, ${length}, ${pointer}, left);`);
    }
    emitter.close();
  }
}
