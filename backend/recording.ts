/**
 * Recordings: the launches of some schedules with the blocks that they read and write, so that they
 * can be launched again with other blocks and without any graph.
 */
import type { Block, Launch } from "./backend.ts";
import type { Node, Token } from "./graph/node.ts";

/** One launch of a recording. */
export interface RecordedLaunch {
  readonly launch: Launch;
  readonly inputs: readonly Block[];
  readonly outputs: readonly Block[];
}

/** What was launched while it was open. */
export class Recording {
  readonly launches: RecordedLaunch[] = [];
  /** The nodes whose stored values were read, by their block, with the tensor that held them then. */
  readonly external = new Map<Block, { readonly node: Node; readonly token: Token | null }>();
  readonly #produced = new Set<Block>();

  /** Notes one launch; `inputs` are the nodes behind `reads`. */
  add(
    launch: Launch,
    inputs: readonly Node[],
    reads: readonly Block[],
    writes: readonly Block[],
  ): void {
    reads.forEach((block, k) => {
      if (this.#produced.has(block) || this.external.has(block)) return;
      const node = inputs[k]!;
      this.external.set(block, { node, token: node.owner });
    });
    for (const block of writes) this.#produced.add(block);
    this.launches.push({ launch, inputs: reads, outputs: writes });
  }

  /** True when one of the recorded launches writes the block. */
  produces(block: Block): boolean {
    return this.#produced.has(block);
  }
}

let open: Recording | null = null;

/** The recording that is open, if one is. */
export function activeRecording(): Recording | null {
  return open;
}

/**
 * Runs `fn` and records what it launches.
 *
 * @throws {Error} When another recording is open.
 */
export function record<T>(fn: () => T): { result: T; recording: Recording } {
  if (open) {
    throw new Error("Cannot compile inside a compiled function: compile the outer one only");
  }
  open = new Recording();
  try {
    return { result: fn(), recording: open };
  } finally {
    open = null;
  }
}
