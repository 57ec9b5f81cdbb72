/**
 * Templates of expressions: the nodes that a function made of its inputs, as a list, so that they can be
 * made again of other inputs without calling the function.
 */
import { nextNodeId, Node } from "./node.ts";
import type { Op } from "./op.ts";
import type { DType } from "./dtype.ts";
import { sameShape, type Shape } from "./shape.ts";

/** A node of a template: its inputs are places in the list, which begins with the template's inputs. */
interface TemplateNode {
  readonly op: Op;
  readonly inputs: readonly number[];
  readonly shape: Shape;
  readonly dtype: DType;
}

/** Nodes with content of their own, or with settings of the program in them: they are made anew each time. */
const refused: ReadonlySet<Op["kind"]> = new Set(
  ["buffer", "data", "random", "contract", "custom", "attention"] satisfies Op["kind"][],
);

/** Nodes made by a function. */
export class Template {
  readonly #inputs: readonly { readonly shape: Shape; readonly dtype: DType }[];
  readonly #nodes: readonly TemplateNode[];
  readonly #outputs: readonly number[];

  private constructor(
    inputs: readonly Node[],
    nodes: readonly TemplateNode[],
    outputs: readonly number[],
  ) {
    this.#inputs = inputs.map(({ shape, dtype }) => ({ shape, dtype }));
    this.#nodes = nodes;
    this.#outputs = outputs;
  }

  /**
   * Calls a function and notes the nodes that it makes.
   *
   * @param inputs The nodes that its results are computed from.
   * @param fn The function: it does the same with all nodes of these shapes and types.
   * @param outputsOf The nodes of what it returns.
   * @returns What it returns, and the template; null where other inputs would need another one.
   */
  static record<R>(
    inputs: readonly Node[],
    fn: () => R,
    outputsOf: (result: R) => readonly Node[],
  ): { result: R; template: Template | null } {
    const start = nextNodeId(), result = fn();
    return { result, template: Template.#of(inputs, outputsOf(result), start) };
  }

  static #of(
    inputs: readonly Node[],
    outputs: readonly Node[],
    start: number,
  ): Template | null {
    const places = new Map(inputs.map((node, k) => [node, k]));
    const made = madeBetween(places, outputs);
    if (places.size < inputs.length || made.some((node) => isRefused(node, start))) return null;
    made.forEach((node, k) => places.set(node, inputs.length + k));
    const nodes = made.map(({ op, inputs, shape, dtype }): TemplateNode => ({
      op,
      inputs: inputs.map((input) => places.get(input)!),
      shape,
      dtype,
    }));
    return new Template(inputs, nodes, outputs.map((node) => places.get(node)!));
  }

  /** True for inputs of the shapes and types that it was made for. */
  takes(inputs: readonly Node[]): boolean {
    return inputs.length === this.#inputs.length && this.#inputs.every(({ shape, dtype }, k) => {
      const input = inputs[k]!;
      return input.dtype === dtype && sameShape(input.shape, shape);
    });
  }

  /** Makes the results for other inputs. */
  instantiate(inputs: readonly Node[]): Node[] {
    const all = [...inputs];
    for (const { op, inputs: places, shape, dtype } of this.#nodes) {
      all.push(new Node(op, places.map((at) => all[at]!), shape, dtype));
    }
    return this.#outputs.map((at) => all[at]!);
  }
}

/** The nodes that `outputs` are made of, down to the known ones, in the order of their creation. */
function madeBetween(known: ReadonlyMap<Node, number>, outputs: readonly Node[]): Node[] {
  const found = new Set<Node>(outputs.filter((node) => !known.has(node)));
  for (const node of found) {
    for (const input of node.inputs) if (!known.has(input)) found.add(input);
  }
  return [...found].sort((a, b) => a.id - b.id);
}

const isRefused = ({ id, op }: Node, start: number): boolean => id < start || refused.has(op.kind);
