/**
 * A bucket of each rank in memory that all ranks of a host share, turn by turn. A rank writes to its part
 * only when the others have read what was there: each has two parts, one for every other turn, and who has
 * written the part of one turn has read those of the turn before.
 *
 * Where devices wait for each other's parts, each gives a sign behind its own: the number of its reads so
 * far. A part may be read more than once in a turn, so ranks tell each other which sign counts.
 */
import {
  type Backend,
  type Block,
  type Communicator,
  completedSync,
  type Gate,
  type HostBlock,
  leaveBehind,
  type Operation,
  type Progress,
  type SharedParts,
  shareParts,
  type Sign,
  SIGN_VALUES,
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

/** Other ranks' parts on their way to the device. */
export interface Arrival {
  readonly gate: Gate;
  /** By rank; null for the own one. The receiver's to release. */
  readonly landed: readonly (Block | null)[];
}

/** An arrival that began before the others said what to wait for. */
interface EarlyArrival extends Arrival {
  readonly turn: Turn;
  readonly values: readonly number[];
}

/** Of a sign, and of the number that counts: lines of the cache, since devices write one and hosts the other. */
const LINE_BYTES = 64;

/** The turns of one bucket. */
export class SharedTurns implements Disposable {
  /** True where the device waits for the others, not the host. */
  readonly deviceWaits: boolean;
  readonly #rank: number;
  readonly #turns: readonly [Turn, Turn];
  readonly #backend: Backend;
  /** Place of the sign in each part. */
  readonly #signAt: number;
  #turn: 0 | 1 = 0;
  /** Turns that were begun. */
  #begun = 0;
  /** Reads of the own parts. */
  #reads = 0;
  /** Signs of the last turn, by rank. */
  #last: readonly number[] | null = null;
  #early: EarlyArrival | null = null;
  /** The part of the last turn that goes on by itself. */
  #left: Progress | null = null;

  private constructor(
    rank: number,
    turns: readonly [Turn, Turn],
    signAt: number,
    { backend, deviceWaits }: SharedLayout,
  ) {
    this.#rank = rank;
    this.#turns = turns;
    this.#backend = backend;
    this.#signAt = signAt;
    this.deviceWaits = deviceWaits && backend.hasGates;
  }

  /** Reserves memory, on all ranks at once; null where they have none in common. */
  static share(communicator: Communicator, layout: SharedLayout): SharedTurns | null {
    const { backend, nbytes, extraBytes } = layout, { rank } = communicator;
    const signAt = Math.ceil((nbytes + extraBytes) / LINE_BYTES) * LINE_BYTES;
    const all = signAt + 2 * LINE_BYTES;
    const shared = [shareParts(communicator, all), shareParts(communicator, all)];
    const turns = shared.flatMap((parts): Turn[] => {
      if (parts === null) return [];
      const bucket = new Bucket(backend, nbytes, all - nbytes, parts.parts[rank]);
      const pins = parts.parts.map((part, r) => r === rank ? bucket : backend.pin(part));
      return [{ shared: parts, bucket, parts: pins }];
    });
    if (turns.length === 2) return new SharedTurns(rank, turns as [Turn, Turn], signAt, layout);
    turns.forEach(close);
    return null;
  }

  /** The bucket for what the next turn sends, before it begins or then, and the sign to give behind it. */
  next(): { readonly bucket: Bucket; readonly sign?: Sign } {
    const { bucket } = this.#turns[this.#turn];
    this.#dropEarly();
    if (!this.deviceWaits) return { bucket };
    const value = ++this.#reads % SIGN_VALUES;
    return { bucket, sign: { memory: bucket, offset: this.#signAt, value } };
  }

  /**
   * Begins with the other ranks' parts of the next turn, as if each read its own once: to be called when the
   * own one and some more work are enqueued, since the device waits from here on.
   */
  expect(): void {
    if (this.#last === null || this.#early !== null || !this.deviceWaits) return;
    const turn = this.#turns[this.#turn];
    const values = this.#last.map((value) => (value + 1) % SIGN_VALUES);
    this.#early = { turn, values, ...this.#arrival(turn, values) };
  }

  /** Begins the next turn. */
  begin(): Turn {
    this.finishLeft();
    const turn = this.#turns[this.#turn], { bucket } = this.#turns[this.#turn ^= 1]!;
    this.#begun++;
    // What it holds goes back early, where the device is far ahead of the host's wait for it.
    if (this.deviceWaits) bucket.finishCopies();
    this.#numberOf(turn.bucket)[0] = this.#reads % SIGN_VALUES;
    return turn;
  }

  /** The others' parts of a turn that all have begun. */
  arrive(turn: Turn): Arrival {
    const values = turn.parts.map((part) => this.#numberOf(part)[0]!), early = this.#early;
    this.#last = values;
    const isMeant = early?.turn === turn &&
      values.every((value, r) => r === this.#rank || value === early.values[r]);
    if (!isMeant) this.#dropEarly();
    this.#early = null;
    return isMeant ? early : this.#arrival(turn, values);
  }

  #arrival(turn: Turn, values: readonly number[]): Arrival {
    const gate = this.gate(turn, values), landed: (Block | null)[] = [];
    try {
      turn.parts.forEach(({ bytes }, r) =>
        landed.push(r === this.#rank ? null : turn.bucket.upload(bytes, gate))
      );
      return { gate, landed };
    } catch (error) {
      release({ gate, landed });
      throw error;
    }
  }

  /**
   * A gate that opens when ranks have written their parts of a turn.
   *
   * @param values Their signs, by rank; by default those of a turn for which rank 0 alone reads, once.
   */
  gate({ parts }: Turn, values: readonly number[] = [this.#begun % SIGN_VALUES]): Gate {
    const signs = values.map((value, r) => ({ memory: parts[r]!, offset: this.#signAt, value }));
    return this.#backend.gate(signs.filter((_, r) => r !== this.#rank));
  }

  /** The number of the sign that counts, as its rank tells the others. */
  #numberOf({ bytes: { buffer, byteOffset } }: HostBlock): Uint32Array {
    return new Uint32Array(buffer, byteOffset + this.#signAt + LINE_BYTES, 1);
  }

  /** Says that the own part of a turn is written, once it is; done when all parts are. */
  written(turn: Turn): Operation {
    const other = this.#turns[turn === this.#turns[0] ? 1 : 0]!.bucket;
    let signal: Operation | null = null;
    return {
      isDone: () => {
        // Who has written a part has read those of the turn before; where devices wait, before it begins.
        const isRead = turn.bucket.isRead() && (this.deviceWaits || other.isUploaded());
        if (signal === null && !isRead) return false;
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
  leave(turn: Turn, gate: Gate | null): void {
    this.#left = leaveBehind("reduce gradients", this.written(turn), () => gate?.open());
  }

  /** Waits for what was left. */
  finishLeft(): void {
    if (this.#left) completedSync("reduce gradients", this.#left);
    this.#left = null;
  }

  /** The copies go to memory that is nobody's. */
  #dropEarly(): void {
    if (this.#early) release(this.#early);
    this.#early = null;
  }

  /** Gives the memory back, when the others have read it. */
  [Symbol.dispose](): void {
    this.#dropEarly();
    this.finishLeft();
    this.#turns.forEach(close);
  }
}

function release({ gate, landed }: Arrival): void {
  gate.open();
  for (const block of landed) block?.release();
}

function close({ shared, parts }: Turn): void {
  for (const part of parts) part[Symbol.dispose]();
  shared[Symbol.dispose]();
}
