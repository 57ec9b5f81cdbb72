/**
 * Products that a program repeats, as a loop over the steps of a recurrent cell does. Many small ones become
 * few: those that share an operand and do not wait for each other are one with longer rows, and a sum of
 * them, such as the gradient of weights that each step uses, is one with a longer sum.
 */
import { dtypes, isFloat } from "../../graph/dtype.ts";
import type { Node } from "../../graph/node.ts";
import type { Op } from "../../graph/op.ts";
import { sameShape, type Shape } from "../../graph/shape.ts";
import { isView } from "../../kernel/view.ts";
import { Concatenations, isPlain, MAX_COPIED, partOf } from "./concatenate.ts";
import { planned, Rewriting, type Rewritten } from "./rewriting.ts";

/** Results that are there together, and operands that are kept for one product, take so many bytes. */
const MAX_JOINED_BYTES = 1 << 23;
/** Fewer are as fast by themselves: operands are copied, and what follows a product is a kernel of its own. */
const MIN_JOINED = 4;
/** Operands that are so often looked at: each look walks the graph. */
const MAX_SHARED = 64;

type Contract = Op & { readonly kind: "contract" };

/** A product of a graph. */
interface Product {
  readonly node: Node;
  readonly op: Contract;
}

/** A term of a sum: a product, perhaps behind views and casts that nobody else reads. */
interface Term {
  readonly product: Product;
  /** From the term to the product. */
  readonly views: readonly Node[];
}

/**
 * The graph with such products joined.
 *
 * @param order Nodes in topological order, at their positions.
 * @param roots Those that are asked for.
 * @param count Positions that are taken; by default those of the nodes.
 */
export function joinProducts(
  order: readonly Node[],
  roots: readonly Node[],
  count = order.length,
): Rewritten {
  const products = order.filter(({ isLeaf, op }) => !isLeaf && op.kind === "contract");
  if (products.length < 2) return { order, roots, added: [] };
  const joiner = new Joiner(order, roots, count);
  joiner.joinSums();
  joiner.joinShared(products);
  return joiner.finish() ?? { order, roots, added: [] };
}

class Joiner {
  readonly #order: readonly Node[];
  readonly #rewriting: Rewriting;
  readonly #roots: ReadonlySet<Node>;
  readonly #users = new Map<Node, number>();
  readonly #concatenations = new Concatenations();
  /** Equal for views and casts of the same value. */
  readonly #names = new Map<Node, string>();

  constructor(order: readonly Node[], roots: readonly Node[], count: number) {
    this.#order = order;
    this.#rewriting = new Rewriting(order, roots, count);
    this.#roots = new Set(roots);
    for (const { isLeaf, inputs } of order) {
      if (isLeaf) continue;
      for (const input of inputs) this.#users.set(input, (this.#users.get(input) ?? 0) + 1);
    }
  }

  finish(): Rewritten | null {
    return this.#rewriting.isChanged ? this.#rewriting.finish() : null;
  }

