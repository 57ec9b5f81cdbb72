/** A text that is equal for graphs that lead to the same kernels. */
import type { Node } from "./node.ts";

/** The structure of nodes in topological order, and which of them are asked for. */
export function signatureOf(
  order: readonly Node[],
  index: ReadonlyMap<Node, number>,
  wanted: ReadonlySet<Node>,
): string {
  const parts: string[] = [];
  for (const node of order) {
    const own = node.storage ? "=" : describe(node);
    const inputs = node.storage ? "" : node.inputs.map((input) => index.get(input)).join();
    parts.push(`${own}(${inputs})${node.dtype}[${node.shape}]${wanted.has(node) ? "!" : ""}`);
  }
  return parts.join(";");
}

function describe({ op }: Node): string {
  switch (op.kind) {
    case "elementwise":
      return op.fn;
    case "constant":
      return `#${Object.is(op.value, -0) ? "-0" : op.value}`;
    case "random":
      return `random ${op.seed}`;
    case "permute":
      return `permute ${op.axes}`;
    case "slice":
      return `slice ${op.starts}|${op.steps}`;
    case "pad":
      return `pad ${op.before}|${op.value}`;
    case "window":
      return `window ${op.kernel}|${op.stride}|${op.dilation}`;
    case "reduce":
      return `${op.fn} ${op.axes}`;
    case "contract":
      return `contract ${op.batch},${op.m},${op.n}`;
    case "gather":
      return `gather ${op.axis} ${op.opName}`;
    case "scatter":
      return `scatter ${op.axis} ${op.mode} ${op.opName}`;
    case "argsort":
      return `argsort ${op.descending}`;
    case "fold":
      return `fold ${op.stride}|${op.dilation}`;
    case "buffer":
    case "data":
    case "iota":
    case "cast":
    case "reshape":
    case "expand":
    case "scan":
    case "copy":
      return op.kind;
    default:
      return op satisfies never;
  }
}
