import { type DType, dtypes, type Node } from "../../../../backend/internal.ts";
import type { HostArray } from "../../../io/core/host_array.ts";
import { encodeTensor } from "../format/tensor_proto.ts";
import { typeOf } from "../format/types.ts";
import { isUsed, type Used } from "./recording.ts";

/** A message's fields. */
export type Proto = Record<string, unknown>;

/** The number of each kind of attribute. */
const FLOAT = 1, INT = 2, STRING = 3, INTS = 7, STRINGS = 8;

/** An input with its axes that may have any length. */
export interface GraphInput {
  readonly name: string;
  readonly used: Used;
  /** Name of each axis that may have any length, null for others. */
  readonly dynamic: readonly (string | null)[];
}

/** Lengths of named axes, in the two runs that are compared. */
export interface AxisName {
  readonly name: string;
  readonly input: string;
  readonly axis: number;
  readonly lengths: readonly [number, number];
}

/** Value of an attribute. */
export type AttributeValue = number | string | readonly number[] | readonly string[];

function attribute(name: string, value: AttributeValue, isFloat: boolean): Proto {
  const utf8 = (text: string) => new TextEncoder().encode(text);
  if (typeof value === "string") return { name, type: STRING, s: utf8(value) };
  if (typeof value !== "number") {
    return typeof value[0] === "string"
      ? { name, type: STRINGS, strings: (value as readonly string[]).map(utf8) }
      : { name, type: INTS, ints: value };
  }
  return isFloat ? { name, type: FLOAT, f: value } : { name, type: INT, i: value };
}

/** Attributes that are floats, whatever their values. */
const floatAttributes: readonly string[] = ["alpha", "beta", "epsilon"];

/** A graph that is being written: nodes, constants, and the names of what was recorded. */
export class GraphWriter {
  /** Nodes in order. */
  readonly nodes: Proto[] = [];
  /** Constants. */
  readonly initializers: Proto[] = [];
  readonly #names = new Map<Node, string>();
  readonly #inputs = new Set<Node>();
  readonly #taken = new Set<string>();
  readonly #axes: readonly AxisName[];
  readonly #weights: ReadonlyMap<Node, string>;
  readonly #makers: ReadonlyMap<Node, string>;
  readonly #constants = new Map<string, string>();

  /**
   * Begins with the inputs.
   *
   * @param weights Names of parameters and buffers, which are written where they are used.
   * @param makers Operations that are not written, by what they gave.
   */
  constructor(
    inputs: readonly GraphInput[],
    weights: ReadonlyMap<Node, string>,
    axes: readonly AxisName[],
    makers: ReadonlyMap<Node, string>,
  ) {
    this.#axes = axes;
    this.#weights = weights;
    this.#makers = makers;
    for (const { name, used } of inputs) {
      this.#names.set(used.node, this.#unique(name));
      this.#inputs.add(used.node);
    }
    for (const name of weights.values()) this.#taken.add(name);
  }

  #unique(name: string): string {
    let own = name;
    for (let k = 1; this.#taken.has(own); k++) own = `${name}_${k}`;
    this.#taken.add(own);
    return own;
  }

