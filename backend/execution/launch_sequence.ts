/** Several launches as one. */
import type { KeptOutput, Launch, RepeatedLaunch } from "./backend.ts";
import type { HorizontalKernel } from "../kernel/kernel.ts";

/**
 * Launches that are run as one.
 *
 * @param name What traces call it.
 * @param launches In their order.
 * @param run Runs such launches with the blocks that each of them takes.
 * @param kept What all but the last of them make, where that may be kept.
 */
export function sequence(
  name: string,
  launches: readonly Launch[],
  run: (launches: readonly Launch[]) => Launch["run"],
  kept?: KeptOutput,
): Launch {
  const whole = {
    ...kept && { kept },
    name,
    source: launches.map(({ source }) => source).join("\n\n"),
    bytes: launches.reduce((sum, { bytes }) => sum + bytes, 0),
  };
  const plain = { ...whole, run: run(launches) };
  if (launches.some(({ repeated }) => repeated === undefined)) return plain;
  const repeated = (): RepeatedLaunch | null => {
    const own = repeatedAll(launches);
    return own && { ...whole, run: run(own), ...againAndDispose(own) };
  };
  return { ...plain, repeated };
}

/** All of them with arguments of their own; null while one has none. */
function repeatedAll(launches: readonly Launch[]): RepeatedLaunch[] | null {
  const own: RepeatedLaunch[] = [];
  for (const launch of launches) {
    const repeated = launch.repeated!();
    if (repeated === null) {
      for (const made of own) made[Symbol.dispose]();
      return null;
    }
    own.push(repeated);
  }
  return own;
}

function againAndDispose(
  own: readonly RepeatedLaunch[],
): Pick<RepeatedLaunch, "again" | typeof Symbol.dispose> {
  return {
    again: (isPrepared = false) => {
      if (isPrepared) own.at(-1)!.again();
      else for (const launch of own) launch.again();
    },
    [Symbol.dispose]: () => {
      for (const launch of own) launch[Symbol.dispose]();
    },
  };
}

/** Runs the members of a horizontal kernel one after another, where they cannot be one launch. */
export function inSequence(
  { members, written: counts, label }: HorizontalKernel,
  launches: readonly Launch[],
): Launch {
  const run = (launches: readonly Launch[]): Launch["run"] => (inputs, outputs) => {
    let read = 0, written = 0;
    launches.forEach((launch, k) => {
      launch.run(
        inputs.slice(read, read += members[k]!.inputs.length),
        outputs.slice(written, written += counts[k]!),
      );
    });
  };
  return sequence(label, launches, run);
}
