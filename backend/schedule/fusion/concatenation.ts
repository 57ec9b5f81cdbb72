/**
 * Concatenations: values side by side, which the graph has as a sum of values that are padded with nothing
 * to add. Where every piece is as large as the others one loop computes an element of each and stores it
 * in its place: no element looks at whose it is, and what the pieces share is computed once.
 */
import { type AffineExpr, scale } from "../../kernel/affine.ts";
import { isFloat } from "../../graph/dtype.ts";
import type { Node } from "../../graph/node.ts";
import { sameShape } from "../../graph/shape.ts";
import { inputInfo, type NodeInfo } from "./node_info.ts";

/** Each has an argument for what it reads and one for where it is stored, of which drivers take 1,024 bytes. */
const MAX_PIECES = 16;
/**
 * Shorter pieces are at most so many for each part. How many there are stands in the kernel's text: a cache
 * that grows by a word would be a kernel a word, where elements that look at whose they are have one text for
 * all lengths. Longer ones, such as channels, are of few lengths, and looking takes up to twice the time.
 */
const SHORT_PIECE = 8, MAX_SHORT_CUTS = 2;
/** Levels of a tree that are joined at once. */
const MAX_LEVELS = 3;

/** A piece of a concatenation: where it begins in its part, and in the whole. */
interface Piece {
  readonly part: NodeInfo;
  readonly from: number;
  readonly to: number;
}

/** A concatenation in pieces of one shape. */
export interface Concatenation {
  readonly axis: number;
  /** The shape of a piece. */
  readonly shape: readonly number[];
  readonly pieces: readonly Piece[];
  /** The nodes between the whole and its parts, which nobody else reads; users before what they use. */
  readonly between: readonly NodeInfo[];
}

/** Place of a part along the axis. */
interface Part {
  readonly info: NodeInfo;
  readonly start: number;
}

/**
 * The concatenation that a node is; null for what is none, or takes too many pieces. Long ones are trees:
 * what is stored only to be joined again is not, where there is room.
 * Gradients of slices are such sums as well, of what is padded with 0: a -0 stays what it is. So is a cast
 * of one, such as that of gradients in half precision for the product that follows.
 */
export function concatenationOf(root: NodeInfo): Concatenation | null {
  return joinedOf(root, MAX_LEVELS) ?? joinedOf(root, 0);
}

function joinedOf(root: NodeInfo, levels: number): Concatenation | null {
  const between: NodeInfo[] = [];
  const found = partsOf(root, null, between, levels);
  if (found === null || found.parts.length < 2) return null;
  const { axis } = found, { shape } = root.node;
  const lengthOf = ({ info }: Part): number => info.node.shape[axis]!;
  const parts = found.parts.filter((part) => lengthOf(part) > 0)
    .toSorted((a, b) => a.start - b.start);
  const length = parts.map(lengthOf).reduce(gcd, 0);
  // Asked before they are listed: two long parts may have pieces of one element.
  const count = parts.reduce((sum, part) => sum + lengthOf(part) / length, 0);
  const most = length < SHORT_PIECE ? MAX_SHORT_CUTS * parts.length : MAX_PIECES;
  if (count > Math.min(MAX_PIECES, most)) return null;
  let end = 0;
  const pieces: Piece[] = [];
  for (const part of parts) {
    if (part.start !== end) return null;
    end += lengthOf(part);
    for (let to = part.start; to < end; to += length) {
      pieces.push({ part: part.info, from: to - part.start, to });
    }
  }
  return end === shape[axis] ? { axis, shape: shape.with(axis, length), pieces, between } : null;
}

/** Coordinates that begin elsewhere along an axis. */
export function movedCoords(
  coords: readonly AffineExpr[],
  axis: number,
  start: number,
): AffineExpr[] {
  return coords.with(axis, scale(coords[axis]!, 1, start));
}

/**
 * The parts that a value is a sum of, each padded along one axis: that which is known, if one is.
 *
 * @param between Takes the nodes on the way.
 * @param levels How deep a part that is a concatenation counts as its own parts.
 */
function partsOf(
  info: NodeInfo,
  known: number | null,
  between: NodeInfo[],
  levels: number,
): { axis: number; parts: Part[] } | null {
  const parts: Part[] = [], open = [info];
  let axis = known;
  for (let at = open.pop(); at; at = open.pop()) {
    const { op, shape } = at.node;
    between.push(at);
    if (at === info && (op.kind === "copy" || isFloatCast(at.node))) open.push(inputInfo(at, 0));
    else if (op.kind === "elementwise" && op.fn === (at.node.dtype === "bool" ? "or" : "add")) {
      const sides = at.node.inputs.map((_, k) => inputInfo(at!, k));
      if (!sides.every((side) => sameShape(side.node.shape, shape))) return null;
      open.push(...sides);
    } else {
      const found = paddedAxis(at.node);
      if (found === null || axis !== null && axis !== found) return null;
      axis = found;
      const inner = inputInfo(at, 0), start = op.kind === "pad" ? op.before[found]! : 0;
      const nested = nestedParts(inner, found, levels);
      if (nested === null) parts.push({ info: inner, start });
      else {
        between.push(...nested.between);
        for (const part of nested.parts) parts.push({ ...part, start: part.start + start });
      }
    }
    if (parts.length > 2 * MAX_PIECES || !open.every(isOwn)) return null;
  }
  return axis === null ? null : { axis, parts };
}

/** The parts of a part that is a concatenation by itself, and stored for nobody else. */
function nestedParts(
  info: NodeInfo,
  axis: number,
  levels: number,
): { parts: Part[]; between: NodeInfo[] } | null {
  if (levels === 0 || info.node.op.kind !== "copy" || !isOwn(info)) return null;
  const between: NodeInfo[] = [];
  const found = partsOf(info, axis, between, levels - 1);
  return found && { parts: found.parts, between };
}

/** True for a cast between floats: its pieces are cast where they are stored. */
function isFloatCast({ op, inputs, dtype }: Node): boolean {
  return op.kind === "cast" && isFloat(dtype) && isFloat(inputs[0]!.dtype);
}

/** True for a value that one node reads, and that need not be in memory. */
function isOwn({ node, consumers, materialized }: NodeInfo): boolean {
  return consumers === 1 && !materialized && !node.isLeaf;
}

/** The one axis that a value is padded along with zeros, of either sign; null where it is not. */
function paddedAxis({ op, inputs, shape }: Node): number | null {
  if (op.kind !== "pad" || op.value !== 0) return null;
  const padded = shape.flatMap((n, k) => n === inputs[0]!.shape[k] ? [] : [k]);
  return padded.length === 1 ? padded[0]! : null;
}

const gcd = (a: number, b: number): number => b === 0 ? a : gcd(b, a % b);
