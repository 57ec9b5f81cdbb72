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
import type { Tensor } from "../core/mod.ts";
import { Storage } from "../../memory/mod.ts";

/** Properties of a tensor before there is one. */
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
  /** Blocks written by the launches. */
  readonly #made: ReadonlySet<Block>;
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
    this.#made = new Set(recording.launches.flatMap(({ outputs }) => outputs));
    this.#constants = constantsOf(recording, new Set(this.#inputs));
    recording.end();
    for (const tensor of new Set([...outputs, ...given])) tensor.dispose();
  }

  /**
   * Enqueues the launches.
   *
   * @param inputs Of the sizes that were recorded.
   * @returns A new block for the only result, the caller's to release.
   * @throws {OutOfMemoryError} When there is no memory for it.
   */
  runToBlock(inputs: readonly Block[]): Block {
    const block = this.#backend.memory.allocate(this.#outputs[0]!.nbytes);
    try {
      this.runInto(inputs, [block]);
      return block;
    } catch (error) {
      block.release();
      throw error;
    }
  }

  /**
   * The same where the results have a place.
   *
   * @param outputs Is written to, whose the blocks may be.
   */
  runInto(inputs: readonly Block[], outputs: readonly Block[]): void {
    const { memory } = this.#backend;
    const blocks = new Map(this.#inputs.map((block, k) => [block, inputs[k]!]));
    const given = new Set<Block>(), onTheWay: Block[] = [];
    this.#outputs.forEach((block, k) => {
      if (!this.#made.has(block) || blocks.has(block)) return;
      blocks.set(block, outputs[k]!);
      given.add(outputs[k]!);
    });
    try {
      for (const { launch, inputs, outputs } of this.#launches) {
        const reads = inputs.map((block) => blocks.get(block) ?? block);
        for (const block of outputs) {
          if (blocks.has(block)) continue;
          const made = memory.allocate(block.nbytes);
          onTheWay.push(made);
          blocks.set(block, made);
        }
        launch.run(reads, outputs.map((block) => blocks.get(block)!));
      }
      // Results that are an input, a constant or another result as they are.
      this.#outputs.forEach((block, k) => {
        const target = outputs[k]!;
        if (!given.has(target)) {
          this.#backend.copy(blocks.get(block) ?? block, target, block.nbytes);
        }
      });
    } finally {
      // What is released here is lent again behind the launches that use it.
      for (const block of onTheWay) block.release();
    }
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
  return [...recording.external].flatMap(([block, { node, kept }]) =>
    inputs.has(block) ? [] : [(kept ?? node.storage!).retain()]
  );
}
