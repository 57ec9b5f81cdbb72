/**
 * Computations that are the same in every step and short: their launches are recorded once, on tensors
 * of their own, and run again with other blocks. No tensor, no graph and no schedule is made for it.
 */
import {
  type Backend,
  backendOf,
  type Block,
  type DeviceHandle,
  type DType,
  dtypes,
  Node,
  type NodeStorage,
  realize,
  record,
  type RecordedLaunch,
  type Recording,
  type Shape,
  unrecorded,
} from "../../backend/internal.ts";
import { makeTensor, nodeOf } from "../core/internals.ts";
import { internally } from "../core/modes/temporaries.ts";
import type { Tensor } from "../core/tensor.ts";
import { Storage } from "../../memory/mod.ts";

/** What is known of a tensor before there is one. */
export interface TensorLike {
  readonly shape: Shape;
  readonly dtype: DType;
}

/** Launches of one computation. */
export class RepeatedLaunches implements Disposable {
  readonly #backend: Backend;
  readonly #launches: readonly RecordedLaunch[];
  /** The blocks that the launches were recorded with. */
  readonly #inputs: readonly Block[];
  readonly #outputs: readonly Block[];
  /** Values that are no input, and the same every time. */
  readonly #constants: NodeStorage[];

  /**
   * Records what `compute` launches.
   *
   * @param inputs What it takes, all on `device`.
   * @param compute Gives tensors that are computed from its inputs alone.
   */
  constructor(
    device: DeviceHandle,
    inputs: readonly TensorLike[],
    compute: (inputs: readonly Tensor[]) => readonly Tensor[],
  ) {
    const backend = this.#backend = backendOf(device);
    const given = inputs.map((like) => placeholder(backend, like, device));
    const { result: outputs, recording } = unrecorded(() =>
      record(() => {
        const results = internally(() => compute(given));
        realize(backend, results.map(nodeOf));
        return results;
      })
    );
    this.#launches = recording.launches;
    this.#inputs = given.map(blockOf);
    this.#outputs = outputs.map(blockOf);
    this.#constants = constantsOf(recording, new Set(this.#inputs));
    for (const tensor of new Set([...outputs, ...given])) tensor.dispose();
  }

  /**
   * Enqueues the launches.
   *
   * @param inputs Of the sizes that were recorded.
   * @returns New blocks for the results, the caller's to release.
   * @throws {OutOfMemoryError} When there is no memory for them.
   */
  run(inputs: readonly Block[]): NodeStorage[] {
    const { memory } = this.#backend;
    const blocks = new Map(this.#inputs.map((block, k) => [block, inputs[k]!]));
    const made = new Map<Block, NodeStorage>();
    try {
      for (const { launch, inputs, outputs } of this.#launches) {
        const reads = inputs.map((block) => blocks.get(block) ?? block);
        for (const block of outputs) {
          const storage = new Storage(memory, memory.allocate(block.nbytes));
          made.set(block, storage);
          blocks.set(block, storage.handle);
        }
        launch.run(reads, outputs.map((block) => blocks.get(block)!));
      }
      return this.#outputs.map((block) =>
        made.get(block)?.retain() ?? this.#copyOf(blocks.get(block)!)
      );
    } finally {
      // What is released here is lent again behind the launches that use it.
      for (const storage of made.values()) storage.release();
    }
  }

  /** A result that is an input as it is. */
  #copyOf(block: Block): NodeStorage {
    const { memory } = this.#backend, copy = memory.allocate(block.nbytes);
    this.#backend.copy(block, copy, block.nbytes);
    return new Storage(memory, copy);
  }

  /** Gives the constants' memory back. */
  [Symbol.dispose](): void {
    for (const storage of this.#constants.splice(0)) storage.release();
  }
}

/** A tensor whose value nobody reads: only its place counts. */
function placeholder(backend: Backend, { shape, dtype }: TensorLike, device: DeviceHandle): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  const block = backend.memory.allocate(size * dtypes[dtype].bytes, { label: "placeholder" });
  return makeTensor(Node.stored(new Storage(backend.memory, block), shape, dtype), device);
}

function blockOf(tensor: Tensor): Block {
  return nodeOf(tensor).storage!.handle;
}

function constantsOf(recording: Recording, inputs: ReadonlySet<Block>): NodeStorage[] {
  return [...recording.external].flatMap(([block, { node }]) =>
    inputs.has(block) ? [] : [node.storage!.retain()]
  );
}
