/** The kernel of attention: sizes, and where each operand lies. */
import type { AttentionDropout, AttentionMask, FilledKeys } from "../graph/attention.ts";
import type { DType } from "../graph/dtype.ts";

/** A matrix of each head: steps in elements, 0 along axes that broadcast. */
export interface HeadMatrix {
  /** Number of the kernel's input. */
  readonly input: number;
  readonly dtype: DType;
  readonly offset: number;
  /** One step for each leading axis. */
  readonly lead: readonly number[];
  readonly row: number;
  readonly column: number;
}

/** The scales of rows of bytes: one number a row. */
export interface RowScales {
  readonly key: HeadMatrix;
  readonly value: HeadMatrix;
}

/** Attention in tiles; see {@linkcode AttentionCall} for what it computes. */
export interface AttentionKernel {
  readonly kind: "attention";
  readonly pass: "forward" | "backward";
  readonly inputs: readonly DType[];
  /** Stored outputs, in the order of the launch's. */
  readonly outputs: readonly { readonly dtype: DType; readonly size: number }[];
  /** Numbers of the call's stored outputs; nobody reads the others. */
  readonly stored: readonly number[];
  /** Leading axes: each combination is a head. */
  readonly lead: readonly number[];
  /** L, the queries of a head; S, its keys; E, the length of both; V, the length of values. */
  readonly queries: number;
  readonly keys: number;
  readonly features: number;
  readonly valueFeatures: number;
  readonly query: HeadMatrix;
  readonly key: HeadMatrix;
  readonly value: HeadMatrix;
  /** The number of filled keys, and those of them that a query sees; null where all are there. */
  readonly filled:
    | FilledKeys & { readonly at: HeadMatrix; readonly scales: RowScales | null }
    | null;
  readonly mask: { readonly kind: Exclude<AttentionMask, "none">; readonly at: HeadMatrix } | null;
  /** Further inputs of a backward pass: (..., L, V), and (..., L, 1) twice. */
  readonly backward: {
    readonly gradient: HeadMatrix;
    readonly logSums: HeadMatrix;
    readonly products: HeadMatrix;
  } | null;
  readonly scale: number;
  readonly isCausal: boolean;
  /** Rows of the last leading axis are stored side by side, not heads one after the other. */
  readonly isInterleaved: boolean;
  readonly dropout: AttentionDropout | null;
  readonly label: string;
}

/** The number of heads. */
export const headsOf = ({ lead }: AttentionKernel): number => lead.reduce((a, b) => a * b, 1);

/** The first element of a head's matrix. */
export function startOfHead(lead: readonly number[], at: HeadMatrix, head: number): number {
  let start = at.offset, rest = head;
  for (let k = lead.length - 1; k >= 0; k--) {
    start += rest % lead[k]! * at.lead[k]!;
    rest = Math.floor(rest / lead[k]!);
  }
  return start;
}

/** The largest number that indices of it reach. */
export function attentionReach(kernel: AttentionKernel): number {
  const { query, key, value, mask, backward, lead, queries, keys } = kernel;
  const reach = (at: HeadMatrix, rows: number, columns: number): number =>
    at.offset + lead.reduce((sum, n, k) => sum + n * Math.abs(at.lead[k]!), 0) +
    rows * Math.abs(at.row) + columns * Math.abs(at.column);
  return Math.max(
    ...kernel.outputs.map(({ size }) => size),
    reach(query, queries, kernel.features),
    reach(key, keys, kernel.features),
    reach(value, keys, kernel.valueFeatures),
    mask ? reach(mask.at, queries, keys) : 0,
    kernel.filled || kernel.dropout ? headsOf(kernel) * queries * keys : 0,
    backward ? reach(backward.gradient, queries, kernel.valueFeatures) : 0,
    headsOf(kernel) * Math.max(queries, keys) * Math.max(kernel.features, kernel.valueFeatures),
  );
}
