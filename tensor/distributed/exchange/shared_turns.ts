/**
 * A bucket of each rank in memory that all ranks of a host share, turn by turn. A rank writes to its part
 * only when the others have read what was there: each has two parts, one for every other turn, and who has
 * written the part of one turn has read those of the turn before.
 */
import {
  type Backend,
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
import { Bucket } from "./bucket.ts";

/** The memory of one turn. */
export interface Turn {
  readonly shared: SharedParts;
  /** In the own part. */
  readonly bucket: Bucket;
  /** The part of each rank, pinned for this one's device: copies of 55 GB/s, not 9 (H200). */
  readonly parts: readonly HostBlock[];
}

/** Access of ranks to each other's memory. */
export interface Sharing {
  /** Copies wait on the device until the other ranks have written, where it can; else the host waits. */
  readonly deviceWaits: boolean;
}

/** Contents of the parts. */
export interface SharedLayout extends Sharing {
  readonly backend: Backend;
  /** Bytes that are copied from and to devices. */
  readonly nbytes: number;
  /** Bytes behind them. */
  readonly extraBytes: number;
}

/** The turns of one bucket. */
export class SharedTurns implements Disposable {
  readonly #turns: readonly [Turn, Turn];
  readonly #layout: SharedLayout;
  #turn = 0;
  /** The part of the last turn that goes on by itself. */
  #left: Progress | null = null;

  private constructor(turns: readonly [Turn, Turn], layout: SharedLayout) {
    this.#turns = turns;
    this.#layout = layout;
  }

  /** Reserves memory, on all ranks at once; null where they have none in common. */
  static share(communicator: Communicator, layout: SharedLayout): SharedTurns | null {
    const { backend, nbytes, extraBytes } = layout;
    const all = nbytes + extraBytes, { rank } = communicator;
    const shared = [shareParts(communicator, all), shareParts(communicator, all)];
    const turns = shared.flatMap((parts): Turn[] => {
      if (parts === null) return [];
      const bucket = new Bucket(backend, nbytes, extraBytes, parts.parts[rank]);
      const pins = parts.parts.map((part, r) => r === rank ? bucket : backend.pin(part));
      return [{ shared: parts, bucket, parts: pins }];
    });
    if (turns.length === 2) return new SharedTurns(turns as [Turn, Turn], layout);
    turns.forEach(close);
    return null;
  }

  /** Bucket to which the next turn's data is to be read, before it begins or then. */
  get bucket(): Bucket {
    return this.#turns[this.#turn]!.bucket;
  }

  /** Begins the next turn; `gate` is null where the host waits for the others. */
  begin(): { readonly turn: Turn; readonly gate: Gate | null } {
    const { backend, deviceWaits } = this.#layout, gate = deviceWaits ? backend.gate() : null;
    this.finishLeft();
    const turn = this.#turns[this.#turn]!, { bucket } = this.#turns[this.#turn ^= 1]!;
    // What it holds goes back early, where the device is far ahead of the host's wait for it.
    if (gate !== null) bucket.finishCopies();
    return { turn, gate };
  }

  /** Says that the own part of a turn is written, once it is; done when all parts are. */
  written(turn: Turn): Operation {
    const other = this.#turns[turn === this.#turns[0] ? 1 : 0]!.bucket;
    let signal: Operation | null = null;
    return {
      isDone: () => {
        // Who has written a part has read those of the turn before.
        if (signal === null && !(turn.bucket.isRead() && other.isUploaded())) return false;
        signal ??= turn.shared.signal("written");
        return signal.isDone();
      },
      sleep: (milliseconds) => signal?.sleep?.(milliseconds) ?? false,
    };
  }

  /**
   * Leaves a turn to the next waits: says that the own part is written once it is, and opens the gate
   * when all parts are.
   */
  leave(turn: Turn, gate: Gate): void {
    this.#left = leaveBehind("reduce gradients", this.written(turn), () => gate.open());
  }

  /** Waits for what was left. */
  finishLeft(): void {
    if (this.#left) completedSync("reduce gradients", this.#left);
    this.#left = null;
  }

  /** Gives the memory back, when the others have read it. */
  [Symbol.dispose](): void {
    this.finishLeft();
    this.#turns.forEach(close);
  }
}

function close({ shared, parts }: Turn): void {
  for (const part of parts) part[Symbol.dispose]();
  shared[Symbol.dispose]();
}
