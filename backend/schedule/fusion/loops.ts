/** The loops of a kernel that is being made, and whether a node can be computed in them. */
import {
  type AffineExpr,
  isBijection,
  linearize,
  symbol as symbolIndex,
  type SymbolSplit,
  zero,
} from "../../kernel/affine.ts";
import type { Limits, LoopSplit } from "./group.ts";
import type { Node } from "../../graph/node.ts";
import { sizeOf, stridesOf } from "../../graph/shape.ts";
import { type Access, viewAccess } from "../../kernel/view.ts";

/** A longer row, in elements, is work for more than one work-item or group. */
const MAX_UNSPLIT_ROW = 8192;

/** True for a loop that must be split before an index can be expressed. */
export function isLoopSplit<T extends object>(found: T | LoopSplit | null): found is LoopSplit {
  return found !== null && "loop" in found;
}

/** Symbols with their sizes: loops over `outer` and, per element of it, over `inner`. */
export class Loops {
  /** The size of each symbol. */
  readonly sizes: number[] = [];
  /** The loops whose iterations are rows. */
  outer: readonly number[] = [];
  /** The loops within a row; null while there are only rows. */
  inner: readonly number[] | null = null;
  readonly #splits: ReadonlyMap<string, number>;
  /**
   * The loop of each symbol: counted in order of creation, with a letter for each half of a split;
   * empty for indices that are read from memory.
   */
  readonly #names: string[] = [];
  #next = 0;
  readonly #minRows: number;
  readonly #cutsRows: boolean;

  /** @param minRows Fewer long rows leave most of the device idle. */
  constructor({ splits, cutsRows }: Limits, minRows: number) {
    this.#splits = splits;
    this.#cutsRows = cutsRows;
    this.#minRows = minRows;
  }

  /** A loop over an axis of `n` elements: one symbol, or two where a split is due. */
  axis(n: number, into: number[], loop = `${this.#next++}`): AffineExpr {
    const factor = this.#splits.get(loop);
    if (factor !== undefined) {
      const high = this.axis(n / factor, into, `${loop}h`);
      const low = this.axis(factor, into, `${loop}l`);
      return linearize([high, low], [factor, 1]);
    }
    const id = this.#symbol(n, loop);
    into.push(id);
    return symbolIndex(id);
  }

  /** The symbol of an index that is read from memory. */
  index(size: number): number {
    return this.#symbol(size, "");
  }

