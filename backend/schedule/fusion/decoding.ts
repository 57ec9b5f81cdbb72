/** Values that are decoded from blocks: where kernels read them as they are, packed. */
import { formatTable } from "../../formats/block_formats.ts";
import { isFloat } from "../../graph/dtype.ts";
import type { Node } from "../../graph/node.ts";
import type { DecodedRead } from "./group.ts";
import { inputInfo, type NodeInfo } from "./node_info.ts";

/** Decoded read of a node's input bytes; null where there is none. */
export function decodedRead({ op, dtype, size }: Node): DecodedRead | null {
  if (op.kind !== "decode") return null;
  const blocks = size / formatTable[op.format].elements;
  return { dtype, packed: { format: op.format, blocks } };
}

/** The bytes that an operand of a product is decoded from as it is read, and the nodes between. */
export interface DecodedOperand {
  readonly stored: NodeInfo;
  readonly decoded: DecodedRead;
  readonly through: readonly NodeInfo[];
}

/** True where a value lies in memory: what it was computed from is no input any more. */
const isStored = ({ node, materialized }: NodeInfo): boolean => node.isLeaf || materialized;

/** An operand as packed bytes; null where it is none. */
export function decodedOperand(start: NodeInfo): DecodedOperand | null {
  if (isStored(start)) return null;
  const { node } = start, through = [start];
  let info = start;
  // In which floating type a decoded value is meant does not matter to a product.
  if (node.op.kind === "cast" && isFloat(node.dtype)) through.push(info = inputInfo(start, 0));
  const decoded = isStored(info) ? null : decodedRead(info.node);
  if (decoded === null) return null;
  return {
    stored: inputInfo(info, 0),
    decoded: { ...decoded, dtype: node.dtype },
    through,
  };
}
