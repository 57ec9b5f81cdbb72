import { type OutOfMemoryDetails, OutOfMemoryError, type RetryRecord } from "./errors.ts";

/** The outcome of a {@linkcode RetryStep}. */
export interface RetryResult {
  /** Bytes that became free by it. */
  readonly freedBytes: number;
  /** True when it is worth trying the allocation again. */
  readonly helped: boolean;
}

/** One thing to try when memory is short. */
export interface RetryStep {
  /** Its name in errors and statistics. */
  readonly name: string;
  /** Frees what it can. Called again, after an allocation in vain, for as long as it helps. */
  run(): RetryResult;
}

/** A step that frees so many bytes, and helped when there were any. */
export function retryStep(name: string, free: () => number): RetryStep {
  return {
    name,
    run() {
      const freedBytes = free();
      return { freedBytes, helped: freedBytes > 0 };
    },
  };
}

/** The figures of an error that is still to be thrown: what was tried is not known yet. */
export type ShortageDetails = Omit<OutOfMemoryDetails, "rungs">;

/** An allocation that found no memory at once. */
export class Shortage {
  /** Steps that the pool and its wrappers can try, in this order. */
  readonly steps: readonly RetryStep[];
  readonly #details: () => ShortageDetails;

  /**
   * Notes what is short.
   *
   * @param steps What may help.
   * @param details The figures of the error, asked for when nothing helped.
   */
  constructor(steps: readonly RetryStep[], details: () => ShortageDetails) {
    this.steps = steps;
    this.#details = details;
  }

  /** This shortage with further steps, to be tried after its own. */
  with(...steps: RetryStep[]): Shortage {
    return new Shortage([...this.steps, ...steps], this.#details);
  }

  /** The error, should nothing help. */
  error(ladder: RetryLadder, deviceName?: string): OutOfMemoryError {
    const details = this.#details();
    return new OutOfMemoryError({
      ...details,
      deviceName: deviceName ?? details.deviceName,
      rungs: ladder.rungs,
    });
  }
}

/**
 * The steps tried for one allocation. Everybody who can free memory contributes some (the pool, its
 * wrappers, the device's memory, the program); the ladder runs them, cheapest first, so that an
 * allocation is tried again in one place and counted once.
 */
export class RetryLadder {
  readonly #rungs: { name: string; freedBytes: number }[] = [];
  readonly #helped = new Map<string, number>();

  /** The steps tried, in order, each once with all bytes that became free by it. */
  get rungs(): readonly RetryRecord[] {
    return this.#rungs.map((rung) => ({ ...rung }));
  }

  /** By step: how often it was worth trying the allocation again. */
  get helped(): ReadonlyMap<string, number> {
    return this.#helped;
  }

  /**
   * Tries an allocation again and again.
   *
   * @param shortage What the first attempt came back with.
   * @param attempt Tries the allocation.
   * @param further Steps to try, each once, when those of the shortage help no more.
   * @returns What the allocation gave, or the last shortage when nothing is left to try.
   */
  retry<T>(
    shortage: Shortage,
    attempt: () => T | Shortage,
    further: readonly RetryStep[] = [],
  ): T | Shortage {
    const left = [...further];
    let current = shortage;
    for (;;) {
      const helped = current.steps.some((step) => this.run(step)) || this.#runNext(left);
      if (!helped) return current;
      const result = attempt();
      if (!(result instanceof Shortage)) return result;
      current = result;
    }
  }

  /** Runs steps, each once, up to the first that helps. */
  #runNext(steps: RetryStep[]): boolean {
    for (let step; (step = steps.shift()) !== undefined;) if (this.run(step)) return true;
    return false;
  }

  /** Runs one step and notes it; returns whether it helped. */
  run(step: RetryStep): boolean {
    const { freedBytes, helped } = step.run();
    this.note(step.name, freedBytes, helped);
    return helped;
  }

  /** Notes a step that was run elsewhere. */
  note(name: string, freedBytes: number, helped: boolean): void {
    const known = this.#rungs.find((rung) => rung.name === name);
    if (known === undefined) this.#rungs.push({ name, freedBytes });
    else known.freedBytes += freedBytes;
    if (helped) this.#helped.set(name, (this.#helped.get(name) ?? 0) + 1);
  }
}
