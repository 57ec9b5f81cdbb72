/**
 * Grows one group from a node that must be stored: walks towards its inputs and takes in what may be
 * computed in the same loops (elementwise operations, casts, views, gathers, row-wise reductions, one
 * contraction), until it meets values in memory. Nothing outside is changed: what a group decides about
 * other nodes is part of it, so that one which turns out to be unsuitable is simply dropped.
 *
 * It is long because every decision about a node looks at the whole state of the group.
 */
import { type AffineExpr, linearize, symbol as symbolExpr } from "../../kernel/affine.ts";
import {
  type Access,
  accessKey,
  broadcastAccess,
  isView,
  rowAccess,
  viewAccess,
} from "../../kernel/view.ts";
import type { Bound, LoopNest } from "../../kernel/kernel.ts";
import type { Node } from "../../graph/node.ts";
import { sizeOf, stridesOf } from "../../graph/shape.ts";
import type { FusionRules } from "../../kernel/target.ts";
import { type Concatenation, concatenationOf, movedCoords } from "./concatenation.ts";
import type {
  Group,
  Limits,
  LoopSplit,
  Member,
  Operand,
  Read,
  Role,
  StoredPiece,
  ViewRead,
} from "./group.ts";
import { Heap } from "../passes/heap.ts";
import { decodedOperand, decodedRead } from "./decoding.ts";
import { GroupEffects } from "./group_effects.ts";
import { isLoopSplit, Loops } from "./loops.ts";
import { roundingOf } from "./lower_group.ts";
import { inputInfo, isWidened, type NodeInfo } from "./node_info.ts";

/** Bounds that keep kernels within every driver's limits on arguments and registers. */
const MAX_EXPRS = 160, MAX_LOADS = 24;
/** Farthest product behind a value. */
const MAX_EPILOGUE = 16;
/** A node whose elements are read this many times each is repeated. */
const MIN_REPEATS = 8;
/** Windows that overlap read elements so often at least. */
const MIN_WINDOWS = 2;

/**
 * The group of `root`, or the loop that must be split before it can be made.
 *
 * @param partners What else is computed in its loops: of the root's shape but for axes of one element.
 */
export function growGroup(
  root: NodeInfo,
  limits: Limits,
  rules: FusionRules,
  partners: readonly NodeInfo[] = [],
): Group | LoopSplit {
  const builder = new GroupBuilder(root, limits, rules), group = builder.build(partners);
  if (isLoopSplit(group) || builder.holdsRows) return group;
  return new GroupBuilder(root, { ...limits, storesRows: true }, rules).build(partners);
}

/** Finding about a node: its role, or the split that it takes. */
type Found = Role | LoopSplit;

class GroupBuilder {
  readonly #root: NodeInfo;
  readonly #limits: Limits;
  readonly #rules: FusionRules;
  readonly #loops: Loops;
  readonly #members: Member[] = [];
  /** Nodes that are asked for and not yet decided on; users are decided on before what they use. */
  readonly #pending = new Map<NodeInfo, Read[]>();
  readonly #queue = new Heap<NodeInfo>(({ index }) => -index);
  /** Values that several users share, by node and access. */
  readonly #shared = new Map<string, number>();
  #values = 0;
  /** Expressions that come beside the values. */
  #helpers = 0;
  readonly #loads = new Set<string>();
  /** Nodes that a reduction of the group is computed from. */
  readonly #reduced = new Set<NodeInfo>();
  /** Nodes that the kernel reads from memory. */
  readonly #inputs = new Set<NodeInfo>();
  /** The loops that a contraction sums over, once there is one. */
  #summed: readonly number[] | null = null;
  #hasIndirect = false;
  /** Values of rows that were taken in before a reduction of the rows was. */
  readonly #rows: (readonly [NodeInfo, readonly Read[]])[] = [];
  readonly #effects: GroupEffects;
  /** Concatenation at a root stored in pieces. */
  readonly #joined: Concatenation | null;

  constructor(root: NodeInfo, limits: Limits, rules: FusionRules) {
    this.#root = root;
    this.#limits = limits;
    this.#rules = rules;
    this.#loops = new Loops(limits, rules.minRows);
    this.#effects = new GroupEffects(root);
    this.#joined = rules.storesPieces ? concatenationOf(root) : null;
  }