  #initialize(name: string, { tensor, node }: Used): string {
    const { shape, dtype } = tensor;
    this.initializers.push(encodeTensor(name, { data: tensor.toHostSync(), shape, dtype }));
    this.#names.set(node, name);
    return name;
  }

  /** The name of a tensor that was recorded; one that depends on no input becomes a constant. */
  name(used: Used): string {
    const known = this.#names.get(used.node);
    if (known !== undefined) return known;
    const weight = this.#weights.get(used.node);
    if (weight !== undefined) return this.#initialize(weight, used);
    if (this.#dependsOnInputs(used.node)) {
      const maker = this.#makers.get(used.node) ?? "an operation";
      throw new TypeError(
        `Cannot save the model: a value of shape [${used.tensor.shape}] is made by ${maker}, which is ` +
          `not written as ONNX`,
      );
    }
    return this.#initialize(this.#unique("constant"), used);
  }

  /**
   * Binds a value that depends on no input, and follows from lengths that differ in two runs: all its
   * elements are one number, or they are evenly spaced.
   *
   * @throws {TypeError} When it is neither.
   */
  align(used: Used, other: Used): void {
    const { tensor, node } = used, { shape, dtype } = tensor;
    if (node === other.node || this.#names.has(node) || this.#weights.has(node)) return;
    if (this.#dependsOnInputs(node)) return;
    const [own, others] = [tensor, other.tensor].map((t) =>
      Array.from(t.toHostSync() as ArrayLike<number | bigint>, Number)
    ) as [number[], number[]];
    const isSame = `${shape}` === `${other.tensor.shape}`;
    if (isSame && own.every((value, k) => Object.is(value, others[k]))) return;
    const [start = 0, second = start] = own, step = second - start;
    const lies = (values: number[]) => values.every((value, k) => value === start + k * step);
    if (isSame || !(lies(own) && lies(others)) || step !== 0 && shape.length !== 1) {
      throw new TypeError(
        `Cannot save the model with axes of any length: a constant of shape [${shape}] follows from a ` +
          "length, and is neither one number nor a range",
      );
    }
    const length = this.shape(shape, other.tensor.shape, false), first = this.scalar(start, dtype);
    if (step === 0) return this.bind(used, this.emit("Expand", [first, length]));
    const by = this.scalar(step, dtype), count = this.emit("Squeeze", [length]);
    const span = this.emit("Mul", [this.cast(count, dtype), by]);
    this.bind(used, this.emit("Range", [first, this.emit("Add", [first, span]), by]));
  }

  #dependsOnInputs(node: Node): boolean {
    const seen = new Set<Node>(), waiting = [node];
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      if (this.#inputs.has(next)) return true;
      if (seen.has(next)) continue;
      seen.add(next);
      waiting.push(...next.inputs);
    }
    return false;
  }

  /** True for a value that has a name. */
  has({ node }: Used): boolean {
    return this.#names.has(node);
  }

  /** Says under which name a recorded tensor is in the graph. */
  bind({ node }: Used, name: string): void {
    this.#names.set(node, name);
  }

  /** Adds a node; gives the names of its outputs. */
  node(
    kind: string,
    inputs: readonly string[],
    attributes: Record<string, AttributeValue> = {},
    outputs = 1,
  ): string[] {
    const names = Array.from(
      { length: outputs },
      () => this.#unique(`${kind}_${this.nodes.length}`),
    );
    this.nodes.push({
      input: inputs,
      output: names,
      name: names[0],
      op_type: kind,
      attribute: Object.entries(attributes).map(([name, value]) =>
        attribute(name, value, floatAttributes.includes(name))
      ),
    });
    return names;
  }

  /** Adds a node of one output. */
  emit(...node: Parameters<GraphWriter["node"]>): string {
    return this.node(...node)[0]!;
  }

  /** A constant; equal ones are one. */
  constant(array: HostArray): string {
    const key = `${array.dtype} ${array.shape} ${array.data}`, known = this.#constants.get(key);
    if (known !== undefined) return known;
    const name = this.#unique(`constant`);
    this.initializers.push(encodeTensor(name, array));
    this.#constants.set(key, name);
    return name;
  }

  /** Whole numbers, as shapes and axes are. */
  ints(numbers: readonly number[], shape: readonly number[] = [numbers.length]): string {
    return this.constant({ data: BigInt64Array.from(numbers, BigInt), shape, dtype: "int64" });
  }

  /** A number of a type. */
  scalar(value: number, dtype: DType): string {
    const data = dtype === "bfloat16"
      ? Float32Array.of(value)
      : dtypes[dtype].view(new ArrayBuffer(dtypes[dtype].bytes), 0, 1);
    if (data instanceof BigInt64Array) data[0] = BigInt(value);
    else data[0] = value;
    return this.constant({ data, shape: [], dtype });
  }

  /** An operand as a value of a type: tensors are cast to it, numbers become constants. */
  operand(value: unknown, dtype: DType): string {
    if (!isUsed(value)) return this.scalar(Number(value), dtype);
    const name = this.name(value);
    return value.tensor.dtype === dtype ? name : this.cast(name, dtype);
  }

  /** A value in another type. */
  cast(name: string, dtype: DType): string {
    return this.emit("Cast", [name], { to: typeOf(dtype).number });
  }

  /**
   * A shape that is known in two runs: what differs follows from the lengths of named axes.
   *
   * @param first In the first run.
   * @param second In the second.
   * @param allowsOpen Whether one axis may be -1, and follows from the others.
   */
  shape(first: readonly number[], second: readonly number[], allowsOpen: boolean): string {
    const open = first.map((n, k) => n !== second[k]);
    if (!open.includes(true)) return this.ints(first);
    if (allowsOpen && open.filter(Boolean).length === 1 && !first.includes(-1)) {
      return this.ints(first.map((n, k) => open[k] ? -1 : n));
    }
    const parts = first.map((n, k) => open[k] ? this.#length(n, second[k]!) : this.ints([n]));
    return parts.length === 1 ? parts[0]! : this.emit("Concat", parts, { axis: 0 });
  }

  /** A length that is a multiple of one named axis, or of two. */
  #length(first: number, second: number): string {
    for (const a of this.#axes) {
      const times = first / a.lengths[0];
      if (times * a.lengths[1] === second && Number.isInteger(times)) {
        return this.#multiple(a, times);
      }
      for (const b of this.#axes) {
        const times = first / (a.lengths[0] * b.lengths[0]);
        if (times * a.lengths[1] * b.lengths[1] !== second || !Number.isInteger(times)) continue;
        return this.emit("Mul", [this.#multiple(a, times), this.#multiple(b, 1)]);
      }
    }
    throw new TypeError(
      `Cannot save the model with axes of any length: a length of ${first} became ${second}, which is ` +
        `no multiple of ${this.#axes.map(({ name }) => name).join(", ")}`,
    );
  }

  #multiple({ input, axis }: AxisName, times: number): string {
    const shape = this.emit("Shape", [input]);
    const length = this.emit("Gather", [shape, this.ints([axis])], { axis: 0 });
    return times === 1 ? length : this.emit("Mul", [length, this.ints([times])]);
  }
}
