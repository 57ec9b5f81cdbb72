/**
 * Units: what multiplies, and how the work-items of a group share a row of a tile. A row of a table each; to
 * add one: its row here, and what it needs in the table of a dialect.
 */

/** Sum over work-items that each have a part of it. */
export type Crossing =
  /** A work-item has the whole sum. */
  | "none"
  /** Those of a warp read each other's values. */
  | "shuffle"
  /** By way of local memory. */
  | "local";

/** A unit. */
export interface Unit {
  readonly name: string;
  /** Work-items below each other, each with rows of its own, and side by side in one row. */
  readonly down: number;
  readonly across: number;
  /** Lanes of a work-item's vectors. */
  readonly width: number;
  readonly crossing: Crossing;
  /** Bytes that a work-item reads together of packed operands where its values are no vectors. */
  readonly run: number;
  /** Turns of a loop that are written out. */
  readonly unroll: number;
  /** Neighbouring work-items have parts of one row, or rows below each other. */
  readonly neighbours: "across" | "down";
}

/** A core of a CPU: a work-item alone, whose vectors lie along a row. */
export const vectorUnit = (width: number): Unit => ({
  name: `vectors of ${width}`,
  down: 1,
  across: 1,
  width,
  crossing: "none",
  run: width,
  unroll: 1,
  neighbours: "across",
});

/** Work-items of a GPU: by default 32 have a row, and read its neighbours together. */
export const itemUnit = (crossing: "shuffle" | "local", across = 32, down = 4): Unit => ({
  name: `${across} x ${down} items by ${crossing}`,
  down,
  across,
  width: 1,
  crossing,
  run: 4,
  unroll: 4,
  neighbours: "across",
});

/** Work-items of a GPU that share packed rows, each `run` bytes that lie side by side. */
export const packedUnit = (crossing: "shuffle" | "local", across: number, run: number): Unit => ({
  ...itemUnit(crossing, across, Math.max(1, 128 / across)),
  name: `${across} items a packed row by ${crossing}, ${run} bytes each`,
  run,
});

/** Work-items of a GPU that share rows which lie side by side: neighbours read what lies beside. */
export const columnUnit = (across: number, down: number): Unit => ({
  ...itemUnit("local", across, down),
  name: `${across} items a column of ${down}`,
  neighbours: "down",
});
