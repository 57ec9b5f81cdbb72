/**
 * Planning's and code generation's data of a device, so that kernels for any device can be
 * planned, and looked at, without it.
 */
import { NARROW_END } from "./index_range.ts";

/** A device's rules of fusion. */
export interface FusionRules {
  /** Fewer long rows leave most of the device idle: then a reduction is computed by itself, in parts. */
  readonly minRows: number;
  /** An element of less cost, in additions, is computed again rather than stored and read. */
  readonly cheap: number;
  /** The same for an element that follows from one value that is in memory in any case. */
  readonly derivedCheap: number;
  /**
   * Largest cost of a product's epilogue, in additions, for costly operations. Where a product
   * fills the registers there are too few work-items to hide what such operations wait for.
   */
  readonly maxEpilogue: number;
  /** Reductions of values that are read for one are computed with it. */
  readonly joinsReductions: boolean;
  /** Attention reads its operands by steps, through views; else they are stored row by row. */
  readonly attendsViews: boolean;
  /** Values side by side are stored by one loop over what they have in common. */
  readonly storesPieces: boolean;
  /** True when a product's kernel stores what follows it and is read by windows that overlap. */
  readonly storesWindowed: boolean;
  /** Scatters into one number everywhere, as gradients are made of zeros, read no base. */
  readonly fillsScatters: boolean;
  /** Convolutions of channels by themselves pad what they read, where no templates say so. */
  readonly padsChannels: boolean;
  /** Products of many rows with packed weights are computed in whole numbers; else by copies in floats. */
  readonly packsProducts: boolean;
}

/** Bounds from which on the rows of a reduction are reduced in parts, and the least length of a part. */
export interface RowSplit {
  /** So many rows keep the device busy. */
  readonly enoughRows: number;
  /** So many parts are aimed at where there are fewer. */
  readonly parts: number;
  /** Elements of a part. */
  readonly shortest: number;
  /** Neighbouring rows, not parts, are neighbours: rows lie side by side in memory. */
  readonly isSideBySide: boolean;
}

/** Split rules for reductions with few rows. */
export interface RowSplits {
  /** Fewer elements are not worth a second launch. */
  readonly minElements: number;
  /** Rows that can be cut in so many parts are: no kernel walks them again behind a reduction. */
  readonly minParts: number;
  /** Rows that a work-item reduces. */
  readonly byItem: RowSplit;
  /** Rows that a work-group reduces; null where there are none. */
  readonly byGroup: RowSplit | null;
}

/** Bounds of the bytes that kernels of a launch hold while they wait for others, or because they run early. */
export interface HeldLimits {
  /** Bytes that they read of other kernels. */
  readonly waiting: number;
  /** Bytes that they make before these are due. */
  readonly early: number;
  /** The same where they read nothing that a kernel makes, such as half copies of a model's weights. */
  readonly earlyOfStored: number;
}

/** Rules by which kernels of one text share a launch. */
export interface SharingRules {
  /** More of them make the choice of arguments longer than the work. */
  readonly maxKernels: number;
  /** Bytes of a launch's arguments. */
  readonly argumentBytes: number;
  /** Kernels that move more bytes are long work: sharing their launches gains nothing. */
  readonly maxBytes: number;
  /** Contractions of more products are long work, too. */
  readonly maxProducts: number;
  /** The same for contractions whose results no kernel reads: together they fill a device that one leaves idle. */
  readonly maxLeafProducts: number;
  /** Parts of split sums share launches, too. */
  readonly sharesParts: boolean;
  readonly held: HeldLimits;
}

/** Tuned result for a shape of contraction: a tile, the number of its sum's parts, or both. */
export interface Tuned {
  readonly tile?: unknown;
  readonly parts?: unknown;
}

/**
 * Kinds of matrix units: NVIDIA's tensor cores as inline PTX of compute capability 8.0 reaches them, those of
 * AMD's RDNA 3, RDNA 4 and CDNA, those of Intel's sub-groups of 8 and of 16. Their table is
 * `backend/tile/matrix_units.ts`.
 */
export type MatrixUnits = "mma" | "wmma" | "wmma12" | "mfma" | "dpas8" | "dpas16";

/** A device as plans and generated code see it. */
export interface Target {
  /** Work-items are lanes of wide cores that want neighbours to read neighbours. */
  readonly isGpu: boolean;
  /** Bytes of local memory that a work-group may use. */
  readonly localMemory: number;
  readonly computeUnits: number;
  /** Its matrix units; null: none, or none that OpenCL C reaches. */
  readonly matrixUnits: MatrixUnits | null;
  /** Work-items run in warps of 32, which inline PTX of compute capability 7.0 lets vote and read each other's values. */
  readonly warps: boolean;
  /** Products by four warps together and copies of whole tiles (wgmma, TMA): compute capability 9.0. */
  readonly warpgroups: boolean;
  /** Floats in a vector of the hardware. */
  readonly vectorWidth: number;
  /** Kernels whose indices may reach this number count in 64 bits. */
  readonly narrowEnd: number;
  /** The tiles that were tuned on this device, by shape. */
  readonly tuned: ReadonlyMap<string, Tuned>;
  readonly fusion: FusionRules;
  /** Bounds of reductions that are split; null: never. */
  readonly rowSplits: RowSplits | null;
  /** Rules for shared launches; null: none, where launches cost nothing. */
  readonly sharing: SharingRules | null;
}

/** The fusion rules of a device of a few cores. */
export const defaultFusion: FusionRules = {
  minRows: 8,
  cheap: 8,
  derivedCheap: 0,
  maxEpilogue: Infinity,
  joinsReductions: false,
  attendsViews: false,
  storesPieces: true,
  storesWindowed: true,
  fillsScatters: false,
  padsChannels: false,
  packsProducts: false,
};

/** A host that runs kernels one by one: the built-in backend, and plans that are made for no device. */
export const hostTarget: Target = {
  isGpu: false,
  localMemory: 0,
  computeUnits: 1,
  matrixUnits: null,
  warps: false,
  warpgroups: false,
  vectorWidth: 1,
  narrowEnd: NARROW_END,
  tuned: new Map(),
  fusion: { ...defaultFusion, padsChannels: true },
  rowSplits: null,
  sharing: null,
};
