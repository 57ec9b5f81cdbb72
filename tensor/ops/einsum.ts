/**
 * Sums of products by an equation. Each operand is brought to one axis a label (a repeated label is
 * the diagonal), labels that nobody else has are summed over, and pairs are joined by `contract`, the
 * cheapest first.
 */
import { broadcastShapes, type DType, dtypes } from "../../backend/internal.ts";
import { narrowed } from "../core/autocast.ts";
import { requireTensor, sameDevice } from "../core/apply.ts";
import { observed } from "../core/operations.ts";
import { dtypeError, shapeError } from "../core/rules/errors.ts";
import { shown } from "../core/rules/options.ts";
import { promote } from "../core/rules/promotion.ts";
import type { Tensor } from "../core/mod.ts";
import { contract } from "./contractions.ts";
import { diagonalView } from "./shaping/triangles.ts";

/** An equation with its ellipses written out: axes of those are labels "0", "1", ... */
interface Equation {
  readonly inputs: readonly (readonly string[])[];
  readonly output: readonly string[];
}

/** A tensor with a label for each axis, no two equal. */
interface Labelled {
  readonly tensor: Tensor;
  readonly labels: readonly string[];
}

/**
 * The sum of products that an equation names, as in NumPy and PyTorch: `"bij,bjk->bik"`. A label
 * stands for an axis in all operands; what is not in the result is summed over; a label twice in one
 * operand is its diagonal. Without an arrow, the result has the labels that occur once, in alphabetical
 * order. `...` stands for axes that broadcast. Axes of size 1 broadcast, too. Differentiable; integers
 * are added up in their type, and in int64 where a single operand is summed.
 *
 * @param equation The labels (letters) of each operand's axes, and those of the result.
 * @param operands A tensor for each comma-separated part.
 * @throws {ShapeError} When sizes or numbers of axes do not meet the equation.
 * @throws {DTypeError} When an operand is bool, or floats meet integers.
 * @throws {SyntaxError} When the equation is none.
 *
 * @example Products of matrices, a trace, an outer product
 * ```ts
 * import { einsum, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const a = Tensor.fromHost([[1, 2], [3, 4]]), v = Tensor.fromHost([1, 10]);
 * assertEquals(await einsum("ij,jk->ik", a, a).toArray(), [[7, 10], [15, 22]]);
 * assertEquals(await einsum("ii->", a).item(), 5);
 * assertEquals(await einsum("i,j", v, v).toArray(), [[1, 10], [10, 100]]);
 * assertEquals(await einsum("...j,j->...", a, v).toArray(), [21, 43]);
 * ```
 */
export const einsum: (equation: string, ...operands: Tensor[]) => Tensor = observed(
  function einsum(equation: string, ...operands: Tensor[]): Tensor {
    for (const operand of operands) requireTensor("einsum", operand);
    const { inputs, output } = parse(equation, operands);
    sameDevice("einsum", operands);
    const factors = sameTypes(operands);
    const sizes = sizesOf(equation, operands, inputs);
    let open = factors.map((tensor, k) => distinctLabels({ tensor, labels: inputs[k]! }));
    while (open.length > 1) {
      const [i, j] = cheapestPair(open, output, sizes);
      const rest = open.filter((_, k) => k !== i && k !== j);
      const kept = new Set([...output, ...rest.flatMap(({ labels }) => labels)]);
      const a = summed(open[i]!, kept, open[j]), b = summed(open[j]!, kept, open[i]);
      open = [...rest, join(a, b, kept, sizes)];
    }
    const { tensor, labels } = summed(open[0]!, new Set(output));
    const out = tensor.permute(output.map((label) => labels.indexOf(label)));
    return out.expand(output.map((label) => sizes.get(label)!));
  },
  "compute",
);

function fail(equation: string, why: string): SyntaxError {
  return new SyntaxError(`Cannot einsum by ${shown(equation)}: ${why}`);
}

