/**
 * Makes one kernel for one node that must be stored: walks from it towards its inputs and takes in
 * what may be computed in the same loops (elementwise operations, casts, views, gathers, row-wise
 * reductions, one contraction), until it meets values in memory. What cannot be taken in is marked
 * `materialized` and becomes a kernel of its own later.
 *
 * Kernels are made from the last node to the first, so a kernel never depends on one made before
 * it: that is what makes it safe to store a second value from the same loops.
 */
import { type AffineExpr, affineKey, linearize, symbol as symbolForm } from "../kernel/affine.ts";
import { canonicalize } from "../kernel/canonicalize.ts";
import type { DType } from "../graph/dtype.ts";
import { InfoHeap } from "./info_heap.ts";
import {
  type Bound,
  collapse,
  compact,
  type Contraction,
  type Expr,
  type IndirectIndex,
  type Load,
  loadKey,
  type LoopKernel,
  type Output,
  type Reduction,
} from "../kernel/kernel.ts";
import { Loops, SplitNeeded } from "./loops.ts";
import type { Node } from "../graph/node.ts";
import { inputInfo, type NodeInfo } from "./node_info.ts";
import { type PrimitiveName, primitives } from "../graph/primitives.ts";
import { stridesOf } from "../graph/shape.ts";
import { type Access, broadcastAccess, isView, viewAccess } from "../kernel/view.ts";

/** A kernel with the nodes that it reads and writes. */
export interface LoweredKernel {
  readonly kernel: LoopKernel;
  readonly inputs: readonly NodeInfo[];
  readonly outputs: readonly NodeInfo[];
}

/** Bounds that keep kernels within every driver's limits on arguments and registers. */
const MAX_EXPRS = 160;
const MAX_LOADS = 24;
/** Operations of so many instructions count in what follows a product. */
const COSTLY = 8;
/** How far a product is looked for behind a value. */
const MAX_EPILOGUE = 16;

/** Whether a backend has a kernel for a contraction whose operands are masked: padded images. */
export type TakesPadding = (kernel: LoopKernel) => boolean;

/** What the device says about fusion. */
export interface FusionRules {
  /** Which contractions read their operands' padding themselves; null: none. */
  readonly takesPadding: TakesPadding | null;
  /** Fewer long rows leave most of the device idle: then a reduction is computed by itself, in parts. */
  readonly minRows: number;
  /** An element of less cost, in additions, is computed again rather than stored and read. */
  readonly cheap: number;
  /** The same for an element that follows from one value that is in memory in any case. */
  readonly derivedCheap: number;
  /**
   * What may follow a product in its kernel, in additions, of operations that cost many. Where a product
   * fills the registers there are too few work-items to hide what such operations wait for.
   */
  readonly maxEpilogue: number;
}

/** The rules of a device of a few cores. */
export const defaultRules: FusionRules = {
  takesPadding: null,
  minRows: 8,
  cheap: 8,
  derivedCheap: 0,
  maxEpilogue: Infinity,
};

/** Lowers `root`; `info` is updated: what was taken in, what must be materialized. */
export function lower(root: NodeInfo, rules: FusionRules = defaultRules): LoweredKernel {
  const { takesPadding } = rules;
  const splits = new Map<string, number>();
  let bounds = takesPadding !== null, fusesProducts = true;
  for (;;) {
    const builder = new Builder(root, splits, bounds, fusesProducts, rules);
    try {
      const lowered = builder.build();
      const { kernel } = lowered;
      if (bounds && isMasked(kernel) && !takesPadding!(kernel)) bounds = false;
      else if (fusesProducts && epilogueCost(kernel) > rules.maxEpilogue) fusesProducts = false;
      else return lowered;
    } catch (error) {
      if (!(error instanceof SplitNeeded)) throw error;
      splits.set(error.loop, error.factor);
    }
    builder.rollback();
  }
}

function isMasked({ contraction: c }: LoopKernel): boolean {
  return c !== null && c.a.bounds.length + c.b.bounds.length > 0;
}

/** The costs of those operations behind a product that take many instructions. */
function epilogueCost({ contraction, exprs }: LoopKernel): number {
  if (contraction === null) return 0;
  const costs = exprs.map((e) => e.op === "primitive" ? primitives[e.fn].cost : 0);
  return costs.filter((cost) => cost >= COSTLY).reduce((a, b) => a + b, 0);
}

