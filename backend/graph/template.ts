/**
 * Templates of expressions: the nodes that a function made of its inputs, as a list, so that they can be
 * made again of other inputs without calling the function. Those of a routine stand in a graph as one call, and
 * are made where no plan is known for the graph.
 */
import type { CustomCall } from "./custom.ts";
import { nextNodeId, Node } from "./node.ts";
import type { ExpressionList, Op, RoutineCall, TemplateNode } from "./op.ts";
import { sameShape } from "./shape.ts";

/** Nodes with content of their own: they are made anew each time. */
const own: readonly Op["kind"][] = ["random", "attention", "routine"];
/** Nodes with values or settings of the program in them, too. */
const ofProgram: readonly Op["kind"][] = [...own, "buffer", "data", "contract", "custom"];

let made = 0;

/** Nodes made by a function. */
export class Template implements ExpressionList {
  readonly id: number = made++;
  /** Values that the function brought itself, such as tables: further inputs, the caller's to hold. */
  readonly captured: readonly Node[];
  readonly nodes: readonly TemplateNode[];
  readonly results: readonly number[];
  /** The results, before there are any. */
  readonly outputs: RoutineCall["outputs"];
  readonly #inputs: readonly Pick<Node, "shape" | "dtype">[];

  private constructor(
    inputs: readonly Node[],
    captured: readonly Node[],
    nodes: readonly TemplateNode[],
    results: readonly number[],
  ) {
    this.captured = captured;
    this.nodes = nodes;
    this.results = results;
    this.#inputs = inputs.map(({ shape, dtype }) => ({ shape, dtype }));
    const all = [...this.#inputs, ...nodes];
    this.outputs = results.map((at) => all[at]!).map(({ shape, dtype }) => ({ shape, dtype }));
  }

  /**
   * Calls a function and notes the nodes that it makes.
   *
   * @param inputs The nodes that its results are computed from.
   * @param fn The function: it does the same with all nodes of these shapes and types.
   * @param outputsOf The nodes of what it returns.
   * @param isPure True where these depend on nothing but the inputs and what the caller knows of: settings of
   *   the program, values that the function brings itself.
   * @returns What it returns, and the template; null where other inputs would need another one.
   */
  static record<R>(
    inputs: readonly Node[],
    fn: () => R,
    outputsOf: (result: R) => readonly Node[],
    isPure = false,
  ): { result: R; template: Template | null } {
    const start = nextNodeId(), result = fn();
    const refused = isPure ? own : ofProgram;
    return { result, template: Template.#of(inputs, outputsOf(result), start, refused) };
  }

  static #of(
    inputs: readonly Node[],
    outputs: readonly Node[],
    start: number,
    refused: readonly Op["kind"][],
  ): Template | null {
    const places = new Map(inputs.map((node, k) => [node, k]));
    const found = madeBetween(places, outputs);
    const isRefused = ({ id, op }: Node): boolean => id < start || refused.includes(op.kind);
    if (places.size < inputs.length || found.some(isRefused)) return null;
    const captured = found.filter(isValue), made = found.filter((node) => !isValue(node));
    [...captured, ...made].forEach((node) => places.set(node, places.size));
    const nodes = made.map(({ op, inputs, shape, dtype }): TemplateNode => ({
      op,
      inputs: inputs.map((input) => places.get(input)!),
      shape,
      dtype,
    }));
    const given = [...inputs, ...captured];
    return new Template(given, captured, nodes, outputs.map((node) => places.get(node)!));
  }

  /** True for inputs of the shapes and types that it was made for. */
  takes(inputs: readonly Node[]): boolean {
    return inputs.length === this.#inputs.length && this.#inputs.every(({ shape, dtype }, k) => {
      const input = inputs[k]!;
      return input.dtype === dtype && sameShape(input.shape, shape);
    });
  }

  /**
   * Makes the results for other inputs.
   *
   * @param inputs Those, and behind them what is captured.
   */
  instantiate(inputs: readonly Node[]): Node[] {
    const all = nodesFor(this, inputs);
    return this.results.map((at) => all[at]!);
  }
}

/**
 * All nodes of a template for other inputs, behind these, in the order in which the function made them.
 *
 * @param holds False for nodes of a plan alone; true by default.
 */
export function nodesFor(
  { nodes }: ExpressionList,
  inputs: readonly Node[],
  holds = true,
): Node[] {
  const all = [...inputs], calls = new Map<CustomCall, CustomCall>();
  // Outputs of one call share it; those of another instance are not among them.
  const present = (op: Op): Op =>
    op.kind === "custom"
      ? { ...op, call: calls.getOrInsertComputed(op.call, (call) => ({ ...call })) }
      : op;
  for (const { op, inputs: places, shape, dtype } of nodes) {
    all.push(new Node(present(op), places.map((at) => all[at]!), shape, dtype, holds));
  }
  return all;
}

const isValue = ({ op }: Node): boolean => op.kind === "buffer" || op.kind === "data";

/** The nodes that `outputs` are made of, down to the known ones, in the order of their creation. */
function madeBetween(known: ReadonlyMap<Node, number>, outputs: readonly Node[]): Node[] {
  const found = new Set<Node>(outputs.filter((node) => !known.has(node)));
  for (const node of found) {
    for (const input of node.inputs) if (!known.has(input)) found.add(input);
  }
  return [...found].sort((a, b) => a.id - b.id);
}