  build(partners: readonly NodeInfo[]): Group | LoopSplit {
    const outer: number[] = [];
    const { shape } = this.#joined ?? this.#root.node;
    const coords = shape.map((n) => this.#loops.axis(n, outer));
    this.#loops.outer = outer;
    const pieces = this.#joined ? this.#askPieces(this.#joined, coords) : [];
    for (const info of this.#joined ? [] : [this.#root, ...partners]) {
      this.#ask(info, rowAccess(info.node, this.#root.node, coords));
    }
    for (let info = this.#queue.pop(); info; info = this.#queue.pop()) {
      const reads = this.#pending.get(info)!;
      this.#pending.delete(info);
      const found = this.#decide(info, reads);
      if (isLoopSplit(found)) return found;
      this.#add(info, reads, found);
    }
    return {
      root: this.#root,
      pieces,
      loops: this.#nest(),
      members: this.#members,
      values: this.#values,
      stores: [...this.#effects.stores],
      served: this.#effects.served,
    };
  }

  /** True when all values of rows that it stores are those of its own rows. */
  get holdsRows(): boolean {
    return this.#rows.every(([info, reads]) => this.#visitsOnce(info, reads));
  }

  /** Asks for an element of each piece of a concatenation. */
  #askPieces(joined: Concatenation, coords: readonly AffineExpr[]): StoredPiece[] {
    const { axis, pieces, between, shape } = joined;
    const strides = stridesOf(this.#root.node.shape);
    for (const info of between) this.#effects.serve(info);
    return pieces.map(({ part, from, to }) => ({
      value: this.#ask(part, { coords: movedCoords(coords, axis, from), bounds: [] }),
      index: linearize(movedCoords(coords, axis, to), strides),
      size: sizeOf(shape),
    }));
  }

  #nest(): LoopNest {
    const { sizes, outer, inner } = this.#loops;
    return { sizes, outer, inner: this.#summed ?? inner ?? [] };
  }

  #add(info: NodeInfo, reads: readonly Read[], found: Role): void {
    const isStored = info === this.#root || this.#effects.isMaterialized(info);
    const isOutput = isStored && found.role !== "load" && found.role !== "empty";
    this.#members.push({ ...found, info, reads, isOutput });
  }

  /** Asks for a node's value at an access, for what is computed from it; gives its number. */
  #ask(info: NodeInfo, access: Access, user?: NodeInfo): number {
    if (user && (user.node.op.kind === "reduce" || this.#reduced.has(user))) {
      this.#reduced.add(info);
    }
    const key = info.consumers > 1 ? `${info.index}@${accessKey(access)}` : null;
    const known = key === null ? undefined : this.#shared.get(key);
    if (known !== undefined) return known;
    const value = this.#values++;
    if (key !== null) this.#shared.set(key, value);
    const reads = this.#pending.get(info);
    if (reads) reads.push({ access, value });
    else {
      this.#pending.set(info, [{ access, value }]);
      this.#queue.push(info);
    }
    return value;
  }

  // ---- memory

  #noteLoad(info: NodeInfo, index: AffineExpr, bounds: readonly Bound[]): void {
    this.#inputs.add(info);
    this.#loads.add(`${info.index}@${accessKey({ coords: [index], bounds })}`);
  }

