/**
 * The records of operations for `backward`, and how long they live. A record holds the values that its gradient
 * is made from: those of its inputs, and all that was made in the same call of an operation, since nobody knows
 * what gradient functions have captured. It lives as long as somebody may go backward through it: until
 * `backward` has let it go, or until the tensors that the call gave are disposed of, and all records of what was
 * computed from them are gone.
 */
import type { Node } from "../../../backend/internal.ts";

/** Records and calls that nobody needs any more, and which have not let go of others yet. */
const ended: { end(): void }[] = [];
let isEnding = false;

/** Ends one after the other: chains are of any length. */
function endLater(whole: { end(): void }): void {
  ended.push(whole);
  if (isEnding) return;
  isEnding = true;
  try {
    while (ended.length > 0) ended.pop()!.end();
  } finally {
    isEnding = false;
  }
}

/** The life of a record, and the values that it holds meanwhile. */
export class RecordLife {
  /** The records of its inputs that were made in other calls. */
  #below: RecordLife[] | null;
  /** The records that were made in the same call, where there are several or something is kept. */
  #call: RecordedCall | null = null;
  /** Tensors of the user, and records, that go backward through it; of a call they are counted together. */
  #uses = 0;
  #isReleased = false;

  /**
   * A record that begins to hold values.
   *
   * @param values Those of its inputs, and others behind them.
   * @param below The records of its inputs; null for none.
   */
  constructor(readonly values: readonly Node[], below: RecordLife[] | null) {
    this.#below = below;
    // Backward may need them, whatever becomes of their tensors.
    for (const value of values) value.holdForBackward();
    if (below !== null) { for (const record of below) record.retain(); }
  }

  /** Notes one more that may go backward through it. */
  retain(): void {
    if (this.#call !== null) this.#call.uses++;
    else this.#uses++;
  }

  /** Takes a `retain` back: the last one ends the record, and the others of its call. */
  letGo(): void {
    const whole = this.#call;
    if (whole !== null) {
      if (--whole.uses === 0) endLater(whole);
    } else if (--this.#uses === 0) endLater(this);
  }

  /** Ends it with the others of its call. */
  end(): void {
    if (this.#call !== null) this.#call.end();
    else this.release();
  }

  /** Lets go of the values of this operation alone. Idempotent. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    for (const value of this.values) value.dropForBackward();
    const below = this.#below;
    this.#below = null;
    if (below !== null) { for (const record of below) record.letGo(); }
  }

  /**
   * Makes records those of one call, which end together.
   *
   * @param records They are of no call yet; inputs come before their users.
   * @param kept Nodes of what was made in the call.
   */
  static join(records: readonly RecordLife[], kept: Node[]): void {
    const call = new RecordedCall(records, kept);
    for (const record of records) {
      record.#call = call;
      call.uses += record.#uses;
    }
    for (const record of records) {
      const within = record.#below?.filter((below) => below.#call === call) ?? [];
      if (within.length === 0) continue;
      // They end together: what they need of each other does not count.
      call.uses -= within.length;
      record.#below = record.#below!.filter((below) => below.#call !== call);
    }
    for (const node of kept) node.holdForBackward();
    if (call.uses === 0) endLater(call);
  }

  /** True where it was made in a call that has ended. */
  get isOfCall(): boolean {
    return this.#call !== null;
  }
}

/** The records of one call of an operation. */
class RecordedCall {
  /** Tensors of the user, and records of other calls, that go backward through one of them. */
  uses = 0;

  constructor(
    readonly records: readonly RecordLife[],
    readonly kept: Node[],
  ) {}

  /** Lets go of the values of all of them. Idempotent. */
  end(): void {
    for (const record of this.records) record.release();
    for (const node of this.kept.splice(0)) node.dropForBackward();
  }
}
