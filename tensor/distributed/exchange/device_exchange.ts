/**
 * Gradients of ranks of one host whose devices have memory of their own: each rank reads the others' from
 * memory that all share, and its device adds.
 */
import {
  backendOf,
  type Communicator,
  completedSync,
  type Gate,
  type HostBlock,
  leaveBehind,
  type Operation,
  type Progress,
  type SharedParts,
  shareParts,
} from "../../../backend/internal.ts";
import { nodeOf } from "../../core/internals.ts";
import { RepeatedLaunches } from "../../execution/repeated_launches.ts";
import { Bucket } from "./bucket.ts";
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

/** Which ranks have which gradients. */
type Present = readonly (readonly boolean[])[];

/** The memory of one turn. */
interface Turn {
  readonly shared: SharedParts;
  readonly bucket: Bucket;
  /** The parts of the other ranks, pinned for this one's device: copies of 55 GB/s, not 9 (H200). */
  readonly others: readonly HostBlock[];
}

/**
 * By memory that ranks share. A rank writes to its part only when the others have read what was there:
 * there are two of each, and who has published the part of one turn has read all parts of the turn before.
 */
export class DeviceExchange implements GradientExchange {
  readonly #communicator: Communicator;
  readonly #layout: ExchangeLayout;
  readonly #turns: readonly [Turn, Turn];
  /** By which ranks have which gradients, as a rule all have all. */
  readonly #sums = new Map<string, RepeatedLaunches>();
  #turn = 0;
  /** The part of the last turn that goes on by itself. */
  #left: Progress | null = null;

  private constructor(communicator: Communicator, layout: ExchangeLayout, turns: [Turn, Turn]) {
    this.#communicator = communicator;
    this.#layout = layout;
    this.#turns = turns;
  }

  /** Reserves memory, on all ranks at once; null where they have none in common. */
  static share(communicator: Communicator, layout: ExchangeLayout): DeviceExchange | null {
    const sizes = byteSizes(layout), extra = bytesOfMarks(layout);
    const nbytes = sizes.reduce((a, b) => a + b, extra);
    const shared = [shareParts(communicator, nbytes), shareParts(communicator, nbytes)];
    const backend = backendOf(layout.device), { rank } = communicator;
    const turns = shared.flatMap((parts): Turn[] =>
      parts === null ? [] : [{
        shared: parts,
        bucket: new Bucket(backend, sizes, extra, parts.parts[rank]),
        others: parts.parts.filter((_, r) => r !== rank).map((part) => backend.pin(part)),
      }]
    );
    if (turns.length === 2) return new DeviceExchange(communicator, layout, turns as [Turn, Turn]);
    turns.forEach(close);
    return null;
  }

  read(gradients: Gradients): void {
    const { bucket } = this.#turns[this.#turn]!;
    bucket.forget();
    bucket.read(gradients);
    mark(marksIn(bucket.bytes, this.#layout), gradients);
  }

  /**
   * Where copies can wait for the host, all is enqueued as soon as the ranks know which gradients there
   * are: the device waits for the others' bytes, and the host goes on with the next step.
   */
  reduce(gradients: Gradients, pipeline: Pipeline, take: (sums: Sums) => void): void {
    this.finishLeft();
    const turn = this.#turns[this.#turn]!;
    // Who has written one part has read those of the turn before: their memory is the others' again.
    this.#turns[this.#turn ^= 1]!.bucket.finishCopies();
    const gate = backendOf(this.#layout.device).gate(), announced = turn.shared.signal("announced");
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
      take: () => this.#leave(turn, gradients, gate, written(turn), take),
    });
  }

  #leave(
    turn: Turn,
    gradients: Gradients,
    gate: Gate,
    exchanged: Progress,
    take: (sums: Sums) => void,
  ): void {
    let isDone = false;
    this.#left = {
      isDone: () => {
        if (isDone || !exchanged.isDone()) return isDone;
        gate.open();
        return isDone = true;
      },
    };
    // First of all: whatever fails below, the other ranks wait for the own part.
    leaveBehind("reduce gradients", this.#left, () => {
      isDone = true;
      gate.open();
    });
    const present = this.#presentIn(turn);
    // Without a sum nothing on the device would wait for the gate.
    if (!present.flat().includes(true)) this.finishLeft();
    take(this.#summed(turn, gradients, present, gate));
  }

  /** Waits until the other ranks have what the last turn sent them. */
  finishLeft(): void {
    if (this.#left) completedSync("reduce gradients", this.#left);
    this.#left = null;
  }

  #presentIn({ shared: { parts } }: Turn): Present {
    return parts.map((bytes) => [...marksIn(bytes, this.#layout)].map((mark) => mark !== 0));
  }

  #summed({ bucket, others }: Turn, gradients: Gradients, present: Present, gate?: Gate): Sums {
    bucket.forget();
    const landed = others.map(({ bytes }) => bucket.uploadWhole(bytes, gate));
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
    const { sizes, wire, device } = this.#layout, { rank } = this.#communicator;
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
    this.finishLeft();
    for (const launches of this.#sums.values()) launches[Symbol.dispose]();
    this.#sums.clear();
    this.#turns.forEach(close);
  }
}

/** Says that the own part is written, once it is; done when all parts are. */
function written({ shared, bucket }: Turn): Operation {
  let signal: Operation | null = null;
  return {
    isDone: () => {
      if (signal === null && !bucket.isRead()) return false;
      signal ??= shared.signal("written");
      return signal.isDone();
    },
  };
}

function close({ shared, bucket, others }: Turn): void {
  bucket[Symbol.dispose]();
  for (const part of others) part[Symbol.dispose]();
  shared[Symbol.dispose]();
}
