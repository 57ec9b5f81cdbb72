/**
 * Gradients of ranks of one host: each rank reads the others' from memory that all share, and its device
 * adds.
 */
import {
  backendOf,
  type Block,
  type Communicator,
  type DType,
  dtypes,
} from "../../../backend/internal.ts";
import type { RepeatedLaunches } from "../../execution/repeated_launches.ts";
import {
  type ExchangeLayout,
  type GradientExchange,
  type Means,
  recordMeans,
} from "./gradient_exchange.ts";
import type { Packed } from "./packer.ts";
import type { Pipeline } from "./pipeline.ts";
import { SharedTurns, type Sharing, type Turn } from "./shared_turns.ts";

/** By memory that ranks share. */
export class DeviceExchange implements GradientExchange {
  readonly sent: DType;
  readonly #communicator: Communicator;
  readonly #layout: ExchangeLayout;
  readonly #turns: SharedTurns;
  #means: RepeatedLaunches | null = null;

  private constructor(communicator: Communicator, layout: ExchangeLayout, turns: SharedTurns) {
    this.sent = layout.dtype;
    this.#communicator = communicator;
    this.#layout = layout;
    this.#turns = turns;
  }

  /** Reserves memory, on all ranks at once; null where they have none in common. */
  static share(
    communicator: Communicator,
    layout: ExchangeLayout,
    sharing: Sharing,
  ): DeviceExchange | null {
    const { device, dtype, layout: { size, sizes } } = layout;
    const turns = SharedTurns.share(communicator, {
      ...sharing,
      backend: backendOf(device),
      nbytes: size * dtypes[dtype].bytes,
      // A mark for each gradient: 1 where the rank has it.
      extraBytes: sizes.length,
    });
    return turns && new DeviceExchange(communicator, layout, turns);
  }

  read({ block, present }: Packed): void {
    const { bucket, sign } = this.#turns.next();
    bucket.read(block, sign);
    bucket.bytes.set(present.map(Number), bucket.nbytes);
  }

  expect(): void {
    this.#turns.expect();
  }

  /**
   * Enqueues all, if copies can wait for the others, as soon as the ranks know which gradients there
   * are: the device waits for their bytes, and the host goes on with the next step.
   */
  reduce(own: Packed, pipeline: Pipeline, take: (means: Means) => void): void {
    const turns = this.#turns, turn = turns.begin(), { bucket } = turn;
    const announced = turn.shared.signal("announced"), { rank } = this.#communicator;
    bucket.hold(own);
    if (!turns.deviceWaits) {
      return pipeline.add({
        bucket,
        communicate: () => turns.written(turn),
        take: () => {
          const landed = turn.parts.map(({ bytes }, r) => r === rank ? null : bucket.upload(bytes));
          const means = this.#taken(turn, own, landed);
          bucket.releaseHeld();
          take(means);
        },
      });
    }
    pipeline.add({
      bucket: null,
      communicate: () => announced,
      take: () => {
        const { gate, landed } = turns.arrive(turn);
        turns.leave(turn, gate);
        take(this.#taken(turn, own, landed));
      },
    });
  }

  /** The means of the own gradients and of those that have landed, which it releases. */
  #taken({ bucket, parts }: Turn, own: Packed, landed: readonly (Block | null)[]): Means {
    const { size } = this.#communicator;
    try {
      this.#means ??= recordMeans(this.#layout, {
        sent: this.sent,
        inputs: size,
        divisor: size,
      });
      const marks = parts.map(({ bytes }) => bytes.subarray(bucket.nbytes));
      const present = own.present.map((_, k) => marks.some((has) => has[k] === 1));
      return { block: this.#means.runToBlock(landed.map((block) => block ?? own.block)), present };
    } finally {
      for (const block of landed) block?.release();
    }
  }

  [Symbol.dispose](): void {
    this.#turns[Symbol.dispose]();
    this.#means?.[Symbol.dispose]();
  }
}
