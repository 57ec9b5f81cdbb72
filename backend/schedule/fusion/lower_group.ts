/** Lowers a group to a kernel: loads, scalar expressions, reductions and stores, by index. */
import { type AffineExpr, linearize, symbol as symbolExpr } from "../../kernel/affine.ts";
import { collapse, compact } from "../../kernel/collapse.ts";
import { canonicalize } from "../../kernel/canonicalize.ts";
import type { DType } from "../../graph/dtype.ts";
import {
  type Bound,
  type Contraction,
  type Expr,
  type IndirectIndex,
  type Load,
  loadKey,
  type LoopKernel,
  type Output,
  type Reduction,
} from "../../kernel/kernel.ts";
import type { Node } from "../../graph/node.ts";
import type { PrimitiveName } from "../../graph/primitives.ts";
import { stridesOf } from "../../graph/shape.ts";
import type { Access } from "../../kernel/view.ts";
import type { DecodedRead, Group, Member, Operand, Read } from "./group.ts";
import type { NodeInfo } from "./node_info.ts";
import { affineExprsOf } from "../../kernel/analysis.ts";

/** A kernel with the nodes that it reads and writes; one that is stored in pieces stands for each of them. */
export interface LoweredGroup {
  readonly kernel: LoopKernel;
  readonly inputs: readonly NodeInfo[];
  readonly outputs: readonly NodeInfo[];
}

/** The most operations that a label names. */
const MAX_NAMES = 6;

// Fusion asks of some groups what becomes of them.
const lowered = new WeakMap<Group, LoweredGroup>();

/** The kernel that computes a group. */
export function lowerGroup(group: Group): LoweredGroup {
  let kernel = lowered.get(group);
  if (kernel === undefined) lowered.set(group, kernel = new Lowering(group).finish());
  return kernel;
}

/** The primitive that rounds to a type of half precision; null where nothing is rounded. */
export function roundingOf(from: DType, to: DType): PrimitiveName | null {
  if (from === to || from === "bool" || from === "uint8") return null;
  return to === "float16" ? "roundFloat16" : to === "bfloat16" ? "roundBfloat16" : null;
}

/** A member of a role. */
type In<R extends Member["role"]> = Extract<Member, { readonly role: R }>;

/** The expressions of a group; those of values come first, by number, then those that they need beside. */
class Lowering {
  readonly #group: Group;
  readonly #exprs: (Expr | undefined)[];
  readonly #loads: Load[] = [];
  readonly #loadIds = new Map<string, number>();
  readonly #inputs: NodeInfo[] = [];
  readonly #inputIds = new Map<NodeInfo, number>();
  readonly #indirect: IndirectIndex[] = [];
  /** Values that are gathered: the index that each is read by, and where it comes from. */
  readonly #gathered: { value: number; symbol: number; source: number }[] = [];
  readonly #reductions: Reduction[] = [];
  #contraction: Contraction | null = null;
  readonly #outputs: { info: NodeInfo; output: Output }[] = [];
  readonly #names: string[] = [];

  constructor(group: Group) {
    this.#group = group;
    this.#exprs = new Array<Expr | undefined>(group.values);
    const { dtype, op } = group.root.node;
    for (const { value, index, size } of group.pieces) {
      const expr = op.kind === "cast" ? this.#emit({ op: "cast", args: [value], dtype }) : value;
      this.#outputs.push({ info: group.root, output: { expr, dtype, index, size } });
    }
    for (const member of group.members) this.#lower(member);
    this.#checkUnreadIndices();
  }

