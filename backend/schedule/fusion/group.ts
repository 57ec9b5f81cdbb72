/**
 * Decisions of fusion: the nodes of one loop kernel, and where each of them is read. A group
 * says nothing of expressions; `lower_group.ts` writes those.
 */
import type { AffineExpr } from "../../kernel/affine.ts";
import type { DType } from "../../graph/dtype.ts";
import type { LoopNest, PackedLoad } from "../../kernel/kernel.ts";
import type { Access } from "../../kernel/view.ts";
import type { NodeInfo } from "./node_info.ts";

/** A node's value at one access; `value` is its number in the group. */
export interface Read {
  readonly value: number;
  readonly access: Access;
}

/** Source of a view's value: its input's, or memory where no index says where that lies. */
export type ViewRead =
  /** The input's value; inside `mask` alone where the view pads. */
  | { readonly input: number; readonly mask: Access["bounds"] | null }
  /** The elements of `stored` lie in memory in the order of the view's. */
  | { readonly stored: NodeInfo };

/** Read of a gather: the index's loop symbol, and the values of index and source. */
export interface GatherRead {
  readonly symbol: number;
  readonly index: number;
  readonly source: number;
}

/** An operand of a contraction: a value in memory and where it is read. */
export interface Operand {
  readonly stored: NodeInfo;
  readonly index: AffineExpr;
  readonly bounds: Access["bounds"];
  /** Decoding of the value as it is read: type and blocks. */
  readonly decoded?: DecodedRead;
}

/** A value that is decoded from the stored bytes of blocks. */
export interface DecodedRead {
  readonly dtype: DType;
  readonly packed: PackedLoad;
}

/** Role of a node that a group needs. */
export type Role =
  /** It has no elements. */
  | { readonly role: "empty" }
  /** It is read from memory. */
  | { readonly role: "load" }
  /** A constant, an index or a random number. */
  | { readonly role: "leaf" }
  /** It is computed from the values of its operands, which are listed for each read. */
  | { readonly role: "map"; readonly operands: readonly (readonly number[])[] }
  | { readonly role: "view"; readonly at: readonly ViewRead[] }
  /** It is decoded from the bytes of blocks in memory. */
  | { readonly role: "decode"; readonly stored: NodeInfo; readonly decoded: DecodedRead }
  | { readonly role: "gather"; readonly at: readonly GatherRead[] }
  /** It is reduced by the inner loops; `index` is the position of an element in its row. */
  | { readonly role: "reduce"; readonly input: number; readonly index: AffineExpr }
  | {
    readonly role: "contract";
    readonly batch: readonly number[];
    readonly m: readonly number[];
    readonly n: readonly number[];
    readonly k: readonly number[];
    readonly a: Operand;
    readonly b: Operand;
  };

/** A node of a group, with all places where it is read. */
export type Member = Role & {
  readonly info: NodeInfo;
  readonly reads: readonly Read[];
  /** Its value is also written to memory. */
  readonly isOutput: boolean;
};

/** A value that is stored in a part of the root. */
export interface StoredPiece {
  readonly value: number;
  readonly index: AffineExpr;
  /** Elements. */
  readonly size: number;
}

/** The nodes that one loop kernel computes. */
export interface Group {
  readonly root: NodeInfo;
  /** The pieces that are stored for a root that is no member; none where it is one. */
  readonly pieces: readonly StoredPiece[];
  readonly loops: LoopNest;
  /** Users before what they use. */
  readonly members: readonly Member[];
  /** Number of its members' values; see {@linkcode Read}. */
  readonly values: number;
  /** Nodes that must be in memory before it runs, as it was decided for this group. */
  readonly stores: readonly NodeInfo[];
  /** Nodes one of whose users is computed here and nowhere else. */
  readonly served: readonly NodeInfo[];
}

/** Limits of a group; a first attempt has none, see `fuse.ts`. */
export interface Limits {
  /** Loops that are two symbols, by name, with the size of the inner one. */
  readonly splits: ReadonlyMap<string, number>;
  /** Contractions read padded operands from memory. */
  readonly storesPadding: boolean;
  /** Contractions read operands from memory that are the same for several terms of the sum. */
  readonly storesRepeats: boolean;
  /** Contractions read decoded copies of packed operands from memory. */
  readonly storesDecoded: boolean;
  /** Products are stored where something else is asked for. */
  readonly storesProducts: boolean;
  /** Rows are cut into parts: no kernel walks them again behind a reduction. */
  readonly cutsRows: boolean;
  /** Values of rows that others read are stored by a kernel of their own. */
  readonly storesRows: boolean;
}

/** A group cannot be made unless one of its loops is two: the reason to try again. */
export interface LoopSplit {
  readonly loop: string;
  readonly factor: number;
}
