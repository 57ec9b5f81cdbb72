/**
 * The allocations of a transformer in training: six layers, width 384, batch 8, float32. The forward pass
 * keeps its activations, the backward pass frees them in reverse, parameters and Adam's moments stay.
 */

/** One event: +1 allocates `nbytes` under `id`, -1 frees it. */
export type TraceEvent = readonly [sign: 1 | -1, id: number, nbytes: number];

/** A linear congruential generator, so that traces are the same everywhere. */
export function randomNumbers(seed: number): () => number {
  return () => ((seed = (seed * 1664525 + 1013904223) >>> 0) / 2 ** 32);
}

/** Lengths of the sequences, step by step. */
export const sequenceLengths: Record<string, (step: number, random: () => number) => number> = {
  "fixed length 256": () => 256,
  "lengths 64 to 256, varying": (_step, random) => 64 + Math.floor(random() * 193),
  "lengths 64 to 256, growing": (step) => 64 + Math.min(192, step * 5),
};

/** The events of `steps` training steps, and where each step ends. */
export function transformerTrace(
  steps: number,
  lengthOf: (step: number, random: () => number) => number,
  seed = 1,
): { events: TraceEvent[]; stepEnds: number[] } {
  const [layers, width, heads, batch, vocabulary] = [6, 384, 6, 8, 8192] as const;
  const events: TraceEvent[] = [];
  const stepEnds: number[] = [];
  const live = new Map<number, number>();
  const random = randomNumbers(seed);
  let nextId = 0;
  const allocate = (elements: number) => {
    const id = ++nextId;
    events.push([1, id, elements * 4]);
    live.set(id, elements);
    return id;
  };
  const free = (id: number) => {
    events.push([-1, id, live.get(id)! * 4]);
    live.delete(id);
  };
  // Parameters, gradients and Adam's two moments.
  for (let copy = 0; copy < 4; copy++) {
    allocate(vocabulary * width);
    for (let layer = 0; layer < layers; layer++) {
      for (const times of [3, 1, 4, 4]) allocate(times * width * width);
      for (const times of [1, 1, 3, 4]) allocate(times * width);
    }
  }
  for (let step = 0; step < steps; step++) {
    const length = lengthOf(step, random);
    const tokens = batch * length;
    const indices = allocate(tokens);
    const kept = [allocate(tokens * width)];
    const keep = (elements: number) => void kept.push(allocate(elements));
    for (let layer = 0; layer < layers; layer++) {
      keep(tokens * width);
      keep(tokens);
      keep(tokens * 3 * width);
      const scores = allocate(batch * heads * length * length);
      keep(batch * heads * length * length);
      free(scores);
      keep(tokens * width);
      const projected = allocate(tokens * width);
      keep(tokens * width);
      free(projected);
      keep(tokens * 4 * width);
      keep(tokens * 4 * width);
      const down = allocate(tokens * width);
      keep(tokens * width);
      free(down);
    }
    const logits = allocate(tokens * vocabulary);
    keep(tokens * vocabulary);
    free(logits);
    const loss = allocate(1);
    let gradient = allocate(tokens * vocabulary);
    for (const activation of kept.reverse()) {
      const elements = live.get(activation)!;
      const next = allocate(elements);
      const scratch = allocate(Math.max(1, elements >> 1));
      free(gradient);
      free(scratch);
      free(activation);
      gradient = next;
    }
    for (const id of [gradient, loss, indices]) free(id);
    stepEnds.push(events.length);
  }
  return { events, stepEnds };
}