  /** Reads the node from memory; it gets a kernel of its own unless it is there already. */
  #load(info: NodeInfo, reads: readonly Read[]): Role {
    this.#effects.store(info);
    const strides = stridesOf(info.node.shape);
    for (const { access } of reads) {
      this.#noteLoad(info, linearize(access.coords, strides), access.bounds);
    }
    return { role: "load" };
  }

  // ---- decisions

  #decide(info: NodeInfo, reads: readonly Read[]): Found {
    const { node } = info;
    if (node.size === 0) {
      // No element of it is ever computed, but its expression must be there.
      this.#effects.serve(info);
      return { role: "empty" };
    }
    if (node.isLeaf) return this.#load(info, reads);
    switch (node.op.kind) {
      case "constant":
      case "iota":
      case "random":
        return this.#leaf(info, reads);
      case "copy":
        return info === this.#root ? this.#map(info, reads) : this.#load(info, reads);
      case "elementwise":
      case "cast":
        return this.#takesIn(info, reads) ? this.#map(info, reads) : this.#load(info, reads);
      case "gather":
        return this.#takesIn(info, reads) && !this.#isBehindProduct()
          ? this.#gather(info, node.op.axis, reads)
          : this.#load(info, reads);
      case "decode":
        return this.#takesIn(info, reads) ? this.#decode(info, reads) : this.#load(info, reads);
      case "reduce":
        return this.#reduce(info, reads);
      case "contract":
        return this.#contract(info, reads);
      default: {
        const isKept = this.#effects.isMaterialized(info) && !this.#takesIn(info, reads);
        return isView(node.op) && !isKept ? this.#view(info, reads) : this.#load(info, reads);
      }
    }
  }

  /** Decides whether an elementwise node is computed in these loops. */
  #takesIn(info: NodeInfo, reads: readonly Read[]): boolean {
    if (info === this.#root) return true;
    const { cheap } = this.#rules;
    if (this.#effects.isMaterialized(info)) {
      return this.#mayStore(info, reads) && !this.#followsProduct(info) ||
        this.#mayStoreRow(info, reads);
    }
    if (this.#isFull()) return false;
    const isRepeated = info.node.size * MIN_REPEATS <= this.#loops.iterations &&
      info.recomputeCost >= cheap;
    if (!this.#effects.isServed(info)) {
      return info.recomputeCost < cheap || !isRepeated && this.#isDerived(info);
    }
    return info.reduces || !isRepeated && !this.#isWindowed(info);
  }

  /** True for what follows a product and is read by windows that overlap: its kernel may as well store it. */
  #isWindowed(info: NodeInfo): boolean {
    return this.#rules.storesWindowed &&
      info.node.size * MIN_WINDOWS <= this.#loops.iterations && this.#followsProduct(info);
  }

  /** True when reading what the node follows from, and computing it again, costs less than storing it. */
  #isDerived({ node, derivation }: NodeInfo): boolean {
    const { derivedCheap } = this.#rules;
    if (derivedCheap > 0 && isWidened(node)) return true;
    return derivation !== null && derivation.origin !== node && derivation.cost < derivedCheap;
  }

  /**
   * True when this kernel may store the node: nobody evaluates it again, and nothing here reads it
   * from memory, as the operand of a contraction does.
   */
  #mayStore(info: NodeInfo, reads: readonly Read[]): boolean {
    return this.#effects.isServed(info) && !this.#inputs.has(info) && this.#visitsOnce(info, reads);
  }

  /**
   * True for a value of a row, such as the mean of a normalization, that these loops may store: if it is
   * reduced from the row they become the row's, which is then read once. See {@linkcode holdsRows}.
   */
  #mayStoreRow(info: NodeInfo, reads: readonly Read[]): boolean {
    const { cutsRows, storesRows } = this.#limits;
    if (!this.#rules.joinsReductions || cutsRows || storesRows || !info.reduces) return false;
    if (this.#loops.inner !== null || !this.#effects.isServed(info) || this.#inputs.has(info)) {
      return false;
    }
    const { access } = reads[0]!;
    if (reads.length !== 1 || access.bounds.length > 0) return false;
    const index = linearize(access.coords, stridesOf(info.node.shape));
    if (!this.#loops.visitPrefixOnce(index, info.node.size)) return false;
    this.#rows.push([info, reads]);
    return true;
  }

  /** True when these loops visit each element of the node once. */
  #visitsOnce({ node }: NodeInfo, reads: readonly Read[]): boolean {
    if (reads.length !== 1) return false;
    const { access } = reads[0]!;
    if (access.bounds.length > 0) return false;
    return this.#loops.visitOnce(linearize(access.coords, stridesOf(node.shape)), node.size);
  }

  /**
   * True when a product that these loops cannot hold may store the value as it is computed: reading
   * it here costs less than storing the product first.
   */
  #followsProduct(info: NodeInfo): boolean {
    if (this.#loops.inner === null) return false;
    let at: NodeInfo | undefined = info;
    for (let steps = 0; at && steps < MAX_EPILOGUE; steps++) {
      const { op, size }: Node = at.node;
      if (op.kind === "contract") return true;
      if (op.kind !== "elementwise" && op.kind !== "cast" && op.kind !== "reshape") return false;
      at = at.inputs.find((input) =>
        !input.node.isLeaf && !this.#effects.isMaterialized(input) && input.consumers === 1 &&
        input.node.size === size
      );
    }
    return false;
  }

  /** A GPU stores a product's results in vectors where nothing behind it reads by indices from memory. */
  #isBehindProduct(): boolean {
    return this.#summed !== null && this.#rules.maxEpilogue < Infinity;
  }

  #isFull(): boolean {
    return this.#values + this.#helpers > MAX_EXPRS ||
      this.#loads.size + this.#pending.size > MAX_LOADS;
  }

  // ---- what each kind of node becomes

  #leaf(info: NodeInfo, reads: readonly Read[]): Role {
    if (this.#effects.isMaterialized(info) && info !== this.#root && !this.#mayStore(info, reads)) {
      return this.#load(info, reads);
    }
    return { role: "leaf" };
  }

  #map(info: NodeInfo, reads: readonly Read[]): Role {
    this.#effects.serve(info);
    const { inputs, op } = info.node;
    const operands = reads.map(({ access }) =>
      inputs.map((input, k) =>
        this.#ask(
          inputInfo(info, k),
          op.kind === "elementwise" ? broadcastAccess(access, input.shape) : access,
          info,
        )
      )
    );
    if (
      op.kind === "cast" && info !== this.#root && roundingOf(inputs[0]!.dtype, info.node.dtype)
    ) {
      this.#helpers += reads.length;
    }
    return { role: "map", operands };
  }

  #decode(info: NodeInfo, reads: readonly Read[]): Role {
    const stored = inputInfo(info, 0), strides = stridesOf(info.node.shape);
    this.#effects.serve(info);
    this.#effects.store(stored);
    for (const { access } of reads) {
      this.#noteLoad(stored, linearize(access.coords, strides), access.bounds);
    }
    return { role: "decode", stored, decoded: decodedRead(info.node)! };
  }

  #gather(info: NodeInfo, axis: number, reads: readonly Read[]): Role {
    this.#effects.serve(info);
    this.#hasIndirect = true;
    const [source, indices] = [inputInfo(info, 0), inputInfo(info, 1)];
    const at = reads.map(({ access }) => {
      const index = this.#ask(indices, access, info);
      if (access.bounds.length > 0) this.#helpers += 3;
      const symbol = this.#loops.index(source.node.shape[axis]!);
      const coords = access.coords.map((c, k) => k === axis ? symbolExpr(symbol) : c);
      return { symbol, index, source: this.#ask(source, { coords, bounds: access.bounds }, info) };
    });
    return { role: "gather", at };
  }

  #view(info: NodeInfo, reads: readonly Read[]): Found {
    this.#effects.serve(info);
    const at: ViewRead[] = [];
    for (const { access } of reads) {
      const found = this.#viewAt(info, access);
      if (isLoopSplit(found)) return found;
      at.push(found);
    }
    return { role: "view", at };
  }

  #viewAt(info: NodeInfo, access: Access): ViewRead | LoopSplit {
    const { op, shape } = info.node;
    if (!isView(op)) throw new Error(`Cannot fuse ${op.kind} as a view`);
    const input = inputInfo(info, 0);
    const mapped = viewAccess(op, shape, input.node.shape, access, this.#loops.sizes);
    // An index that is read from memory cannot be split.
    if (mapped === null || "factor" in mapped && !this.#loops.isLoop(mapped.symbol)) {
      this.#effects.store(input);
      this.#noteLoad(input, linearize(access.coords, stridesOf(shape)), access.bounds);
      return { stored: input };
    }
    if ("factor" in mapped) return this.#loops.splitOf(mapped);
    const value = this.#ask(input, mapped, info);
    const mask = mapped.bounds.slice(access.bounds.length);
    if (op.kind !== "pad" || mask.length === 0) return { input: value, mask: null };
    this.#helpers += 2;
    return { input: value, mask };
  }

  #reduce(info: NodeInfo, reads: readonly Read[]): Found {
    const { op } = info.node;
    if (op.kind !== "reduce") throw new Error(`Cannot fuse ${op.kind} as a reduction`);
    const access = this.#mayHold(info, reads)
      ? this.#loops.reduceAccess(
        info.node,
        reads[0]!.access,
        this.#reduced.has(info),
      )
      : null;
    if (isLoopSplit(access)) return access;
    if (access === null) return this.#load(info, reads);
    this.#effects.serve(info);
    const source = inputInfo(info, 0);
    const reduced = op.axes.map((axis) => access.coords[axis]!);
    const index = linearize(reduced, stridesOf(op.axes.map((axis) => source.node.shape[axis]!)));
    return { role: "reduce", input: this.#ask(source, access, info), index };
  }

  /** Reductions and contractions are computed once, where their users are. */
  #mayHold(info: NodeInfo, reads: readonly Read[]): boolean {
    if (reads.length !== 1 || reads[0]!.access.bounds.length > 0) return false;
    if (this.#summed !== null || this.#joined !== null) return false;
    return info === this.#root ||
      this.#effects.isServed(info) && !this.#inputs.has(info) && !this.#isFull();
  }

  // ---- contractions

  #contract(info: NodeInfo, reads: readonly Read[]): Found {
    const isHere = info === this.#root || !this.#limits.storesProducts && !this.#hasIndirect;
    const groups = isHere && this.#mayHold(info, reads)
      ? this.#loops.contractGroups(info.node, reads[0]!.access)
      : null;
    if (!groups) return this.#load(info, reads);
    this.#effects.serve(info);
    const [batch, m, n] = groups;
    const k: number[] = [];
    const [left, right] = [inputInfo(info, 0), inputInfo(info, 1)];
    const summed = left.node.shape.slice(batch.length + m.length)
      .map((size) => this.#loops.axis(size, k));
    this.#summed = k;
    const a = this.#operand(left, { coords: [...batch, ...m, ...summed], bounds: [] });
    if (isLoopSplit(a)) return a;
    const b = this.#operand(right, { coords: [...batch, ...summed, ...n], bounds: [] });
    if (isLoopSplit(b)) return b;
    const symbols = (coords: readonly AffineExpr[]): number[] => this.#loops.symbolsOf(coords);
    return { role: "contract", batch: symbols(batch), m: symbols(m), n: symbols(n), k, a, b };
  }

  /** The operand of a contraction: a view of a buffer, or a value that must become one. */
  #operand(start: NodeInfo, at: Access): Operand | LoopSplit {
    let info = start, access = at;
    if (this.#limits.storesRepeats && this.#isRepeated(start, at)) {
      return this.#operandAt(start, start.node, at);
    }
    while (!info.node.isLeaf && !this.#effects.isMaterialized(info)) {
      const { node } = info;
      if (!isView(node.op) || !this.#isReadThrough(node)) break;
      const input = inputInfo(info, 0);
      const mapped = viewAccess(node.op, node.shape, input.node.shape, access, this.#loops.sizes);
      if (mapped !== null && "factor" in mapped) return this.#loops.splitOf(mapped);
      this.#effects.serve(info);
      info = input;
      // The input's elements lie in memory in the order of the view's.
      if (mapped === null) return this.#operandAt(info, node, access);
      access = mapped;
    }
    const packed = this.#limits.storesDecoded ? null : decodedOperand(info);
    if (packed === null || this.#effects.isMaterialized(info)) {
      return this.#operandAt(info, info.node, access);
    }
    for (const passed of packed.through) this.#effects.serve(passed);
    return { ...this.#operandAt(packed.stored, info.node, access), decoded: packed.decoded };
  }

  #operandAt(stored: NodeInfo, { shape }: Node, { coords, bounds }: Access): Operand {
    this.#effects.store(stored);
    this.#inputs.add(stored);
    return { stored, index: linearize(coords, stridesOf(shape)), bounds };
  }

  /** True when the operand of a contraction may be read through the node. */
  #isReadThrough({ op }: Node): boolean {
    return op.kind !== "pad" || !this.#limits.storesPadding && op.value === 0;
  }

  /** True where an operand is the same for several terms of the sum. */
  #isRepeated(start: NodeInfo, at: Access): boolean {
    let info = start, access = at;
    while (!info.node.isLeaf && isView(info.node.op)) {
      const { op, shape } = info.node, input = inputInfo(info, 0), source = input.node.shape;
      const isSummed = ({ terms }: AffineExpr): boolean =>
        terms.some(([s]) => this.#summed!.includes(s));
      const repeats = (n: number, axis: number): boolean =>
        n !== source[axis] && isSummed(access.coords[axis]!);
      if (op.kind === "expand" && shape.some(repeats)) return true;
      const mapped = viewAccess(op, shape, source, access, this.#loops.sizes);
      if (mapped === null || "factor" in mapped) return false;
      info = input;
      access = mapped;
    }
    return false;
  }
}
