/** How often a step calls the driver besides launches. */
import { countingCalls } from "../ffi/counting_calls.ts";
import { nn } from "../../mod.ts";

const NAMES = [
  "clEnqueueReadBuffer",
  "clEnqueueWriteBuffer",
  "clEnqueueCopyBuffer",
  "clEnqueueMarkerWithWaitList",
  "clEnqueueBarrierWithWaitList",
];

/** The calls of one more step, by their names; the first ones are recorded. */
export function enqueuedCalls(step: () => void): Record<string, number> {
  for (let k = 0; k < 6; k++) step();
  using counting = countingCalls();
  step();
  return Object.fromEntries(NAMES.map((name) => [name, counting.counts.get(name) ?? 0]));
}

/** A model of 6 inputs with four parameters and three buffers a layer. */
export function layersOf(count: number): nn.Sequential {
  const layers = Array.from({ length: count }, () => [new nn.Linear(6, 6), new nn.BatchNorm1d(6)]);
  return new nn.Sequential(...layers.flat());
}