  /** True for a value that one node reads, once, and that need not be in memory. */
  #isOwn(node: Node): boolean {
    return !node.isLeaf && this.#users.get(node) === 1 && !this.#roots.has(node);
  }

  // ---- sums of products

  /** Computes sums of products as products with longer sums. */
  joinSums(): void {
    const seen = new Set<Node>();
    for (const node of this.#order.toReversed()) {
      if (!isSum(node) || seen.has(node)) continue;
      const terms: Node[] = [], open = [node];
      for (let at = open.pop(); at; at = open.pop()) {
        seen.add(at);
        for (const input of at.inputs) {
          if (isSum(input) && this.#isOwn(input)) open.push(input);
          else terms.push(input);
        }
      }
      if (terms.length >= MIN_JOINED) this.#joinTerms(node, terms);
    }
  }

  #joinTerms(sum: Node, inputs: readonly Node[]): void {
    const alike = new Map<string, Term[]>(), others: Node[] = [];
    for (const input of inputs) {
      const term = this.#termOf(input);
      const key = term && `${term.views.map(formOf)}|${productForm(term.product.node)}`;
      if (key === null) others.push(input);
      else if (alike.has(key)) alike.get(key)!.push(term!);
      else alike.set(key, [term!]);
    }
    let isJoined = false;
    const summed = [...alike.values()].flatMap((terms) => {
      const joined = this.#longSums(terms);
      isJoined ||= joined.length < terms.length;
      return joined;
    });
    if (!isJoined) return;
    const { op, shape, dtype } = sum;
    const whole = [...summed, ...others].reduce((a, b) => planned(op, [a, b], shape, dtype));
    this.#rewriting.replace(sum, whole);
  }

  /** The product that a term is, if copies of its operands move less than the sum of results does. */
  #termOf(input: Node): Term | null {
    const views: Node[] = [];
    let at = input;
    while (this.#isOwn(at) && (isView(at.op) || at.op.kind === "cast")) {
      views.push(at);
      at = at.inputs[0]!;
    }
    if (at.op.kind !== "contract" || !this.#isOwn(at)) return null;
    const [a, b] = at.inputs as [Node, Node];
    const isWorth = a.size + b.size <= 2 * at.size && isPlain(a) && isPlain(b);
    return isWorth ? { product: { node: at, op: at.op }, views } : null;
  }

  /** Terms of one form as few. */
  #longSums(terms: readonly Term[]): Node[] {
    const { product: { node, op }, views } = terms[0]!;
    const bytes = bytesOf(node.inputs[0]!) + bytesOf(node.inputs[1]!);
    const axes = [op.batch + op.m, op.batch];
    // Outer products, which add nothing up, are sums of one term each.
    const isOuter = node.inputs[0]!.shape.length === axes[0];
    const operandsOf = ({ product: { node: { inputs } } }: Term): readonly Node[] =>
      isOuter ? inputs.map((input, side) => withAxis(input, axes[side]!)) : inputs;
    const chunks = this.#joined(terms, bytes, operandsOf, axes);
    return chunks.flatMap(({ items, sides }) => {
      if (sides === null) return items.map((term) => term.views[0] ?? term.product.node);
      const product = planned(op, sides, node.shape, node.dtype);
      return [
        views.toReversed().reduce(
          (value, view) => planned(view.op, [value], view.shape, view.dtype),
          product,
        ),
      ];
    });
  }

  // ---- products that share an operand

  /** Computes products with one operand in common, which do not depend on each other, at once. */
  joinShared(products: readonly Node[]): void {
    const groups = new Map<string, { side: 0 | 1; members: Product[] }>();
    for (const node of products) {
      const op = node.op as Contract;
      if (op.batch > 0 || this.#roots.has(node)) continue;
      for (const side of [0, 1] as const) {
        // Longer rows spare reading what is shared: it is the larger one.
        const [shared, free] = [node.inputs[side]!, node.inputs[1 - side]!];
        if (shared.size < free.size || !isPlain(free)) continue;
        const key = `${side}|${this.#nameOf(shared)}|${productForm(node)}`;
        const group = groups.get(key);
        if (group) group.members.push({ node, op });
        else groups.set(key, { side, members: [{ node, op }] });
        break;
      }
    }
    const repeated = [...groups.values()].filter(({ members }) => members.length >= MIN_JOINED);
    for (const { side, members } of repeated.slice(0, MAX_SHARED)) {
      for (const free of this.#independent(members)) this.#joinMembers(free, side);
    }
  }

  /** The members in groups, none of which waits for another of its group. */
  #independent(members: readonly Product[]): Product[][] {
    const isMember = new Set(members.map(({ node }) => node)), levels = new Map<Node, number>();
    const found = new Map<number, Product[]>();
    for (const node of this.#rewriting.sorted()) {
      let level = 0;
      for (const input of node.isLeaf ? [] : node.inputs) {
        level = Math.max(level, levels.get(this.#rewriting.at(input))!);
      }
      if (isMember.has(node)) {
        const product = { node, op: node.op as Contract }, alike = found.get(level);
        if (alike) alike.push(product);
        else found.set(level, [product]);
        level++;
      }
      levels.set(node, level);
    }
    return [...found.values()];
  }

  #joinMembers(members: readonly Product[], side: 0 | 1): void {
    const free = 1 - side, [{ node: first, op: given }] = members as [Product];
    // A vector, all of whose axes are added up, is a row of its own.
    const op: Contract = {
      ...given,
      [free === 0 ? "m" : "n"]: (free === 0 ? given.m : given.n) || 1,
    };
    const isRow = op.m !== given.m || op.n !== given.n;
    const axis = free === 0 ? 0 : first.inputs[1]!.shape.length - given.n;
    const resultAxis = free === 0 ? 0 : given.m;
    const shape = isRow ? first.shape.toSpliced(resultAxis, 0, 1) : first.shape;
    const length = shape[resultAxis]!;
    const bytes = bytesOf(first.inputs[free]!) + bytesOf(first);
    const operandOf = ({ node: { inputs } }: Product): Node[] => [
      isRow ? withAxis(inputs[free]!, axis) : inputs[free]!,
    ];
    for (const { items, sides } of this.#joined(members, bytes, operandOf, [axis])) {
      if (sides === null) continue;
      const operands = first.inputs.with(free, sides[0]!);
      const long = shape.with(resultAxis, length * items.length);
      const product = planned(op, operands, long, first.dtype);
      const steps = shape.map(() => 1);
      items.forEach(({ node }, k) => {
        const starts = steps.map((_, at) => at === resultAxis ? k * length : 0);
        const part = planned({ kind: "slice", starts, steps }, [product], shape, node.dtype);
        this.#rewriting.replace(node, isRow ? reshaped(part, node.shape) : part);
      });
    }
  }

  // ---- what both have in common

  /**
   * Items in parts that one product takes, with their operands one behind the other; null where they stay
   * as they are.
   *
   * @param bytes Those of an item's operands and of what it keeps in memory.
   * @param axes The axis along which each operand grows.
   */
  #joined<T>(
    items: readonly T[],
    bytes: number,
    operandsOf: (item: T) => readonly Node[],
    axes: readonly number[],
  ): { items: readonly T[]; sides: readonly Node[] | null }[] {
    const sorted = sortedByPlace(items, operandsOf);
    const most = Math.max(1, Math.floor(MAX_JOINED_BYTES / bytes));
    const join = (part: readonly T[]): Node[] | null => {
      if (part.length < MIN_JOINED) return null;
      const sides = axes.map((axis, side) =>
        this.#concatenations.of(part.map((item) => operandsOf(item)[side]!), axis)
      );
      return sides.includes(null) ? null : sides as Node[];
    };
    return chunksOf(sorted, most).flatMap((part) => {
      const sides = join(part);
      if (sides !== null) return [{ items: part, sides }];
      return chunksOf(part, MAX_COPIED).map((few) => ({ items: few, sides: join(few) }));
    });
  }

  #nameOf(node: Node): string {
    const known = this.#names.get(node);
    if (known !== undefined) return known;
    const isSeenThrough = !node.isLeaf && (isView(node.op) || node.op.kind === "cast");
    const name = isSeenThrough
      ? `${formOf(node)}(${this.#nameOf(node.inputs[0]!)})`
      : String(node.id);
    this.#names.set(node, name);
    return name;
  }
}

