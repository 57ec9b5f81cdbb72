import { isFloat } from "../../../../backend/internal.ts";
import type { TensorLike } from "../../../core/arguments.ts";
import type { Tensor } from "../../../core/mod.ts";
import type { AttributeProto, GraphProto, NodeProto } from "../format/schema.ts";
import { decodeTensor, type OnnxArray } from "../format/tensor_proto.ts";
import { type OnnxType, typeNamed } from "../format/types.ts";
import { type OnnxData, Value } from "./value.ts";

/** The result of an operator: values, or tensors of the type that follows from the first input. */
export type Given = Tensor | OnnxData;

/** The action of a kind of node. */
export type Operator = (call: Call) => Given | Given[];

/** Operators by their kinds. */
export type Operators = Readonly<Record<string, Operator>>;

/** Runs a graph that is an attribute of a node. */
export type RunGraph = (graph: GraphProto, inputs: readonly OnnxData[]) => OnnxData[];

/** A node with the values that it gets: what an operator sees. */
export class Call {
  readonly #node: NodeProto;
  readonly #attributes: ReadonlyMap<string, AttributeProto>;
  /** Its inputs; null for those that are left out. */
  readonly inputs: readonly OnnxData[];
  /** The version of ONNX's operators. */
  readonly opset: number;
  /** Runs a graph that is an attribute, with all values that are known here. */
  readonly run: RunGraph;

  /** Binds a node to its inputs. */
  constructor(node: NodeProto, inputs: readonly OnnxData[], opset: number, run: RunGraph) {
    this.#node = node;
    this.#attributes = new Map(node.attribute.map((a) => [a.name ?? "", a]));
    this.inputs = inputs;
    this.opset = opset;
    this.run = run;
  }

  /** The same node with other inputs, as a node of the kind `kind`. */
  withInputs(inputs: readonly OnnxData[], kind: string = this.kind, opset = this.opset): Call {
    return new Call({ ...this.#node, op_type: kind }, inputs, opset, this.run);
  }

  /** The same node with tensors for inputs, as one of `opset`. */
  withTensors(inputs: readonly Tensor[], opset: number = this.opset): Call {
    return this.withInputs(inputs.map((tensor) => Value.of(tensor)), this.kind, opset);
  }

  /** The kind of the node. */
  get kind(): string {
    return this.#node.op_type ?? "";
  }

  /** The count of outputs. */
  get outputs(): number {
    return this.#node.output.length;
  }

  /** True for an output that is used. */
  wants(output: number): boolean {
    return (this.#node.output[output] ?? "") !== "";
  }

  /** True for an input that is there. */
  has(input: number): boolean {
    return (this.inputs[input] ?? null) !== null;
  }

  /** An input that must be there. */
  value(input: number): Value {
    const value = this.inputs[input];
    if (value instanceof Value) return value;
    throw new TypeError(`its input ${input} is missing, or no tensor`);
  }

  /** An input as a tensor. */
  tensor(input: number): Tensor {
    return this.value(input).tensor;
  }

  /** An input as a tensor, or null where it is left out. */
  optional(input: number): Tensor | null {
    return this.has(input) ? this.tensor(input) : null;
  }

  /** An input as an operand: one float that the host knows is a number, which kernels have in their text. */
  operand(input: number): TensorLike {
    const value = this.value(input), isKnown = value.isOnHost && value.shape.length === 0;
    return isKnown && isFloat(value.type.dtype) ? value.numbers()[0]! : value.tensor;
  }

  /** An input that is a list. */
  list(input: number): OnnxData[] {
    const value = this.inputs[input];
    if (Array.isArray(value)) return value;
    throw new TypeError(`its input ${input} is missing, or no sequence`);
  }

  /** All inputs as tensors. */
  tensors(): Tensor[] {
    return this.inputs.map((_, k) => this.tensor(k));
  }

  /** The numbers of an input, undefined where it is left out. */
  numbers(input: number): readonly number[] | undefined {
    return this.has(input) ? this.value(input).numbers() : undefined;
  }

  /** The one number of an input, or what stands for it where it is left out. */
  number(input: number, fallback: number): number {
    return this.numbers(input)?.[0] ?? fallback;
  }

  /** True for an attribute that is there. */
  says(name: string): boolean {
    return this.#attributes.has(name);
  }

  /** An attribute that is a whole number. */
  int(name: string, fallback: number): number {
    return this.says(name) ? this.#attributes.get(name)!.i ?? 0 : fallback;
  }

  /** An attribute that is a number. */
  float(name: string, fallback: number): number {
    return this.says(name) ? this.#attributes.get(name)!.f ?? 0 : fallback;
  }

  /** An attribute that is a text. */
  text(name: string, fallback: string): string {
    const attribute = this.#attributes.get(name);
    return attribute ? new TextDecoder().decode(attribute.s ?? new Uint8Array()) : fallback;
  }

  /** An attribute that is a list of whole numbers. */
  ints(name: string): number[] | undefined {
    return this.#attributes.get(name)?.ints;
  }

  /** An attribute that is a list of whole numbers and must be there. */
  neededInts(name: string): number[] {
    const ints = this.ints(name);
    if (ints) return ints;
    throw new TypeError(`its attribute "${name}" is missing`);
  }

  /** An attribute that is a list of numbers. */
  floats(name: string): number[] | undefined {
    return this.#attributes.get(name)?.floats;
  }

  /** An attribute that is a list of texts. */
  texts(name: string): string[] | undefined {
    return this.#attributes.get(name)?.strings.map((text) => new TextDecoder().decode(text));
  }

  /** An attribute that is a tensor. */
  array(name: string): OnnxArray | undefined {
    const tensor = this.#attributes.get(name)?.t;
    return tensor && decodeTensor(tensor);
  }

  /** An attribute that is a graph. */
  graph(name: string): GraphProto {
    const graph = this.#attributes.get(name)?.g;
    if (graph) return graph;
    throw new TypeError(`its attribute "${name}" is missing`);
  }

  /** Whole numbers that were an attribute in older versions, and are an input in newer ones. */
  intsOf(name: string, input: number): readonly number[] | undefined {
    return this.ints(name) ?? this.numbers(input);
  }
}

/** A value of an operator's result: a narrow type goes from the first input to outputs of its holder. */
export function asValue(given: Given, call: Call): OnnxData {
  if (given === null || given instanceof Value || Array.isArray(given)) return given;
  const [first] = call.inputs;
  const isSame = first instanceof Value && first.type.dtype === given.dtype;
  return isSame ? Value.of(given, first.type) : Value.of(given);
}

/** Whole numbers on the host, as shapes are. */
export function int64s(numbers: readonly number[], shape: readonly number[] = [numbers.length]) {
  return Value.ofNumbers(typeNamed("int64"), shape, numbers);
}

/** A tensor whose type does not follow from the first input. */
export function typed(tensor: Tensor, type: OnnxType | string): Value {
  return Value.of(tensor, typeof type === "string" ? typeNamed(type) : type);
}
