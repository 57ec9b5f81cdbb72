import { asValue, Call } from "./core/call.ts";
import { type OnnxData, reads, Value } from "./core/value.ts";
import type {
  AttributeProto,
  FunctionProto,
  GraphProto,
  ModelProto,
  NodeProto,
} from "./format/schema.ts";
import { decodeTensor } from "./format/tensor_proto.ts";
import { operators } from "./operator_table.ts";
import { hostOperators, MAX_HOST_SIZE } from "./operators/host.ts";

/** Names with their values; those of a graph within a graph see those around it. */
class Scope {
  readonly #values = new Map<string, OnnxData>();
  readonly #outer: Scope | null;

  constructor(outer: Scope | null) {
    this.#outer = outer;
  }

  set(name: string, value: OnnxData): void {
    this.#values.set(name, value);
  }

  get(name: string): OnnxData {
    if (name === "") return null;
    const value = this.#values.get(name);
    if (value !== undefined) return value;
    if (this.#outer) return this.#outer.get(name);
    throw new TypeError(`its input "${name}" is no value of the graph`);
  }
}

/** A graph that ran. */
export interface Followed {
  /** The value of a name. */
  readonly valueOf: (name: string) => OnnxData;
  /** Nodes that read values of a device on the way. */
  readonly reading: ReadonlySet<NodeProto>;
}

/** The most that graphs and functions call each other. */
const MAX_DEPTH = 64;

/** Runs a graph: each node in order, as lazy tensors. */
export class GraphRunner {
  readonly #graph: GraphProto;
  readonly #functions: ReadonlyMap<string, FunctionProto>;
  readonly #opset: number;
  readonly #constants = new WeakMap<object, Value>();
  #depth = 0;

  /** Takes a file's graph with its functions. */
  constructor(model: ModelProto) {
    this.#graph = model.graph!;
    this.#functions = new Map(model.functions.map((f) => [`${f.domain ?? ""}::${f.name}`, f]));
    this.#opset = versionOf(model.opset_import);
  }

  /**
   * Runs the graph.
   *
   * @param known Values by name: inputs, weights.
   * @param nodes The nodes that compute the outputs of these: all of the graph, or what is left of it.
   * @returns The outputs, in order.
   */
  run(
    known: Iterable<readonly [string, OnnxData]>,
    nodes: readonly NodeProto[] = this.#graph.node,
  ): OnnxData[] {
    const scope = this.#after(nodes, known);
    return this.#graph.output.map(({ name }) => scope.get(name ?? ""));
  }

  /** The values of nodes that need no others than these, by name. */
  valuesOf(
    nodes: readonly NodeProto[],
    known: Iterable<readonly [string, OnnxData]>,
  ): [string, OnnxData][] {
    const scope = this.#after(nodes, known);
    return nodes.flatMap(({ output }) => output).filter((name) => name !== "")
      .map((name): [string, OnnxData] => [name, scope.get(name)]);
  }

  /** The values of all nodes, by name, and the nodes that read values of a device on the way. */
  follow(nodes: readonly NodeProto[], known: Iterable<readonly [string, OnnxData]>): Followed {
    const reading = new Set<NodeProto>(), scope = this.#after(nodes, known, reading);
    return { valueOf: (name) => scope.get(name), reading };
  }

  #after(
    nodes: readonly NodeProto[],
    known: Iterable<readonly [string, OnnxData]>,
    reading?: Set<NodeProto>,
  ): Scope {
    const scope = new Scope(null);
    for (const [name, value] of known) scope.set(name, value);
    for (const node of nodes) {
      const before = reads.count;
      this.#runNode(node, scope, this.#opset);
      if (reads.count > before) reading?.add(node);
    }
    return scope;
  }

  #runGraph(graph: GraphProto, scope: Scope, opset: number): OnnxData[] {
    for (const proto of graph.initializer) {
      scope.set(proto.name ?? "", this.#constant(proto, () => valueOf(decodeTensor(proto))));
    }
    for (const node of graph.node) this.#runNode(node, scope, opset);
    return graph.output.map(({ name }) => scope.get(name ?? ""));
  }

