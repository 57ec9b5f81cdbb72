/**
 * Work on one tensor that ranks share, as for models that do not fit one device (M. Shoeybi et al.,
 * Megatron-LM, 2019): each rank has some columns of a product's result, or some of what it sums over.
 *
 * This folder (`tensor_parallel/`) imports communicators, operations and the ranks of `distributed/`.
 */
import { type Communicator, completedSync, unrecorded } from "../../../backend/internal.ts";
import { Tensor } from "../../class/tensor.ts";
import { giveUpReplay, resolved, unobserved } from "../../core/calls.ts";
import { noGrad } from "../../core/modes/grad_mode.ts";
import { customGradient } from "../../ops/custom/custom_gradient.ts";
import type { Group } from "../group.ts";
import { Gathering } from "./gathering.ts";

/** A part of an axis: from `begin` to before `end`. */
export type Range = readonly [begin: number, end: number];

/** The way in which a rank takes part; every method is called by all ranks, in the same order. */
export interface SplitWork extends Disposable {
  /** Number of ranks. */
  readonly size: number;
  /** This one's, from 0. */
  readonly rank: number;
  /** A rank's part of a length that all share, in whole units: none is longer by more than one. */
  range(length: number, unit?: number, rank?: number): Range;
  /** The sum over all ranks, which each gets; its gradient goes to each as it is. */
  sum(x: Tensor): Tensor;
  /** Hands each rank its own value for its part of the work; gradients are summed over all ranks. */
  share(x: Tensor): Tensor;
  /** The last axes of all ranks side by side; a rank gets the gradient of its own. */
  join(x: Tensor, lengths: readonly number[]): Tensor;
  /** The whole numbers of rank 0, for all: none may go on by itself where the last bits decide. */
  agreed(ids: Int32Array): Int32Array;
}

/** One rank that does everything. */
export const undivided: SplitWork = {
  size: 1,
  rank: 0,
  range: (length) => [0, length],
  sum: (x) => x,
  share: (x) => x,
  join: (x) => x,
  agreed: (ids) => ids,
  [Symbol.dispose]: () => {},
};

/** The ranks of a group; blocks until all came here. */
export function splitOver(group: Group): SplitWork {
  if (group.size === 1) return undivided;
  return new RankedWork(group.communicator());
}

class RankedWork implements SplitWork {
  readonly #communicator: Communicator;
  readonly #gathering: Gathering;
  readonly sum: (x: Tensor) => Tensor;
  readonly share: (x: Tensor) => Tensor;

  constructor(communicator: Communicator) {
    this.#communicator = communicator;
    this.#gathering = new Gathering(communicator);
    const summed = (x: Tensor): Tensor => noGrad(() => this.#summed(x));
    this.sum = customGradient(summed, (g) => [g]);
    this.share = customGradient((x: Tensor) => x.detach(), (g) => [summed(g)]);
  }

  get size(): number {
    return this.#communicator.size;
  }

  get rank(): number {
    return this.#communicator.rank;
  }

  range(length: number, unit = 1, rank: number = this.rank): Range {
    const edge = (r: number): number => Math.floor(r * (length / unit) / this.size) * unit;
    return [edge(rank), edge(rank + 1)];
  }

  /** In the order of the ranks, by the same kernels: all have the same bits. */
  #summed(x: Tensor): Tensor {
    const parts = this.#gathered(x.cast("float32"), Array(this.size).fill(x.size));
    return parts.map((part) => part.reshape(x.shape)).reduce((a, b) => a.add(b)).cast(x.dtype)
      .realize();
  }

  join(x: Tensor, lengths: readonly number[]): Tensor {
    const rows = x.size / lengths[this.rank]!;
    const joined = customGradient(
      (x: Tensor) => {
        const sizes = lengths.map((own) => own * rows);
        const parts = this.#gathered(x.cast("float32"), sizes).map((part, r) =>
          part.reshape([...x.shape.slice(0, -1), lengths[r]!])
        );
        return Tensor.concat(parts, -1).cast(x.dtype).realize();
      },
      (g) => [g.split(lengths, -1)[this.rank]!],
    );
    return joined(x);
  }

  /** The elements of all ranks, float32; each part on this rank's device. */
  #gathered(x: Tensor, sizes: readonly number[]): Tensor[] {
    giveUpReplay("ranks share the work");
    const own = unobserved(() => unrecorded(() => resolved(x).toHostSync("float32")));
    return this.#gathering.gather(own, Math.max(...sizes)).map((all, r) =>
      Tensor.fromHost(all.subarray(0, sizes[r]!), { device: x.device })
    );
  }

  agreed(ids: Int32Array): Int32Array {
    const sent = Int32Array.from(ids), bytes = new Uint8Array(sent.buffer);
    completedSync("agree on a token", this.#communicator.broadcast(bytes, 0));
    return sent;
  }

  [Symbol.dispose](): void {
    this.#gathering[Symbol.dispose]();
  }
}