  finish(): LoweredGroup {
    const { kernel, inputs } = canonicalize({
      ...this.#group.loops,
      inputs: this.#inputs.map((info) => info.node.dtype),
      loads: this.#loads,
      indirect: this.#indirect,
      exprs: this.#exprs as readonly Expr[],
      reductions: this.#reductions,
      contraction: this.#contraction,
      outputs: this.#outputs.map(({ output }) => output),
      label: [...new Set(this.#names.toReversed())].slice(0, MAX_NAMES).join("_") || "copy",
    });
    return {
      kernel: compact(collapse(kernel)),
      inputs: inputs.map((k) => this.#inputs[k]!),
      outputs: this.#outputs.map(({ info }) => info),
    };
  }

  #lower(member: Member): void {
    switch (member.role) {
      case "empty":
        for (const { value } of member.reads) {
          this.#exprs[value] = { op: "constant", value: 0, dtype: member.info.node.dtype };
        }
        break;
      case "load":
        this.#loadMember(member);
        break;
      case "leaf":
        this.#leaf(member);
        break;
      case "map":
        this.#map(member);
        break;
      case "view":
        this.#view(member);
        break;
      case "decode":
        this.#decode(member);
        break;
      case "gather":
        this.#gather(member);
        break;
      case "reduce":
        this.#reduce(member);
        break;
      case "contract":
        this.#contract(member);
        break;
      default:
        member satisfies never;
    }
    if (member.isOutput) this.#store(member);
  }

  /** A new expression; gives its place. */
  #emit(expr: Expr): number {
    return this.#exprs.push(expr) - 1;
  }

  /** A value that is another one. */
  #alias(value: number, other: number, dtype: DType): void {
    this.#exprs[value] = { op: "cast", args: [other], dtype };
  }