  #symbol(size: number, name: string): number {
    this.#names.push(name);
    return this.sizes.push(size) - 1;
  }

  /** True for symbols that are walked; an index from memory is not. */
  isLoop(symbol: number): boolean {
    return this.#names[symbol] !== "";
  }

  /** The split of a symbol by the name of its loop, which is the same in the next attempt. */
  splitOf(split: SymbolSplit): LoopSplit {
    return { loop: this.#names[split.symbol]!, factor: split.factor };
  }

  /** Number of runs of the innermost loop in all. */
  get iterations(): number {
    return this.#extent([...this.outer, ...this.inner ?? []]);
  }

  #extent(symbols: readonly number[]): number {
    return symbols.reduce((n, s) => n * this.sizes[s]!, 1);
  }

  /** True when the loops, or the rows, visit each of `size` elements once by this index. */
  visitOnce(index: AffineExpr, size: number): boolean {
    const full = [...this.outer, ...this.inner ?? []];
    const row = this.inner !== null && isBijection(index, this.outer, this.sizes, size);
    return row || isBijection(index, full, this.sizes, size);
  }

  /** True when the loops that an index has in it are rows, whose elements it gives one each. */
  visitPrefixOnce(index: AffineExpr, size: number): boolean {
    const rows = this.outer.filter((s) => index.terms.some(([t]) => t === s));
    return rows.length < this.outer.length && isBijection(index, rows, this.sizes, size);
  }

  /**
   * Read of a reduction's input, if its loops are (or can become) these loops; the split that is
   * due where they could if one of them were two.
   *
   * @param isNested Whether another reduction of these loops follows from it.
   */
  reduceAccess(node: Node, access: Access, isNested: boolean): Access | LoopSplit | null {
    if (node.op.kind !== "reduce") return null;
    const shape = node.inputs[0]!.shape;
    const reducedSizes = node.op.axes.map((axis) => shape[axis]!);
    const index = linearize(access.coords, stridesOf(node.shape));
    const used = this.outer.filter((s) => index.terms.some(([t]) => t === s));
    if (!isBijection(index, used, this.sizes, node.size)) return null;
    const rest = this.outer.filter((s) => !used.includes(s) && this.sizes[s]! > 1);
    if (this.inner === null && rest.length === 0) {
      return this.#openInner(node, access, reducedSizes);
    }
    if (this.inner !== null && rest.length > 0) return null;
    // A row that is walked twice cannot be reduced in parts.
    const isWalkedTwice = this.inner === null || isNested;
    const isLong = node.size < this.#minRows && this.#extent(this.inner ?? rest) > MAX_UNSPLIT_ROW;
    if (isWalkedTwice && (isLong || this.#cutsRows)) return null;
    const coords = this.#innerCoords(this.inner ?? rest, reducedSizes);
    if (isLoopSplit(coords)) return coords;
    if (!coords) return null;
    if (this.inner === null) {
      this.inner = rest;
      this.outer = this.outer.filter((s) => !rest.includes(s));
    }
    return mergeAxes(node, access, coords);
  }

  /** The kernel had only rows so far: the reduced axes become its inner loops. */
  #openInner(node: Node, access: Access, sizes: readonly number[]): Access {
    const inner: number[] = [];
    this.inner = inner;
    return mergeAxes(node, access, sizes.map((n) => this.axis(n, inner)));
  }

  /** The reduced coordinates in terms of loops that are there already, or null if they differ. */
  #innerCoords(
    loops: readonly number[],
    sizes: readonly number[],
  ): readonly AffineExpr[] | LoopSplit | null {
    const loopSizes = loops.map((s) => this.sizes[s]!);
    if (sizeOf(loopSizes) !== sizeOf(sizes)) return null;
    const index = linearize(loops.map(symbolIndex), stridesOf(loopSizes));
    const mapped = viewAccess(
      { kind: "reshape" },
      [sizeOf(sizes)],
      sizes,
      { coords: [index], bounds: [] },
      this.sizes,
    );
    if (mapped === null) return null;
    return "factor" in mapped ? this.splitOf(mapped) : mapped.coords;
  }

  /** A contraction's coordinates by role (batch, m, n), if each loop has one role. */
  contractGroups(node: Node, access: Access): [AffineExpr[], AffineExpr[], AffineExpr[]] | null {
    if (node.op.kind !== "contract" || this.inner !== null) return null;
    const { batch, m } = node.op;
    const index = linearize(access.coords, stridesOf(node.shape));
    if (!isBijection(index, this.outer, this.sizes, node.size)) return null;
    const groups: [AffineExpr[], AffineExpr[], AffineExpr[]] = [
      access.coords.slice(0, batch),
      access.coords.slice(batch, batch + m),
      access.coords.slice(batch + m),
    ];
    const used = groups.flatMap((group) => this.symbolsOf(group));
    return new Set(used).size === used.length ? groups : null;
  }

  /** The outer loops that coordinates depend on. */
  symbolsOf(coords: readonly AffineExpr[]): number[] {
    const found = new Set(coords.flatMap((c) => c.terms.map(([s]) => s)));
    return this.outer.filter((s) => found.has(s));
  }
}

/** A reduction's input coordinates: kept axes from the access, reduced axes from the inner loops. */
function mergeAxes(node: Node, access: Access, reduced: readonly AffineExpr[]): Access {
  const axes = node.op.kind === "reduce" ? node.op.axes : [];
  let kept = 0;
  const coords = node.inputs[0]!.shape.map((_: number, axis: number) => {
    const at = axes.indexOf(axis);
    return at >= 0 ? reduced[at]! : access.coords[kept++] ?? zero;
  });
  return { coords, bounds: [] };
}
