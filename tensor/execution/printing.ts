/** Tensors as text: for a console, for `print`. */
import { backendOf, formatShape, peekNode } from "../../backend/internal.ts";
import { withoutGrad } from "../core/modes/grad_mode.ts";
import { checkOptions, type Rules, takes } from "../core/rules/options.ts";
import { nodeOf } from "../core/internals.ts";
import { fromHost } from "../ops/creation/host_data.ts";
import type { Tensor } from "../core/mod.ts";
import { formatTensor, MAX_PRINTED, printedPositions, shortened } from "./formatting.ts";
import { hostView, toHost } from "./reading.ts";
import type { PrintOptions } from "../core/arguments.ts";

const printRules: Rules<PrintOptions> = { log: takes.callback };

/** Prints values, shape, type and backend; returns the text. */
export async function print(x: Tensor, options: PrintOptions = {}): Promise<string> {
  checkOptions("print", options, printRules);
  const { shape, dtype, backend } = x;
  const elements = await toHost(ends(x));
  const text = formatTensor({ shape, dtype, backend, elements });
  (options.log ?? console.log)(text);
  return text;
}

/** Printed part: both ends of long axes. */
function ends(x: Tensor): Tensor {
  const { device } = x;
  return withoutGrad(() =>
    shortened(x.shape).reduce((part, isShort, axis) => {
      if (!isShort) return part;
      const positions = Int32Array.from(printedPositions(part.shape[axis]!, true));
      return part.indexSelect(axis, fromHost(positions, { device }));
    }, x)
  );
}

/** The short form: shape, type and backend. */
export function describe({ shape, dtype, backend }: Tensor): string {
  return `Tensor(${formatShape(shape)}, ${dtype}, ${backend})`;
}

/** Text for a console: values where the host has them; it computes and waits for nothing. */
export function inspect(x: Tensor): string {
  const { shape, dtype, backend } = x;
  const head = `Tensor(${formatShape(shape)}, ${dtype}, ${backend}`;
  if (x.disposed) return `${head}, disposed)`;
  if (!x.isRealized) return `${head}, lazy)`;
  const bytes = x.size > MAX_PRINTED ? null : peekNode(backendOf(x.device), nodeOf(x));
  if (bytes === null) return `${head}, in memory: await print() shows it)`;
  return formatTensor({ shape, dtype, backend, elements: hostView(bytes, dtype) });
}

/** Text where a string is wanted, an error where a number is. */
export function toPrimitive(x: Tensor, hint: string): string {
  if (hint === "string") return describe(x);
  throw new TypeError(
    `Cannot use an operator on ${describe(x)}: write a.add(b), a.sub(b), a.lt(b), ... for ` +
      `operations, \`\${a}\` for text, and await a.item() for the number of a single element`,
  );
}
