/**
 * Launches that a queue holds back, so that the device begins with many of them at once.
 *
 * @module
 */
import type { Context } from "../objects/context.ts";
import { finalizer } from "../library/finalizer.ts";
import { UserEvent } from "../events/event.ts";
import type { Kernel } from "../kernels/kernel.ts";
import { launch } from "./launch.ts";
import type { Handle } from "../symbols/types.ts";

/** The most launches that are held back before they are sent to the device. */
const MAX_HELD_LAUNCHES = 128;

// A queue may be collected while it holds launches back; without this they would never run.
const forgotten = finalizer<HeldLaunches>("a forgotten queue", (held) => held.start());

/** The launches that one in-order queue holds back: the first waits for a gate, the rest for it. */
export class HeldLaunches {
  readonly #context: Context;
  #gate: UserEvent | null = null;
  #count = 0;
  /** True when the driver refused to open the gate. */
  #isStuck = false;

  /** For the queue that calls {@linkcode start} before it is used in any other way. */
  constructor(queue: { readonly context: Context }) {
    this.#context = queue.context;
    forgotten.register(queue, this);
  }

  /** True when nothing is held back. */
  get isEmpty(): boolean {
    return this.#gate === null;
  }

  /**
   * Enqueues one launch more. If that fails, all are started.
   *
   * @param queue The handle of the queue that they belong to.
   */
  add(
    queue: Handle<"CommandQueue">,
    kernel: Kernel,
    workDim: number,
    global: BigUint64Array,
    local: BigUint64Array | null,
  ): void {
    const wait = this.#gate === null ? [this.#gate = new UserEvent(this.#context)] : undefined;
    this.#count++;
    try {
      launch(queue, kernel, workDim, null, global, local, wait, null);
    } catch (error) {
      this.start();
      throw error;
    }
    if (this.#count === MAX_HELD_LAUNCHES) this.start();
  }

  /**
   * Lets the device begin with all of them.
   *
   * @throws {OpenCLError} If the driver cannot open the gate: they stay held back then, and the
   *   next use of the queue tries again, so that no wait is for work that never begins.
   */
  start(): void {
    const gate = this.#gate;
    if (gate === null) return;
    // The driver may have opened it although it said no.
    if (!this.#isStuck || gate.status !== "complete") {
      this.#isStuck = true;
      gate.complete();
    }
    this.#isStuck = false;
    this.#gate = null;
    this.#count = 0;
    gate.release();
  }

  /** Lets the launches fail that cannot begin any longer. */
  abandon(): void {
    const gate = this.#gate;
    this.#gate = null;
    gate?.release();
  }
}
