/**
 * The part of a graph that follows from its weights alone, computed once: values that no input reaches,
 * and norms and factors of channels, which become part of the convolution before them.
 */
import { isFloat } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";
import { realizeAll } from "../../execution/realization.ts";
import { type OnnxData, Value } from "./core/value.ts";
import type { AttributeProto, GraphProto, NodeProto } from "./format/schema.ts";
import { type GraphRunner, isOwn } from "./graph_runner.ts";
import { dividedProduct } from "./operators/contributed/packed_weights.ts";
import { MAX_HOST_SIZE } from "./operators/host.ts";
import { random } from "./operators/random.ts";

/** A graph of which only that is left which depends on inputs. */
export interface FoldedGraph {
  /** Nodes in order. */
  readonly nodes: readonly NodeProto[];
  /** Values that they need, by name. */
  readonly known: ReadonlyMap<string, OnnxData>;
  /** Tensors among them. */
  readonly operands: readonly Tensor[];
  /** Tensors that were computed for it. */
  readonly made: readonly Tensor[];
}

/**
 * Computes what no input reaches.
 *
 * @param graph The graph; nodes of graphs within it stay as they are.
 * @param weights Values of its initializers.
 */
export function foldGraph(
  graph: GraphProto,
  runner: GraphRunner,
  weights: ReadonlyMap<string, OnnxData>,
): FoldedGraph {
  const divided = graph.node.flatMap(dividedProduct);
  const fixed = divided.filter(isFixedWith(new Set(weights.keys())));
  const known = new Map([...weights, ...runner.valuesOf(fixed, weights)]);
  const nodes = new ChannelFolding(graph, known).fold(
    divided.filter((node) => !fixed.includes(node)),
  );
  const needed = new Set([...nodes.flatMap(namesOf), ...graph.output.map(({ name }) => name!)]);
  for (const name of known.keys()) if (!needed.has(name)) known.delete(name);
  const open = new Set(fixed.filter(isSpread).flatMap(({ output }) => output));
  const made = computed(known, (name) => weights.has(name) || open.has(name));
  const operands = [...known].flatMap(([name, value]) =>
    value instanceof Value && !value.isOnHost && !open.has(name) ? [value.tensor] : []
  );
  return { nodes, known, operands, made };
}

/** True for nodes that repeat a value: stored they would take more memory than they save time. */
function isSpread({ op_type }: NodeProto): boolean {
  return op_type === "Expand" || op_type === "ConstantOfShape";
}

/** True for nodes that give other values each time. */
function isRandom({ op_type = "" }: NodeProto): boolean {
  return Object.hasOwn(random, op_type);
}

/** True for nodes that no input reaches; they are asked in order. */
function isFixedWith(names: Set<string>): (node: NodeProto) => boolean {
  return (node) => {
    const isFixed = !isRandom(node) && node.attribute.every(({ g }) => !g) &&
      node.input.every((name) => name === "" || names.has(name));
    if (isFixed) node.output.forEach((name) => names.add(name));
    return isFixed;
  };
}

/** Names that a node uses, those of graphs within it among them. */
export function namesOf({ input, attribute }: NodeProto): string[] {
  const inner = attribute.flatMap(({ g }) =>
    g ? [...g.node.flatMap(namesOf), ...g.output.map(({ name }) => name ?? "")] : []
  );
  return [...input, ...inner];
}

/** Puts small whole numbers on the host, where shapes are, and computes the others. */
function computed(known: Map<string, OnnxData>, isLeft: (name: string) => boolean): Tensor[] {
  const made: Tensor[] = [];
  for (const [name, value] of known) {
    if (isLeft(name) || !(value instanceof Value) || value.isOnHost) continue;
    if (!isFloat(value.type.dtype) && value.size <= MAX_HOST_SIZE) {
      known.set(name, Value.ofNumbers(value.type, value.shape, value.numbers()));
    } else made.push(value.tensor);
  }
  realizeAll(made);
  return made;
}

/** A factor and a term of each channel. */
interface Affine {
  /** The value that they are for. */
  readonly of: string;
  readonly factor?: Tensor;
  readonly term?: Tensor;
}

/** The part of the folding that makes norms a part of convolutions. */
class ChannelFolding {
  readonly #known: Map<string, OnnxData>;
  readonly #uses = new Map<string, number>();
  /** Convolutions by their result, as long as something may become part of them. */
  readonly #open = new Map<string, NodeProto>();

  constructor(graph: GraphProto, known: Map<string, OnnxData>) {
    this.#known = known;
    const used = [...graph.node.flatMap(namesOf), ...graph.output.map(({ name }) => name!)];
    for (const name of used) this.#uses.set(name, (this.#uses.get(name) ?? 0) + 1);
  }

