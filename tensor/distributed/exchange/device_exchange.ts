/**
 * Gradients of ranks of one host whose devices have memory of their own: each rank reads the others' from
 * memory that all share, and its device adds.
 */
import { backendOf, type Communicator, type Gate } from "../../../backend/internal.ts";
import { nodeOf } from "../../core/internals.ts";
import { RepeatedLaunches } from "../../execution/repeated_launches.ts";
import {
  byteSizes,
  bytesOfMarks,
  type ExchangeLayout,
  type GradientExchange,
  type Gradients,
  mark,
  marksIn,
  type Sums,
} from "./gradient_exchange.ts";
import type { Pipeline } from "./pipeline.ts";
import { SharedTurns, type Turn, written } from "./shared_turns.ts";

/** Which ranks have which gradients. */
type Present = readonly (readonly boolean[])[];

/** By memory that ranks share. */
export class DeviceExchange implements GradientExchange {
  readonly #rank: number;
  readonly #layout: ExchangeLayout;
  readonly #turns: SharedTurns;
  /** By which ranks have which gradients, as a rule all have all. */
  readonly #sums = new Map<string, RepeatedLaunches>();

  private constructor(rank: number, layout: ExchangeLayout, turns: SharedTurns) {
    this.#rank = rank;
    this.#layout = layout;
    this.#turns = turns;
  }

  /** Reserves memory, on all ranks at once; null where they have none in common. */
  static share(communicator: Communicator, layout: ExchangeLayout): DeviceExchange | null {
    const turns = SharedTurns.share(communicator, {
      backend: backendOf(layout.device),
      sizes: byteSizes(layout),
      extraBytes: bytesOfMarks(layout),
    });
    return turns && new DeviceExchange(communicator.rank, layout, turns);
  }

  read(gradients: Gradients): void {
    const { bucket } = this.#turns;
    bucket.forget();
    bucket.read(gradients);
    mark(marksIn(bucket.bytes, this.#layout), gradients);
  }

  /**
   * Where copies can wait for the host, all is enqueued as soon as the ranks know which gradients there
   * are: the device waits for the others' bytes, and the host goes on with the next step.
   */
  reduce(gradients: Gradients, pipeline: Pipeline, take: (sums: Sums) => void): void {
    const turn = this.#turns.begin(), gate = backendOf(this.#layout.device).gate();
    const announced = turn.shared.signal("announced");
    if (gate === null) {
      return pipeline.add({
        bucket: turn.bucket,
        communicate: () => written(turn),
        take: () => take(this.#summed(turn, gradients, this.#presentIn(turn))),
      });
    }
    pipeline.add({
      bucket: null,
      communicate: () => announced,
      take: () => {
        // First of all: whatever fails below, the other ranks wait for the own part.
        this.#turns.leave(turn, gate);
        const present = this.#presentIn(turn);
        // Without a sum nothing on the device would wait for the gate.
        if (!present.flat().includes(true)) this.#turns.finishLeft();
        take(this.#summed(turn, gradients, present, gate));
      },
    });
  }

  #presentIn({ shared: { parts } }: Turn): Present {
    return parts.map((bytes) => [...marksIn(bytes, this.#layout)].map((mark) => mark !== 0));
  }

  #summed({ bucket, parts }: Turn, gradients: Gradients, present: Present, gate?: Gate): Sums {
    bucket.forget();
    const landed = parts.flatMap(({ bytes }, r) =>
      r === this.#rank ? [] : [bucket.uploadWhole(bytes, gate)]
    );
    const own = gradients.flatMap((gradient) => gradient ? [nodeOf(gradient).storage!] : []);
    try {
      const sums = this.#sumsFor(present).run([...own, ...landed].map(({ handle }) => handle));
      return gradients.map((_, k) => present.some((has) => has[k]) ? sums.shift()! : null);
    } finally {
      for (const storage of landed) storage.release();
    }
  }

  #sumsFor(present: Present): RepeatedLaunches {
    const key = present.map((has) => has.map(Number).join("")).join();
    let known = this.#sums.get(key);
    if (!known) this.#sums.set(key, known = this.#recordSums(present));
    return known;
  }

  /** Takes the own gradients, then those of each other rank as a whole; gives a sum where one has any. */
  #recordSums(present: Present): RepeatedLaunches {
    const { sizes, wire, device } = this.#layout, rank = this.#rank;
    const own = sizes.filter((_, k) => present[rank]![k]);
    const total = sizes.reduce((a, b) => a + b, 0), others = present.slice(1).map(() => total);
    const likes = [...own, ...others].map((size) => ({ shape: [size], dtype: wire }));
    return new RepeatedLaunches(device, likes, (inputs) => {
      const gradients = inputs.slice(0, own.length), wholes = inputs.slice(own.length);
      let end = 0;
      return sizes.flatMap((size, k) => {
        const start = end;
        end += size;
        const mine = present[rank]![k] ? gradients.shift()! : null;
        // In the order of the ranks, so that all have the same bits.
        const terms = present.flatMap((has, r) => {
          if (!has[k]) return [];
          return r === rank ? mine! : wholes[r < rank ? r : r - 1]!.slice([start, end]);
        });
        return terms.length === 0 ? [] : [terms.reduce((a, b) => a.add(b))];
      });
    });
  }

  [Symbol.dispose](): void {
    this.#turns[Symbol.dispose]();
    for (const launches of this.#sums.values()) launches[Symbol.dispose]();
    this.#sums.clear();
  }
}
