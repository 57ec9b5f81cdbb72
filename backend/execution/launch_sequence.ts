/** Kernels that were planned for one launch, where they cannot be one. */
import type { Launch } from "./backend.ts";
import type { HorizontalKernel } from "../kernel/kernel.ts";

/** Runs the members of a horizontal kernel one after another. */
export function inSequence(
  { members, label }: HorizontalKernel,
  launches: readonly Launch[],
): Launch {
  return {
    name: label,
    source: launches.map(({ source }) => source).join("\n\n"),
    bytes: launches.reduce((sum, { bytes }) => sum + bytes, 0),
    run: (inputs, outputs) => {
      let read = 0, written = 0;
      launches.forEach((launch, k) => {
        const member = members[k]!;
        launch.run(
          inputs.slice(read, read += member.inputs.length),
          outputs.slice(written, written += member.outputs.length),
        );
      });
    },
  };
}