  fold(nodes: readonly NodeProto[]): NodeProto[] {
    const left: NodeProto[] = [];
    for (const node of nodes) {
      const affine = this.#affineOf(node), producer = affine && this.#open.get(affine.of);
      if (producer) this.#join(producer, affine, node.output[0]!);
      else left.push(this.#opened(node));
    }
    return left;
  }

  /** A convolution whose weights are known, as a node of its own that may be changed. */
  #opened(node: NodeProto): NodeProto {
    const [, weight, bias = ""] = node.input, [output] = node.output;
    const isConv = isOwn(node.domain) && /^Conv(Transpose)?$/.test(node.op_type ?? "");
    const isOne = isConv && this.#tensor(weight) &&
      (bias === "" || this.#tensor(bias));
    // The factors of a transposed convolution's groups lie along two axes.
    const isPlain = node.op_type === "Conv" || groupsOf(node) === 1;
    if (!isOne || !isPlain || this.#uses.get(output!) !== 1) return node;
    const own = { ...node, input: [...node.input], output: [...node.output] };
    this.#open.set(output!, own);
    return own;
  }

  #tensor(name: string | undefined): Tensor | null {
    const value = this.#known.get(name ?? "");
    return value instanceof Value && isFloat(value.type.dtype) ? value.tensor : null;
  }

  /** A node that multiplies each channel by a known factor, and adds a known term; null for others. */
  #affineOf(node: NodeProto): Affine | null {
    const [x, ...rest] = node.input;
    if (!isOwn(node.domain)) return null;
    if (node.op_type === "BatchNormalization") {
      const given = rest.map((name) => this.#tensor(name)), hasOne = node.output.length === 1;
      if (given.includes(null) || !hasOne || numberOf(node, "training_mode", 0) === 1) return null;
      const [scale, bias, mean, variance] = given as [Tensor, Tensor, Tensor, Tensor];
      const factor = scale.div(variance.add(numberOf(node, "epsilon", 1e-5)).sqrt());
      return { of: x!, factor, term: bias.sub(mean.mul(factor)) };
    }
    const row = affineKinds[node.op_type ?? ""];
    if (!row || node.input.length !== 2) return null;
    const [a, b] = node.input as [string, string], isFirst = this.#open.has(a);
    const of = isFirst ? a : b, producer = this.#open.get(of);
    if (!producer || !isFirst && !row.isSymmetric) return null;
    const by = this.#perChannel(isFirst ? b : a, producer);
    return by && { of, ...row.make(by) };
  }

  /** A known value as one number a channel of a convolution's result; null where it is none. */
  #perChannel(name: string, producer: NodeProto): Tensor | null {
    const value = this.#tensor(name), weight = this.#tensor(producer.input[1])!;
    if (!value || value.dtype !== weight.dtype) return null;
    if (value.size === 1 && value.ndim <= weight.ndim) return value.reshape([1]);
    // (1, channels, 1, 1), or without what is before the channels.
    const channels = value.ndim - weight.ndim + 1;
    const isPlain = channels >= 0 && channels <= 1 &&
      value.shape.every((n, axis) => n === 1 || axis === channels);
    return isPlain ? value.reshape([-1]) : null;
  }

  #join(conv: NodeProto, { factor, term }: Affine, output: string): void {
    const weight = this.#tensor(conv.input[1])!, axis = conv.op_type === "Conv" ? 0 : 1;
    const shape = weight.shape.map((_, k) => k === axis ? -1 : 1);
    const channels = weight.shape[axis]!, former = this.#tensor(conv.input[2]);
    const { dtype } = weight, bias = former && factor ? former.mul(factor) : former;
    const sum = term && bias ? bias.add(term) : term ?? bias;
    if (factor) this.#put(conv, 1, output, weight.mul(factor.reshape(shape)).cast(dtype));
    if (sum) this.#put(conv, 2, output, sum.expand([channels]).cast(dtype));
    this.#open.delete(conv.output[0]!);
    conv.output[0] = output;
    if (this.#uses.get(output) === 1) this.#open.set(output, conv);
  }

  #put(conv: NodeProto, input: number, output: string, tensor: Tensor): void {
    const name = `${output} as input ${input}`;
    this.#known.set(name, Value.of(tensor));
    conv.input[input] = name;
  }
}

/** Kinds that are a factor or a term. */
const affineKinds: Readonly<
  Record<string, { isSymmetric: boolean; make: (by: Tensor) => Omit<Affine, "of"> }>
> = {
  Mul: { isSymmetric: true, make: (factor) => ({ factor }) },
  Div: { isSymmetric: false, make: (by) => ({ factor: by.reciprocal() }) },
  Add: { isSymmetric: true, make: (term) => ({ term }) },
  Sub: { isSymmetric: false, make: (by) => ({ term: by.neg() }) },
};

function attributeOf({ attribute }: NodeProto, name: string): AttributeProto | undefined {
  return attribute.find((each) => each.name === name);
}

function numberOf(node: NodeProto, name: string, fallback: number): number {
  const found = attributeOf(node, name);
  return found?.f ?? found?.i ?? fallback;
}

function groupsOf(node: NodeProto): number {
  return numberOf(node, "group", 1);
}
