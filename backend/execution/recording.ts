/**
 * Recordings: the launches of some schedules with the blocks that they read and write, so that they
 * can be launched again with other blocks and without any graph.
 */
import type { Block, Launch } from "./backend.ts";
import { NEED, nextNodeId, type Node, type Token } from "../graph/node.ts";
import type { Storage } from "../graph/stored_value.ts";
import type { Update } from "../kernel/forms/updates.ts";

/** One launch of a recording. */
export interface RecordedLaunch {
  readonly launch: Launch;
  readonly inputs: readonly Block[];
  readonly outputs: readonly Block[];
  /** Outputs that may lie where an input lies. */
  readonly updates: readonly Update[];
}

/** A value that was there before a recording read it. */
export interface ExternalValue {
  readonly node: Node;
  /** The tensor that held it then. */
  readonly token: Token | null;
  /** The memory of a value that an operation made on its way: it goes with the call, before the recording does. */
  readonly kept: Storage | null;
}

/** Launches made while it was open. */
export class Recording {
  readonly launches: RecordedLaunch[] = [];
  /** True where nothing that was recorded so far changes what the next replay starts from. */
  readonly isInference: () => boolean;
  readonly #start = nextNodeId();
  /** The values that were read, by their block. */
  readonly external = new Map<Block, ExternalValue>();
  readonly #produced = new Set<Block>();

  constructor(isInference: () => boolean = () => false) {
    this.isInference = isInference;
  }

  /** Notes one launch; `inputs` are the nodes behind `reads`, null for buffers between two launches. */
  add(
    launch: Launch,
    inputs: readonly (Node | null)[],
    reads: readonly Block[],
    writes: readonly Block[],
    updates: readonly Update[] = [],
  ): void {
    reads.forEach((block, k) => {
      const node = inputs[k];
      if (node) this.addExternal(block, node);
    });
    for (const block of writes) this.#produced.add(block);
    this.launches.push({ launch, inputs: reads, outputs: writes, updates });
  }

  /** Notes that a value which was there before is used: read, or given to another tensor. */
  addExternal(block: Block, node: Node): void {
    if (this.#produced.has(block) || this.external.has(block)) return;
    const isPassing = node.owner === null || node.exposure !== NEED.lasting;
    const kept = isPassing ? node.storage?.retain() ?? null : null;
    this.external.set(block, { node, token: node.owner, kept });
  }

  /** Gives back what it kept. Idempotent. */
  end(): void {
    for (const { kept } of this.external.values()) kept?.release();
    this.external.clear();
  }

  /**
   * The values that `roots` are computed from and that were made before the recording, but not computed
   * yet: a replay must find them as they are, not compute them again from what was assigned since.
   */
  pendingBefore(roots: readonly Node[]): Node[] {
    const found: Node[] = [], seen = new Set(roots);
    for (const node of seen) {
      if (node.storage !== null || node.inputs.length === 0) continue;
      if (node.id < this.#start) found.push(node);
      else for (const input of node.inputs) seen.add(input);
    }
    return found;
  }

  /** True when one of the recorded launches writes the block, which was not there before. */
  produces(block: Block): boolean {
    return this.#produced.has(block) && !this.external.has(block);
  }
}

let open: Recording | null = null;

/** The recording that is open, if one is. */
export const activeRecording = (): Recording | null => open;

/** True while a recording is open. */
export const isRecording = (): boolean => open !== null;

/** Runs `fn` without recording what it launches. */
export function unrecorded<T>(fn: () => T): T {
  const recording = open;
  open = null;
  try {
    return fn();
  } finally {
    open = recording;
  }
}

/**
 * Runs `fn` and records what it launches; the caller ends the recording.
 *
 * @param isInference See {@linkcode Recording.isInference}; by default it is none.
 * @throws {Error} When another recording is open.
 */
export function record<T>(
  fn: () => T,
  isInference?: () => boolean,
): { result: T; recording: Recording } {
  if (open) {
    throw new Error("Cannot compile inside a compiled function: compile the outer one only");
  }
  const recording = open = new Recording(isInference);
  try {
    return { result: fn(), recording };
  } catch (error) {
    recording.end();
    throw error;
  } finally {
    open = null;
  }
}