/** A value wanted at an access; `slot` is where its expression goes. */
interface Request {
  readonly access: Access;
  readonly slot: number;
}

class Builder {
  readonly #root: NodeInfo;
  readonly #bounds: boolean;
  readonly #cheap: number;
  readonly #derivedCheap: number;
  readonly #fusesProducts: boolean;
  readonly #loops: Loops;
  readonly #slots: (Expr | undefined)[] = [];
  readonly #memo = new Map<string, number>();
  readonly #pending = new Map<NodeInfo, Request[]>();
  readonly #queue = new InfoHeap();
  readonly #loads: Load[] = [];
  readonly #loadIds = new Map<string, number>();
  readonly #inputs: NodeInfo[] = [];
  readonly #inputIds = new Map<NodeInfo, number>();
  readonly #indirect: IndirectIndex[] = [];
  /** Where a gathered value goes, by which index, and where it comes from. */
  readonly #gathers: { slot: number; symbol: number; value: number }[] = [];
  readonly #reductions: Reduction[] = [];
  #contraction: Contraction | null = null;
  readonly #outputs: { info: NodeInfo; output: Output }[] = [];
  readonly #labels: string[] = [];
  readonly #accounts: NodeInfo[] = [];
  readonly #stored: NodeInfo[] = [];
  readonly #done = new Set<NodeInfo>();

  /**
   * @param root What is stored.
   * @param splits Loops that are made of two symbols.
   * @param bounds Whether operands of contractions may be masked, or paddings are stored.
   * @param fusesProducts Whether a product may be computed where it is read.
   * @param rules What the device says about fusion.
   */
  constructor(
    root: NodeInfo,
    splits: ReadonlyMap<string, number>,
    bounds: boolean,
    fusesProducts: boolean,
    { minRows, cheap, derivedCheap }: FusionRules,
  ) {
    this.#root = root;
    this.#bounds = bounds;
    this.#cheap = cheap;
    this.#derivedCheap = derivedCheap;
    this.#fusesProducts = fusesProducts;
    this.#loops = new Loops(splits, minRows);
  }

  /** Takes back what this builder has told the scheduler, before another attempt. */
  rollback(): void {
    for (const info of this.#accounts) info.accounted--;
    for (const info of this.#stored) info.materialized = false;
  }

  build(): LoweredKernel {
    const shape = this.#root.node.shape;
    const outer: number[] = [];
    const coords = shape.map((n) => this.#loops.axis(n, outer));
    this.#loops.outer = outer;
    this.#request(this.#root, { coords, bounds: [] });
    for (let info = this.#queue.pop(); info; info = this.#queue.pop()) {
      const requests = this.#pending.get(info)!;
      this.#pending.delete(info);
      this.#process(info, requests);
    }
    return this.#finish();
  }

  // ---- symbols, requests, slots

  #request(info: NodeInfo, access: Access): number {
    const key = info.consumers > 1 ? `${info.index}@${accessKey(access)}` : null;
    const known = key === null ? undefined : this.#memo.get(key);
    if (known !== undefined) return known;
    const slot = this.#slots.push(undefined) - 1;
    if (key !== null) this.#memo.set(key, slot);
    const requests = this.#pending.get(info);
    if (requests) requests.push({ access, slot });
    else {
      this.#pending.set(info, [{ access, slot }]);
      this.#queue.push(info);
    }
    return slot;
  }

  #emit(expr: Expr): number {
    return this.#slots.push(expr) - 1;
  }

  #inputId(info: NodeInfo): number {
    let id = this.#inputIds.get(info);
    if (id === undefined) {
      id = this.#inputs.push(info) - 1;
      this.#inputIds.set(info, id);
    }
    return id;
  }

  #makeLoad(info: NodeInfo, form: AffineExpr, bounds: readonly Bound[]): Load {
    return { input: this.#inputId(info), dtype: info.node.dtype, form, bounds };
  }

