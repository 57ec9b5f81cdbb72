/**
 * Values of rank 0 for ranks of the same host, whose devices have memory of their own: buffers after every
 * step. As gradients, they are waited for by the devices.
 */
import {
  backendOf,
  type Communicator,
  type DeviceHandle,
  type Gate,
} from "../../../backend/internal.ts";
import { nodeOf } from "../../core/internals.ts";
import type { Tensor } from "../../core/tensor.ts";
import { RepeatedLaunches } from "../../execution/repeated_launches.ts";
import { realizeAll } from "../../execution/realization.ts";
import { bytesOf } from "./bucket.ts";
import type { Pipeline } from "./pipeline.ts";
import { SharedTurns, type Turn, written } from "./shared_turns.ts";
import { giveStored, type StateSender } from "./state_broadcast.ts";

/** Tensors of one device and type. */
interface Part {
  readonly device: DeviceHandle;
  readonly tensors: readonly Tensor[];
  readonly turns: SharedTurns;
  /** Makes blocks of what rank 0 sent in one; made with the first. */
  split: RepeatedLaunches | null;
}

/** Sends tensors from rank 0 to all others. */
export class SharedState implements StateSender {
  readonly #isRoot: boolean;
  readonly #parts: readonly Part[];

  private constructor(isRoot: boolean, parts: readonly Part[]) {
    this.#isRoot = isRoot;
    this.#parts = parts;
  }

  /** Reserves memory, on all ranks at once; null where they have none in common. */
  static share(tensors: readonly Tensor[], communicator: Communicator): SharedState | null {
    const alike = Map.groupBy(tensors, ({ device, dtype }) => `${device.selector} ${dtype}`);
    const parts = [...alike.values()].map((tensors) => {
      const { device } = tensors[0]!, sizes = tensors.map(bytesOf);
      const layout = { backend: backendOf(device), sizes, extraBytes: 0 };
      return { device, tensors, turns: SharedTurns.share(communicator, layout) };
    });
    const shared = parts.flatMap(({ turns, ...part }): Part[] =>
      turns === null ? [] : [{ ...part, turns, split: null }]
    );
    if (shared.length === parts.length) return new SharedState(communicator.rank === 0, shared);
    for (const { turns } of shared) turns[Symbol.dispose]();
    return null;
  }

  begin(pipeline: Pipeline): void {
    for (const part of this.#parts) {
      if (this.#isRoot) part.turns.bucket.read(part.tensors);
      // Buffers that a schedule waits for would be computed over what rank 0 has sent.
      else realizeAll(part.tensors);
      const turn = part.turns.begin(), gate = backendOf(part.device).gate();
      if (gate === null) {
        pipeline.add({
          bucket: turn.bucket,
          communicate: () => written(turn),
          take: () => this.#take(part, turn),
        });
        continue;
      }
      part.turns.leave(turn, gate);
      this.#take(part, turn, gate);
    }
  }

  #take(part: Part, { bucket, parts }: Turn, gate?: Gate): void {
    if (this.#isRoot) return bucket.forget();
    const whole = bucket.uploadWhole(parts[0]!.bytes, gate);
    try {
      part.split ??= splitting(part);
      giveStored(part.tensors, part.split.run([whole.handle]));
    } finally {
      whole.release();
    }
  }

  [Symbol.dispose](): void {
    for (const { turns, split } of this.#parts) {
      turns[Symbol.dispose]();
      split?.[Symbol.dispose]();
    }
  }
}

function splitting({ device, tensors }: Part): RepeatedLaunches {
  const { dtype } = nodeOf(tensors[0]!), total = tensors.reduce((sum, { size }) => sum + size, 0);
  return new RepeatedLaunches(device, [{ shape: [total], dtype }], ([whole]) => {
    let end = 0;
    return tensors.map(({ size }) => whole!.slice([end, end += size]).contiguous());
  });
}
