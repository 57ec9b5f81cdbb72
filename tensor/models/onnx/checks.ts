/** Checks of a graph before it runs: that its nodes can be run, and that each value is made before it is used. */
import { FileFormatError, shown } from "../../io/core/file_format_error.ts";
import type { GraphProto, ModelProto, NodeProto } from "./format/schema.ts";
import { kindOf, operatorName, versionOf } from "./graph_runner.ts";
import { operators } from "./operator_table.ts";

/** The versions of ONNX's operators that are read. */
const OLDEST = 1, NEWEST = 28;

/**
 * Checks that each node can be run.
 *
 * @throws {FileFormatError} That names all kinds that cannot, with their nodes.
 */
export function checkOperators(model: ModelProto): void {
  const functions = new Set(model.functions.map((f) => `${f.domain ?? ""}::${f.name}`));
  const missing = new Map<string, string[]>();
  const visit = (nodes: readonly NodeProto[]): void => {
    for (const node of nodes) {
      const kind = operatorName(node);
      if (!functions.has(kindOf(node)) && !operators.has(kind)) {
        const name = node.name || node.output[0] || "";
        missing.get(kind)?.push(name) ?? missing.set(kind, [name]);
      }
      for (const { g } of node.attribute) if (g) visit(g.node);
    }
  };
  visit(model.graph!.node);
  for (const { node } of model.functions) visit(node);
  if (missing.size > 0) throw missingError(missing);
  const version = versionOf(model.opset_import);
  if (version >= OLDEST && version <= NEWEST) return;
  throw new FileFormatError(
    `The graph's operators are of version ${version}: ${OLDEST} to ${NEWEST} are run`,
  );
}

/** The most names of nodes that an error lists for a kind. */
const MAX_NAMES = 5;

function missingError(missing: ReadonlyMap<string, readonly string[]>): FileFormatError {
  const list = [...missing].map(([kind, names]) => {
    const shown = names.slice(0, MAX_NAMES).map((name) => `"${name}"`).join(", ");
    const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : "";
    return `${kind} (${shown}${more})`;
  });
  return new FileFormatError(
    `The graph has ${missing.size} kinds of nodes that are not run: ${list.join("; ")}`,
  );
}

/**
 * Checks that each value is made before it is used, in graphs within graphs and in functions, too.
 *
 * @throws {FileFormatError} That names the value.
 */
export function checkNames({ graph, functions }: ModelProto): void {
  checkGraph(graph!, new Set([""]));
  for (const { name = "", input, output, node } of functions) {
    checkNodes(node, output, new Set(["", ...input]), `function ${shown(name)}`);
  }
}

function checkGraph(graph: GraphProto, around: ReadonlySet<string>): void {
  const own = [...graph.initializer, ...graph.input].map(({ name = "" }) => name);
  const outputs = graph.output.map(({ name = "" }) => name);
  checkNodes(graph.node, outputs, new Set([...around, ...own]), "graph");
}

function checkNodes(
  nodes: readonly NodeProto[],
  outputs: readonly string[],
  known: Set<string>,
  where: string,
): void {
  for (const node of nodes) {
    const missing = node.input.find((name) => !known.has(name));
    if (missing !== undefined) {
      throw new FileFormatError(
        `Node ${shown(node.name || node.output[0] || "")} (${node.op_type}) uses ` +
          `${shown(missing)}, which nothing before it makes`,
      );
    }
    for (const { g } of node.attribute) if (g) checkGraph(g, known);
    for (const name of node.output) known.add(name);
  }
  const open = outputs.find((name) => !known.has(name));
  if (open === undefined) return;
  throw new FileFormatError(`The output ${shown(open)} of the ${where} is made by nothing in it`);
}
