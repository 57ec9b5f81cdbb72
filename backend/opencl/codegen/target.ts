/** What the text of kernels depends on: data about one device, asked once. */

/** What was tuned for a shape: a tile, in how many parts its sum is computed, or both. */
export interface Tuned {
  readonly tile?: unknown;
  readonly parts?: unknown;
}

/** A device, as those see it who write kernels for it. */
export interface Target {
  /** Work-items are lanes of wide cores that want neighbours to read neighbours. */
  readonly isGpu: boolean;
  /** Bytes of local memory that a work-group may use. */
  readonly localMemory: number;
  readonly computeUnits: number;
  /** Matrix units (tensor cores) that inline PTX of compute capability 8.0 reaches. */
  readonly matrixUnits: boolean;
  /** Floats in a vector of the hardware. */
  readonly vectorWidth: number;
  /** Kernels whose indices may reach this number count in 64 bits. */
  readonly narrowEnd: number;
  /** The tiles that were tuned on this device, by shape. */
  readonly tuned: ReadonlyMap<string, Tuned>;
}