  #store({ info, reads }: Member): void {
    const { access, value } = reads[0]!;
    const { dtype, shape, size } = info.node;
    const index = linearize(access.coords, stridesOf(shape));
    this.#outputs.push({ info, output: { expr: value, dtype, index, size } });
  }

  // ---- memory

  #makeLoad(
    info: NodeInfo,
    index: AffineExpr,
    bounds: readonly Bound[],
    decoded: Partial<DecodedRead> = {},
  ): Load {
    let input = this.#inputIds.get(info);
    if (input === undefined) {
      input = this.#inputs.push(info) - 1;
      this.#inputIds.set(info, input);
    }
    return { input, dtype: info.node.dtype, index, bounds, ...decoded };
  }

  #load(
    value: number,
    info: NodeInfo,
    index: AffineExpr,
    bounds: readonly Bound[],
    decoded?: DecodedRead,
  ): void {
    const load = this.#makeLoad(info, index, bounds, decoded);
    const key = loadKey(load);
    let id = this.#loadIds.get(key);
    if (id === undefined) {
      id = this.#loads.push(load) - 1;
      this.#loadIds.set(key, id);
    }
    this.#exprs[value] = { op: "load", load: id, dtype: load.dtype };
  }

  #decode({ info, reads, stored, decoded }: In<"decode">): void {
    const strides = stridesOf(info.node.shape);
    for (const { value, access } of reads) {
      this.#load(value, stored, linearize(access.coords, strides), access.bounds, decoded);
    }
    this.#names.push("decode");
  }

  #loadMember({ info, reads }: Member): void {
    const strides = stridesOf(info.node.shape);
    for (const { value, access } of reads) {
      this.#load(value, info, linearize(access.coords, strides), access.bounds);
    }
  }

  // ---- roles

  #leaf({ info, reads }: In<"leaf">): void {
    const { op, shape } = info.node;
    const strides = stridesOf(shape);
    for (const { value, access } of reads) {
      this.#exprs[value] = leafExpr(info.node, linearize(access.coords, strides));
      if (op.kind === "random") this.#names.push("random");
    }
  }

  #map({ info, reads, operands }: In<"map">): void {
    const { op, dtype } = info.node;
    reads.forEach(({ value }, k) => {
      const args = operands[k]!;
      if (op.kind === "elementwise") {
        this.#exprs[value] = { op: "primitive", fn: op.fn, args, dtype };
        this.#names.push(op.fn);
      } else if (op.kind === "cast") this.#cast(info, value, args);
      else this.#alias(value, args[0]!, dtype);
    });
  }

  #cast(info: NodeInfo, value: number, args: readonly number[]): void {
    const { inputs, dtype } = info.node;
    const cast: Expr = { op: "cast", args, dtype };
    // Half types are computed in float32: what is not stored must be rounded as if it were.
    const fn = info === this.#group.root ? null : roundingOf(inputs[0]!.dtype, dtype);
    this.#exprs[value] = fn === null
      ? cast
      : { op: "primitive", fn, args: [this.#emit(cast)], dtype };
  }

  #view(member: In<"view">): void {
    const { node } = member.info;
    member.reads.forEach((read, k) => {
      const at = member.at[k]!;
      if ("stored" in at) {
        const index = linearize(read.access.coords, stridesOf(node.shape));
        this.#load(read.value, at.stored, index, read.access.bounds);
      } else if (at.mask === null) this.#alias(read.value, at.input, node.dtype);
      else this.#pad(node, read, at.input, at.mask);
    });
  }

  #pad({ op, dtype }: Node, { value }: Read, input: number, bounds: readonly Bound[]): void {
    const inside = this.#emit({ op: "inside", bounds, dtype: "bool" });
    const fill = op.kind === "pad" ? op.value : 0;
    const outside = this.#emit({ op: "constant", value: fill, dtype });
    this.#exprs[value] = { op: "primitive", fn: "where", args: [inside, input, outside], dtype };
    this.#names.push("pad");
  }

  #gather({ info, reads, at }: In<"gather">): void {
    const { op, inputs, dtype } = info.node;
    if (op.kind !== "gather") throw new Error(`Cannot lower ${op.kind} as a gather`);
    const [from, indices] = inputs as [Node, Node];
    reads.forEach(({ value, access }, k) => {
      const { symbol, index, source } = at[k]!;
      const expr = this.#maskedIndex(index, indices.dtype, access);
      this.#indirect.push({ symbol, expr, size: from.shape[op.axis]!, opName: op.opName });
      this.#alias(value, source, dtype);
      this.#gathered.push({ value, symbol, source });
      this.#names.push("gather");
    });
  }

  /** Outside of the bounds there is no index: what memory holds there must not be checked. */
  #maskedIndex(index: number, dtype: DType, { bounds }: Access): number {
    if (bounds.length === 0) return index;
    const inside = this.#emit({ op: "inside", bounds, dtype: "bool" });
    const none = this.#emit({ op: "constant", value: 0, dtype });
    return this.#emit({ op: "primitive", fn: "where", args: [inside, index, none], dtype });
  }

  /** A constant source needs no load, but its index must still be checked against the bounds. */
  #checkUnreadIndices(): void {
    if (this.#gathered.length === 0) return;
    const loads = this.#loads;
    const indices = this.#exprs.flatMap((e) => e ? affineExprsOf({ loads }, e) : []);
    const read = new Set(indices.flatMap(({ terms }) => terms.map(([s]) => s)));
    for (const { value, symbol, source } of this.#gathered) {
      if (read.has(symbol)) continue;
      const { dtype } = this.#exprs[value]!;
      const index = this.#emit({ op: "index", index: symbolExpr(symbol), dtype: "int32" });
      const none = this.#emit({ op: "constant", value: -1, dtype: "int32" });
      const test = this.#emit({ op: "primitive", fn: "ne", args: [index, none], dtype: "bool" });
      this.#exprs[value] = { op: "primitive", fn: "where", args: [test, source, source], dtype };
    }
  }

  #reduce({ info, reads, input, index }: In<"reduce">): void {
    const { op, dtype } = info.node;
    if (op.kind !== "reduce") throw new Error(`Cannot lower ${op.kind} as a reduction`);
    const reduction = this.#reductions.push({ fn: op.fn, expr: input, dtype, index }) - 1;
    this.#exprs[reads[0]!.value] = { op: "reduced", reduction, dtype };
    this.#names.push(op.fn);
  }

  #contract({ info, reads, batch, m, n, k, a, b }: In<"contract">): void {
    const { op, dtype } = info.node;
    const operand = ({ stored, index, bounds, decoded }: Operand): Load =>
      this.#makeLoad(stored, index, bounds, decoded);
    this.#contraction = {
      batch,
      m,
      n,
      k,
      a: operand(a),
      b: operand(b),
      dtype,
      ...(op.kind === "contract" && op.precision ? { precision: op.precision } : {}),
    };
    this.#exprs[reads[0]!.value] = { op: "contracted", dtype };
    this.#names.push("matmul");
  }
}

function leafExpr({ op, dtype }: Node, index: AffineExpr): Expr {
  switch (op.kind) {
    case "constant":
      return { op: "constant", value: op.value, dtype };
    case "iota":
      return { op: "index", index, dtype };
    case "random":
      return { op: "random", index, seed: op.seed, stream: op.stream, dtype };
    default:
      throw new Error(`Cannot lower ${op.kind} as a leaf`);
  }
}