/** Parts of one value in their order there, so that side by side they are a view of it. */
function sortedByPlace<T>(items: readonly T[], operandsOf: (item: T) => readonly Node[]): T[] {
  const placed = items.map((item) => {
    const part = operandsOf(item).map(partOf).find((found) => found !== null);
    return { item, base: part?.base.id ?? Infinity, start: part?.start ?? 0 };
  });
  return placed.toSorted((a, b) => a.base === b.base ? a.start - b.start : a.base - b.base)
    .map(({ item }) => item);
}

function chunksOf<T>(items: readonly T[], most: number): T[][] {
  const chunks: T[][] = [];
  for (let k = 0; k < items.length; k += most) chunks.push(items.slice(k, k + most));
  return chunks;
}

function isSum({ isLeaf, op, inputs, shape, dtype }: Node): boolean {
  return !isLeaf && op.kind === "elementwise" && op.fn === "add" && isFloat(dtype) &&
    inputs.every((input) => sameShape(input.shape, shape));
}

const formOf = ({ op, shape, dtype }: Node): string => `${JSON.stringify(op)}${shape}${dtype}`;

/** Equal for products of the same form. */
function productForm(node: Node): string {
  return `${formOf(node)}|${node.inputs.map(({ shape, dtype }) => `${shape}${dtype}`)}`;
}

const reshaped = (node: Node, shape: Shape): Node =>
  planned({ kind: "reshape" }, [node], shape, node.dtype);

/** The value with a further axis of length 1. */
const withAxis = (node: Node, axis: number): Node =>
  reshaped(node, node.shape.toSpliced(axis, 0, 1));

const bytesOf = ({ size, dtype }: Node): number => size * dtypes[dtype].bytes;
