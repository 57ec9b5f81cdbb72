/** Description of a tensor's computation, in words. */
import { backendOf, dtypes, formatShape, schedule } from "../../backend/internal.ts";
import type { Tensor } from "../core/mod.ts";
import { nodeOf } from "../core/internals.ts";

/** The schedule of a tensor as text: kernels in order, what they read and write, and their source. */
export function explain(tensor: Tensor): string {
  if (tensor.isRealized) return `${tensor} is in memory: nothing to compute\n`;
  const backend = backendOf(tensor.device);
  const plan = schedule([nodeOf(tensor)], { device: backend });
  const describe = (at: number): string => {
    const node = plan.order[at];
    if (node) return `${node.dtype} ${formatShape(node.shape)}`;
    const { dtype, size } = plan.temporaries[at - plan.order.length]!;
    return `${dtype} ${formatShape([size])} between kernels`;
  };
  const launches = backend.prepare(plan.kernels.map((k) => k.kernel));
  const lines = [
    `${tensor} takes ${launches.length} kernel${
      launches.length === 1 ? "" : "s"
    } on ${tensor.device}`,
  ];
  plan.kernels.forEach(({ inputs, outputs }, k) => {
    const launch = launches[k]!;
    lines.push(
      "",
      `${k + 1}. ${launch.name}: ${launch.bytes} bytes`,
      `   reads  ${inputs.map(describe).join(", ") || "nothing"}`,
      `   writes ${outputs.map(describe).join(", ")}`,
      launch.source,
    );
  });
  const kept = plan.kept.map((at) => plan.order[at]!).reduce(
    (sum, node) => sum + node.size * dtypes[node.dtype].bytes,
    0,
  );
  lines.push("", `${kept} bytes stay, at most ${plan.peakBytes} are held at a time`);
  return lines.join("\n") + "\n";
}