  #constant(key: object, make: () => Value): Value {
    const known = this.#constants.get(key) ?? make();
    this.#constants.set(key, known);
    return known;
  }

  #runNode(node: NodeProto, scope: Scope, opset: number): void {
    try {
      const outputs = this.#outputsOf(node, scope, opset);
      node.output.forEach((name, k) => {
        if (name !== "") scope.set(name, outputs[k] ?? null);
      });
    } catch (error) {
      if (!(error instanceof Error) || error instanceof NodeError) throw error;
      throw new NodeError(node, error);
    }
  }

  #outputsOf(node: NodeProto, scope: Scope, opset: number): OnnxData[] {
    const fn = this.#functions.get(kindOf(node)),
      inputs = node.input.map((name) => scope.get(name));
    if (fn) return this.#runFunction(fn, node, inputs);
    const call = new Call(node, inputs, opset, (graph, values) => {
      const inner = new Scope(scope);
      graph.input.forEach(({ name }, k) => inner.set(name ?? "", values[k] ?? null));
      return this.#deeper(() => this.#runGraph(graph, inner, opset));
    });
    if (node.op_type === "Constant") {
      return [this.#constant(node, () => operators.get("Constant")!(call) as Value)];
    }
    const onHost = isOwn(node.domain) ? runOnHost(node, call) : null;
    if (onHost) return [onHost];
    const given = operators.get(operatorName(node))!(call);
    return (Array.isArray(given) ? given : [given]).map((each) => asValue(each, call));
  }

  #deeper<T>(fn: () => T): T {
    if (++this.#depth > MAX_DEPTH) throw new TypeError("graphs call each other without end");
    try {
      return fn();
    } finally {
      this.#depth--;
    }
  }

  #runFunction(fn: FunctionProto, node: NodeProto, inputs: readonly OnnxData[]): OnnxData[] {
    const scope = new Scope(null), opset = versionOf(fn.opset_import);
    fn.input.forEach((name, k) => scope.set(name, inputs[k] ?? null));
    const given = new Map([...fn.attribute_proto, ...node.attribute].map((a) => [a.name ?? "", a]));
    return this.#deeper(() => {
      for (const inner of fn.node) this.#runNode(bound(inner, given), scope, opset);
      return fn.output.map((name) => scope.get(name));
    });
  }
}

/** A failure of a node. */
class NodeError extends Error {
  constructor(node: NodeProto, cause: Error) {
    const name = node.name || node.output[0] || "";
    super(`Cannot run node "${name}" (${node.op_type}): ${cause.message}`, { cause });
    this.name = cause.name;
  }
}

function valueOf(array: ReturnType<typeof decodeTensor>): Value {
  return Value.ofArray(array, array.type);
}

/** A node of a function with the attributes that its caller gives. */
function bound(node: NodeProto, given: ReadonlyMap<string, AttributeProto>): NodeProto {
  if (node.attribute.every(({ ref_attr_name }) => !ref_attr_name)) return node;
  const attribute = node.attribute.flatMap((a): AttributeProto[] => {
    if (!a.ref_attr_name) return [a];
    const found = given.get(a.ref_attr_name);
    return found ? [{ ...found, ...a.name !== undefined && { name: a.name } }] : [];
  });
  return { ...node, attribute };
}

/** The result of a node whose inputs are few numbers on the host. */
function runOnHost(node: NodeProto, call: Call): Value | null {
  const fn = hostOperators[node.op_type ?? ""];
  const isSmall = (value: OnnxData) =>
    value === null || value instanceof Value && value.isOnHost && value.size <= MAX_HOST_SIZE;
  return fn && call.inputs.every(isSmall) ? fn(call) : null;
}

/** The version of ONNX's own operators; files without one are of the first. */
export function versionOf(imports: readonly { domain?: string; version?: number }[]): number {
  return imports.find(({ domain }) => isOwn(domain))?.version ?? 1;
}

/** True for the set of ONNX's own operators. */
export function isOwn(domain: string | undefined): boolean {
  return domain === undefined || domain === "" || domain === "ai.onnx";
}

/** The name of a node's operator among those that are run. */
export function operatorName({ domain, op_type = "" }: NodeProto): string {
  return isOwn(domain) ? op_type : `${domain}.${op_type}`;
}

export function kindOf({ domain, op_type }: NodeProto): string {
  return `${domain ?? ""}::${op_type}`;
}
