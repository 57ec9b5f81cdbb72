/** A model as text: its parts, the shapes of their tensors, and how many parameters it has. */
import { formatShape } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";
import type { AnyModule } from "./module.ts";

/** Text like PyTorch's `print(model)`, and the number of parameters. */
export function describeModule(module: AnyModule): string {
  const count = module.parameters().reduce((sum, { size }) => sum + size, 0);
  return `${linesOf(module).join("\n")}\n${count.toLocaleString("en")} parameters`;
}

function linesOf(module: AnyModule, outer: readonly AnyModule[] = []): string[] {
  if (outer.includes(module)) return [`${module.constructor.name}(...)`];
  const children = module.children(), own = ownTensors(module, children.map(([name]) => name));
  const head = module.constructor.name;
  if (children.length === 0) return [`${head}(${own.join(", ")})`];
  const parts = children.flatMap(([name, child]) => {
    const [first, ...rest] = linesOf(child, [...outer, module]);
    return [`(${name}): ${first}`, ...rest];
  });
  return [`${head}(`, ...[...own, ...parts].map((line) => `  ${line}`), ")"];
}

/** Parameters and buffers that belong to none of the children. */
function ownTensors(module: AnyModule, children: readonly string[]): string[] {
  const isOwn = ([name]: [string, Tensor]) =>
    !children.some((child) => name.startsWith(`${child}.`));
  return [...module.namedParameters(), ...module.namedBuffers()].filter(isOwn)
    .map(([name, { shape }]) => `${name} ${formatShape(shape)}`);
}