function parse(equation: string, operands: readonly Tensor[]): Equation {
  if (typeof equation !== "string") throw fail(equation, 'pass an equation such as "ij,jk->ik"');
  const text = equation.replaceAll(/\s/g, "");
  const [left, right, ...more] = text.split("->") as [string, string?, ...string[]];
  if (more.length > 0) throw fail(equation, "it has more than one arrow");
  const terms = left.split(",");
  if (operands.length === 0 || terms.length !== operands.length) {
    throw fail(equation, `it names ${terms.length} operand(s), and ${operands.length} are given`);
  }
  const ranks = terms.map((term, k) => ellipsisRank(equation, term, operands[k]!));
  const rank = Math.max(0, ...ranks);
  const dots = Array.from({ length: rank }, (_, k) => `${k}`);
  const inputs = terms.map((term, k) => labelsOf(equation, term, dots.slice(rank - ranks[k]!)));
  const output = right === undefined ? implied(inputs, dots) : labelsOf(equation, right, dots);
  checkOutput(equation, output, inputs);
  return { inputs, output };
}

/** Number of axes of a term's ellipsis. */
function ellipsisRank(equation: string, term: string, operand: Tensor): number {
  const hasDots = term.includes("..."), letters = term.replace("...", "").length;
  const rank = operand.ndim - letters;
  if (hasDots ? rank >= 0 : rank === 0) return rank;
  throw shapeError("einsum")`
    Cannot einsum by ${shown(equation)}: ${shown(term)} names ${letters}
    axes${hasDots ? " at least" : ""}, and its operand has the shape ${operand.shape}`;
}

function labelsOf(equation: string, term: string, dots: readonly string[]): string[] {
  const [before, after = "", ...more] = term.split("...") as [string, string?, ...string[]];
  if (more.length > 0) throw fail(equation, `${shown(term)} has more than one ellipsis`);
  if (!/^[A-Za-z]*$/.test(before + after)) {
    throw fail(equation, `labels are the letters a to z and A to Z, and ${shown(term)} has others`);
  }
  return [...before, ...(term.includes("...") ? dots : []), ...after];
}

/** The axes of ellipses, then the labels that occur once, in alphabetical order. */
function implied(inputs: Equation["inputs"], dots: readonly string[]): string[] {
  const all = inputs.flat().filter((label) => !dots.includes(label));
  const once = all.filter((label) => all.indexOf(label) === all.lastIndexOf(label));
  return [...dots, ...once.sort()];
}

function checkOutput(
  equation: string,
  output: readonly string[],
  inputs: Equation["inputs"],
): void {
  const twice = output.find((label, k) => output.indexOf(label) !== k);
  if (twice !== undefined) throw fail(equation, `the result names ${shown(twice)} twice`);
  const unknown = output.find((label) => !inputs.some((labels) => labels.includes(label)));
  if (unknown === undefined) return;
  throw fail(equation, `no operand has the axis ${shown(unknown)} of the result`);
}

/** The operands in the type that they are multiplied in. */
function sameTypes(operands: readonly Tensor[]): Tensor[] {
  const kinds = new Set(operands.map(({ dtype }) => dtypes[dtype].kind));
  if (kinds.size > 1 || kinds.has("bool")) {
    throw dtypeError("einsum")`
      Cannot einsum ${operands.map(({ dtype }) => dtype)}: cast all to one type`;
  }
  if (operands.length === 1) return [...operands];
  const narrow = operands.map((operand) => narrowed(operand, operands[0]!)[0]);
  const dtype = narrow.map((operand): DType => operand.dtype).reduce(promote);
  return narrow.map((operand) => operand.cast(dtype));
}

/** The size of each label; those of 1 broadcast. */
function sizesOf(
  equation: string,
  operands: readonly Tensor[],
  inputs: Equation["inputs"],
): ReadonlyMap<string, number> {
  const sizes = new Map<string, number>();
  inputs.forEach((labels, k) =>
    labels.forEach((label, axis) => {
      const size = operands[k]!.shape[axis]!;
      const both = broadcastShapes([sizes.get(label) ?? 1], [size]);
      // A diagonal needs all of the elements.
      const isDiagonal = labels.some((l, a) => l === label && operands[k]!.shape[a] !== size);
      if (both && !isDiagonal) return sizes.set(label, both[0]!);
      throw shapeError("einsum")`
        Cannot einsum by ${shown(equation)} tensors of shapes
        ${operands.map(({ shape }) => shape)}: the axis ${shown(label)} has more than one size`;
    })
  );
  return sizes;
}

