/** Several launches as one. */
import type { Launch, RepeatedLaunch } from "./backend.ts";
import { type HorizontalKernel, resultCount } from "../kernel/kernel.ts";

/** The blocks, or whatever stands for them, of one of several launches. */
export type Split = <T>(
  launch: number,
  inputs: readonly T[],
  outputs: readonly T[],
) => readonly [inputs: readonly T[], outputs: readonly T[]];

/**
 * Launches that are run as one.
 *
 * @param name What traces call it.
 * @param launches In their order.
 * @param split Tells which of all blocks each of them takes.
 */
export function sequence(name: string, launches: readonly Launch[], split: Split): Launch {
  const whole = {
    name,
    source: launches.map(({ source }) => source).join("\n\n"),
    bytes: launches.reduce((sum, { bytes }) => sum + bytes, 0),
  };
  const parts: Launch["parts"] = (inputs, outputs) =>
    launches.map((launch, k) => {
      const [reads, writes] = split(k, inputs, outputs);
      return { launch, inputs: reads, outputs: writes };
    });
  const plain = { ...whole, parts, run: runOf(launches, split) };
  if (launches.some(({ repeated }) => repeated === undefined)) return plain;
  const repeated = (): RepeatedLaunch | null => {
    const own = repeatedAll(launches);
    return own && { ...whole, run: runOf(own, split), ...againAndDispose(own) };
  };
  return { ...plain, repeated };
}

function runOf(launches: readonly Launch[], split: Split): Launch["run"] {
  return (inputs, outputs) =>
    launches.forEach((launch, k) => launch.run(...split(k, inputs, outputs)));
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
    again: () => {
      for (const launch of own) launch.again();
    },
    [Symbol.dispose]: () => {
      for (const launch of own) launch[Symbol.dispose]();
    },
  };
}

/** Runs the members of a horizontal kernel one after another, where they cannot be one launch. */
export function inSequence(
  { members, label }: HorizontalKernel,
  launches: readonly Launch[],
): Launch {
  let read = 0, written = 0;
  const places = members.map((member) => ({
    reads: [read, read += member.inputs.length],
    writes: [written, written += resultCount(member)],
  }));
  return sequence(label, launches, (k, inputs, outputs) => {
    const { reads, writes } = places[k]!;
    return [inputs.slice(...reads), outputs.slice(...writes)];
  });
}
