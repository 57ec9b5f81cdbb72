/**
 * Values of rank 0 for ranks of the same host: buffers after every step. As gradients, they are waited for
 * by the devices where these can wait.
 */
import {
  backendOf,
  type Communicator,
  type DeviceHandle,
  type Gate,
} from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";
import { realizeAll } from "../../execution/realization.ts";
import { bytesOf } from "./bucket.ts";
import { FlatLayout } from "./flat_layout.ts";
import { Packer } from "./packer.ts";
import type { Pipeline } from "./pipeline.ts";
import { SharedTurns, type Sharing, type Turn } from "./shared_turns.ts";
import { giveStored, readSideBySide, type StateSender } from "./state_broadcast.ts";

/** Tensors of one device. */
interface Part {
  readonly device: DeviceHandle;
  readonly tensors: readonly Tensor[];
  /** Of bytes. */
  readonly layout: FlatLayout;
  readonly packer: Packer;
  readonly turns: SharedTurns;
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
  static share(
    tensors: readonly Tensor[],
    communicator: Communicator,
    sharing: Sharing,
  ): SharedState | null {
    const parts = [...Map.groupBy(tensors, ({ device }) => device)].map(([device, tensors]) => {
      const layout = new FlatLayout(tensors.map(bytesOf));
      const packer = new Packer(device, layout, tensors.map(({ dtype }) => dtype), null);
      const shared = {
        ...sharing,
        backend: backendOf(device),
        nbytes: layout.size,
        extraBytes: 0,
      };
      return { device, tensors, layout, packer, turns: SharedTurns.share(communicator, shared) };
    });
    const shared = parts.flatMap(({ turns, ...part }): Part[] =>
      turns === null ? [] : [{ ...part, turns }]
    );
    if (shared.length === parts.length) return new SharedState(communicator.rank === 0, shared);
    for (const { turns } of shared) turns[Symbol.dispose]();
    return null;
  }

  begin(pipeline: Pipeline): void {
    for (const part of this.#parts) {
      const { tensors, packer, turns } = part;
      // Buffers that a schedule waits for would be computed over what rank 0 has sent.
      realizeAll(tensors);
      if (this.#isRoot) readSideBySide(tensors, { packer, ...turns.next() });
      const turn = turns.begin();
      if (!turns.deviceWaits) {
        pipeline.add({
          bucket: turn.bucket,
          communicate: () => turns.written(turn),
          take: () => this.#take(part, turn),
        });
        continue;
      }
      const gate = this.#isRoot ? null : turns.gate(turn);
      turns.leave(turn, gate);
      this.#take(part, turn, gate ?? undefined);
    }
  }

  #take({ device, tensors, layout }: Part, { bucket, parts }: Turn, gate?: Gate): void {
    // What the root has read stays until the next turn: its copy may not be over, where the device waits.
    if (this.#isRoot) return;
    const backend = backendOf(device), whole = bucket.upload(parts[0]!.bytes, gate);
    giveStored(tensors, layout.divide(backend, whole, 1));
  }

  [Symbol.dispose](): void {
    for (const { turns, packer } of this.#parts) {
      turns[Symbol.dispose]();
      packer[Symbol.dispose]();
    }
  }
}