/** With the diagonal for labels that stand there twice. */
function distinctLabels({ tensor, labels }: Labelled): Labelled {
  const first = labels.findIndex((label, k) => labels.indexOf(label, k + 1) > 0);
  if (first < 0) return { tensor, labels };
  const second = labels.indexOf(labels[first]!, first + 1);
  const others = labels.map((_, k) => k).filter((k) => k !== first && k !== second);
  const diagonal = diagonalView(tensor.permute([...others, first, second]));
  return distinctLabels({
    tensor: diagonal,
    labels: [...others, first].map((k) => labels[k]!),
  });
}

/** Without the axes that nobody asks for: neither the rest nor the partner. */
function summed(term: Labelled, kept: ReadonlySet<string>, partner?: Labelled): Labelled {
  const { tensor, labels } = term;
  const isNeeded = (label: string): boolean =>
    kept.has(label) || partner?.labels.includes(label) === true;
  const axes = labels.map((_, axis) => axis).filter((axis) => !isNeeded(labels[axis]!));
  if (axes.length === 0) return term;
  const sum = tensor.sum(axes);
  return {
    tensor: partner ? sum.cast(tensor.dtype) : sum,
    labels: labels.filter(isNeeded),
  };
}

/** The pair of the fewest products, of such the pair of the smallest result. */
function cheapestPair(
  open: readonly Labelled[],
  output: readonly string[],
  sizes: ReadonlyMap<string, number>,
): [number, number] {
  let best: [number, number] = [0, 1], least = [Infinity, Infinity];
  for (let i = 0; i < open.length; i++) {
    for (let j = i + 1; j < open.length; j++) {
      const both = new Set([...open[i]!.labels, ...open[j]!.labels]);
      const others = open.filter((_, k) => k !== i && k !== j).flatMap(({ labels }) => labels);
      const kept = [...both].filter((label) => output.includes(label) || others.includes(label));
      const cost = [[...both], kept].map((labels) => product(labels.map((l) => sizes.get(l)!)));
      if (cost[0]! > least[0]! || cost[0] === least[0] && cost[1]! >= least[1]!) continue;
      [best, least] = [[i, j], cost];
    }
  }
  return best;
}

function product(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => a * b, 1);
}

/** The product of two, summed over what they share and nobody keeps. */
function join(
  a: Labelled,
  b: Labelled,
  kept: ReadonlySet<string>,
  sizes: ReadonlyMap<string, number>,
): Labelled {
  const shared = a.labels.filter((label) => b.labels.includes(label));
  const batch = shared.filter((label) => kept.has(label));
  const k = shared.filter((label) => !kept.has(label));
  const m = a.labels.filter((label) => !shared.includes(label));
  const n = b.labels.filter((label) => !shared.includes(label));
  const labels = [...batch, ...m, ...n];
  if (k.length === 0) {
    const left = arranged(a, [...batch, ...m]);
    const right = arranged(b, [...batch, ...n]);
    const places = n.map(() => 1), gap = m.map(() => 1), lead = batch.length;
    const x = left.reshape([...left.shape, ...places]);
    const y = right.reshape([...right.shape.slice(0, lead), ...gap, ...right.shape.slice(lead)]);
    return { tensor: x.mul(y), labels };
  }
  const operand = (term: Labelled, order: readonly string[]): Tensor =>
    arranged(term, order).expand(order.map((l) => shared.includes(l) ? sizes.get(l)! : -1));
  const left = operand(a, [...batch, ...m, ...k]), right = operand(b, [...batch, ...k, ...n]);
  return { tensor: contract(left, right, batch.length, m.length, k.length), labels };
}

function arranged({ tensor, labels }: Labelled, order: readonly string[]): Tensor {
  return tensor.permute(order.map((label) => labels.indexOf(label)));
}