  #fillWithLoad(info: NodeInfo, form: AffineExpr, bounds: readonly Bound[], slot: number): void {
    const load = this.#makeLoad(info, form, bounds);
    const key = loadKey(load);
    let id = this.#loadIds.get(key);
    if (id === undefined) {
      id = this.#loads.push(load) - 1;
      this.#loadIds.set(key, id);
    }
    this.#slots[slot] = { op: "load", load: id, dtype: info.node.dtype };
  }

  /** The node's value must be in memory. */
  #store(info: NodeInfo): void {
    if (info.node.isLeaf || info.materialized) return;
    info.materialized = true;
    this.#stored.push(info);
  }

  /** Reads the node from memory; it gets a kernel of its own unless it is there already. */
  #load(info: NodeInfo, requests: readonly Request[]): void {
    this.#store(info);
    const strides = stridesOf(info.node.shape);
    for (const { access, slot } of requests) {
      this.#fillWithLoad(info, linearize(access.coords, strides), access.bounds, slot);
    }
  }

  // ---- decisions

  #process(info: NodeInfo, requests: readonly Request[]): void {
    const { node } = info;
    if (node.size === 0) return this.#fillEmpty(info, requests);
    if (node.isLeaf) return this.#load(info, requests);
    switch (node.op.kind) {
      case "constant":
      case "iota":
      case "random":
        return this.#leaf(info, requests);
      case "copy":
        return info === this.#root ? this.#inline(info, requests) : this.#load(info, requests);
      case "elementwise":
      case "cast":
      case "gather":
        return this.#takesIn(info, requests)
          ? this.#inline(info, requests)
          : this.#load(info, requests);
      case "reduce":
        return this.#reduce(info, requests);
      case "contract":
        return this.#contract(info, requests);
      default:
        if (isView(node.op)) {
          if (info.materialized && !this.#takesIn(info, requests)) this.#load(info, requests);
          else this.#inline(info, requests);
        } else this.#load(info, requests);
    }
  }

  /** No element of it is ever computed, but its expression must be there. */
  #fillEmpty(info: NodeInfo, requests: readonly Request[]): void {
    for (const { slot } of requests) {
      this.#slots[slot] = { op: "constant", value: 0, dtype: info.node.dtype };
    }
    this.#account(info);
  }

  #allAccounted(info: NodeInfo): boolean {
    return info.accounted === info.consumers;
  }

  /** Decides whether an elementwise node is computed in these loops. */
  #takesIn(info: NodeInfo, requests: readonly Request[]): boolean {
    if (info === this.#root) return true;
    const all = this.#allAccounted(info);
    if (info.materialized) return this.#mayStore(info, requests) && !this.#followsProduct(info);
    if (this.#isFull()) return false;
    if (!all) return info.weight < this.#cheap || this.#isDerived(info);
    const repeated = info.node.size * 8 <= this.#loops.iterations && info.weight >= this.#cheap;
    return !repeated || info.reduces;
  }

  /** True when reading what the node follows from, and computing it again, costs less than storing it. */
  #isDerived({ node, derivation }: NodeInfo): boolean {
    return derivation !== null && derivation.origin !== node &&
      derivation.cost < this.#derivedCheap;
  }

  /**
   * True when this kernel may store the node: nobody evaluates it again, and nothing here reads it
   * from memory, as the operand of a contraction does.
   */
  #mayStore(info: NodeInfo, requests: readonly Request[]): boolean {
    return this.#allAccounted(info) && !this.#inputIds.has(info) &&
      this.#storesToo(info, requests);
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
      at = at.inputs.find(({ node, consumers, materialized }) =>
        !node.isLeaf && !materialized && consumers === 1 && node.size === size
      );
    }
    return false;
  }

  #isFull(): boolean {
    return this.#slots.length > MAX_EXPRS ||
      this.#loads.length + this.#pending.size > MAX_LOADS;
  }

  /** True when these loops visit each element of the node once; then they store it as well. */
  #storesToo(info: NodeInfo, requests: readonly Request[]): boolean {
    if (requests.length !== 1) return false;
    const { access } = requests[0]!;
    if (access.bounds.length > 0) return false;
    const form = linearize(access.coords, stridesOf(info.node.shape));
    return this.#loops.visitOnce(form, info.node.size);
  }

  /** Tells the inputs that this node is done with them, once nobody will evaluate it again. */
  #account(info: NodeInfo): void {
    if (info !== this.#root && !this.#allAccounted(info) || this.#done.has(info)) return;
    this.#done.add(info);
    for (const input of info.inputs) {
      input.accounted++;
      this.#accounts.push(input);
    }
  }

  /** After a node was taken in: its value is stored too if somebody wants it in memory. */
  #storeIfWanted(info: NodeInfo, requests: readonly Request[]): void {
    if (info !== this.#root && !info.materialized) return;
    const { access, slot } = requests[0]!;
    const { node } = info;
    const form = linearize(access.coords, stridesOf(node.shape));
    this.#outputs.push({
      info,
      output: { expr: slot, dtype: node.dtype, form, size: node.size },
    });
  }

  // ---- what each kind of node becomes

  #leaf(info: NodeInfo, requests: readonly Request[]): void {
    const { op, shape, dtype } = info.node;
    if (info.materialized && info !== this.#root) {
      if (!this.#mayStore(info, requests)) return this.#load(info, requests);
    }
    const strides = stridesOf(shape);
    for (const { access, slot } of requests) {
      const form = linearize(access.coords, strides);
      if (op.kind === "constant") this.#slots[slot] = { op: "constant", value: op.value, dtype };
      else if (op.kind === "iota") this.#slots[slot] = { op: "index", form, dtype };
      else if (op.kind === "random") {
        this.#slots[slot] = { op: "random", form, seed: op.seed, stream: op.stream, dtype };
        this.#labels.push("random");
      }
    }
    this.#storeIfWanted(info, requests);
  }

  #inline(info: NodeInfo, requests: readonly Request[]): void {
    this.#account(info);
    for (const request of requests) this.#inlineAt(info, request);
    this.#storeIfWanted(info, requests);
  }

  #inlineAt(info: NodeInfo, { access, slot }: Request): void {
    const { node } = info;
    const { op, dtype } = node;
    switch (op.kind) {
      case "elementwise": {
        const args = node.inputs.map((input, k) =>
          this.#request(inputInfo(info, k), broadcastAccess(access, input.shape))
        );
        this.#slots[slot] = { op: "primitive", fn: op.fn, args, dtype };
        this.#labels.push(op.fn);
        return;
      }
      case "cast":
        return this.#cast(info, access, slot);
      case "copy":
        return this.#alias(slot, this.#request(inputInfo(info, 0), access), dtype);
      case "gather":
        return this.#gather(info, op.axis, op.opName, access, slot);
      default:
        return this.#view(info, access, slot);
    }
  }

  #cast(info: NodeInfo, access: Access, slot: number): void {
    const { node: { inputs, dtype } } = info;
    const cast: Expr = { op: "cast", args: [this.#request(inputInfo(info, 0), access)], dtype };
    // Half types are computed in float32: what is not stored must be rounded as if it were.
    const fn = info === this.#root ? null : roundingOf(inputs[0]!.dtype, dtype);
    this.#slots[slot] = fn === null
      ? cast
      : { op: "primitive", fn, args: [this.#emit(cast)], dtype };
  }

  #gather(info: NodeInfo, axis: number, opName: string, access: Access, slot: number): void {
    const [source, indices] = [inputInfo(info, 0), inputInfo(info, 1)];
    const expr = this.#maskedIndex(this.#request(indices, access), indices.node.dtype, access);
    const size = source.node.shape[axis]!;
    const id = this.#loops.index(size);
    this.#indirect.push({ symbol: id, expr, size, opName });
    const coords = access.coords.map((c, k) => k === axis ? symbolForm(id) : c);
    const value = this.#request(source, { coords, bounds: access.bounds });
    this.#alias(slot, value, info.node.dtype);
    this.#gathers.push({ slot, symbol: id, value });
    this.#labels.push("gather");
  }

  /** Around what is padded there is no index: what stands there must not be looked at. */
  #maskedIndex(index: number, dtype: DType, { bounds }: Access): number {
    if (bounds.length === 0) return index;
    const inside = this.#emit({ op: "inside", bounds, dtype: "bool" });
    const none = this.#emit({ op: "constant", value: 0, dtype });
    return this.#emit({ op: "primitive", fn: "where", args: [inside, index, none], dtype });
  }

  /** Where every element is the same, none is read by the index: it is looked at all the same. */
  #checkUnread(): void {
    if (this.#gathers.length === 0) return;
    const read = new Set(this.#formsInUse().flatMap(({ terms }) => terms.map(([s]) => s)));
    for (const { slot, symbol, value } of this.#gathers) {
      if (read.has(symbol)) continue;
      const { dtype } = this.#slots[slot]!;
      const index = this.#emit({ op: "index", form: symbolForm(symbol), dtype: "int32" });
      const none = this.#emit({ op: "constant", value: -1, dtype: "int32" });
      const test = this.#emit({ op: "primitive", fn: "ne", args: [index, none], dtype: "bool" });
      this.#slots[slot] = { op: "primitive", fn: "where", args: [test, value, value], dtype };
    }
  }

  #formsInUse(): AffineExpr[] {
    const ofBounds = (bounds: readonly Bound[]): AffineExpr[] => bounds.map(({ form }) => form);
    return [
      ...this.#loads.flatMap(({ form, bounds }) => [form, ...ofBounds(bounds)]),
      ...this.#slots.flatMap((e) => {
        if (e?.op === "inside") return ofBounds(e.bounds);
        return e?.op === "index" || e?.op === "random" ? [e.form] : [];
      }),
    ];
  }

  /** A slot that is another slot's value. */
  #alias(slot: number, other: number, dtype: DType): void {
    this.#slots[slot] = { op: "cast", args: [other], dtype };
  }

  #view(info: NodeInfo, access: Access, slot: number): void {
    const { op, shape, dtype } = info.node;
    if (!isView(op)) throw new Error(`Cannot lower ${op.kind}`);
    const input = inputInfo(info, 0);
    const mapped = viewAccess(op, shape, input.node.shape, access, this.#loops.sizes);
    // An index that was read from memory cannot be split.
    if (mapped === null || "factor" in mapped && !this.#loops.isLoop(mapped.symbol)) {
      // The input's elements lie in memory in the order of this node's: read them there.
      this.#store(input);
      return this.#fillWithLoad(
        input,
        linearize(access.coords, stridesOf(shape)),
        access.bounds,
        slot,
      );
    }
    if ("factor" in mapped) throw this.#loops.splitOf(mapped);
    const value = this.#request(input, mapped);
    if (op.kind !== "pad" || mapped.bounds.length === access.bounds.length) {
      return this.#alias(slot, value, dtype);
    }
    const bounds = mapped.bounds.slice(access.bounds.length);
    const inside = this.#emit({ op: "inside", bounds, dtype: "bool" });
    const outside = this.#emit({ op: "constant", value: op.value, dtype });
    this.#slots[slot] = { op: "primitive", fn: "where", args: [inside, value, outside], dtype };
    this.#labels.push("pad");
  }

  // ---- reductions

  #reduce(info: NodeInfo, requests: readonly Request[]): void {
    const input = this.#mayFuseAnchor(info, requests)
      ? this.#loops.reduceAccess(info.node, requests[0]!.access)
      : null;
    if (!input) return this.#load(info, requests);
    const { op, dtype } = info.node;
    if (op.kind !== "reduce") throw new Error(`Cannot reduce ${op.kind}`);
    this.#account(info);
    const source = inputInfo(info, 0);
    const reduced = op.axes.map((axis) => input.coords[axis]!);
    const index = linearize(reduced, stridesOf(op.axes.map((axis) => source.node.shape[axis]!)));
    const expr = this.#request(source, input);
    const reduction = this.#reductions.push({ fn: op.fn, expr, dtype, index }) - 1;
    this.#slots[requests[0]!.slot] = { op: "reduced", reduction, dtype };
    this.#labels.push(op.fn);
    this.#storeIfWanted(info, requests);
  }

  /** Reductions and contractions are computed once, where their consumers are. */
  #mayFuseAnchor(info: NodeInfo, requests: readonly Request[]): boolean {
    if (requests.length !== 1 || requests[0]!.access.bounds.length > 0) return false;
    if (this.#contraction) return false;
    return info === this.#root ||
      this.#allAccounted(info) && !this.#inputIds.has(info) && !this.#isFull();
  }

  // ---- contractions

  #contract(info: NodeInfo, requests: readonly Request[]): void {
    const isHere = info === this.#root || this.#fusesProducts && this.#indirect.length === 0;
    const groups = isHere && this.#mayFuseAnchor(info, requests)
      ? this.#loops.contractGroups(info.node, requests[0]!.access)
      : null;
    if (!groups) return this.#load(info, requests);
    this.#account(info);
    const [batch, m, n] = groups;
    const k: number[] = [];
    const [a, b] = [inputInfo(info, 0), inputInfo(info, 1)];
    const kForms = a.node.shape.slice(batch.length + m.length).map((size) =>
      this.#loops.axis(size, k)
    );
    this.#contraction = {
      batch: this.#loops.symbolsOf(batch),
      m: this.#loops.symbolsOf(m),
      n: this.#loops.symbolsOf(n),
      k,
      a: this.#operand(a, { coords: [...batch, ...m, ...kForms], bounds: [] }),
      b: this.#operand(b, { coords: [...batch, ...kForms, ...n], bounds: [] }),
      dtype: info.node.dtype,
      ...precisionOf(info.node),
    };
    this.#slots[requests[0]!.slot] = { op: "contracted", dtype: info.node.dtype };
    this.#labels.push("matmul");
    this.#storeIfWanted(info, requests);
  }

  /** The operand of a contraction: a view of a buffer, or a value that must become one. */
  #operand(start: NodeInfo, at: Access): Load {
    let info = start, access = at;
    while (!info.node.isLeaf && !info.materialized && this.#isRead(info.node)) {
      const { node } = info;
      const { op } = node;
      if (!isView(op)) break;
      const input = inputInfo(info, 0);
      const mapped = viewAccess(op, node.shape, input.node.shape, access, this.#loops.sizes);
      if (mapped !== null && "factor" in mapped) throw this.#loops.splitOf(mapped);
      this.#account(info);
      info = input;
      if (mapped === null) {
        // The input's elements lie in memory in the order of the view's.
        this.#store(info);
        const form = linearize(access.coords, stridesOf(node.shape));
        return this.#makeLoad(info, form, access.bounds);
      }
      access = mapped;
    }
    this.#store(info);
    const form = linearize(access.coords, stridesOf(info.node.shape));
    return this.#makeLoad(info, form, access.bounds);
  }

  /** True when the operand of a contraction may be read through the node. */
  #isRead({ op }: Node): boolean {
    return op.kind !== "pad" || this.#bounds && op.value === 0;
  }

  // ---- the finished kernel

  #finish(): LoweredKernel {
    this.#checkUnread();
    const { kernel, inputs } = canonicalize({
      sizes: this.#loops.sizes,
      outer: this.#loops.outer,
      inner: this.#contraction ? this.#contraction.k : this.#loops.inner ?? [],
      inputs: this.#inputs.map((info) => info.node.dtype),
      loads: this.#loads,
      indirect: this.#indirect,
      exprs: this.#slots as readonly Expr[],
      reductions: this.#reductions,
      contraction: this.#contraction,
      outputs: this.#outputs.map(({ output }) => output),
      label: [...new Set(this.#labels.toReversed())].slice(0, 6).join("_") || "copy",
    });
    return {
      kernel: compact(collapse(kernel)),
      inputs: inputs.map((k) => this.#inputs[k]!),
      outputs: this.#outputs.map(({ info }) => info),
    };
  }
}

/** How a contraction's products may be computed, where something is said of it. */
function precisionOf({ op }: Node): Pick<Contraction, "precision"> {
  return op.kind === "contract" && op.precision ? { precision: op.precision } : {};
}

/** The primitive that rounds to a type of half precision; null where nothing is rounded. */
function roundingOf(from: DType, to: DType): PrimitiveName | null {
  if (from === to || from === "bool" || from === "uint8") return null;
  return to === "float16" ? "roundFloat16" : to === "bfloat16" ? "roundBfloat16" : null;
}

function accessKey(access: Access): string {
  let key = access.coords.map(affineKey).join();
  for (const g of access.bounds) key += `|${affineKey(g.form)}<${g.size}`;
  return key;
}
